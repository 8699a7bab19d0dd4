"""Subtracting the mean and dividing by the deviation, along some dimensions, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight.kernels.summation import add_up, add_up_squares

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
    y, mean, variance = moments(x, dims, center)
    scale = 1 / np.sqrt(variance + x.dtype.type(eps))
    factors = [scale] if weight is None else merged(scale, weight, x)
    target = y if center else np.empty_like(x)
    for factor in factors:
        y = np.multiply(y, factor, target)
    if bias is not None:
        y += bias
    return y, mean, variance


def moments(x: Array, dims: Dims, center: bool) -> tuple[Array, Array, Array]:
    """``x - mean`` (a new array if ``center`` is set), the mean and the variance."""
    count = max(math.prod([x.shape[d] for d in dims]), 1)
    if center:
        mean = add_up(x, dims, keepdim=True) / x.dtype.type(count)
        x = x - mean
    variance = add_up_squares(x, dims, keepdim=True) / x.dtype.type(count)
    return x, mean if center else np.zeros_like(variance), variance


def merged(scale: Array, weight: Array, x: Array) -> list[Array]:
    """The factors ``scale`` and ``weight`` of ``x``, as one if their product is a small array."""
    shape = np.broadcast_shapes(scale.shape, weight.shape)
    return [scale * weight] if math.prod(shape) * LARGER <= x.size else [scale, weight]


def standardize_backward(
    g: Array, x: Array, weight: Array | None, dims: Dims, eps: float, center: bool
) -> tuple[Array, ...]:
    """The gradients of ``standardize(x, weight, bias)``, by ``x`` alone if there is no weight.

    With h = g * weight, r = 1 / sqrt(variance + eps) and z = (x - mean) * r, that by ``x`` is
    ``r * (h - mean(h) - z * mean(h * z))``.
    """
    z, _, variance = moments(x, dims, center)
    number = x.dtype.type
    scale = 1 / np.sqrt(variance + number(eps))
    z = np.multiply(z, scale, z if center else None)
    product = g * z
    if weight is None:
        y = g * scale
        first, second = total(g, dims), total(product, dims)
        sums: tuple[Array, ...] = ()
    else:
        weight = weight.reshape((1,) * (x.ndim - weight.ndim) + weight.shape)
        alike = tuple([d for d in range(x.ndim) if weight.shape[d] == 1])
        inner = tuple([d for d in dims if d in alike])
        rest = tuple([d for d in dims if d not in alike])
        first, second = total(g, inner), total(product, inner)
        sums = total(second, alike), total(first, alike)
        first, second = first * weight, second * weight
        y = first * scale if not inner else g * (scale * weight)
        first, second = total(first, rest), total(second, rest)
    share = scale / number(max(x.size // max(variance.size, 1), 1))
    z *= second * share
    y -= z
    if center:
        y -= first * share
    return (y, *sums)


def total(x: Array, dims: Dims) -> Array:
    """The sum over ``dims``, which stay with size 1; ``x`` itself if there are none."""
    return add_up(x, dims, keepdim=True) if dims else x
