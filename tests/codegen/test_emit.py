"""Pointwise ops say with the scalars of a program what they say with arrays."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.evaluate import evaluate
from rushlight.graph.trace import Trace
from rushlight.ops import registry
from rushlight.ops.base import Op
from rushlight.ops.families import Pointwise
from rushlight.ops.samples import S, T, binary_samples, unary_samples
from tests.sampling import Maker

POINTWISE = {name: op for name, op in registry.items() if isinstance(op, Pointwise) and op.emit}
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
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.3, -0.7, 2.5, -3.0, 9.5, 1e-30, 1e30, np.nan, np.inf, -np.inf]


class Checked(Trace):
    """A trace that compares the rule of each pointwise op with its kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def compute(self, op: Op, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        y = super().compute(op, arrays, attrs)
        if op.full_name in POINTWISE and all(a.dtype.kind != "c" for a in (*arrays, y)):
            self.seen.add(op.full_name)
            agree(op, arrays, attrs, y)
        return y


def agree(op: Op, arrays: Sequence[Any], attrs: Mapping[str, Any], expected: Any) -> None:
    shape = np.broadcast_shapes(*[a.shape for a in arrays])
    got = evaluate(shape, arrays, lambda b, i, *xs: op.at(b, i, *xs, **attrs))
    close(rounded(got, expected.dtype), expected)


def rounded(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return x.astype(dtype)


def close(got: np.ndarray, expected: np.ndarray, units: float = 8) -> None:
    """Equal if integers or bools; else but for so many units in the last place."""
    assert got.shape == expected.shape
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(got, expected)
        return
    limits = ml_dtypes.finfo(expected.dtype)
    a, b = got.astype(np.float64), expected.astype(np.float64)
    tiny = float(limits.smallest_normal)
    np.testing.assert_allclose(a, b, rtol=units * float(limits.eps), atol=tiny)


def dtypes_of(op: Op) -> list[rl.dtype]:
    return [dtype for kind in getattr(op, "kinds", "f") for dtype in DTYPES.get(kind, ())]


@pytest.mark.parametrize("name", POINTWISE)
def test_a_rule_agrees_with_its_kernel(name: str) -> None:
    op = POINTWISE[name]
    trace = Checked()
    for sample, dtype in itertools.product(op.samples or INNER[name], dtypes_of(op)):
        if dtype is rl.uint8 and any(isinstance(t, T) and t.low < 0 for t in sample.args):
            continue
        trace.call(Maker(dtype).call, op, sample)
    assert name in trace.seen
