"""Bessel functions of orders zero and one, and the Airy function."""

import math

import numpy as np

from rushlight.kernels import tables
from rushlight.kernels.elementwise import (
    Array,
    Formula,
    Polynomial,
    Rational,
    elementwise,
    piecewise,
    polynomial,
    rational,
)

_, _J0_ROOT, _J1_ROOT, _AIRY_ROOT = tables.ROOTS


def _i0_small(x: Array) -> Array:
    return polynomial(tables.I0, x * x)


def _i1_small(x: Array) -> Array:
    return x * polynomial(tables.I1, x * x)


def _i_scaled(small: Formula, tail: Polynomial, x: Array) -> Array:
    """exp(-x) times the function, for x >= 0."""
    return piecewise(
        (x,),
        (x < 8, lambda x: np.exp(-x) * small(x)),
        (x >= 8, lambda x: polynomial(tail, 16 / x - 1) / np.sqrt(x)),
    )


def _i(small: Formula, tail: Polynomial, x: Array) -> Array:
    def large(x: Array) -> Array:
        # exp(x) alone overflows before the product does; nothing is finite beyond 1000.
        x = np.minimum(x, 1000)
        root = np.exp(x / 2)
        return root * polynomial(tail, 16 / x - 1) / np.sqrt(x) * root

    return piecewise((x,), (x < 8, small), (x >= 8, large))


@elementwise
def i0(x: Array) -> Array:
    """The modified Bessel function of the first kind, of order zero. Error: 4 ulp.

    >>> i0(np.array([0.0, 1.0])).round(4)
    array([1.    , 1.2661])
    """
    return _i(_i0_small, tables.I0_TAIL, np.abs(x))


@elementwise
def i0e(x: Array) -> Array:
    """exp(-|x|) i0(x). Error: 4 ulp.

    >>> i0e(np.array([0.0, 1.0])).round(4)
    array([1.    , 0.4658])
    """
    return _i_scaled(_i0_small, tables.I0_TAIL, np.abs(x))


@elementwise
def i1(x: Array) -> Array:
    """The modified Bessel function of the first kind, of order one. Error: 4 ulp.

    >>> i1(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.5652])
    """
    return np.copysign(_i(_i1_small, tables.I1_TAIL, np.abs(x)), x)


@elementwise
def i1e(x: Array) -> Array:
    """exp(-|x|) i1(x). Error: 4 ulp.

    >>> i1e(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.2079])
    """
    return np.copysign(_i_scaled(_i1_small, tables.I1_TAIL, np.abs(x)), x)


modified_bessel_i0 = i0
modified_bessel_i1 = i1


def _log(x: Array) -> Array:
    """log(x), finite at zero where a vanishing factor follows."""
    return np.log(np.maximum(x, 1e-300))


def _k0_small(x: Array) -> Array:
    return polynomial(tables.K0, x * x) - np.log(x / 2) * _i0_small(x)


def _k1_small(x: Array) -> Array:
    return x * polynomial(tables.K1, x * x) + _log(x / 2) * _i1_small(x) + 1 / np.abs(x)


def _k_tail(table: Rational, x: Array) -> Array:
    """exp(x) times the function, for x >= 1."""
    t = 1 / x
    return (math.sqrt(np.pi / 2) + t * rational(table, t)) * np.sqrt(t)


def _k(small: Formula, table: Rational, x: Array) -> Array:
    return piecewise(
        (x,),
        ((x >= 0) & (x <= 1), small),
        (x > 1, lambda x: np.exp(-x) * _k_tail(table, x)),
    )


def _k_scaled(small: Formula, table: Rational, x: Array) -> Array:
    return piecewise(
        (x,),
        ((x >= 0) & (x <= 1), lambda x: np.exp(x) * small(x)),
        (x > 1, lambda x: _k_tail(table, x)),
    )


@elementwise
def modified_bessel_k0(x: Array) -> Array:
    """The modified Bessel function of the second kind, of order zero. Error: 4 ulp.

    Infinite at zero, NaN below.

    >>> modified_bessel_k0(np.array([0.0, 1.0])).round(4)
    array([  inf, 0.421])
    """
    return _k(_k0_small, tables.K0_TAIL, x)


@elementwise
def modified_bessel_k1(x: Array) -> Array:
    """The modified Bessel function of the second kind, of order one. Error: 4 ulp.

    Infinite at zero, NaN below.

    >>> modified_bessel_k1(np.array([0.0, 1.0])).round(4)
    array([   inf, 0.6019])
    """
    return _k(_k1_small, tables.K1_TAIL, x)


@elementwise
def scaled_modified_bessel_k0(x: Array) -> Array:
    """exp(x) modified_bessel_k0(x). Error: 4 ulp.

    >>> scaled_modified_bessel_k0(np.array([0.0, 1.0])).round(4)
    array([   inf, 1.1445])
    """
    return _k_scaled(_k0_small, tables.K0_TAIL, x)


@elementwise
def scaled_modified_bessel_k1(x: Array) -> Array:
    """exp(x) modified_bessel_k1(x). Error: 4 ulp.

    >>> scaled_modified_bessel_k1(np.array([0.0, 1.0])).round(4)
    array([   inf, 1.6362])
    """
    return _k_scaled(_k1_small, tables.K1_TAIL, x)


def _j0_small(x: Array) -> Array:
    root, rest = _J0_ROOT
    # Rounding may step over one near zero.
    return np.minimum((x - root - rest) * (x + root) * rational(tables.J0, x * x), 1)


