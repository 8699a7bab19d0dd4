"""Every op, compiled once for all sizes: at other sizes than the first it is as in dynamic mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rushlight as rl
from rushlight.ops.base import Op
from rushlight.ops.samples import S, T
from rushlight.symbol import TraceError
from tests.compiled.test_ops import DEFINED, MAY_REFUSE, PUBLIC, agree
from tests.sampling import Maker, flat, supported

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

OTHERS: tuple[Callable[[int], int], ...] = (
    lambda n: n,
    lambda n: n + 2 if n > 1 else n,
    lambda n: n + 5 if n > 2 else n,
    lambda n: 1 if n > 2 else n,
    lambda n: 0 if n == 3 else n,
)
"""Sizes in the places of those of a sample: grown, all 1, and nothing."""

COMMON = (
    "abs", "add", "sub", "mul", "div", "pow", "exp", "sigmoid", "where", "clamp", "sum", "mean",
    "var", "amax", "argmax", "cumsum", "sort", "topk", "softmax", "log_softmax", "matmul", "bmm",
    "addmm", "einsum", "cat", "stack", "permute", "flatten", "gather", "scatter", "index_select",
    "tril", "masked_fill", "flip", "chunk", "tensor_split", "nn.functional.linear",
    "nn.functional.conv2d", "nn.functional.conv_transpose2d", "nn.functional.max_pool2d",
    "nn.functional.avg_pool2d", "nn.functional.layer_norm", "nn.functional.group_norm",
    "nn.functional.rms_norm", "nn.functional.batch_norm", "nn.functional.embedding",
    "nn.functional.cross_entropy", "nn.functional.mse_loss", "nn.functional.gelu",
    "nn.functional.pad", "nn.functional.scaled_dot_product_attention",
)  # fmt: skip
"""What networks are made of: these have one program for all sizes of their first sample."""

SETTLED = {
    "as_strided": "steps in memory are numbers",
    "diagonal": "its length is the smaller one of two sizes less an offset",
    "diag": "its length is the smaller one of two sizes less an offset",
    "diag_embed": "it is written to a diagonal",
    "split": "how many results there are depends on a size",
    "unbind": "how many results there are depends on a size",
    "combinations": "rows are counted in Python",
    "gradient": "edges are treated in Python",
    "linalg.qr": "a side of the results is the smaller one of two sizes",
    "linalg.svd": "a side of the results is the smaller one of two sizes",
}
"""Ops that need a size as a number, and why: each size has a program of its own."""


SAID_BRIEFLY = ("embedding_bag",)  # programs do not say which position was wrong


def grown(x: Any, size: Callable[[int], int]) -> Any:
    """A sample with other sizes, but for tensors whose values are given."""
    if isinstance(x, T):
        if x.values is not None:
            return x
        options = {name: getattr(x, name) for name in ("dtype", "low", "high", "distinct", "grad")}
        return T(*[size(n) for n in x.shape], **options)
    if isinstance(x, (list, tuple)):
        return type(x)([grown(part, size) for part in x])
    return {name: grown(part, size) for name, part in x.items()} if isinstance(x, dict) else x


def outcome(call: Callable[..., Any], sample: S, dtype: Any, size: Callable[[int], int]) -> Any:
    """Results, gradients and operands afterwards; or an error."""
    maker = Maker(dtype=dtype, grad=True)
    args, kwargs = (
        maker.make(grown(list(sample.args), size)),
        maker.make(grown(sample.kwargs, size)),
    )
    rl.manual_seed(0)
    try:
        results = flat(call(args, kwargs))
    except TraceError:
        raise
    except Exception as error:
        return error
    return [*results, *[t.grad for t in maker.tensors], *maker.tensors]


def check(op: Op, sample: S) -> Any:
    """Compares one compiled function with dynamic mode, size after size."""

    def function(args: Any, kwargs: Any) -> Any:
        y = op.call(*args, **kwargs)
        roots = [t for t in flat(y) if t.requires_grad and t.numel()]
        if roots:
            rl.autograd.backward(roots, [rl.ones_like(t) for t in roots])
        return y

    kinds = list(supported(op))
    dtype = rl.float32 if rl.float32 in kinds else kinds[0]
    compiled = rl.compile(function, fullgraph=True, dynamic=True)
    for size in OTHERS:
        wanted, found = (outcome(call, sample, dtype, size) for call in (function, compiled))
        assert isinstance(wanted, Exception) == isinstance(found, Exception), (wanted, found)
        if isinstance(wanted, Exception):
            assert type(found) is type(wanted), (wanted, found)
            assert op.name in SAID_BRIEFLY or str(found) == str(wanted)
        else:
            for a, b in zip(wanted, found, strict=True):
                agree(a, b)
    return compiled


def samples() -> Iterator[Any]:
    for name in DEFINED:
        for i, sample in enumerate(PUBLIC[name].samples[:3]):
            yield pytest.param(name, sample, id=f"{name}-{i}")


@pytest.mark.parametrize("name", COMMON)
def test_one_program_serves_all_sizes(name: str) -> None:
    compiled = check(PUBLIC[name], PUBLIC[name].samples[0])
    assert not compiled.any_size.refused


@pytest.mark.parametrize("name", SETTLED)
def test_a_size_that_is_needed_as_a_number(name: str) -> None:
    check(PUBLIC[name], PUBLIC[name].samples[0])


COUNTED = {
    "linspace": lambda x: rl.linspace(-1.5, 7, x.shape[0]) * x,
    "linspace of int": lambda x: rl.linspace(0, 10, x.shape[0] + 3, dtype=rl.int64),
    "logspace": lambda x: rl.logspace(-1, 2, x.shape[0] * 2, dtype=rl.float64),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 0),
    "repeat_interleave, flat": lambda x: x.repeat_interleave(3),
    "topk": lambda x: x.topk(x.shape[0] // 2),
    "topk, of all": lambda x: x.topk(x.shape[0], largest=False),
    "kthvalue": lambda x: rl.nn.functional.pad(x, (1, 1)).kthvalue(x.shape[0] + 1),
}
"""Numbers of results that follow from sizes."""

VALUES = {
    "full": lambda x: rl.full((3,), x.shape[0]),
    "full, as many": lambda x: rl.full((x.shape[0],), 2 * x.shape[0] + 1, dtype=rl.float16),
    "full of a quotient": lambda x: rl.full(x.shape, 1 / (x.shape[0] + 1)),
    "full_like": lambda x: rl.full_like(x, x.shape[0]) * x,
    "full_like, turned": lambda x: rl.full_like(rl.ones(2, 3).T, x.shape[0]),
    "new_full": lambda x: x.new_full((2,), x.shape[0]),
    "scalar_tensor": lambda x: rl.scalar_tensor(x.shape[0]),
    "tensor": lambda x: rl.tensor(x.shape[0]),
    "tensor of a quotient": lambda x: rl.tensor(x.shape[0] / 2, dtype=rl.float64),
    "tensor of several": lambda x: rl.tensor([[x.shape[0], 2], [3, x.shape[0] - 4]]),
    "tensor of a shape": lambda x: rl.tensor(x.shape),
    "as_tensor": lambda x: rl.as_tensor([x.shape[0], 0.5]),
    "asarray": lambda x: rl.asarray((x.shape[0], 7), dtype=rl.int32),
    "new_tensor": lambda x: x.new_tensor(x.shape[0]),
}
"""Elements that are sizes, or follow from them."""


@pytest.mark.parametrize("name", [*COUNTED, *VALUES])
def test_counts_and_values_that_are_sizes(name: str) -> None:
    function = COUNTED.get(name) or VALUES[name]
    compiled = rl.compile(function, dynamic=True, fullgraph=True)
    for n in (3, 4, 0, 1, 2, 101):
        x = rl.arange(float(n))
        for a, b in zip(flat(function(x)), flat(compiled(x)), strict=True):
            agree(a, b)
            assert a.stride() == b.stride()
    assert not compiled.known
    assert not compiled.any_size.refused


def test_the_gradient_of_as_many_as_a_size_says() -> None:
    def step(x: rl.Tensor) -> rl.Tensor:
        values, _ = x.topk(x.shape[0] // 2)
        return rl.autograd.grad(values.square().sum(), x)[0]

    compiled = rl.compile(step, dynamic=True, fullgraph=True)
    for n in (4, 6, 9, 1):
        x = rl.randn(n, requires_grad=True)
        agree(step(x), compiled(x))
    assert not compiled.known


@pytest.mark.parametrize("kind", [rl.uint8, rl.int8, rl.float16, rl.bool])
def test_sizes_that_do_not_fit_a_dtype(kind: rl.dtype) -> None:
    def function(x: rl.Tensor) -> rl.Tensor:
        return rl.full((2,), 100 * x.shape[0] - 100, dtype=kind)

    compiled = rl.compile(function, dynamic=True, fullgraph=True)
    for n in (2, 3, 700, 0, 2):
        wanted, found = (tried(call, rl.ones(n)) for call in (function, compiled))
        if isinstance(wanted, Exception):
            assert (type(found), str(found)) == (type(wanted), str(wanted))
        else:
            assert rl.equal(found, wanted)


def test_a_float_that_changes_fills_tensors_of_one_program() -> None:
    compiled = rl.compile(lambda x, a: x * rl.full((3,), a) + rl.tensor([a, 1.0, a]))
    for a in (0.5, 0.25, -2.0, 3.0, 7.0):
        wanted = rl.tensor([2 * a, a + 1, 2 * a])
        assert rl.equal(compiled(rl.ones(3), a), wanted)
    assert sum(map(len, compiled.known.values())) <= 2


def rows(*index: int) -> Any:
    return rl.tensor(index)


WRONG = {
    "gather": lambda x: x.gather(1, rl.zeros(x.shape[0], 1, dtype=rl.int64)),
    "scatter": lambda x: x.scatter(1, rows(0, 4, 0).reshape(3, 1)[: x.shape[0]], 1.0),
    "take": lambda x: x.take(rows(3, -4)),
    "put": lambda x: x.put(rows(3, -4), rl.ones(2)),
    "index": lambda x: x[:, rows(0, -3)],
    "index_select": lambda x: x.index_select(1, rows(4)),
    "index_copy": lambda x: x.index_copy(1, rows(4), x[:, :1]),
    "index_fill": lambda x: x.index_fill(1, rows(-5), 1),
    "embedding": lambda x: rl.nn.functional.embedding(rows(4), x.T),
    "one_hot": lambda x: rl.one_hot(rows(4), x.shape[1]),
    "cross_entropy": lambda x: rl.nn.functional.cross_entropy(x[:1], rows(4)),
    "max_unpool1d": lambda x: rl.nn.functional.max_unpool1d(
        x[:, :1].unsqueeze(0), rl.full((1, x.shape[0], 1), 3), 1, output_size=[x.shape[1]]
    ),
    "division": lambda x: rl.arange(x.shape[1]) // (rl.arange(x.shape[1]) - 2),
    "inside": lambda x: rl.cond(
        x.sum() > -1, lambda x: x.index_select(1, rows(4)), lambda x: x[:, :1] + 0, (x,)
    ),
}
"""Positions that are there at some sizes only."""

SOME_COLUMNS = ("one_hot", "cross_entropy", "inside")  # without any, they are refused by shape


@pytest.mark.parametrize("name", WRONG)
def test_errors_name_the_sizes_of_the_call(name: str) -> None:
    function = WRONG[name]
    compiled = rl.compile(function, dynamic=True, fullgraph=True)
    failed = 0
    for n, m in ((3, 5), (3, 6), (2, 4), (2, 2), (2, 3), (1, 1), (2, 0)):
        if m == 0 and name in SOME_COLUMNS:
            continue
        wanted, found = (tried(call, rl.ones(n, m)) for call in (function, compiled))
        if isinstance(wanted, Exception):
            failed += 1
            assert (type(found), str(found)) == (type(wanted), str(wanted))
        else:
            agree(wanted, found)
    assert failed > 0
    assert not compiled.any_size.refused


def tried(function: Callable[..., Any], x: rl.Tensor) -> Any:
    """What a function returns, or the error that it raises."""
    try:
        return function(x)
    except Exception as error:
        return error


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sample"), list(samples()))
def test_ops_at_other_sizes(name: str, sample: S) -> None:
    try:
        check(PUBLIC[name], sample)
    except TraceError:
        assert name in MAY_REFUSE
