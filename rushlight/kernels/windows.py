"""Windows that slide over an array: seen, gathered, and laid back."""

from __future__ import annotations

import functools
from itertools import product
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]
Place = tuple[slice, ...]

ALL = slice(None)


class Geometry(NamedTuple):
    """Where windows lie, with a number for each dimension, and how channels are grouped.

    Place k of window p is the element p · stride + k · dilation - padding.
    """

    stride: Sizes
    padding: Sizes
    dilation: Sizes
    groups: int = 1

    def span(self, kernel: Sizes) -> Sizes:
        """How far a window extends."""
        return tuple([(k - 1) * d + 1 for k, d in zip(kernel, self.dilation, strict=True)])

    def reach(self, kernel: Sizes, count: Sizes) -> Sizes:
        """How far ``count`` windows extend from the first place of the first one."""
        dims = zip(count, self.stride, self.span(kernel), strict=True)
        return tuple([(n - 1) * s + span for n, s, span in dims])

    def count(self, kernel: Sizes, size: Sizes) -> Sizes:
        """How many windows there are in ``size`` elements with padding on both sides."""
        dims = zip(size, self.padding, self.span(kernel), self.stride, strict=True)
        return tuple([(n + 2 * p - span) // s + 1 for n, p, span, s in dims])


def seen(x: Array, kernel: Sizes, geometry: Geometry, count: Sizes) -> Array:
    """The windows of a contiguous padded x as a view: (images, channels, *kernel, *count)."""
    within = [step * d for step, d in zip(x.strides[2:], geometry.dilation, strict=True)]
    between = [step * s for step, s in zip(x.strides[2:], geometry.stride, strict=True)]
    shape, strides = (*x.shape[:2], *kernel, *count), (*x.strides[:2], *within, *between)
    return np.ndarray(shape, x.dtype, x, 0, strides)


def unfolded(x: Array, kernel: Sizes, geometry: Geometry, count: Sizes) -> Array:
    """The windows of x, zero beyond its borders, as a view: (images, channels, *kernel, *count).

    >>> geometry = Geometry(stride=(2,), padding=(1,), dilation=(1,))
    >>> unfolded(np.arange(3).reshape(1, 1, 3), (2,), geometry, (2,))
    array([[[[0, 1],
             [0, 2]]]])
    """
    frame = framed(x.shape[2:], kernel, geometry, count)
    if frame is None:
        return seen(np.ascontiguousarray(x), kernel, geometry, count)
    reach, inner, outer = frame
    wide = np.zeros((*x.shape[:2], *reach), x.dtype)
    wide[outer] = x[inner]
    return seen(wide, kernel, geometry, count)


@functools.lru_cache(maxsize=1024)
def framed(
    size: Sizes, kernel: Sizes, geometry: Geometry, count: Sizes
) -> tuple[Sizes, Place, Place] | None:
    """How far windows reach, what they see of x and where in it; None if x is all they reach."""
    reach, padding = geometry.reach(kernel, count), geometry.padding
    if not any(padding) and all([r <= n for r, n in zip(reach, size, strict=True)]):
        return None
    return reach, *overlap(size, padding, reach)


def folded(windows: Array, geometry: Geometry, size: Sizes) -> Array:
    """Windows (images, channels, *kernel, *count) laid over each other and summed.

    >>> geometry = Geometry(stride=(1,), padding=(0,), dilation=(1,))
    >>> folded(np.ones((1, 1, 3, 2)), geometry, (4,))
    array([[[1., 2., 2., 1.]]])
    """
    dims = len(size)
    kernel, count = windows.shape[2 : 2 + dims], windows.shape[2 + dims :]
    wide = np.zeros((*windows.shape[:2], *geometry.reach(kernel, count)), windows.dtype)
    lay(seen(wide, kernel, geometry, count), windows, kernel)
    return np.ascontiguousarray(cropped(wide, geometry.padding, size))


def lay(target: Array, windows: Array, kernel: Sizes) -> None:
    """Adds ``windows`` to those seen in ``target``: in one place of the kernel none overlap."""
    for place in product(*map(range, kernel)):
        target[(ALL, ALL, *place)] += windows[(ALL, ALL, *place)]


def cropped(wide: Array, padding: Sizes, size: Sizes) -> Array:
    """The ``size`` elements behind the padding, zero where ``wide`` ends before them."""
    inner, outer = overlap(size, padding, wide.shape[2:])
    part = wide[outer]
    if part.shape[2:] == size:
        return part
    x = np.zeros((*wide.shape[:2], *size), wide.dtype)
    x[inner] = part
    return x


def overlap(size: Sizes, padding: Sizes, reach: Sizes) -> tuple[Place, Place]:
    """Which of ``size`` elements windows can see, and where those are in what windows reach."""
    inner, outer = [ALL, ALL], [ALL, ALL]
    for n, p, r in zip(size, padding, reach, strict=True):
        first = max(0, -p)
        last = max(first, min(n, r - p))
        inner.append(slice(first, last))
        outer.append(slice(first + p, last + p))
    return tuple(inner), tuple(outer)
