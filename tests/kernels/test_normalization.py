"""The kernels of normalisation against the formula in double precision, for all ways to sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rushlight.kernels.normalization import standardize
from rushlight.kernels.row_sums import total, total_of_products

CASES = [
    ((5, 7), (1,), (7,)),
    ((4, 2000), (1,), (2000,)),
    ((2, 9000), (1,), (9000,)),
    ((300, 6), (0,), (6,)),
    ((3, 4, 5, 6), (0, 2, 3), (4, 1, 1)),
    ((3, 4, 5, 6), (2, 3), (5, 6)),
    ((3, 2, 2, 6), (2, 3), (2, 2, 1)),
    ((2, 3, 40, 40), (0, 2, 3), (3, 1, 1)),
]


@pytest.mark.parametrize(("shape", "dims", "sizes"), CASES)
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("contiguous", [True, False])
def test_standardize(shape: Any, dims: Any, sizes: Any, center: bool, contiguous: bool) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal(shape).astype(np.float32) + 3
    if not contiguous:
        x = np.asfortranarray(x)
    weight, bias = random.random((2, *sizes)).astype(np.float32)
    y, mean, variance = standardize(x, weight, bias, dims, 1e-3, center)
    wide = x.astype(np.float64)
    middle = wide.mean(dims, keepdims=True) if center else 0.0
    spread = ((wide - middle) ** 2).mean(dims, keepdims=True)
    expected = (wide - middle) / np.sqrt(spread + 1e-3) * weight + bias
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(variance, spread, rtol=1e-5)
    np.testing.assert_allclose(mean, np.broadcast_to(middle, mean.shape), rtol=1e-5)


@pytest.mark.parametrize(("shape", "dims", "sizes"), CASES)
def test_sums_keep_their_dimensions(shape: Any, dims: Any, sizes: Any) -> None:
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, *shape))
    np.testing.assert_allclose(total(a, dims), a.sum(dims, keepdims=True), atol=1e-11)
    expected = (a * b).sum(dims, keepdims=True)
    np.testing.assert_allclose(total_of_products(a, b, dims), expected, atol=1e-11)
    assert total(a, ()) is a
