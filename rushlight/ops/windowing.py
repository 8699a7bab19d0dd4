"""Rules of code generation for windows that slide over some dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.dims import at_least, is_known
from rushlight.kernels.pooling import Window, Windows, holdings, hollow
from rushlight.ops.elements import Index, among, chosen, flat, replaced, wide

_INT64 = np.dtype(np.int64)


def places(b: Any, own: Index, windows: Windows, ks: Index) -> list[Any]:
    """Where in its plane position ``ks`` of the window of result ``own`` is; perhaps outside."""
    return [
        b.position(o * w.stride + k * w.dilation - w.padding)
        for o, k, w in zip(own, ks, windows, strict=True)
    ]


def window_sum(b: Any, i: Index, x: Any, windows: Windows, dims: Sequence[int]) -> Any:
    """The sum of the elements of the window of result ``i``."""
    own = [i[d] for d in dims]

    def term(*ks: Any) -> Any:
        there = places(b, own, windows, ks)
        sides = zip(there, windows, strict=True)
        holds = [c for j, w in sides for c in (j >= 0, j < w.length)]
        index = replaced(i, dims, there)
        return chosen(b, holds, x, index, lambda: b.constant(0, x.kind), wide)

    return b.sum([w.size for w in windows], term)


def window_spread(
    b: Any, i: Index, windows: Windows, dims: Sequence[int], share: Callable[..., Any]
) -> Any:
    """The sum of ``share(index, ks)`` over results that hold element ``i``, at position ``ks``."""
    own = [b.position(i[d]) for d in dims]

    def term(*ts: Any) -> Any:
        conditions: list[Any] = []
        there, ks = [], []
        for j, t, w in zip(own, ts, windows, strict=True):
            result = (j + w.padding) // w.stride - t
            offset = b.position((j + w.padding) % w.stride + t * w.stride)
            conditions += [result >= 0, result < w.outputs, offset <= (w.size - 1) * w.dilation]
            conditions.append((offset % w.dilation).eq(0))
            there.append(result)
            ks.append(offset // w.dilation)
        holds = among(b, conditions)
        safe, within = [[b.within(holds, j) for j in part] for part in (there, ks)]
        return b.where(holds, share(replaced(i, dims, safe), within), 0)

    return b.sum([w.reach + 1 for w in windows], term)


def held(b: Any, own: Index, windows: Windows, padded: bool) -> Any:
    """How many elements the window of result ``own`` of a plane holds; see ``holdings``."""
    total: Any = 1
    for o, w in zip(own, windows, strict=True):
        begin = b.position(o * w.stride - w.padding)
        end = b.min(begin + w.size, w.length + w.padding)
        if not padded:
            begin, end = b.max(begin, 0), b.min(end, w.length)
        total = total * (end - begin)
    return total


def shared(b: Any, x: Any, own: Index, windows: Windows, padded: bool, divisor: Any) -> Any:
    """``x`` divided by ``divisor``, else by how many elements the window of ``own`` holds."""
    if divisor is None:
        known = is_known([n for w in windows for n in (w.length, w.outputs)])
        counts = holdings(windows, padded, _INT64) if known else None
        if counts is None or counts.ndim:
            count = held(b, own, windows, padded).cast(x.kind)
        else:
            count = b.constant(int(counts), x.kind)
    else:
        count = b.constant(divisor, x.kind)
    return x / count if x.is_float else b.binary("idiv", x, count)


def largest_in_window(
    b: Any, i: Index, x: Any, windows: Windows, dims: Sequence[int]
) -> tuple[Any, Any]:
    """The largest element of the window of result ``i``, and its place in the plane.

    What a window holds of the padding is taken to be its nearest element inside, so that nothing
    that is not there can be found. Of equal elements the first counts, of NaN the last.
    """
    own = [i[d] for d in dims]
    sides = [sides_of(b, o, w) for o, w in zip(own, windows, strict=True)]

    def position(*ks: Any) -> list[Any]:
        there = places(b, own, windows, ks)
        return [
            j if ends is None else b.max(b.min(b.max(j, ends[0]), ends[1]), 0)
            for j, ends in zip(there, sides, strict=True)
        ]

    sizes, plane = [w.size for w in windows], [w.length for w in windows]
    best, place = first_largest(b, i, x, sizes, plane, dims, position)
    if hollow(windows) is None:
        return best, place
    firsts = [first_inside(b, o, w) for o, w in zip(own, windows, strict=True)]
    holds = among(b, [j < n for j, n in zip(firsts, plane, strict=True)])
    outside = b.position(flat(firsts, plane))
    least = (
        -np.inf if best.is_float else 0 if best.kind[0] == "u" else -(1 << int(best.kind[1:]) - 1)
    )
    return b.where(holds, best, least), b.where(holds, place, outside)


def first_inside(b: Any, o: Any, w: Window) -> Any:
    """The first position of window ``o`` that is not before the plane."""
    begin = b.position(o * w.stride - w.padding)
    return b.where(begin < 0, begin % w.dilation, begin)


def sides_of(b: Any, o: Any, w: Window) -> tuple[Any, Any] | None:
    """The first and the last position of window ``o`` inside; None if all of them are."""
    last = (w.outputs - 1) * w.stride + (w.size - 1) * w.dilation
    if not w.padding and at_least(w.length - 1, last):
        return None
    first = first_inside(b, o, w)
    return first, w.length - 1 - (w.length - 1 - first) % w.dilation


def first_largest(
    b: Any,
    i: Index,
    x: Any,
    sizes: Sequence[int],
    plane: Sequence[int],
    dims: Sequence[int],
    position: Callable[..., list[Any]],
) -> tuple[Any, Any]:
    """The largest of the elements at ``position(*ks)`` of a plane, and its place there."""

    def element(*ks: Any) -> tuple[Any, Any]:
        there = position(*ks)
        place = b.position(flat(there, plane))
        return wide(x[replaced(i, dims, there)]), place.cast("i32") if short else place

    short = at_least((1 << 31) - 1, math.prod(plane))  # half as many vectors
    best = b.fold("max", sizes, lambda *ks: element(*ks)[0])
    place = b.fold("argmax", sizes, element)
    if best.kind not in ("f32", "f64"):
        return best, place

    def unordered(*ks: Any) -> Any:
        value, there = element(*ks)
        return b.where(b.isnan(value), there, -1)

    last = b.fold("max", sizes, unordered)
    return best, b.where(b.isnan(best), last, place)
