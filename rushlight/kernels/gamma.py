"""The gamma function's logarithm and derivatives, and the Hurwitz zeta function."""

import math
from functools import partial

import numpy as np

from rushlight.kernels import tables
from rushlight.kernels.elementwise import Array, elementwise, piecewise, rational, sinpi

_STIRLING_CONSTANT = (math.log(2 * math.pi) - 1) / 2
_DIGAMMA_ROOT = tables.ROOTS[0]
_DIRECT_TERMS = 10  # of the zeta function


def stirling_tail(x: Array) -> Array:
    """lgamma(x) less its elementary part, for x >= 4."""
    return rational(tables.STIRLING, 1 / (x * x)) / x


def lgamma1p(z: Array) -> Array:
    """lgamma(1 + z) for z >= 0, on a block; no digit of a small z is lost."""

    def large(z: Array) -> Array:
        x = z + 1
        return (x - 0.5) * (np.log(x) - 1) + (_STIRLING_CONSTANT + stirling_tail(x))

    return piecewise(
        (z,),
        # Adding zero turns the -0 at z = 0 into 0.
        (z < 3, lambda z: z * (z - 1) * rational(tables.LGAMMA, z) + 0.0),
        (z >= 3, large),
    )


def _lgamma_negative(x: Array) -> Array:
    return math.log(math.pi) - np.log(np.abs(sinpi(x))) - lgamma1p(-x)


@elementwise
def lgamma(x: Array) -> Array:
    """log|gamma(x)|: infinite at 0, -1, -2, …

    Error: 5 ulp for x > 0; for x < 0 absolute, as it changes sign between the poles.

    >>> lgamma(np.array([-1.0, 0.5, 1.0, 10.0])).round(4)
    array([    inf,  0.5724,  0.    , 12.8018])
    """
    return piecewise(
        (x,),
        (x >= 1, lambda x: lgamma1p(x - 1)),
        ((x >= 0) & (x < 1), lambda x: lgamma1p(x) - np.log(x)),
        ((x < 0) & (x > -np.inf), _lgamma_negative),
        (x == -np.inf, np.negative),
    )


def multigammaln_constant(p: int) -> float:
    """p (p - 1) / 4 log(pi): what the multivariate log-gamma function of dimension p adds.

    >>> multigammaln_constant(1)
    0.0
    """
    return p * (p - 1) / 4 * math.log(math.pi)


def _digamma_from_one(x: Array) -> Array:
    high, low = _DIGAMMA_ROOT

    def large(x: Array) -> Array:
        t = 1 / (x * x)
        return np.log(x) - 0.5 / x - t * rational(tables.DIGAMMA_TAIL, t)

    return piecewise(
        (x,), (x < 4, lambda x: (x - high - low) * rational(tables.DIGAMMA, x)), (x >= 4, large)
    )


def _digamma_negative(x: Array) -> Array:
    fraction = x - np.rint(x)
    y = _digamma_from_one(1 - x) - np.pi / np.tan(np.pi * fraction)
    return np.where(fraction == 0, np.nan, y)


@elementwise
def digamma(x: Array) -> Array:
    """The derivative of lgamma: -inf at 0, inf at -0, NaN at -1, -2, …

    Error: 5 ulp for x > 0, near the root 1.46 too; for x < 0 absolute.

    >>> digamma(np.array([0.0, 1.0, 2.0])).round(4)
    array([   -inf, -0.5772,  0.4228])
    """
    return piecewise(
        (x,),
        (x >= 1, _digamma_from_one),
        ((x >= 0) & (x < 1), lambda x: _digamma_from_one(1 + x) - 1 / x),
        (x < 0, _digamma_negative),
    )


def _trigamma_from_one(x: Array) -> Array:
    def large(x: Array) -> Array:
        t = 1 / (x * x)
        return (1 + t * rational(tables.TRIGAMMA_TAIL, t)) / x + t / 2

    return piecewise(
        (x,), (x < 4, lambda x: (1 + rational(tables.TRIGAMMA, x) / x) / x), (x >= 4, large)
    )


@elementwise
def trigamma(x: Array) -> Array:
    """The derivative of digamma: infinite at 0, -1, -2, …

    Error: 2 ulp for x > 0, else 5 ulp.

    >>> trigamma(np.array([0.0, 1.0])).round(4)
    array([   inf, 1.6449])
    """
    return piecewise(
        (x,),
        (x >= 1, _trigamma_from_one),
        ((x >= 0) & (x < 1), lambda x: _trigamma_from_one(1 + x) + 1 / (x * x)),
        (x < 0, lambda x: (np.pi / sinpi(x)) ** 2 - _trigamma_from_one(1 - x)),
    )


def _zeta_positive(s: Array | float, q: Array) -> Array:
    """The Euler–Maclaurin formula after the first terms of the sum, for s > 1 and q > 0."""
    total = np.power(q, -s)
    for k in range(1, _DIRECT_TERMS):
        total += np.power(q + k, -s)
    a = q + _DIRECT_TERMS
    term = np.power(a, -s)
    total += np.power(a, 1 - s) / (s - 1) + term / 2
    # With an exponent so high that this bound matters, the term itself has vanished.
    s = np.minimum(s, 1000)
    term = term * (s / a)
    for k, coefficient in enumerate(tables.EULER_MACLAURIN):
        total += coefficient * term
        term *= (s + (2 * k + 1)) * (s + (2 * k + 2)) / (a * a)
    return total


def _zeta_negative(s: Array | float, q: Array) -> Array:
    """The sum over both sides of zero, for integral s."""
    floor = np.floor(q)
    below = _zeta_positive(s, np.ceil(q) - q) - _zeta_positive(s, 1 - q)
    y = _zeta_positive(s, q - floor) + np.where(np.fmod(s, 2) == 0, below, -below)
    y = np.where(s == np.floor(s), y, np.nan)
    return np.where(q == floor, np.inf, y)


def _zeta(s: Array, q: Array) -> Array:
    return piecewise(
        (s, q),
        ((s > 1) & (q > 0), _zeta_positive),
        ((s > 1) & (q <= 0), _zeta_negative),
        (s == 1, lambda s, q: np.full_like(s, np.inf)),
    )


@elementwise
def zeta(s: Array, q: Array) -> Array:
    """The Hurwitz zeta function, the sum of (k + q)^-s over k = 0, 1, 2, …

    Infinite for s = 1 and for q = 0, -1, …; NaN for s < 1, and for other q < 0 unless s is
    integral. The derivative in q is -s zeta(s + 1, q). Error for q > 0: 4 + s / 2 ulp.

    >>> zeta(np.array([2.0, 1.0]), np.array([1.0, 1.0])).round(4)
    array([1.6449,    inf])
    """
    return _zeta(s, q)


def polygamma(n: int, x: Array) -> Array:
    """The n-th derivative of digamma, (-1)^(n + 1) n! zeta(n + 1, x) for n >= 1.

    >>> polygamma(2, np.array([1.0])).round(4)
    array([-2.4041])
    """
    if n == 0:
        return digamma(x)
    if n == 1:
        return trigamma(x)
    factor = (-1) ** (n + 1) * (float(math.factorial(n)) if n <= 170 else math.inf)
    above, below = partial(_zeta_positive, n + 1.0), partial(_zeta_negative, n + 1.0)
    return elementwise(lambda x: factor * piecewise((x,), (x > 0, above), (x <= 0, below)))(x)
