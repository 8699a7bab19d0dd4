"""Pointwise ops say with the scalars of a program what they say with arrays."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rushlight as rl
from rushlight.autograd.modes import local
from rushlight.codegen.evaluate import evaluate
from rushlight.ops import registry
from rushlight.ops.arithmetic import Divider
from rushlight.ops.base import Op
from rushlight.ops.families import Binary, Pointwise, Unary
from rushlight.ops.samples import S, T, binary_samples, unary_samples
from tests.codegen.kernels import Compiled, Graph
from tests.codegen.rules import Run

POINTWISE: dict[str, Any] = {
    name: op for name, op in registry.items() if isinstance(op, Pointwise) and op.emit is not None
}
DTYPES = {
    "b": (rl.bool,),
    "i": (rl.int64, rl.int32, rl.uint8),
    "f": (rl.float32, rl.float64, rl.float16, rl.bfloat16),
}
INNER = {  # of ops that have no name, and so no samples of their own
    "tie": [S(T(3, 4), T(3, 4))],
    "div_trunc": binary_samples(second=(0.5, 2)),
    "between": [S(T(3, 4), T(4, high=0), T(3, 1, low=0.1)), S(T(3), -1, 1)],
    "normal_cdf": unary_samples(-6, 6),
    "logistic_slope": [S(T(3, 4), T(3, 4), T(3, 4), T(3, 4), 0.5)],
    "bernoulli_loss": [S(T(3, 4, low=0, high=1), T(3, 4, low=0, high=1))],
    "huber_error": [S(T(3, 4), T(3, 4), 0.7)],
}
CANCELLING = {"logaddexp": 1, "logaddexp2": 1, "normal_cdf": 4}
"""Ops whose errors are absolute, in units in the last place of 1."""
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.3, -0.7, 2.5, -3.0, 9.5, 1e-30, 1e30, np.nan, np.inf, -np.inf]


def agree(op: Op, arrays: Sequence[Any], attrs: Mapping[str, Any], expected: Any) -> None:
    got = evaluate(expected.shape, arrays, lambda b, i, *xs: op.at(b, i, *xs, **attrs))
    with np.errstate(over="ignore"):
        close(got.astype(expected.dtype), expected, ones=CANCELLING.get(op.full_name, 0))


def close(got: np.ndarray, expected: np.ndarray, units: float = 8, ones: float = 0) -> None:
    """Equal if integers or bools; else but for so many units in the last place, of it or of 1."""
    assert got.shape == expected.shape
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected)
        return
    limits = ml_dtypes.finfo(expected.dtype)
    a, b = got.astype(np.float64), expected.astype(np.float64)
    eps, tiny = float(limits.eps), float(limits.smallest_normal)
    np.testing.assert_allclose(a, b, rtol=units * eps, atol=tiny + ones * eps)
    zeros = (a == 0) & (b == 0)
    np.testing.assert_array_equal(np.signbit(a[zeros]), np.signbit(b[zeros]))


def dtypes_of(op: Op) -> list[rl.dtype]:
    return [dtype for kind in getattr(op, "kinds", "f") for dtype in DTYPES.get(kind, ())]


@pytest.mark.parametrize("name", POINTWISE)
def test_a_rule_agrees_with_its_kernel(name: str) -> None:
    op, seen = POINTWISE[name], set()
    for sample, dtype in itertools.product(op.samples or INNER[name], dtypes_of(op)):
        if dtype is rl.uint8 and any(isinstance(t, T) and t.low < 0 for t in sample.args):
            continue
        for case in Run(op, sample, dtype, backward=False).cases():
            if case.op.full_name in POINTWISE and not case.is_complex:
                seen.add(case.op.full_name)
                agree(case.op, case.operands, case.attrs, *case.results)
    assert name in seen


PLAIN = [name for name, op in POINTWISE.items() if isinstance(op, (Unary, Binary))]


def pairs(op: Op, x: np.ndarray) -> list[np.ndarray]:
    """Each element, or each with each."""
    return [x] if isinstance(op, Unary) else [np.repeat(x, len(x)), np.tile(x, len(x))]


@pytest.mark.parametrize("name", [name for name in PLAIN if "f" in POINTWISE[name].kinds])
def test_nan_infinities_and_zeros(name: str) -> None:
    op = POINTWISE[name]
    for dtype in DTYPES["f"]:
        with np.errstate(over="ignore"):
            x = np.array(SPECIAL, np.float32).astype(dtype.numpy)
        arrays = pairs(op, x)
        agree(op, arrays, {}, local.state.run(op.kernels[dtype.numpy], *arrays))


@pytest.mark.parametrize("name", [name for name in PLAIN if "i" in POINTWISE[name].kinds])
def test_integers_at_their_limits(name: str) -> None:
    op = POINTWISE[name]
    for dtype in () if op.floats else DTYPES["i"]:
        limits = rl.iinfo(dtype)
        x = np.array([0, 1, 2, 5, 63, 64, 100, limits.max, limits.min, limits.min + 1], dtype.numpy)
        arrays = pairs(op, np.concatenate([x, -x]) if limits.min else x)
        if isinstance(op, Divider):
            arrays = [a[arrays[1] != 0] for a in arrays]
        if name == "pow":
            arrays = [a[arrays[1] != limits.min] for a in arrays]
        agree(op, arrays, {}, local.state.run(op.kernels[dtype.numpy], *arrays))


def check_native(name: str, dtypes: Sequence[rl.dtype]) -> None:
    """Generated code agrees with the kernel, special values included."""
    op = POINTWISE[name]
    for dtype in dtypes:
        if dtype.is_floating_point:
            with np.errstate(over="ignore"):
                x = np.concatenate([SPECIAL, np.linspace(-4, 4, 19)]).astype(dtype.numpy)
        else:
            x = np.array([0, 1, 2, 5, 63, 64, 100, 127], dtype.numpy)
        arrays = pairs(op, x)
        if isinstance(op, Divider) and not dtype.is_floating_point:
            arrays = [a[arrays[1] != 0] for a in arrays]
        graph = Graph()
        y = graph(name, *[graph.input(a) for a in arrays])
        got = Compiled(graph.group(y), graph.values)()[y]
        close(got, graph.values[y], 24, ones=CANCELLING.get(name, 0))


@pytest.mark.parametrize("name", [name for name in PLAIN if "f" in POINTWISE[name].kinds])
def test_native_code_agrees_in_float32(name: str) -> None:
    check_native(name, [rl.float32])


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAIN)
def test_native_code_agrees_in_all_dtypes(name: str) -> None:
    op = POINTWISE[name]
    check_native(name, [d for d in dtypes_of(op) if d.is_floating_point or not op.floats])


NUMBERS = [0.0, -0.0, 1.0, -1.9, 2.5, 127.6, -129.0, 255.9, 300.0, 70000.0, -3e9, 5e9, 1e19, -1e19]
REAL = [d for d in rl.dtypes.ALL if not d.is_complex]


@pytest.mark.parametrize("source", REAL, ids=str)
def test_cast_converts_as_the_kernel_does(source: rl.dtype) -> None:
    op, floating = registry["cast"], source.is_floating_point
    numbers = [*NUMBERS, np.nan, np.inf, -np.inf] if floating else [*range(-200, 300, 7), 2**62 + 1]
    with np.errstate(all="ignore"):
        x = np.array(numbers).astype(source.numpy)
    for target in REAL:
        attrs, part = {"dtype": target}, x
        if target is rl.uint32 and floating:  # beyond its range NumPy's own loops disagree
            wide = x.astype(np.float64)
            part = x[(wide > -(2**31)) & (wide < 2**32)]
        agree(op, [part], attrs, local.state.run(op.eager, part, **attrs))


def test_integers_are_not_divided_by_zero() -> None:
    x, y = np.array([1, 2]), np.array([1, 0])
    for name in ("div_trunc", "floor_divide", "remainder", "fmod"):
        op = POINTWISE[name]
        with pytest.raises(RuntimeError, match=f"ZeroDivisionError: {name} of integers by zero"):
            agree(op, [x, y], {}, x)


@pytest.mark.parametrize("dtype", DTYPES["f"], ids=str)
def test_frexp(dtype: rl.dtype) -> None:
    op = registry["frexp"]
    with np.errstate(all="ignore"):
        x = np.array([*SPECIAL, 1e-40, -3e-45, 5e-324, 1e300, 0.5]).astype(dtype.numpy)
    got = evaluate(x.shape, [x], op.at)
    for a, b in zip(got, local.state.run(op.eager, x), strict=True):
        close(a.astype(b.dtype), b, 0)


@pytest.mark.parametrize("dtype", DTYPES["f"], ids=str)
@pytest.mark.parametrize("shape", [(3, 4), (), (0,)], ids=str)
@pytest.mark.parametrize("mean", [True, False])
def test_squared_error(dtype: rl.dtype, shape: tuple[int, ...], mean: bool) -> None:
    op, random = registry["squared_error"], np.random.default_rng(0)
    arrays = [random.uniform(-3, 3, shape).astype(dtype.numpy) for _ in range(2)]
    y = np.asarray(local.state.run(op.eager, *arrays, mean=mean))
    agree(op, arrays, {"mean": mean}, y)


def test_closeness_of_nan() -> None:
    op, x = registry["isclose"], np.array([1.0, np.nan, np.inf, 1e-9])
    attrs = {"rtol": 1e-5, "atol": 1e-8, "equal_nan": True}
    arrays = [np.repeat(x, 4), np.tile(x, 4)]
    agree(op, arrays, attrs, local.state.run(op.eager, *arrays, **attrs))
