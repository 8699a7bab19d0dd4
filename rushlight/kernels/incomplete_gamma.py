"""The regularised incomplete gamma functions."""

from functools import partial

import numpy as np

from rushlight.kernels import tables
from rushlight.kernels.elementwise import Array, Formula, elementwise, piecewise, rational
from rushlight.kernels.error_functions import erfcx_positive
from rushlight.kernels.gamma import lgamma1p, stirling_tail

# A term that is smaller in proportion no longer changes a sum.
_EPSILON = 2.0**-54


def _weight(a: Array, x: Array) -> Array:
    """x^a exp(-x) / gamma(a + 1)."""

    def small(a: Array, x: Array) -> Array:
        x = np.minimum(x, 1000)
        return np.power(x, a) * np.exp(-x) * np.exp(-lgamma1p(a))

    def large(a: Array, x: Array) -> Array:
        ratio = x / a
        return np.exp(-a * (ratio - 1 - np.log(ratio)) - stirling_tail(a)) / np.sqrt(2 * np.pi * a)

    return piecewise((a, x), (a < 12, small), (a >= 12, large))


def _lower_series(a: Array, x: Array) -> Array:
    """P as a power series, which is quick for x <= a."""
    term = np.ones_like(a)
    total = np.ones_like(a)
    denominator = a.copy()
    while (term > _EPSILON * total).any():
        denominator += 1
        term *= x
        term /= denominator
        total += term
    return total * _weight(a, x)


def _upper_series(a: Array, x: Array) -> Array:
    """Q as a power series, for small x and a: no digit is lost as a tends to zero."""
    log_power = a * np.log(x) - lgamma1p(a)
    power = np.ones_like(a)
    total = np.zeros_like(a)
    for n in range(1, 24):
        power *= x / -n
        total -= power / (a + n)
    return a * np.exp(log_power) * total - np.expm1(log_power)


def _upper_fraction(levels: int, a: Array, x: Array) -> Array:
    """Q as a continued fraction, which is quick for x > a and large x."""
    y = x - a + (2 * levels + 1)
    for n in range(levels, 0, -1):
        y = n * (a - n) / y
        y += x - a + (2 * n - 1)
    return a * _weight(a, x) / y


def _smaller_tail(a: Array, x: Array) -> Array:
    """Q if x > a else P by Temme's uniform expansion, for a >= 12 and x near a.

    With h² / 2 = r - 1 - log(r), r = x / a, the tail is a normal one and a correction S:
    exp(-a h² / 2) (erfcx(|h| sqrt(a / 2)) / 2 ± S / sqrt(2 pi a)), where S is a power series
    in h whose coefficients obey a two-term recurrence downwards.
    """
    m = (x - a) / a
    s = m / (2 + m)
    half_square = s * m - 2 * s**3 * rational(tables.ATANH, s * s)
    h = np.copysign(np.sqrt(2 * half_square), m)
    above, here, total = np.zeros_like(a), np.zeros_like(a), np.zeros_like(a)
    for n in range(len(tables.TEMME) - 1, 0, -1):
        above *= n + 1
        above /= a
        above += tables.TEMME[n]
        above, here = here, above
        total *= h
        total += here
    correction = total * a / (a + above) / np.sqrt(2 * np.pi * a)
    normal = 0.5 * erfcx_positive(np.abs(h) * np.sqrt(a / 2))
    return np.exp(-a * half_square) * np.where(m > 0, normal + correction, normal - correction)


def _incomplete(a: Array, x: Array, upper: bool) -> Array:
    inside = (a > 0) & (x > 0) & (a < np.inf) & (x < np.inf)
    near = inside & (a >= 12) & (x > 0.3 * a) & (x < 2.35 * a)
    tiny = inside & (x <= 1.1) & (a < np.where(x <= 0.5, -0.4 / np.log(x), x))
    series = inside & ~near & ~tiny & ((x <= a) | (x <= 1.1))
    fraction = inside & ~near & ~tiny & ~series
    zero = ((x == 0) & (a > 0)) | ((a == np.inf) & (x >= 0) & (x < np.inf))
    one = ((a == 0) & (x > 0)) | ((x == np.inf) & (a >= 0) & (a < np.inf))

    def side(is_upper: bool, formula: Formula) -> Formula:
        return formula if is_upper == upper else lambda a, x: 1 - formula(a, x)

    def near_side(a: Array, x: Array) -> Array:
        tail = _smaller_tail(a, x)
        return np.where((x > a) == upper, tail, 1 - tail)

    return piecewise(
        (a, x),
        (near, near_side),
        (series, side(False, _lower_series)),
        (fraction & (x < 4), side(True, partial(_upper_fraction, 90))),
        (fraction & (x >= 4), side(True, partial(_upper_fraction, 30))),
        (tiny, side(True, _upper_series)),
        (zero, lambda a, x: np.full_like(a, float(upper))),
        (one, lambda a, x: np.full_like(a, float(not upper))),
    )


@elementwise
def igamma(a: Array, x: Array) -> Array:
    """The regularised lower incomplete gamma function P(a, x).

    P(a, x) = 1 / gamma(a) times the integral of t^(a - 1) exp(-t) from 0 to x; NaN for negative
    arguments. Its derivative in x is exp((a - 1) log(x) - x - lgamma(a)).
    Relative error: 1e-14 where P is not tiny, 1e-12 anywhere.

    >>> igamma(np.array([1.0, 1e4]), np.array([1.0, 1e4])).round(4)
    array([0.6321, 0.5013])
    """
    return _incomplete(a, x, upper=False)


@elementwise
def igammac(a: Array, x: Array) -> Array:
    """The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x).

    Relative error: 1e-14 where Q is not tiny, 1e-12 anywhere.

    >>> igammac(np.array([1.0, 2.0]), np.array([1.0, 50.0]))
    array([3.67879441e-01, 9.83662422e-21])
    """
    return _incomplete(a, x, upper=True)
