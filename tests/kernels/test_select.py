"""Choices and bounds of large arrays agree with NumPy's plain functions."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.kernels import select

DTYPES = ("float32", "float64", "int8", "int16", "bool", "complex64", "complex128")
SHAPES = [
    ((100, 200), (100, 200), (100, 200)),
    ((100, 200), (200,), ()),
    ((100, 200), (), (100, 1)),
    ((9000, 1), (1, 3), ()),
    ((20000,), (1,), (20000,)),
    ((3, 4), (3, 4), ()),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", SHAPES)
def test_choose_is_where(dtype: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    random = np.random.default_rng(0)
    mask = random.random(shapes[0]) < 0.5
    a, b = [np.array(random.normal(size=s) * 10).astype(dtype) for s in shapes[1:]]
    for first, second in ((a, b), (a, np.zeros((), dtype)), (np.zeros((), dtype), b)):
        result = select.choose(mask, first, second)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, np.where(mask, first, second))


def test_choose_takes_any_strides() -> None:
    random = np.random.default_rng(0)
    mask, a = random.random((200, 100)).T < 0.5, random.normal(size=(200, 100)).T
    rows = np.broadcast_to(a[0], a.shape)
    np.testing.assert_array_equal(select.choose(mask, a, rows), np.where(mask, a, rows))


def test_what_is_not_chosen_does_not_matter() -> None:
    mask = np.arange(1 << 14) % 2 == 0
    worst = np.where(mask, 1.0, np.nan)
    assert not np.isnan(select.choose(mask, worst, np.zeros(()))).any()


@pytest.mark.parametrize("size", [5, 1 << 14])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_bounds(size: int, dtype: str) -> None:
    x = (np.random.default_rng(0).normal(size=size) * 10).astype(dtype)
    low, high = np.array(-1, dtype), np.array(2, dtype)
    np.testing.assert_array_equal(select.at_least(x, low), np.maximum(x, low))
    np.testing.assert_array_equal(select.at_most(x, high), np.minimum(x, high))
    np.testing.assert_array_equal(select.between(x, low, high), np.clip(x, low, high))


def test_bounds_let_nan_through() -> None:
    x = np.full(1 << 14, np.nan)
    assert np.isnan(select.at_least(x, np.zeros(()))).all()
    assert np.isnan(select.at_most(x, np.zeros(()))).all()
