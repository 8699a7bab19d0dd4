"""Activation functions, where the obvious formula is slow or inexact in NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rushlight.kernels import tables
from rushlight.kernels.error_functions import ndtr
from rushlight.kernels.scalars import is_scalar

Array = NDArray[np.floating]

BLOCK = 1 << 15  # elements of which the temporaries stay in the cache
NEGATED_LOGIT = tuple(np.array(-c, np.float32) for c in tables.NDTR_SINGLE)


def normal_cdf(x: Array) -> Array:
    """The distribution function of the standard normal law: 1 / (1 + exp(-x p(x²))) in float32.

    Error: 2e-7; PyTorch's gelu is as far off. In float64 5 ulp.

    >>> normal_cdf(np.float32([-np.inf, 0.0, 1.0])).round(4)
    array([0.    , 0.5   , 0.8413], dtype=float32)
    """
    if x.dtype != np.float32:
        return ndtr(x)
    y = np.empty_like(x)
    source, target = x.ravel("K"), y.ravel("K")
    first, *middle, last = NEGATED_LOGIT
    for start in range(0, y.size, BLOCK):
        block = slice(start, start + BLOCK)
        x, z = source[block], target[block]
        t = x * x
        np.multiply(t, first, z)
        for c in middle:
            z += c
            z *= t
        z += last
        z *= x
        np.exp(z, z)
        z += 1
        np.reciprocal(z, z)
    return y


def expm1_negative(x: Array) -> Array:
    """exp(x) - 1 for x <= 0, as 2t / (1 - t) with t = tanh(x / 2): NumPy's expm1 is slow.

    >>> expm1_negative(np.float32([-np.inf, -1.0, 0.0])).round(4)
    array([-1.    , -0.6321,  0.    ], dtype=float32)
    """
    if x.dtype != np.float32 or is_scalar(x):
        return np.expm1(x)
    t = np.tanh(x * np.float32(0.5))
    return (t + t) / (1 - t)


def log1p_fraction(x: Array) -> Array:
    """log(1 + x) for 0 <= x <= 1, as log(u) less what the rounding of u = 1 + x added.

    >>> log1p_fraction(np.float32([0.0, 1e-10, 1.0])).tolist()
    [0.0, 1.000000013351432e-10, 0.6931471824645996]
    """
    if x.dtype != np.float32 or is_scalar(x):
        return np.log1p(x)
    u = x + np.float32(1)
    return np.log(u) - ((u - 1) - x) / u


def elu(x: Array, alpha: float, scale: float = 1.0, rate: float = 1.0) -> Array:
    """scale * max(0, x) + alpha * (exp(rate * min(0, x)) - 1).

    >>> elu(np.float32([-1.0, 2.0]), 1.0).round(4)
    array([-0.6321,  2.    ], dtype=float32)
    """
    number = x.dtype.type
    below = np.minimum(x, number(0))
    if rate != 1:
        below = below * number(rate)
    y = (expm1_negative if rate > 0 else np.expm1)(below)
    if alpha != 1:
        y = y * number(alpha)
    above = np.maximum(x, number(0))
    return y + (above * number(scale) if scale != 1 else above)


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), without overflow.

    >>> softplus(np.float32([-1.0, 0.0, 100.0])).round(4)
    array([  0.3133,   0.6931, 100.    ], dtype=float32)
    """
    return np.maximum(x, x.dtype.type(0)) + log1p_fraction(np.exp(-np.abs(x)))
