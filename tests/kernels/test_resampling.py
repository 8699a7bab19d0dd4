"""Resampling: its matrices, their transposes, and values that are not finite."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.kernels import resampling
from rushlight.kernels.resampling import Map

MAPS = [
    Map("nearest", 5, 8, 5 / 8),
    Map("nearest", 8, 3, 8 / 3, True),
    Map("linear", 5, 8, 5 / 8),
    Map("linear", 70, 150, 69 / 149, True),
    Map("linear", 9, 1, 9.0),
    Map("cubic", 5, 8, 5 / 8),
    Map("cubic", 90, 40, 90 / 40),
    Map("area", 7, 3, 7 / 3),
    Map("smooth linear", 90, 40, 90 / 40),
    Map("smooth cubic", 9, 14, 9 / 14),
    Map("smooth lanczos", 40, 9, 40 / 9),
]
DOUBLE = np.dtype(np.float64)


def matrix(m: Map) -> np.ndarray:
    """The matrix of a map, element by element from its taps."""
    dense = np.zeros((m.outputs, m.length))
    for result, (row, weights) in enumerate(zip(*resampling.taps(m, DOUBLE), strict=True)):
        for element, weight in zip(row, weights, strict=True):
            dense[result, element] += weight
    return dense


@pytest.mark.parametrize("m", MAPS)
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
def test_blocks_multiply_as_the_matrix(m: Map, dim: int, transposed: bool) -> None:
    dense = matrix(m).T if transposed else matrix(m)
    shape = [2, 3, 4]
    shape[dim] = dense.shape[1]
    x = np.random.default_rng(0).standard_normal(shape)
    expected = np.moveaxis(np.tensordot(x, dense, (dim, 1)), -1, dim)
    for along in (resampling.resample, resampling.resample_unbounded):
        np.testing.assert_allclose(along(x, dim, m, transposed), expected, atol=1e-12)


@pytest.mark.parametrize("m", MAPS)
def test_weights_of_a_result_sum_to_one(m: Map) -> None:
    np.testing.assert_allclose(matrix(m).sum(1), 1)


@pytest.mark.parametrize("rule", ["linear", "cubic", "smooth cubic", "smooth lanczos"])
def test_the_same_size_changes_nothing(rule: str) -> None:
    np.testing.assert_allclose(matrix(Map(rule, 6, 6, 1.0)), np.eye(6), atol=1e-12)


def test_an_infinity_reaches_its_neighbours_alone() -> None:
    x = np.ones((1, 6))
    x[0, 5] = np.inf
    y = resampling.resample_unbounded(x, 1, Map("linear", 6, 12, 0.5), False)
    assert np.isfinite(y[0, :9]).all()
    assert np.isinf(y[0, 10])


def test_few_blocks_hold_a_large_matrix() -> None:
    m = Map("linear", 4000, 8000, 0.5)
    stored = sum(block.size for _, _, block in resampling.bands(m, DOUBLE, False))
    assert stored < 8000 * 2 * resampling.BLOCK
