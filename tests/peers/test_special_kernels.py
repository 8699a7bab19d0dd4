"""The special functions against PyTorch's, over wide ranges and at the special points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rushlight.kernels import special

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.peers

SIZE = 20_000
inf, nan = math.inf, math.nan

# The range of the arguments, and the absolute error allowed beside a relative one of 1e-12: that of
# PyTorch near zeros of the function, and of its tables for the oscillating ones.
UNARY: dict[str, tuple[float, float, float]] = {
    "erf": (-7, 7, 0),
    "erfc": (-7, 27, 1e-300),
    "erfcx": (-26, 100, 0),
    "erfinv": (-1, 1, 0),
    "ndtr": (-10, 10, 1e-15),
    "ndtri": (0, 1, 1e-14),
    "log_ndtr": (-100, 20, 1e-15),
    "lgamma": (-20, 200, 1e-12),
    "digamma": (-20, 200, 1e-11),
    "i0": (-300, 300, 0),
    "i0e": (-1000, 1000, 0),
    "i1": (-300, 300, 0),
    "i1e": (-1000, 1000, 0),
    "bessel_j0": (-100, 100, 1e-6),
    "bessel_j1": (-100, 100, 1e-6),
    "bessel_y0": (0, 100, 1e-6),
    "bessel_y1": (0, 100, 1e-6),
    "modified_bessel_i0": (-300, 300, 0),
    "modified_bessel_i1": (-300, 300, 0),
    "modified_bessel_k0": (0, 300, 0),
    "modified_bessel_k1": (0, 300, 0),
    "scaled_modified_bessel_k0": (0, 300, 0),
    "scaled_modified_bessel_k1": (0, 300, 0),
    "spherical_bessel_j0": (-100, 100, 1e-15),
    "airy_ai": (-30, 30, 5e-6),
    "sinc": (-30, 30, 1e-15),
    "logit": (0, 1, 1e-15),
    "entr": (0, 10, 1e-15),
}
# Their recurrences and sines lose digits in proportion to the degree.
POLYNOMIALS = [name for name in special.__all__ if "polynomial" in name]

POINTS = [0.0, -0.0, 0.5, 1.0, -1.0, -2.0, 720.0, -720.0, 1e300, -1e300, inf, -inf, nan]
# Where PyTorch computes inf / inf, sin(inf), or the sine of a rounded multiple of pi, ours is the
# limit; and odd functions keep the sign of zero.
LIMITS = {
    "i0": [inf, -inf],
    "i1": [inf, -inf, -0.0],
    "i1e": [-0.0],
    "modified_bessel_i0": [inf, -inf],
    "modified_bessel_i1": [inf, -inf, -0.0],
    "bessel_j0": [inf, -inf, 1e300, -1e300],
    "bessel_j1": [inf, -inf, 1e300, -1e300],
    "bessel_y0": [inf, 1e300],
    "bessel_y1": [inf, 1e300],
    "sinc": [1.0, -1.0, -2.0, 720.0, -720.0, 1e300, -1e300],
}


def theirs(name: str) -> Any:
    names = {"lgamma": "gammaln", "igamma": "gammainc", "igammac": "gammaincc"}
    return getattr(torch.special, names.get(name, name))


def assert_agree(name: str, *arguments: np.ndarray, rtol: float = 1e-12, atol: float = 0) -> None:
    """Ours equal theirs in float64; and in float32 theirs in float64, within four ulp."""
    expected = theirs(name)(*map(torch.from_numpy, arguments)).numpy()
    np.testing.assert_allclose(getattr(special, name)(*arguments), expected, rtol, atol)
    single = [a.astype(np.float32) for a in arguments]
    wide = [torch.from_numpy(a.astype(np.float64)) for a in single]
    expected = theirs(name)(*wide).to(torch.float32).numpy()
    actual = getattr(special, name)(*single)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, expected, max(rtol, 4 * 2**-23), max(atol, 2**-126))


@pytest.mark.parametrize("name", UNARY)
def test_of_one_argument(name: str) -> None:
    low, high, atol = UNARY[name]
    generator = np.random.default_rng(0)
    narrow = np.exp(generator.uniform(-60, 0, 1000))
    x = np.concatenate([generator.uniform(low, high, SIZE), narrow, -narrow if low < 0 else []])
    assert_agree(name, x, atol=atol)


@pytest.mark.parametrize("name", UNARY)
def test_special_points(name: str) -> None:
    x = np.array([p for p in POINTS if str(p) not in map(str, LIMITS.get(name, []))])
    actual, expected = getattr(special, name)(x), theirs(name)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=0)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("n", range(6))
def test_polygamma(n: int) -> None:
    x = np.random.default_rng(n).uniform(-6, 60, SIZE)
    x = x[np.abs(x - np.rint(x)) > 0.01]
    expected = torch.special.polygamma(n, torch.from_numpy(x)).numpy()
    # Left of zero, neighbouring poles of opposite sign cancel.
    scale = np.where(x < 0, math.factorial(n) / np.abs(x - np.rint(x)) ** (n + 1), 0)
    error = np.abs(special.polygamma(n, x) - expected)
    assert (error <= 1e-9 * np.abs(expected) + 1e-11 * scale).all()


def test_zeta() -> None:
    generator = np.random.default_rng(0)
    s = generator.uniform(1.01, 60, SIZE)
    q = np.exp(generator.uniform(-4, 8, SIZE))
    assert_agree("zeta", s, q, atol=1e-300)
    whole = np.rint(s[:1000]) + 1
    assert_agree("zeta", whole, generator.uniform(-0.9, -0.1, 1000), atol=1e-12)


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
def test_products(name: str) -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=SIZE), np.exp(generator.normal(size=SIZE))
    assert_agree(name, x, y, atol=1e-15)
    pairs = [v.ravel() for v in np.meshgrid(POINTS, POINTS)]
    expected = theirs(name)(*map(torch.from_numpy, pairs)).numpy()
    np.testing.assert_allclose(getattr(special, name)(*pairs), expected, rtol=1e-15)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma(name: str) -> None:
    generator = np.random.default_rng(0)
    a = np.exp(generator.uniform(-12, 10, SIZE))
    x = a * np.exp(generator.normal(size=SIZE))
    assert_agree(name, a, x, rtol=1e-8, atol=1e-13)
    points = np.array([0.0, 0.5, 1.0, -1.0, 720.0, 1e300, inf, -inf])
    pairs = [v.ravel() for v in np.meshgrid(points, points)]
    expected = theirs(name)(*map(torch.from_numpy, pairs)).numpy()
    np.testing.assert_allclose(getattr(special, name)(*pairs), expected, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str) -> None:
    generator = np.random.default_rng(0)
    x = np.concatenate([generator.uniform(-2, 2, SIZE), [0.0, 1.0, -1.0] * 100])
    n = generator.integers(-3, 25, x.size).astype(np.float64)
    expected = theirs(name)(torch.from_numpy(x), torch.from_numpy(n)).numpy()
    actual = getattr(special, name)(x, n)
    scale = np.maximum(1, np.abs(2 * x) + 1) ** np.maximum(n, 0)
    assert (np.abs(actual - expected) <= 1e-12 * np.abs(expected) + 1e-14 * scale).all()


@pytest.mark.parametrize("eps", [None, 0.0, 0.1, 0.7, -1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logit_clamps(eps: float | None, dtype: type) -> None:
    x = np.linspace(-0.1, 1.1, 101).astype(dtype)
    expected = torch.special.logit(torch.from_numpy(x), eps).numpy()
    tolerance = 1e-6 if dtype == np.float32 else 1e-14
    np.testing.assert_allclose(special.logit(x, eps), expected, tolerance, tolerance)
