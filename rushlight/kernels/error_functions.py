"""The error function, its relatives and inverses, and the normal distribution."""

import math
from functools import partial

import numpy as np

from rushlight.kernels import tables
from rushlight.kernels.elementwise import Array, elementwise, piecewise, polynomial, rational

_SQRT2 = math.sqrt(2)


def _erf_single(x: Array) -> Array:
    # z / sqrt(1 + z²) damps the rounding of z and cannot leave [-1, 1].
    x = np.minimum(np.maximum(x, -5), 5)
    t = x * x
    z = polynomial(tables.ERF_SINGLE, t)
    z *= x
    np.multiply(z, z, out=t)
    t += 1
    np.sqrt(t, out=t)
    z /= t
    return z


def _erf_small(x: Array) -> Array:
    return x * rational(tables.ERF, x * x)


def _exp_square(c: float, x: Array) -> Array:
    """exp(c x²) for x >= 0, as exact for large x as for small."""
    # The square of a number with 24 bits is exact; what it leaves of x² is tiny.
    x = np.minimum(x, 64)
    high = x.astype(np.float32).astype(np.float64)
    low = c * (x - high) * (x + high)
    return np.exp(c * high * high) * (1 + low * (1 + low / 2 * (1 + low / 3)))


def erfcx_positive(x: Array) -> Array:
    """exp(x²) erfc(x) for x >= 0, on a block."""
    return polynomial(tables.ERFCX, 1 - 8 / (x + 4)) / (1 + 2 * x)


def _erfc_tail(x: Array) -> Array:
    return _exp_square(-1.0, x) * erfcx_positive(x)


def _ndtr_tail(x: Array) -> Array:
    """1 - ndtr(x) for x >= 0."""
    return 0.5 * _exp_square(-0.5, x) * erfcx_positive(x / _SQRT2)


def _ndtr_center(x: Array) -> Array:
    return 0.5 + 0.5 * _erf_small(x / _SQRT2)


def _erfcinv(q: Array) -> Array:
    """The y with erfc(y) = q, for 0 <= q <= 1/2."""
    t = np.sqrt(-np.log(q))
    return piecewise(
        (t,),
        (t <= 4, lambda t: t + t * rational(tables.ERFCINV, t)),
        ((t > 4) & (t < np.inf), lambda t: t + t * rational(tables.ERFCINV_TAIL, t)),
        (t == np.inf, lambda t: t),
    )


def _erfinv_center(x: Array) -> Array:
    return x * rational(tables.ERFINV, x * x)


@partial(elementwise, native=True)
def erf(x: Array) -> Array:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t²) from 0 to x.

    Error: 3 ulp, in float32 4 ulp.

    >>> erf(np.array([0.0, 1.0, np.inf])).round(4)
    array([0.    , 0.8427, 1.    ])
    """
    if x.dtype == np.float32:
        return _erf_single(x)
    small = np.abs(x) < 1
    return piecewise(
        (x,),
        (small, _erf_small),
        (~small, lambda x: np.copysign(1 - _erfc_tail(np.abs(x)), x)),
    )


@elementwise
def erfc(x: Array) -> Array:
    """The complementary error function 1 - erf(x), accurate where it is tiny.

    Error: 4 ulp.

    >>> erfc(np.array([-np.inf, 0.0, 10.0]))
    array([2.00000000e+00, 1.00000000e+00, 2.08848758e-45])
    """
    return piecewise(
        (x,),
        (np.abs(x) < 0.5, lambda x: 1 - _erf_small(x)),
        (x >= 0.5, _erfc_tail),
        (x <= -0.5, lambda x: 2 - _erfc_tail(-x)),
    )


@elementwise
def erfcx(x: Array) -> Array:
    """The scaled complementary error function exp(x²) erfc(x).

    Error: 5 ulp.

    >>> erfcx(np.array([0.0, 1e10]))
    array([1.00000000e+00, 5.64189584e-11])
    """
    return piecewise(
        (x,),
        (x < 0, lambda x: 2 * _exp_square(1.0, -x) - erfcx_positive(-x)),
        (x >= 0, erfcx_positive),
    )


@elementwise
def erfinv(x: Array) -> Array:
    """The inverse of erf: infinite at -1 and 1, NaN beyond.

    Error: 4 ulp.

    >>> erfinv(np.array([-1.0, 0.0, 0.5])).round(4)
    array([  -inf, 0.    , 0.4769])
    """
    return piecewise(
        (x,),
        (np.abs(x) <= 0.5, _erfinv_center),
        (np.abs(x) > 0.5, lambda x: np.copysign(_erfcinv(1 - np.abs(x)), x)),
    )


@elementwise
def ndtr(x: Array) -> Array:
    """The distribution function of the standard normal law, erfc(-x / sqrt(2)) / 2.

    Error: 5 ulp, in both tails.

    >>> ndtr(np.array([-np.inf, 0.0, 1.0])).round(4)
    array([0.    , 0.5   , 0.8413])
    """
    return piecewise(
        (x,),
        (np.abs(x) < 0.5, _ndtr_center),
        (x >= 0.5, lambda x: 1 - _ndtr_tail(x)),
        (x <= -0.5, lambda x: _ndtr_tail(-x)),
    )


@elementwise
def log_ndtr(x: Array) -> Array:
    """log(ndtr(x)), finite far into the lower tail.

    Error: 4 ulp.

    >>> log_ndtr(np.array([-100.0, 0.0])).round(4)
    array([-5.0055242e+03, -6.9310000e-01])
    """
    return piecewise(
        (x,),
        (x < -1, lambda x: np.log(erfcx_positive(x / -_SQRT2) / 2) - x * x / 2),
        ((x >= -1) & (x < -0.5), lambda x: np.log(_ndtr_tail(-x))),
        (np.abs(x) <= 0.5, lambda x: np.log(_ndtr_center(x))),
        (x > 0.5, lambda x: np.log1p(-_ndtr_tail(x))),
    )


@elementwise
def ndtri(p: Array) -> Array:
    """The inverse of ndtr: infinite at 0 and 1, NaN outside.

    Error: 4 ulp.

    >>> ndtri(np.array([0.0, 0.5, 0.975])).round(4)
    array([-inf, 0.  , 1.96])
    """
    return piecewise(
        (p,),
        (np.abs(p - 0.5) <= 0.25, lambda p: _SQRT2 * _erfinv_center(2 * p - 1)),
        (p < 0.25, lambda p: -_SQRT2 * _erfcinv(2 * p)),
        (p > 0.75, lambda p: _SQRT2 * _erfcinv(2 * (1 - p))),
    )
