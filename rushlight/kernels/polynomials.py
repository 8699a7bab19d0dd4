"""Orthogonal polynomials of any degree.

The degree is an array too: it is rounded towards zero, and a negative, infinite or NaN degree gives
zero. Results overflow to NaN.
"""

from collections.abc import Callable

import numpy as np

from rushlight.kernels.elementwise import Array, Formula, elementwise, piecewise


def _whole(n: Array) -> Array:
    """The degree rounded towards zero, -1 if there is none."""
    return np.where(np.isfinite(n), np.trunc(n), -1)


def _recurrence(x: Array, n: Array, first: Array, step: Formula) -> Array:
    """The n-th of p(0) = 1, p(1) = first, p(k + 1) = step(k, p(k), p(k - 1))."""
    n = _whole(n)
    before, here = np.ones_like(x), first
    out = np.where(n > 0, first, n == 0)
    for k in range(1, int(n.max())):
        before, here = here, step(k, here, before)
        np.copyto(out, here, where=n > k)
        if k % 64 == 0 and np.isnan(here[n > k]).all():
            break
    return out


def _chebyshev(
    x: Array, n: Array, first: Array, wave: Formula, ends: Callable[[Array], tuple]
) -> Array:
    """Any of the four kinds.

    Args:
        first: the polynomial of degree one.
        wave: the polynomial in terms of n and arccos(x), for |x| < 1.
        ends: its absolute values at -1 and 1, in terms of n.
    """

    def at_ends(x: Array, n: Array) -> Array:
        left, right = ends(n)
        odd = np.fmod(n, 2) == 1
        return np.where(x > 0, right, np.where(odd, -left, left))

    def recur(x: Array, n: Array, first: Array) -> Array:
        return _recurrence(x, n, first, lambda k, here, before: 2 * x * here - before)

    n = _whole(n)
    inside = (np.abs(x) < 1) & (n > 8)
    edge = (np.abs(x) == 1) & (n >= 0)
    return piecewise(
        (x, n, first),
        (inside, lambda x, n, first: wave(n, np.arccos(x))),
        (edge, lambda x, n, first: at_ends(x, n)),
        (~inside & ~edge, recur),
    )


def _t(x: Array, n: Array) -> Array:
    def wave(n: Array, angle: Array) -> Array:
        return np.cos(n * angle)

    return _chebyshev(x, n, x, wave, lambda n: (1.0, 1.0))


def _u(x: Array, n: Array) -> Array:
    def wave(n: Array, angle: Array) -> Array:
        return np.sin((n + 1) * angle) / np.sin(angle)

    return _chebyshev(x, n, 2 * x, wave, lambda n: (n + 1, n + 1))


def _v(x: Array, n: Array) -> Array:
    def wave(n: Array, angle: Array) -> Array:
        return np.cos((n + 0.5) * angle) / np.cos(angle / 2)

    return _chebyshev(x, n, 2 * x - 1, wave, lambda n: (2 * n + 1, 1.0))


def _w(x: Array, n: Array) -> Array:
    def wave(n: Array, angle: Array) -> Array:
        return np.sin((n + 0.5) * angle) / np.sin(angle / 2)

    return _chebyshev(x, n, 2 * x + 1, wave, lambda n: (1.0, 2 * n + 1))


