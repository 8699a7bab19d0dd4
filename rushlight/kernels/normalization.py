"""Subtracting the mean and dividing by the deviation, along some dimensions, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight.kernels.summation import ROW, add_up

Array = NDArray[Any]
Dims = tuple[int, ...]

LARGER = 4  # times that an array must be larger than a factor for the factor to be made first


def standardize(
    x: Array, weight: Array | None, bias: Array | None, dims: Dims, eps: float, center: bool
) -> tuple[Array, Array, Array]:
    """``(x - mean) / sqrt(variance + eps) * weight + bias``, the mean and the variance.

    Mean and variance are those over ``dims``; unless ``center`` is set, zero is taken for the mean.
    ``weight`` and ``bias`` broadcast against ``x``.

    >>> y, mean, variance = standardize(np.array([[1.0, 3.0]]), None, None, (1,), 0.0, True)
    >>> y, mean, variance
    (array([[-1.,  1.]]), array([[2.]]), array([[1.]]))
    """
    y, mean, variance = centered(x, dims, center)
    scale = 1 / np.sqrt(variance + x.dtype.type(eps))
    target = y if center else np.empty_like(x)
    for factor in factors(scale, weight, x.size):
        y = np.multiply(y, factor, target)
    if bias is not None:
        y += bias
    return y, mean, variance


def standardize_backward(
    g: Array, x: Array, weight: Array | None, dims: Dims, eps: float, center: bool
) -> tuple[Array, ...]:
    """The gradients of ``standardize(x, weight, bias)``, by ``x`` alone if there is no weight.

    With h = g * weight, r = 1 / sqrt(variance + eps) and z = (x - mean) * r, that by ``x`` is
    ``r * (h - mean(h) - z * mean(h * z))``.
    """
    z, _, variance = centered(x, dims, center)
    scale = 1 / np.sqrt(variance + x.dtype.type(eps))
    z = np.multiply(z, scale, z if center else None)
    share = scale * x.dtype.type(variance.size / max(x.size, 1))
    if weight is None:
        first, second, sums = total(g, dims), total(g * z, dims), ()
        y = g * scale
    else:
        weight = weight.reshape((1,) * (x.ndim - weight.ndim) + weight.shape)
        alike = tuple([d for d in range(x.ndim) if weight.shape[d] == 1])
        inner = tuple([d for d in dims if d in alike])
        rest = tuple([d for d in dims if d not in alike])
        first, second = total(g, inner), total(g * z, inner)
        sums = total(second, alike), total(first, alike)
        first, second = first * weight, second * weight
        y = g * (scale * weight) if inner else first * scale
        first, second = total(first, rest), total(second, rest)
    z *= second * share
    y -= z
    if center:
        y -= first * share
    return (y, *sums)


def centered(x: Array, dims: Dims, center: bool) -> tuple[Array, Array, Array]:
    """``x - mean``, the mean and the variance; unless ``center`` is set, ``x`` itself and zero."""
    mean = None
    if center:
        mean = total(x, dims)
        share = x.dtype.type(mean.size / max(x.size, 1))
        mean = mean * share
        x = x - mean
    variance = total_of_squares(x, dims)
    variance = variance * x.dtype.type(variance.size / max(x.size, 1))
    return x, np.zeros_like(variance) if mean is None else mean, variance


def factors(scale: Array, weight: Array | None, size: int) -> list[Array]:
    """``scale`` and ``weight``, as one factor if that is much smaller than ``size``."""
    if weight is None:
        return [scale]
    shape = np.broadcast_shapes(scale.shape, weight.shape)
    return [scale * weight] if math.prod(shape) * LARGER <= size else [scale, weight]


def total(x: Array, dims: Dims) -> Array:
    """The sum over ``dims``, which stay with size 1; ``x`` itself if there are none."""
    last = x.ndim - 1
    if last in dims and x.shape[last] <= ROW:
        x = np.einsum("...i->...", x)[..., None]
        dims = tuple([d for d in dims if d != last])
    return add_up(x, dims, keepdim=True) if dims else x


def total_of_squares(x: Array, dims: Dims) -> Array:
    """``total(x * x, dims)``."""
    last = x.ndim - 1
    if last in dims and x.shape[last] <= ROW:
        return total(np.vecdot(x, x)[..., None], tuple([d for d in dims if d != last]))
    return total(x * x, dims)
