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

import numpy as np

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
BLOCK = 1 << 19  # elements
COLUMNS = 1024  # but not fewer columns than this
NARROW = 256  # below as many columns, images share a matrix


def convolve(x: Array, w: Array, geometry: Geometry, count: Sizes) -> Array:
    """y with ``count`` places, where x is zero beyond its borders.

    >>> geometry = Geometry(stride=(1,), padding=(1,), dilation=(1,))
    >>> convolve(np.ones((1, 1, 3)), np.ones((1, 1, 3)), geometry, (3,))
    array([[[2., 3., 2.]]])
    """
    groups, channels = geometry.groups, len(w)
    y = np.empty((len(x), channels, *count), x.dtype)
    matrices = np.ascontiguousarray(w).reshape(groups, channels // groups, prod(w.shape[1:]))
    joined = prod(count) < NARROW
    for place, columns in windows(x, w.shape[2:], geometry, count, joined):
        part = y[place]
        if joined:
            rows = np.matmul(matrices, columns).reshape(channels, len(part), *part.shape[2:])
            part[...] = rows.swapaxes(0, 1)
        elif part.flags.c_contiguous:
            shape = (len(part), groups, channels // groups, columns.shape[3])
            np.matmul(matrices, columns, out=part.reshape(shape))
        else:
            part[...] = np.matmul(matrices, columns).reshape(part.shape)
    return y


def convolve_weight(x: Array, y: Array, geometry: Geometry, kernel: Sizes) -> Array:
    """The gradient of w, with a given ``kernel``, from that of y."""
    groups, channels = geometry.groups, y.shape[1]
    shape = (channels, x.shape[1] // groups, *kernel)
    joined = channels > groups * prod(y.shape[2:])
    w = None
    for place, columns in windows(x, kernel, geometry, y.shape[2:], joined):
        rows = y[place].swapaxes(0, 1) if joined else y[place]
        rows = rows.reshape(*columns.shape[:-2], channels // groups, columns.shape[-1])
        part = np.matmul(rows, columns.swapaxes(-1, -2))
        if not joined:
            part = part.sum(0) if len(part) > 1 else part[0]
        w = part if w is None else np.add(w, part, out=w)
    return np.zeros(shape, x.dtype) if w is None else w.reshape(shape)


def convolve_transposed(y: Array, w: Array, geometry: Geometry, size: Sizes) -> Array:
    """The gradient of x, of a given ``size``, from that of y."""
    kernel, count, groups = w.shape[2:], y.shape[2:], geometry.groups
    channels, taps = groups * w.shape[1], prod(kernel)
    gathered = len(y) * len(w) * taps * prod(size) + w.size
    laid = len(y) * channels * taps * prod(count)
    if max(geometry.stride) == 1 and gathered < 2 * laid:
        return convolve(y, *turned(w, geometry), size)
    x = np.empty((len(y), channels, *size), y.dtype)
    matrices = w.reshape(groups, len(w) // groups, prod(w.shape[1:])).swapaxes(1, 2)
    for images, places in blocks(len(y), channels * taps, count):
        block = y[images]
        wide = np.zeros((len(block), channels, *geometry.reach(kernel, count)), y.dtype)
        target = seen(wide, kernel, geometry, count)
        for place in places:
            part = block[(ALL, ALL, *place)]
            shape = (groups, len(w) // groups, len(part) * prod(part.shape[2:]))
            columns = np.matmul(matrices, part.swapaxes(0, 1).reshape(shape))
            columns = columns.reshape(channels, *kernel, len(part), *part.shape[2:])
            lay(target[(..., *place)], np.moveaxis(columns, len(kernel) + 1, 0), kernel)
        x[images] = cropped(wide, geometry.padding, size)
    return x


def turned(w: Array, geometry: Geometry) -> tuple[Array, Geometry]:
    """The weight and geometry whose convolution takes y's gradient to x's, if the stride is 1."""
    kernel, groups = w.shape[2:], geometry.groups
    grouped = w.reshape(groups, len(w) // groups, *w.shape[1:]).swapaxes(1, 2)
    flipped = np.flip(grouped, range(3, grouped.ndim))
    weight = np.ascontiguousarray(flipped).reshape(groups * w.shape[1], len(w) // groups, *kernel)
    dims = zip(geometry.span(kernel), geometry.padding, strict=True)
    return weight, geometry._replace(padding=tuple([span - 1 - p for span, p in dims]))


def windows(
    x: Array, kernel: Sizes, geometry: Geometry, count: Sizes, joined: bool
) -> Iterator[tuple[Place, Array]]:
    """The windows of x, block by block: (where in y, the matrices of all groups).

    A matrix has a row for each channel of its group and place in the kernel, and a column for each
    place in y. Each image of a block has matrices of its own, or they are joined.
    """
    groups, height, dims = geometry.groups, x.shape[1] * prod(kernel), len(kernel)
    for images, places in blocks(len(x), height, count):
        block = unfolded(x[images], kernel, geometry, count)
        several = len(block)
        if joined:
            block = block.transpose(*range(1, dims + 2), 0, *range(dims + 2, 2 * dims + 2))
        for place in places:
            part = block[(..., *place)]
            width = prod(part.shape[-dims:])
            if joined:
                columns = part.reshape(groups, height // groups, several * width)
            else:
                columns = part.reshape(several, groups, height // groups, width)
            yield (images, ALL, *place), columns


@functools.lru_cache(maxsize=1024)
def blocks(images: int, height: int, count: Sizes) -> list[tuple[slice, list[Place]]]:
    """Images to take together, and the parts of y to compute at once for them.

    They follow from the sizes alone, so that a result does not depend on the number of threads.
    """
    if not prod(count):
        return []
    columns = max(COLUMNS, BLOCK // max(height, 1))
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