def _j1_small(x: Array) -> Array:
    root, rest = _J1_ROOT
    return x * (x - root - rest) * (x + root) * rational(tables.J1, x * x)


def _y0_small(x: Array) -> Array:
    return rational(tables.Y0, x * x) + 2 / np.pi * np.log(x) * _j0_small(x)


def _y1_small(x: Array) -> Array:
    return x * rational(tables.Y1, x * x) + 2 / np.pi * (_log(x) * _j1_small(x) - 1 / np.abs(x))


def _wave(p: Rational, q: Rational, cosine: Array, sine: Array, x: Array) -> Array:
    """(P cosine - Q / x sine) / sqrt(pi x), zero at infinity."""
    t = 1 / (x * x)
    y = rational(p, t) * cosine - rational(q, t) / x * sine
    return np.where(x == np.inf, 0, y / np.sqrt(np.pi * x))


def _j0_large(x: Array) -> Array:
    # With c = x - pi / 4, sqrt(2) cos(c) = cos(x) + sin(x) and sqrt(2) sin(c) = sin(x) - cos(x).
    sine, cosine = np.sin(x), np.cos(x)
    return _wave(tables.HANKEL0_P, tables.HANKEL0_Q, cosine + sine, sine - cosine, x)


def _y0_large(x: Array) -> Array:
    sine, cosine = np.sin(x), np.cos(x)
    return _wave(tables.HANKEL0_P, tables.HANKEL0_Q, sine - cosine, -cosine - sine, x)


def _j1_large(x: Array) -> Array:
    sine, cosine = np.sin(x), np.cos(x)
    return _wave(tables.HANKEL1_P, tables.HANKEL1_Q, sine - cosine, -cosine - sine, x)


def _y1_large(x: Array) -> Array:
    sine, cosine = np.sin(x), np.cos(x)
    return _wave(tables.HANKEL1_P, tables.HANKEL1_Q, -cosine - sine, cosine - sine, x)


@elementwise
def bessel_j0(x: Array) -> Array:
    """The Bessel function of the first kind, of order zero.

    Error: 4 ulp of the envelope min(1, sqrt(2 / (pi x))).

    >>> bessel_j0(np.array([0.0, 1.0])).round(4)
    array([1.    , 0.7652])
    """
    x = np.abs(x)
    return piecewise((x,), (x < 4, _j0_small), (x >= 4, _j0_large))


@elementwise
def bessel_j1(x: Array) -> Array:
    """The Bessel function of the first kind, of order one.

    Error: 4 ulp of the envelope min(1, sqrt(2 / (pi x))).

    >>> bessel_j1(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.4401])
    """
    a = np.abs(x)
    y = piecewise((a,), (a < 4, _j1_small), (a >= 4, _j1_large))
    return np.where(np.signbit(x), -y, y)


@elementwise
def bessel_y0(x: Array) -> Array:
    """The Bessel function of the second kind, of order zero: -inf at zero, NaN below.

    Error: 6 ulp of the envelope, as of J0.

    >>> bessel_y0(np.array([0.0, 1.0])).round(4)
    array([  -inf, 0.0883])
    """
    return piecewise((x,), ((x >= 0) & (x < 4), _y0_small), (x >= 4, _y0_large))


@elementwise
def bessel_y1(x: Array) -> Array:
    """The Bessel function of the second kind, of order one: -inf at zero, NaN below.

    Error: 6 ulp of the envelope, as of J1.

    >>> bessel_y1(np.array([0.0, 1.0])).round(4)
    array([   -inf, -0.7812])
    """
    return piecewise((x,), ((x >= 0) & (x < 4), _y1_small), (x >= 4, _y1_large))


@elementwise
def spherical_bessel_j0(x: Array) -> Array:
    """sin(x) / x, one at zero and zero at infinity. Error: 2 ulp.

    >>> spherical_bessel_j0(np.array([0.0, np.pi / 2])).round(4)
    array([1.    , 0.6366])
    """
    return np.where(x == 0, 1, np.where(np.isinf(x), 0, np.sin(x) / x))


def _airy_center(x: Array) -> Array:
    root, rest = _AIRY_ROOT
    return (x - root - rest) * rational(tables.AIRY, x + 1)


def _airy_decay(x: Array) -> Array:
    root = np.sqrt(x)
    z = 2 / 3 * x * root
    y = np.exp(-z) * (1 + rational(tables.AIRY_TAIL, 1 / z) / z)
    return y / (2 * math.sqrt(np.pi) * np.sqrt(root))


def _airy_wave(x: Array) -> Array:
    root = np.sqrt(-x)
    z = -2 / 3 * x * root
    t = 1 / (z * z)
    sine, cosine = np.sin(z), np.cos(z)
    y = rational(tables.AIRY_F, t) * (sine + cosine)
    y += rational(tables.AIRY_G, t) / z * (sine - cosine)
    return y / (math.sqrt(2 * np.pi) * np.sqrt(root))


@elementwise
def airy_ai(x: Array) -> Array:
    """The Airy function Ai, the solution of y'' = x y that vanishes for large x; NaN at infinity.

    Error: 7 ulp for |x| < 3; beyond, the rounding of z = 2/3 |x|^(3/2) adds 2z ulp to the value
    for x > 0 and to the phase for x < 0.

    >>> airy_ai(np.array([0.0, 1.0])).round(4)
    array([0.355 , 0.1353])
    """
    return piecewise(
        (x,),
        ((x > -3) & (x < 1), _airy_center),
        ((x >= 1) & (x < np.inf), _airy_decay),
        (x <= -3, _airy_wave),
    )
