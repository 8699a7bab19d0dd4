"""Sums: the same as NumPy's in float64, whatever the shape, the strides and the dimensions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rushlight.kernels.summation import add_up, add_up_squares

SHAPES = [
    (5000,),
    (70, 70),
    (5000, 3),
    (3, 5000),
    (17, 18, 20),
    (2, 3000, 4),
    (0, 3),
    (3, 5, 7, 60),
]


def looks(x: np.ndarray) -> list[np.ndarray]:
    """The same elements, or some of them, with other strides."""
    wide = np.repeat(x, 2, -1)[..., ::2]
    return [x, x.T, x[..., ::-1], wide, np.broadcast_to(x, (2, *x.shape)), np.moveaxis(x, 0, -1)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("keepdim", [False, True])
def test_every_choice_of_dimensions(shape: tuple[int, ...], keepdim: bool) -> None:
    random = np.random.default_rng(0)
    for x in looks(random.random(shape, dtype=np.float32)):
        subsets = (itertools.combinations(range(x.ndim), r) for r in range(1, x.ndim + 1))
        for dim in [None, *itertools.chain.from_iterable(subsets)]:
            expected = np.add.reduce(x.astype(np.float64), dim, keepdims=keepdim)
            y = np.asarray(add_up(x, dim, keepdim))
            assert y.dtype == np.float32
            assert y.shape == expected.shape
            np.testing.assert_allclose(y, expected, rtol=1e-6)
            squares = np.add.reduce(x.astype(np.float64) ** 2, dim, keepdims=keepdim)
            y = np.asarray(add_up_squares(x, dim, keepdim))
            assert y.shape == squares.shape
            np.testing.assert_allclose(y, squares, rtol=1e-6)


@pytest.mark.parametrize(("shape", "dim"), [((500_000, 4), (0,)), ((100, 5000, 2), (0, 1))])
def test_long_sums_across_rows_keep_their_digits(
    shape: tuple[int, ...], dim: tuple[int, ...]
) -> None:
    x = np.full(shape, 0.1, np.float32)
    expected = np.float64(np.float32(0.1)) * np.prod([shape[d] for d in dim])
    assert abs(add_up(x, dim) / expected - 1).max() < 1e-6
    assert abs(np.add.reduce(x, dim) / expected - 1).max() > 1e-4


def test_infinities_and_nan_pass_through() -> None:
    x = np.zeros((300, 20), np.float32)
    x[0, 0], x[1, 1], x[2, 2], x[3, 2] = np.inf, np.nan, np.inf, -np.inf
    for dim in ((0,), (1,)):
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(add_up(x, dim), np.add.reduce(x, dim))
