"""Formulas as native code: the bits of NumPy's calls, for any length and number of sets."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.runtime.sweep import NUMBER, OPERATIONS, Sweeper

FLOATS = [np.float32, np.float64]
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("call", OPERATIONS, ids=lambda call: call.__name__)
def test_every_call_gives_the_bits_of_numpy(call: np.ufunc, dtype: type) -> None:
    a, b = [m.reshape(-1).astype(dtype) for m in np.meshgrid(SPECIAL, SPECIAL)]
    inputs = [a, b][: call.nin]
    with np.errstate(all="ignore"):
        expected = call(*inputs)
    made = Sweeper(((call, *range(call.nin)),), call.nin, (None,) * call.nin + (call.nin,), a.dtype)
    result = np.empty_like(a)
    made.run([[*inputs, result]], [])
    np.testing.assert_array_equal(result, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[known]), np.signbit(expected[known]))


@pytest.mark.parametrize("size", [0, 1, 7, 31, 32, 33, 1000, 100_003])
def test_any_length(size: int) -> None:
    x = np.linspace(-1, 1, size, dtype=np.float32)
    y = np.linspace(2, 3, size, dtype=np.float32)
    expected = x * np.float32(0.3) + y
    calls = ((np.multiply, 0, NUMBER), (np.add, 2, 1))
    around = np.zeros(size + 2, np.float32)
    inside = around[1:-1]
    inside[:] = x
    Sweeper(calls, 2, (3, None), x.dtype).run([[inside, y]], [0.3])
    np.testing.assert_array_equal(inside, expected)
    assert around[0] == around[-1] == 0


def test_several_sets_of_different_lengths() -> None:
    sets = [[np.full(n, 2.0), np.full(n, float(n))] for n in (3, 70_000, 1, 500)]
    Sweeper(((np.subtract, NUMBER, 0), (np.multiply, 2, 1)), 2, (3, 0), np.dtype(float)).run(
        sets, [1.0]
    )
    for n, (a, b) in zip((3, 70_000, 1, 500), sets, strict=True):
        assert (a == -n).all()
        assert (b == 2).all()


def test_a_value_that_stays() -> None:
    a, b = np.arange(100.0), np.zeros(100)
    Sweeper(((np.add, 0, 0),), 1, (0, 1), a.dtype).run([[a, b]], [])
    np.testing.assert_array_equal(a, np.arange(100.0))
    np.testing.assert_array_equal(b, 2 * a)


def test_values_that_change_places() -> None:
    a, b = np.arange(100.0), np.arange(100.0) * 2
    old = a.copy(), b.copy()
    Sweeper((), 2, (1, 0), a.dtype).run([[a, b]], [])
    np.testing.assert_array_equal(a, old[1])
    np.testing.assert_array_equal(b, old[0])
