"""``a * b + c`` rounded once, as the processor's fused instruction rounds it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def multiply_add(
    a: NDArray[np.float32], b: NDArray[np.float32] | float, c: NDArray[np.float32] | float
) -> NDArray[np.float32]:
    """``a * b + c`` in float32; float64 holds the product exactly.

    The sum is rounded to float64 first, which changes the result about once in a billion times:
    never with the operands of the Box-Muller transform, and :func:`affine` mends it.

    >>> x = np.float32([1 + 2**-12])
    >>> x * x - x, multiply_add(x, x, -x)
    (array([0.00024414], dtype=float32), array([0.0002442], dtype=float32))
    """
    wide = a.astype(np.float64)
    wide *= b
    wide += c
    return wide.astype(np.float32)


def affine(x: NDArray[Any], scale: float, shift: float) -> NDArray[Any]:
    """``x * scale + shift`` of a float32 or float64 array, which may be overwritten.

    >>> affine(np.array([0.1, 0.2]), 3.0, -0.3)
    array([2.77555756e-17, 3.00000000e-01])
    """
    if shift == 0 or abs(math.frexp(scale)[0]) == 0.5:  # a power of two multiplies exactly
        if scale != 1:
            x *= scale
        x += shift
        return x
    if x.dtype == np.float32:
        product = x * np.float64(scale)
        total = product + shift
        # Halfway between two numbers of float32, what was rounded off decides.
        middle = np.flatnonzero(total.view(np.int64) & _REST == _HALF)
        if len(middle):
            sums = total[middle]
            error = _sum_error(product[middle], shift, sums)
            beyond = np.where(error == 0, sums, np.copysign(np.inf, error))
            total[middle] = np.nextafter(sums, beyond)
        return total.astype(np.float32)
    # Both rounding errors are known exactly (Dekker's product, Knuth's sum) and are added last.
    product = x * scale
    total = product + shift
    total += _product_error(x, scale, product) + _sum_error(product, shift, total)
    return total


# Bits of a float64 that float32 has no room for, and the first of them.
_REST, _HALF = np.array([(1 << 29) - 1, 1 << 28])


def _sum_error(a: NDArray[np.float64], b: float, total: NDArray[np.float64]) -> NDArray[np.float64]:
    """``a + b - total``, for the rounded sum."""
    part = total - a
    return (a - (total - part)) + (b - part)


def _product_error(
    x: NDArray[np.float64], scale: float, product: NDArray[np.float64]
) -> NDArray[np.float64]:
    """``x * scale - product``, by way of halves short enough to multiply exactly."""
    mantissa, exponent = math.frexp(scale)
    high, low = (math.ldexp(half, exponent) for half in _halves(mantissa))
    x_high, x_low = _halves(x)
    return ((x_high * high - product) + x_high * low + x_low * high) + x_low * low


def _halves(x: Any) -> tuple[Any, Any]:
    """Two numbers of 26 bits each whose sum is ``x``."""
    shifted = 134217729.0 * x
    high = shifted - (shifted - x)
    return high, x - high
