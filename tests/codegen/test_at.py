"""Rules of code generation that look at more than one element: they agree with the kernels."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn
from rushlight.codegen.evaluate import evaluate
from rushlight.graph.ir import CONSTANT, INPUT, Node, type_of
from rushlight.ops import registry
from rushlight.ops.base import Composite, Op
from rushlight.ops.creation import Factory
from rushlight.ops.samples import S, T
from rushlight.symbol import TraceError
from tests.codegen.kernels import Compiled, Group
from tests.codegen.rules import Case, Run, agree, evaluated, same
from tests.sampling import Maker, flat

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
DTYPES = ("float32", pytest.param("float64", marks=pytest.mark.slow), "int64", "bool", "bfloat16")
UNDEFINED = ("empty", "empty_like", "empty_strided", "empty_permuted")
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, OverflowError, AssertionError)


def module_of(op: Op) -> str:
    if isinstance(op, Composite):
        return Path(inspect.unwrap(op.body).__code__.co_filename).stem
    return type(op).__module__.rpartition(".")[2]


MODULES = sorted({module_of(op) for op in registry.values()})


@functools.cache
def met(dtype: str) -> set[Any]:
    """The cases that were tried, by :attr:`Case.key`."""
    return set()


def ruled(op: Op) -> bool:
    return op.emit is None and (op.at or op.scatter or op.scan) and op.name not in UNDEFINED


@pytest.fixture
def undefined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory nobody wrote to holds signalling NaNs, so that a rule that reads it is found out."""
    plain = np.empty
    signalling = {
        "bfloat16": 0x7FA0,
        "float16": 0x7D00,
        "float32": 0x7FA00000,
        "float64": 0x7FF4 << 48,
    }

    def empty(*args: Any, **kwargs: Any) -> np.ndarray:
        array = plain(*args, **kwargs)
        if array.dtype.name in signalling:
            array.view(f"u{array.itemsize}").fill(signalling[array.dtype.name])
        return array

    monkeypatch.setattr(np, "empty", empty)


@pytest.mark.usefixtures("undefined")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("module", MODULES)
def test_rules_agree_with_kernels(module: str, dtype: str) -> None:
    """Of all nodes that the samples of a file's ops make, gradients included."""
    backward = dtype in ("float32", "float64")
    for op in [op for op in registry.values() if module_of(op) == module]:
        for sample in op.samples:
            try:
                run = Run(op, sample, getattr(rl, dtype), backward)
            except REFUSALS:
                continue  # not for this dtype, or not for graphs
            if run.random:
                continue
            for case in run.cases():
                if ruled(case.op) and not case.is_complex and case.key not in met(dtype):
                    met(dtype).add(case.key)
                    agree(case)


@pytest.mark.parametrize("name", [name for name, op in registry.items() if op.samples])
def test_a_graph_gives_what_the_op_gives(name: str) -> None:
    op = registry[name]
    for sample in op.samples[:4]:
        try:
            run = Run(op, sample, rl.float32, False)
        except TraceError:
            continue
        if run.random or op.name.removeprefix("new_").removesuffix("_copy") in UNDEFINED:
            continue
        for _ in run.cases():
            pass
        expected = flat(Maker(dtype=rl.float32).call(op, sample))
        for found, t in zip(run.results, expected, strict=True):
            assert found.dtype == t._array.dtype
            assert found.shape == t._array.shape
            wide = np.testing.assert_allclose
            wide(np.asarray(found, complex), np.asarray(t._array, complex), 1e-4, 1e-4)


def valid(array: np.ndarray) -> np.ndarray:
    """Indices that are good for everything."""
    return np.zeros_like(array) if array.dtype.kind in "iu" else array


def bad_indices() -> list[Any]:
    """(op, operands, attributes) of error samples that only the kernel refuses."""
    found = []
    for name, op in registry.items():
        if isinstance(op, Composite) or not ruled(op):
            continue
        for sample in op.errors:
            maker = Maker(dtype=rl.float32)
            try:
                made = maker.make(list(sample.args)), maker.make(sample.kwargs)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    operands, attrs = op.check(*made[0], **made[1])
                arrays = [t._array if isinstance(t, rl.Tensor) else t for t in operands]
            except Exception:
                continue
            try:
                op.eager(*[valid(a) for a in arrays], **attrs)
            except Exception:
                continue  # it is not the indices that are bad
            try:
                op.eager(*arrays, **attrs)
            except Exception:
                found.append(pytest.param(op, arrays, attrs, id=f"{name}{sample!r}"[:80]))
    return found


