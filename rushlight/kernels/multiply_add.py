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
        return multiply_add(x, scale, shift)
    # Both rounding errors are known exactly (Dekker's product, Knuth's sum) and are added last.
    product = x * scale
    total = product + shift
    part = total - product
    error = _product_error(x, scale, product)
    error += (product - (total - part)) + (shift - part)
    total += error
    return total


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
