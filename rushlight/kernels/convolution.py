"""Convolution and its two gradients, in any number of dimensions.

One sum of products ties an input x, a weight w and an output y together, over images n, channels
c of the input and o of the output, places p of the output and k of the weight:

    Σ x[n, c, p · stride + k · dilation - padding] · w[o, c, k] · y[n, o, p]

Without the factor y it is the convolution of x and w, without x or without w a gradient of it. All
three are products of matrices, with the windows of x as columns.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from rushlight.kernels.engine import matmul
from rushlight.kernels.windows import (
    ALL,
    Array,
    Geometry,
    Place,
    Sizes,
    cropped,
    lay,
    seen,
    unfolded,
)

# Windows are gathered in blocks: large enough for BLAS to be quick, small enough for the cache.
BLOCK = 1 << 21  # elements
COLUMNS = 1024  # but not fewer columns than this
NARROW = 256  # below as many places, the images of a block are joined


def convolve(x: Array, w: Array, geometry: Geometry, count: Sizes) -> Array:
    """y with ``count`` places, where x is zero beyond its borders.

    >>> geometry = Geometry(stride=(1,), padding=(1,), dilation=(1,))
    >>> convolve(np.ones((1, 1, 3)), np.ones((1, 1, 3)), geometry, (3,))
    array([[[2., 3., 2.]]])
    """
    channels, joined = len(w), prod(count) < NARROW
    if not x.size:
        return np.zeros((len(x), channels, *count), x.dtype)
    y = np.empty((len(x), channels, *count), x.dtype)
    weights = matrices(np.ascontiguousarray(w), geometry.groups, channels, joined=True)
    for place, columns in windows(x, w.shape[2:], geometry, count, joined):
        part = y[place]
        if not joined and part.flags.c_contiguous:
            matmul(weights, columns, matrices(part, geometry.groups, channels, joined))
        else:
            rows = matmul(weights, columns)
            part[...] = images_first(rows.reshape(arranged(part, joined).shape), joined)
    return y


def convolve_weight(x: Array, y: Array, geometry: Geometry, kernel: Sizes) -> Array:
    """The gradient of w, with a given ``kernel``, from that of y."""
    groups, channels = geometry.groups, y.shape[1]
    shape = (channels, x.shape[1] // groups, *kernel)
    if not x.size or not y.size:
        return np.zeros(shape, x.dtype)
    joined = channels > groups * prod(y.shape[2:])
    w: Any = None
    for place, columns in windows(x, kernel, geometry, y.shape[2:], joined):
        rows = matrices(arranged(y[place], joined), groups, channels, joined)
        part = matmul(rows, columns.swapaxes(-1, -2))
        if not joined:
            part = part.sum(0) if len(part) > 1 else part[0]
        w = part if w is None else np.add(w, part, out=w)
    return w.reshape(shape)


def convolve_transposed(y: Array, w: Array, geometry: Geometry, size: Sizes) -> Array:
    """The gradient of x, of a given ``size``, from that of y."""
    kernel, count, groups = w.shape[2:], y.shape[2:], geometry.groups
    channels, taps = groups * w.shape[1], prod(kernel)
    if not y.size or not w.size:
        return np.zeros((len(y), channels, *size), y.dtype)
    gathered = len(y) * len(w) * taps * prod(size) + w.size
    laid = len(y) * channels * taps * prod(count)
    if max(geometry.stride) == 1 and gathered < 2 * laid:
        return convolve(y, *turned(w, geometry), size)
    joined = prod(count) < NARROW
    x = np.empty((len(y), channels, *size), y.dtype)
    weights = matrices(np.ascontiguousarray(w), groups, len(w), joined=True).swapaxes(1, 2)
    for images, places in blocks(len(y), channels * taps, count):
        block = arranged(y[images], joined)
        several, lead = len(y[images]), 1 if joined else 2
        reach = geometry.reach(kernel, count)
        wide = np.zeros(layout(several, channels, reach, joined), y.dtype)
        target = seen(wide, lead, kernel, geometry, count)
        for place in places:
            part = block[(ALL,) * lead + place]
            columns = matmul(weights, matrices(part, groups, len(w), joined))
            rows = (*kernel, *part.shape[lead : lead + len(kernel)])
            columns = columns.reshape(layout(several, channels, rows, joined))
            lay(target[(ALL,) * (lead + len(kernel)) + place], columns, lead, kernel)
        x[images] = images_first(cropped(wide, lead, geometry.padding, size), joined)
    return x


def turned(w: Array, geometry: Geometry) -> tuple[Array, Geometry]:
    """The weight and geometry whose convolution takes y's gradient to x's, if the stride is 1."""
    kernel, groups = w.shape[2:], geometry.groups
    grouped = w.reshape(groups, len(w) // groups, *w.shape[1:]).swapaxes(1, 2)
    flipped = np.flip(grouped, tuple(range(3, grouped.ndim)))
    weight = np.ascontiguousarray(flipped).reshape(groups * w.shape[1], len(w) // groups, *kernel)
    dims = zip(geometry.span(kernel), geometry.padding, strict=True)
    return weight, geometry._replace(padding=tuple([span - 1 - p for span, p in dims]))


def windows(
    x: Array, kernel: Sizes, geometry: Geometry, count: Sizes, joined: bool
) -> Iterator[tuple[Place, Array]]:
    """The windows of x, block by block: (where in y, the matrices of all groups).

    A matrix has a row for each channel of its group and place in the kernel, and a column for each
    place in y.
    """
    height, lead = x.shape[1] * prod(kernel), 1 if joined else 2
    for images, places in blocks(len(x), height, count):
        block = unfolded(arranged(x[images], joined), lead, kernel, geometry, count)
        for place in places:
            part = block[(ALL,) * (lead + len(kernel)) + place]
            yield (images, ALL, *place), matrices(part, geometry.groups, height, joined)


def layout(images: int, channels: int, places: Sizes, joined: bool) -> Sizes:
    """The shape of a block: joined images come last, which makes long runs of short rows."""
    return (channels, *places, images) if joined else (images, channels, *places)


def arranged(x: Array, joined: bool) -> Array:
    """Images (images, channels, …) in the layout of a block."""
    return x.transpose(*range(1, x.ndim), 0) if joined else x


def images_first(x: Array, joined: bool) -> Array:
    """The inverse of :func:`arranged`."""
    return x.transpose(x.ndim - 1, *range(x.ndim - 1)) if joined else x


def matrices(x: Array, groups: int, height: int, joined: bool) -> Array:
    """A block as matrices with ``height`` rows in all, one for each group (of each image)."""
    several = () if joined else x.shape[:1]
    return x.reshape(*several, groups, height // groups, -1)


@functools.lru_cache(maxsize=1024)
def blocks(images: int, height: int, count: Sizes) -> list[tuple[slice, list[Place]]]:
    """Images to take together, and the parts of y to compute at once for them.

    They follow from the sizes alone, so that a result does not depend on the number of threads.
    """
    if 0 in count:
        return []
    columns = max(COLUMNS, BLOCK // height)
    together = max(1, columns // prod(count))
    places = list(divided(count, columns))
    return [(slice(i, i + together), places) for i in range(0, images, together)]


def divided(count: Sizes, most: int) -> Iterator[Place]:
    """``count`` places in parts of about ``most``, cut in the outermost dimensions."""
    if not count:
        yield ()
        return
    step = max(1, most // prod(count[1:]))
    step = -(-count[0] // -(-count[0] // step))  # as equal as they can be
    for first in range(0, count[0], step):
        for rest in divided(count[1:], most):
            yield slice(first, first + step), *rest