@pytest.mark.parametrize(("op", "arrays", "attrs"), bad_indices())
def test_bad_indices_raise_what_the_kernel_raises(op: Op, arrays: Any, attrs: Any) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 - whatever it is
        op.eager(*arrays, **attrs)
    shape = np.shape(op.eager(*[valid(a) for a in arrays], **attrs))
    with pytest.raises(type(expected.value)) as caught:
        evaluated(Case(op, arrays, attrs, ()), 0, shape)
    assert type(caught.value) is type(expected.value)
    assert str(caught.value) == str(expected.value)


def test_bad_indices_are_among_the_samples() -> None:
    names = {param.values[0].name for param in bad_indices()}
    assert names >= {"gather", "take", "index_select", "embedding", "one_hot", "scatter", "put"}
    assert names >= {"scatter_add", "index_add", "index_copy", "index_fill", "index_put"}


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda i: rl.zeros(3, 4)[i], IndexError),
        (lambda i: rl.zeros(3, 4)[:, i], IndexError),
        (lambda i: rl.nn.functional.nll_loss(rl.zeros(3, 4), i), IndexError),
        (lambda i: rl.nn.functional.cross_entropy(rl.zeros(3, 4), i), IndexError),
        (lambda i: rl.nn.functional.binary_cross_entropy(i.float(), i.float()), RuntimeError),
        (lambda i: rl.nn.functional.gaussian_nll_loss(*[i.float() - 6] * 3), ValueError),
    ],
)
def test_checks_inside_of_functions(call: Any, error: type) -> None:
    """The nodes of a graph made with good indices refuse bad ones as the function does."""
    bad, good = rl.tensor([0, 7, 1]), [6, 7, 7] if error is ValueError else [0, 1, 1]
    with pytest.raises(error) as expected:
        call(bad)

    run = Run(SimpleNamespace(call=call), S(T(values=good, dtype=rl.int64)), rl.float32, False)
    run.known[run.graph.inputs[0]] = bad._array
    with pytest.raises(error) as caught:
        list(run.cases())
    assert str(caught.value) == str(expected.value)
    node = next(n for n in run.graph.nodes() if n not in run.known and n.op is not CONSTANT)
    operands = [run.known[n] for n in node.inputs]
    with pytest.raises(error) as caught:
        evaluated(Case(node.op, operands, dict(node.attrs), ()), 0, node.type.shape)
    assert str(caught.value) == str(expected.value)


def test_every_primitive_says_how_it_is_compiled() -> None:
    for name, op in registry.items():
        if isinstance(op, Composite) or module_of(op) in ("random", "in_place_random"):
            continue
        ways = [op.emit or op.at, op.scatter, op.scan, op.library, op.dynamic]
        count = len([way for way in ways if way])
        free = isinstance(op, Factory) and not op.operands  # a constant
        assert count == 1 or (count == 0 and (op.decompose or free)), f"{name}: {ways}"


VIEWS = {
    "slice": lambda x: x[1:4:2],
    "select": lambda x: x[:, -1],
    "subscript": lambda x: x[2, None, ..., 1:],
    "diagonal": lambda x: x.diagonal(-1),
    "offset": lambda x: x.diagonal(1, 1, 0),
    "permute": lambda x: x.permute(1, 0)[2],
    "transpose": lambda x: x.t()[1:],
    "view": lambda x: x.view(2, 10)[1],
    "squeeze": lambda x: x[1:2].squeeze(0),
    "unsqueeze": lambda x: x.unsqueeze(1)[3],
    "unfold": lambda x: x.unfold(0, 3, 1)[1:],
    "as_strided": lambda x: x.as_strided((3, 3), (1, 1), 2),
    "chain": lambda x: x[1:].view(16)[::3].unsqueeze(0),
}


@pytest.mark.parametrize("name", VIEWS)
def test_writes_to_views(name: str) -> None:
    base = rl.arange(20.0).view(5, 4)
    view = VIEWS[name](base)
    source = -np.arange(1.0, view.numel() + 1, dtype=np.float32).reshape(view.shape)
    op, attrs = registry["view_scatter"], {"chain": view._view}
    array = base._array.copy()
    agree(Case(op, (array, source), attrs, (op.eager(array, source, **attrs),)))


@pytest.mark.parametrize(
    ("name", "attrs"),
    [
        ("split_with_sizes", {"lengths": (1, 0, 4), "dim": 0}),
        ("split_with_sizes", {"lengths": (2, 1), "dim": 1}),
        ("unbind", {"dim": 1}),
    ],
)
def test_pieces(name: str, attrs: Any) -> None:
    op, x = registry[name], np.arange(15.0).reshape(5, 3)
    agree(Case(op, (x,), attrs, op.eager(x, **attrs)))


