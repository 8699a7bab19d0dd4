"""Every op of the registry: values, gradients, strides, dtypes, in-place, out=, errors, docs."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.ops import registry
from rushlight.ops.base import Op
from rushlight.ops.samples import S
from tests.sampling import Maker, flat, supported

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

PUBLIC = {name: op for name, op in registry.items() if op.function or op.method}
CASES = [
    pytest.param(op, sample, id=f"{name}{sample!r}"[:90])
    for name, op in PUBLIC.items()
    for sample in op.samples
]
RANDOM = {
    name
    for name, op in PUBLIC.items()
    if type(op).__module__.endswith("random")
    or getattr(getattr(op, "body", None), "__module__", "").endswith("ops.random")
}
UNDEFINED = {
    "empty",
    "empty_like",
    "empty_strided",
    "empty_permuted",
    "new_empty",
    "new_empty_strided",
}


def run(op: Op, sample: S, **how: Any) -> tuple[list[Any], Maker]:
    maker = Maker(**how)
    rl.manual_seed(0)
    return flat(maker.call(op, sample)), maker


def close(a: Any, b: Any, rtol: float = 1e-4, atol: float = 1e-4) -> None:
    np.testing.assert_allclose(
        a.detach().numpy().astype(np.complex128 if a.is_complex() else np.float64),
        b.detach().numpy().astype(np.complex128 if b.is_complex() else np.float64),
        rtol=rtol,
        atol=atol,
    )


@pytest.mark.parametrize("name", PUBLIC)
def test_an_op_has_docs_samples_and_error_samples(name: str) -> None:
    op = PUBLIC[name]
    assert op.doc, f"{name} has no docstring"
    assert ">>>" in op.doc, f"the docstring of {name} has no example"
    assert op.samples, f"{name} has no samples"
    assert op.errors, f"{name} has no error samples"


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_float32_agrees_with_float64(op: Op, sample: S) -> None:
    if op.name in RANDOM | UNDEFINED:
        single, _ = run(op, sample, dtype=rl.float32)
        assert all(isinstance(t, rl.Tensor) for t in single)
        return
    single, _ = run(op, sample, dtype=rl.float32)
    double, _ = run(op, sample, dtype=rl.float64)
    assert len(single) == len(double)
    for a, b in zip(single, double, strict=True):
        assert a.shape == b.shape
        close(a, b, 1e-3, 1e-3)


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_odd_strides_change_nothing(op: Op, sample: S) -> None:
    if op.name in UNDEFINED or not op.function or op.name in STRIDES_MATTER:
        pytest.skip("the result depends on the strides by definition")
    plain, _ = run(op, sample, dtype=rl.float64)
    strided, _ = run(op, sample, dtype=rl.float64, strides=True)
    for a, b in zip(plain, strided, strict=True):
        assert a.shape == b.shape
        close(a, b, 1e-12, 1e-12)


STRIDES_MATTER = {"as_strided", "view", "as_strided_copy", "as_strided_scatter", "normal_"}


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_each_dtype_gives_a_result_or_a_clear_refusal(op: Op, sample: S) -> None:
    for dtype in supported(op):
        results, _ = run(op, sample, dtype=dtype)
        assert all(t.dtype is not None for t in results)


def numeric_gradient(op: Op, sample: S, which: int, weights: list[np.ndarray]) -> np.ndarray:
    """Central differences of the weighted sum of the results, for one tensor argument."""
    step = 1e-6

    def value(shift: float, index: tuple[int, ...]) -> float:
        maker = Maker(dtype=rl.float64)
        args, kwargs = maker.make(list(sample.args)), maker.make(sample.kwargs)
        maker.tensors[which].numpy()[index] += shift
        rl.manual_seed(0)
        results = [t for t in flat(op.call(*args, **kwargs)) if t.is_floating_point()]
        return sum(
            float((w * t.detach().numpy()).sum()) for w, t in zip(weights, results, strict=True)
        )

    maker = Maker(dtype=rl.float64)
    maker.make(list(sample.args)), maker.make(sample.kwargs)
    shape = maker.tensors[which].shape
    gradient = np.zeros(tuple(shape))
    for index in np.ndindex(*shape):
        gradient[index] = (value(step, index) - value(-step, index)) / (2 * step)
    return gradient


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_gradients_agree_with_finite_differences(op: Op, sample: S) -> None:
    results, maker = run(op, sample, dtype=rl.float64, grad=True)
    results = [t for t in results if t.is_floating_point()]
    leaves = [t for t in maker.tensors if t.requires_grad]
    if not leaves or not any(t.requires_grad for t in results):
        assert not any(t.requires_grad for t in results)
        return
    random = np.random.default_rng(0)
    weights = [random.standard_normal(tuple(t.shape)) for t in results]
    pairs = [
        (t, rl.from_numpy(np.array(w)))
        for t, w in zip(results, weights, strict=True)
        if t.requires_grad
    ]
    grads = rl.autograd.grad(
        [t for t, _ in pairs], leaves, [w for _, w in pairs], allow_unused=True
    )
    for leaf, g in zip(leaves, grads, strict=True):
        if leaf.numel() > 40:
            continue
        which = next(i for i, t in enumerate(maker.tensors) if t is leaf)
        expected = numeric_gradient(op, sample, which, weights)
        got = np.zeros(tuple(leaf.shape)) if g is None else g.numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_second_derivatives(op: Op, sample: S) -> None:
    results, maker = run(op, sample, dtype=rl.float64, grad=True)
    results = [t for t in results if t.requires_grad and t.is_floating_point()]
    leaves = [t for t in maker.tensors if t.requires_grad]
    if not results or not 0 < sum(t.numel() for t in leaves) <= 40:
        return

    args, kwargs = list(sample.args), sample.kwargs

    def function(*values: Any) -> Any:
        again = Refilled(values, dtype=rl.float64, grad=True)
        rl.manual_seed(0)
        out = flat(op.call(*again.make(args), **again.make(kwargs)))
        return tuple(t for t in out if t.is_floating_point() and t.requires_grad)

    assert rl.autograd.gradgradcheck(function, tuple(leaves), atol=1e-4, rtol=1e-3)


class Refilled(Maker):
    """A Maker that puts given tensors in place of the leaves."""

    def __init__(self, values: Any, **how: Any) -> None:
        super().__init__(**how)
        self.values = iter(values)

    def tensor(self, spec: Any) -> Any:
        if not self.is_leaf(spec):
            return super().tensor(spec)
        self.tensors.append(next(self.values))
        return self.tensors[-1]


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_in_place_writes_the_same(op: Op, sample: S) -> None:
    if not op.inplace or op.name in RANDOM:
        return
    expected, _ = run(op, sample, dtype=rl.float64)
    maker = Maker(dtype=rl.float64)
    args, kwargs = maker.make(list(sample.args)), maker.make(sample.kwargs)
    target = args[0]
    if not isinstance(target, rl.Tensor):
        return
    if expected[0].shape != target.shape or expected[0].dtype is not target.dtype:
        return
    answer = getattr(target, f"{op.name}_")(*args[1:], **kwargs)
    assert answer is target
    close(target, expected[0], 1e-12, 1e-12)


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_out_receives_the_result(op: Op, sample: S) -> None:
    given = {
        **op.signature.parameters,
        **inspect.signature(op.call, follow_wrapped=False).parameters,
    }
    if "out" not in given or not op.function:
        return
    if op.name in RANDOM | UNDEFINED:
        return
    results, _ = run(op, sample, dtype=rl.float64)
    if len(results) != 1:
        return
    maker = Maker(dtype=rl.float64)
    args, kwargs = maker.make(list(sample.args)), maker.make(sample.kwargs)
    out = rl.empty(0, dtype=results[0].dtype)
    assert op.call(*args, **kwargs, out=out) is out
    close(out, results[0], 1e-12, 1e-12)


@pytest.mark.parametrize(
    ("op", "sample"),
    [
        pytest.param(op, sample, id=f"{name}{sample!r}"[:90])
        for name, op in PUBLIC.items()
        for sample in op.errors
    ],
)
def test_bad_input_raises_a_clear_error(op: Op, sample: Any) -> None:
    maker = Maker(dtype=rl.float32)
    with pytest.raises(sample.error) as caught:
        op.call(*maker.make(list(sample.args)), **maker.make(sample.kwargs))
    assert re.search(sample.match, str(caught.value)), str(caught.value)