@elementwise
def chebyshev_polynomial_t(x: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the first kind, cos(n arccos(x)).

    >>> chebyshev_polynomial_t(np.array([0.5, 2.0]), np.array([2.0, 3.0]))
    array([-0.5, 26. ])
    """
    return _t(x, n)


@elementwise
def chebyshev_polynomial_u(x: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the second kind, sin((n + 1) c) / sin(c) with c = arccos(x).

    >>> chebyshev_polynomial_u(np.array([0.5, 2.0]), np.array([2.0, 3.0]))
    array([ 0., 56.])
    """
    return _u(x, n)


@elementwise
def chebyshev_polynomial_v(x: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the third kind, cos((n + 1/2) c) / cos(c / 2).

    >>> chebyshev_polynomial_v(np.array([0.5, 2.0]), np.array([2.0, 3.0]))
    array([-1., 41.])
    """
    return _v(x, n)


@elementwise
def chebyshev_polynomial_w(x: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the fourth kind, sin((n + 1/2) c) / sin(c / 2).

    >>> chebyshev_polynomial_w(np.array([0.5, 2.0]), np.array([2.0, 3.0]))
    array([ 1., 71.])
    """
    return _w(x, n)


@elementwise
def shifted_chebyshev_polynomial_t(x: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the first kind at 2x - 1.

    >>> shifted_chebyshev_polynomial_t(np.array([0.75]), np.array([2.0]))
    array([-0.5])
    """
    return _t(2 * x - 1, n)


@elementwise
def shifted_chebyshev_polynomial_u(x: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the second kind at 2x - 1.

    >>> shifted_chebyshev_polynomial_u(np.array([0.75]), np.array([3.0]))
    array([-1.])
    """
    return _u(2 * x - 1, n)


@elementwise
def shifted_chebyshev_polynomial_v(x: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the third kind at 2x - 1.

    >>> shifted_chebyshev_polynomial_v(np.array([0.75]), np.array([2.0]))
    array([-1.])
    """
    return _v(2 * x - 1, n)


@elementwise
def shifted_chebyshev_polynomial_w(x: Array, n: Array) -> Array:
    """The Chebyshev polynomial of the fourth kind at 2x - 1.

    >>> shifted_chebyshev_polynomial_w(np.array([0.75]), np.array([2.0]))
    array([1.])
    """
    return _w(2 * x - 1, n)


def _hermite(x: Array, n: Array, formula: Formula) -> Array:
    """Degrees beyond 512, or 128 in float32, are NaN rather than an overflowing loop."""
    limit = 128 if np.result_type(x, n) == np.float32 else 512
    beyond = np.isfinite(n) & (n >= limit + 1)
    y = elementwise(formula)(x, np.where(beyond, 0, n))
    return np.where(beyond, y.dtype.type(np.nan), y)


def hermite_polynomial_h(x: Array, n: Array) -> Array:
    """The physicists' Hermite polynomial, orthogonal for the weight exp(-x²).

    >>> hermite_polynomial_h(np.array([0.5, 2.0]), np.array([2.0, 3.0]))
    array([-1., 40.])
    """

    def formula(x: Array, n: Array) -> Array:
        def step(k: int, here: Array, before: Array) -> Array:
            return 2 * (x * here - k * before)

        return _recurrence(x, n, 2 * x, step)

    return _hermite(x, n, formula)


def hermite_polynomial_he(x: Array, n: Array) -> Array:
    """The probabilists' Hermite polynomial, orthogonal for the weight exp(-x² / 2).

    >>> hermite_polynomial_he(np.array([0.5, 2.0]), np.array([2.0, 3.0]))
    array([-0.75,  2.  ])
    """

    def formula(x: Array, n: Array) -> Array:
        def step(k: int, here: Array, before: Array) -> Array:
            return x * here - k * before

        return _recurrence(x, n, x, step)

    return _hermite(x, n, formula)


@elementwise
def laguerre_polynomial_l(x: Array, n: Array) -> Array:
    """The Laguerre polynomial, orthogonal for the weight exp(-x) on x > 0.

    >>> laguerre_polynomial_l(np.array([0.5, 2.0]), np.array([2.0, 1.0]))
    array([ 0.125, -1.   ])
    """

    def step(k: int, here: Array, before: Array) -> Array:
        return ((2 * k + 1 - x) * here - k * before) / (k + 1)

    return _recurrence(x, n, 1 - x, step)


@elementwise
def legendre_polynomial_p(x: Array, n: Array) -> Array:
    """The Legendre polynomial, orthogonal on [-1, 1].

    >>> legendre_polynomial_p(np.array([0.5, 2.0]), np.array([2.0, 3.0]))
    array([-0.125, 17.   ])
    """

    def step(k: int, here: Array, before: Array) -> Array:
        return ((2 * k + 1) * x * here - k * before) / (k + 1)

    return _recurrence(x, n, x, step)
