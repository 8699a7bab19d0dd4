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

    def counts(self, kernel: Sizes, size: Sizes) -> Sizes:
        """How many windows there are in ``size`` elements with padding on both sides."""
        dims = zip(size, self.padding, self.span(kernel), self.stride, strict=True)
        return tuple([(n + 2 * p - span) // s + 1 for n, p, span, s in dims])


def seen(x: Array, lead: int, kernel: Sizes, geometry: Geometry, count: Sizes) -> Array:
    """The windows of a contiguous padded x as a view.

    The dimensions that windows slide over come after ``lead`` others; in their place stand those
    of the kernel and those of the windows.
    """
    end = lead + len(kernel)
    steps = x.strides[lead:end]
    within = [step * d for step, d in zip(steps, geometry.dilation, strict=True)]
    between = [step * s for step, s in zip(steps, geometry.stride, strict=True)]
    shape = (*x.shape[:lead], *kernel, *count, *x.shape[end:])
    strides = (*x.strides[:lead], *within, *between, *x.strides[end:])
    return np.ndarray(shape, x.dtype, x, 0, strides)


def unfolded(x: Array, lead: int, kernel: Sizes, geometry: Geometry, count: Sizes) -> Array:
    """The windows of x, zero beyond its borders, as a view; see :func:`seen`.

    >>> geometry = Geometry(stride=(2,), padding=(1,), dilation=(1,))
    >>> unfolded(np.array([1, 2, 3]), 0, (2,), geometry, (2,))
    array([[0, 2],
           [1, 3]])
    """
    frame = framed(lead, x.shape[lead : lead + len(kernel)], kernel, geometry, count)
    if frame is None:
        return seen(np.ascontiguousarray(x), lead, kernel, geometry, count)
    reach, inner, outer = frame
    wide = np.zeros((*x.shape[:lead], *reach, *x.shape[lead + len(kernel) :]), x.dtype)
    wide[outer] = x[inner]
    return seen(wide, lead, kernel, geometry, count)


@functools.lru_cache(maxsize=1024)
def framed(
    lead: int, size: Sizes, kernel: Sizes, geometry: Geometry, count: Sizes
) -> tuple[Sizes, Place, Place] | None:
    """How far windows reach, what they see of x and where in it; None if x is all they reach."""
    reach, padding = geometry.reach(kernel, count), geometry.padding
    if not any(padding) and all([r <= n for r, n in zip(reach, size, strict=True)]):
        return None
    return reach, *overlap(lead, size, padding, reach)


def folded(windows: Array, lead: int, geometry: Geometry, size: Sizes) -> Array:
    """Windows, as :func:`seen` shows them, laid over each other and summed.

    >>> geometry = Geometry(stride=(1,), padding=(0,), dilation=(1,))
    >>> folded(np.ones((3, 2)), 0, geometry, (4,))
    array([1., 2., 2., 1.])
    """
    end = lead + 2 * len(size)
    kernel, count = windows.shape[lead : lead + len(size)], windows.shape[lead + len(size) : end]
    reach = geometry.reach(kernel, count)
    wide = np.zeros((*windows.shape[:lead], *reach, *windows.shape[end:]), windows.dtype)
    lay(seen(wide, lead, kernel, geometry, count), windows, lead, kernel)
    return np.ascontiguousarray(cropped(wide, lead, geometry.padding, size))


def lay(target: Array, windows: Array, lead: int, kernel: Sizes) -> None:
    """Adds ``windows`` to those seen in ``target``: in one place of the kernel none overlap."""
    for place in product(*map(range, kernel)):
        there: Any = (*[ALL] * lead, *place)
        target[there] += windows[there]


def cropped(wide: Array, lead: int, padding: Sizes, size: Sizes) -> Array:
    """The ``size`` elements behind the padding, zero where ``wide`` ends before them."""
    end = lead + len(size)
    inner, outer = overlap(lead, size, padding, wide.shape[lead:end])
    part = wide[outer]
    if part.shape[lead:end] == size:
        return part
    x = np.zeros((*part.shape[:lead], *size, *part.shape[end:]), part.dtype)
    x[inner] = part
    return x


def overlap(lead: int, size: Sizes, padding: Sizes, reach: Sizes) -> tuple[Place, Place]:
    """Which of ``size`` elements windows can see, and where those are in what windows reach."""
    inner, outer = [ALL] * lead, [ALL] * lead
    for n, p, r in zip(size, padding, reach, strict=True):
        first = max(0, -p)
        last = max(first, min(n, r - p))
        inner.append(slice(first, last))
        outer.append(slice(first + p, last + p))
    return tuple(inner), tuple(outer)