STRANGE = np.array(
    [
        [1.0, np.nan, 3.0, np.nan, 0.0],
        [np.inf, 1.0, np.inf, -np.inf, 0.0],
        [-np.inf] * 5,
        [np.nan] * 5,
        [-0.0, 0.0, -0.0, 2.0, 2.0],
    ],
    np.float32,
)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(
    "name",
    [
        *("sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "max_dim", "min_dim", "all"),
        *("any", "count_nonzero", "logsumexp", "var", "std_mean", "linalg.vector_norm", "softmax"),
        *("log_softmax", "cumsum", "cumprod"),
    ],
)
def test_values_that_are_not_finite(name: str, dim: int) -> None:
    op = registry[name]
    (x,), attrs = op.check(rl.from_numpy(STRANGE), dim=dim)
    with np.errstate(all="ignore"):
        y = op.eager(x._array, **attrs)
    agree(Case(op, (x._array,), attrs, y if isinstance(y, tuple) else (y,)))


@pytest.mark.parametrize("how", [(3, 1, 1, 1), (2, 2, 0, 1), (2, 1, 1, 3), (3, 2, 1, 2)])
@pytest.mark.parametrize("indices", [True, False])
def test_pooling_of_values_that_are_not_finite(how: tuple[int, ...], indices: bool) -> None:
    """Padding is never chosen, of NaN the last one is, and windows may lie in the padding."""
    size, stride, padding, dilation = how
    op = registry["nn.functional.max_pool2d"]
    x = rl.from_numpy(STRANGE[None])
    (x,), attrs = op.check(x, size, stride, padding, dilation, True, indices)
    y = op.eager(x._array, **attrs)
    agree(Case(op, (x._array,), attrs, y if indices else (y,)))


def test_an_index_that_counts_from_the_end() -> None:
    x, i = np.arange(4.0), np.array([-1, 0, -4])
    op = registry["take"]
    same(evaluate((3,), (x, i), op.at), x[i])


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_native_code_agrees_with_kernels(module: str) -> None:
    """Of at most three nodes of an op, each a program of its own."""
    count: Counter[str] = Counter()
    for op in [op for op in registry.values() if module_of(op) == module]:
        for sample in op.samples:
            try:
                run = Run(op, sample, rl.float32, True)
            except REFUSALS:
                continue
            for case in run.cases() if not run.random else ():
                sizes = [y.size for y in case.results]
                if ruled(case.op) and not case.is_complex and all(sizes) and len(sizes) == 1:
                    count[case.op.name] += 1
                    if count[case.op.name] <= 3:
                        natively(case)


def natively(case: Case) -> None:
    operands = [None if a is None else Node(INPUT, (), {}, type_of(a)) for a in case.operands]
    values = {n: a for n, a in zip(operands, case.operands, strict=True) if n is not None}
    node = Node(case.op, tuple(operands), case.attrs, type_of(case.results[0]))
    same(Compiled(Group((node,), (node,)), values)()[node], case.results[0])


EMPTY = {
    "sum": lambda x: x.sum(0),
    "sum of all": lambda x: x.sum(),
    "of a product": lambda x: (x * x.abs()).sum(0, keepdim=True),
    "repeated": lambda x: x.expand(2, *x.shape).sum((0, 1)),
    "mean": lambda x: x.mean(1),
    "mean, repeated": lambda x: x.expand(2, *x.shape).mean(0),
    "prod": lambda x: x.prod(0),
    "norm": lambda x: x.norm(),
    "norm of columns": lambda x: x.norm(1, dim=0),
    "cumsum": lambda x: x.cumsum(0),
    "nansum": lambda x: x.nansum(0),
    "matmul": lambda x: x.T @ x.abs(),
    "gradient": lambda x: rl.func.grad(lambda w: (x * w).sum())(rl.ones(x.shape[1])),
}


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("dynamic", [False, True])
def test_sums_of_nothing_and_of_negative_zeros(name: str, dynamic: bool) -> None:
    """Sums start from 0.0 as NumPy's do, running sums from their first element."""
    function = EMPTY[name]
    compiled = rl.compile(function, dynamic=dynamic, fullgraph=True)
    for shape in ((0, 3), (3, 0), (0, 0), (1, 3), (3, 1), (5, 3), (9, 40)):
        x = rl.full(shape, -0.0)
        expected, found = [(1 / f(x)).numpy() for f in (function, compiled)]
        np.testing.assert_array_equal(found, expected, f"{name} of {shape}")
