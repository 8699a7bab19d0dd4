"""The kernels of activations: as accurate as stated, in both tails and on any strides."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rushlight.kernels import activation as kernels

pytestmark = pytest.mark.filterwarnings("ignore:overflow")  # kernels run where it is silent

GRID = np.linspace(-12, 12, 100_001, dtype=np.float32)


def exact(function: Any, x: np.ndarray) -> np.ndarray:
    return np.array([function(v) for v in x.astype(np.float64).tolist()])


def test_the_normal_distribution_function() -> None:
    expected = exact(lambda v: math.erfc(-v / math.sqrt(2)) / 2, GRID)
    assert np.abs(kernels.normal_cdf(GRID) - expected).max() < 2e-7
    double = kernels.normal_cdf(GRID.astype(np.float64))
    np.testing.assert_allclose(double, expected, rtol=1e-13)
    assert kernels.normal_cdf(np.float32([-1e30, 1e30, -np.inf, np.inf])).tolist() == [0, 1, 0, 1]


def test_strides_do_not_matter() -> None:
    x = GRID[:24].reshape(2, 3, 4).transpose(2, 0, 1)
    np.testing.assert_array_equal(kernels.normal_cdf(x), kernels.normal_cdf(x.copy()))


@pytest.mark.parametrize(
    ("kernel", "function", "argument"),
    [
        (kernels.expm1_negative, math.expm1, -np.abs(GRID)),
        (kernels.log1p_fraction, math.log1p, np.exp(-np.abs(GRID))),
        (kernels.softplus, lambda v: math.log1p(math.exp(v)), GRID),
    ],
)
def test_single_precision_keeps_its_digits(kernel: Any, function: Any, argument: Any) -> None:
    np.testing.assert_allclose(kernel(argument), exact(function, argument), rtol=5e-7)
