"""Subtracting the mean and dividing by the deviation, along some dimensions, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight.kernels.row_sums import total, total_of_products

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
    shape, ones = x.shape, [1 if d in dims else n for d, n in enumerate(x.shape)]
    dims, x, weight, bias = in_runs(dims, x, weight, bias)
    y, mean, variance = centered(x, dims, center)
    scale = 1 / np.sqrt(variance + x.dtype.type(eps))
    target = y if center else np.empty_like(x)
    for factor in factors(scale, weight, x.size):
        y = np.multiply(y, factor, target)
    if bias is not None:
        y += bias
    return y.reshape(shape), mean.reshape(ones), variance.reshape(ones)


def standardize_backward(
    g: Array, x: Array, weight: Array | None, dims: Dims, eps: float, center: bool
) -> tuple[Array, ...]:
    """The gradients of ``standardize(x, weight, bias)``, by ``x`` alone if there is no weight.

    With h = g * weight, r = 1 / sqrt(variance + eps) and z = (x - mean) * r, that by ``x`` is
    ``r * (h - mean(h) - z * mean(h * z))``.
    """
    shape = x.shape
    dims, x, g, weight = in_runs(dims, x, g, weight)
    z, _, variance = centered(x, dims, center)
    r = 1 / np.sqrt(variance + x.dtype.type(eps))
    share = x.dtype.type(variance.size / max(x.size, 1))
    sums: tuple[Array, ...] = ()
    if weight is None:
        y = g * r
        first, second = total(g, dims), total_of_products(g, z, dims) * r
    else:
        weight = weight.reshape((1,) * (x.ndim - weight.ndim) + weight.shape)
        alike = tuple([d for d in range(x.ndim) if weight.shape[d] == 1])
        inner = tuple([d for d in dims if d in alike])
        rest = tuple([d for d in dims if d not in alike])
        y = g * (r * weight) if inner else g * weight * r
        first, second = total(g, inner), total_of_products(g, z, inner)
        second *= r
        sums = total(second, alike), total(first, alike)
        first = total_of_products(first, weight, rest)
        second = total_of_products(second, weight, rest)
    y -= np.multiply(z, second * (r * r * share), z if center else None)
    if center:
        y -= first * (r * share)
    return (y.reshape(shape), *sums)


def in_runs(dims: Dims, x: Array, *others: Array | None) -> tuple[Any, ...]:
    """The arguments with the last dimensions as one, where all of them are summed over.

    Long runs go quicker than short ones.
    """
    first = x.ndim
    while first - 1 in dims:
        first -= 1
    count = x.ndim - first
    if count < 2 or not x.flags.c_contiguous:
        return dims, x, *others
    sizes = x.shape[first:], (1,) * count
    if any([a is not None and a.shape[-count:] not in sizes for a in others]):
        return dims, x, *others
    joined = [
        None if a is None else a.reshape(*a.shape[:-count], math.prod(a.shape[-count:]))
        for a in (x, *others)
    ]
    return tuple([d for d in dims if d <= first]), *joined


def centered(x: Array, dims: Dims, center: bool) -> tuple[Array, Array, Array]:
    """``x - mean``, the mean and the variance; unless ``center`` is set, ``x`` itself and zero."""
    mean = None
    if center:
        mean = total(x, dims)
        mean = mean * x.dtype.type(mean.size / max(x.size, 1))
        x = x - mean
    variance = total_of_products(x, x, dims)
    variance = variance * x.dtype.type(variance.size / max(x.size, 1))
    return x, np.zeros_like(variance) if mean is None else mean, variance


def factors(scale: Array, weight: Array | None, size: int) -> list[Array]:
    """``scale`` and ``weight``, as one factor if that is much smaller than ``size``."""
    if weight is None:
        return [scale]
    merged = np.broadcast(scale, weight).size * LARGER <= size
    return [scale * weight] if merged else [scale, weight]
