"""Windows that slide over planes: folding what they hold, and finding where it was.

Windows that share no elements are folded dimension by dimension, and along one by whole strided
slices, one for each position in the window: a few long vector operations instead of a short one
for every window. Windows that overlap are folded in *cells*, see :func:`_cells`.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided


class Window(NamedTuple):
    """How a window slides along one dimension, from ``length`` elements to ``outputs`` results."""

    length: int
    outputs: int
    size: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1

    @property
    def reach(self) -> int:
        """How many strides a window reaches beyond its first element."""
        return (self.size - 1) * self.dilation // self.stride

    @property
    def steps(self) -> list[tuple[int, int]]:
        """How far each position is from the first one: in strides, and the rest in elements."""
        return [divmod(k * self.dilation, self.stride) for k in range(self.size)]

    @property
    def is_trivial(self) -> bool:
        """Whether each result is one element."""
        return self.size == self.stride == 1 and not self.padding

    @property
    def is_disjoint(self) -> bool:
        """Whether no two results share an element."""
        return self.stride > (self.size - 1) * self.dilation or self.outputs < 2


MANY = 48
"""So many elements of a window are worth copying side by side to find the largest."""

Windows = tuple[Window, ...]
"""Those of the last dimensions of an array, which together are its *plane*."""


@functools.lru_cache(1024)
def _trimmed(windows: Windows) -> Windows:
    """Windows without the positions that lie in the padding of every result."""
    found = []
    for w in windows:
        first = max(0, -(((w.outputs - 1) * w.stride - w.padding) // w.dilation))
        last = min(w.size, (w.length - 1 + w.padding) // w.dilation + 1)
        padding = w.padding - first * w.dilation
        found.append(w._replace(size=max(1, last - first), padding=padding))
    return tuple(found)


@functools.lru_cache(1024)
def parts(w: Window) -> tuple[tuple[int, slice, slice], ...]:
    """(position in the window, the results that have an element there, those elements).

    Positions that every result has come first; those in the padding are left out.
    """
    found = []
    for k in range(w.size):
        shift = k * w.dilation - w.padding
        first = max(0, -(shift // w.stride))
        last = min(w.outputs, (w.length - 1 - shift) // w.stride + 1)
        if first < last:
            start, stop = first * w.stride + shift, last * w.stride + shift
            found.append((k, slice(first, last), slice(start, stop, w.stride)))
    return tuple(sorted(found, key=lambda part: part[1] != slice(0, w.outputs)))


@functools.lru_cache(1024)
def kind_of(windows: Windows) -> str:
    """``"single"`` windows (one in each plane), ``"disjoint"`` or ``"overlapping"`` ones.

    Disjoint windows that have many elements, and none in the padding, are called ``"inside"``.
    """
    if all([w.outputs == 1 and parts(w) for w in windows]):
        return "single"
    if not all([w.is_disjoint for w in windows]):
        return "overlapping"
    inside = all([not w.padding and w.outputs * w.stride <= w.length for w in windows])
    return "inside" if inside and math.prod([w.size for w in windows]) >= MANY else "disjoint"


def fold(ufunc: Any, x: np.ndarray, windows: Windows, empty: Any) -> np.ndarray:
    """``ufunc`` over the elements of each window; ``empty`` is what it makes of none."""
    windows = _trimmed(windows)
    kind = kind_of(windows)
    if kind == "overlapping":
        return _fold_in_cells(ufunc, x, windows, empty, False)[0]
    if kind == "single":
        dims = tuple(range(-len(windows), 0))
        return ufunc.reduce(x[_inside(windows)], dims, keepdims=True, initial=empty)
    y = x
    for dim, w in enumerate(windows, -len(windows)):
        if not w.is_trivial:
            y = _fold_along(ufunc, y, dim, w, empty)
    return y.copy() if y is x else y


def _fold_along(ufunc: Any, x: np.ndarray, dim: int, w: Window, empty: Any) -> np.ndarray:
    everywhere, elsewhere = _slices(w, dim)
    if everywhere:
        y = ufunc(x[everywhere[0]], x[everywhere[1]]) if everywhere[1:] else x[everywhere[0]].copy()
    else:
        shape = list(x.shape)
        shape[dim] = w.outputs
        y = np.full(shape, empty, x.dtype)
    for results, elements in elsewhere:
        target = y[results]
        ufunc(target, x[elements], out=target)
    return y


@functools.lru_cache(1024)
def _slices(w: Window, dim: int) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """The keys of :func:`parts` along ``dim``, counted from the end.

    First the elements of two positions that every result has, if there are such; then the results
    and elements of all others.
    """
    after = (slice(None),) * (-1 - dim)
    keys = [((..., results, *after), (..., elements, *after)) for _, results, elements in parts(w)]
    whole = [
        key
        for (_, results, _), (_, key) in zip(parts(w), keys, strict=True)
        if results == slice(0, w.outputs)
    ][:2]
    return whole, keys[len(whole) :]


@functools.lru_cache(256)
def _inside(windows: Windows) -> Any:
    """The key of the elements of single windows."""
    key: list[Any] = [...]
    for w in windows:
        starts = [elements.start for _, _, elements in parts(w)]
        key.append(slice(starts[0], starts[-1] + 1, w.dilation))
    return tuple(key)


def spread(y: np.ndarray, windows: Windows) -> np.ndarray:
    """Each result added to all elements of its window: the transpose of folding by addition."""
    windows = _trimmed(windows)
    if kind_of(windows) == "single":
        x = np.zeros((*y.shape[: y.ndim - len(windows)], *[w.length for w in windows]), y.dtype)
        x[_inside(windows)] = y
        return x
    x = y
    for dim in range(-1, -1 - len(windows), -1):
        if not windows[dim].is_trivial:
            x = _spread_along(x, dim, windows[dim])
    return x.copy() if x is y else x


def _spread_along(y: np.ndarray, dim: int, w: Window) -> np.ndarray:
    shape = list(y.shape)
    shape[dim] = w.length
    x = np.zeros(shape, y.dtype)
    everywhere, elsewhere = _slices(w, dim)
    for results, elements in [(..., elements) for elements in everywhere] + elsewhere:
        if w.is_disjoint:
            x[elements] = y[results]
        else:
            x[elements] += y[results]
    return x


def largest(x: np.ndarray, windows: Windows, empty: Any) -> tuple[np.ndarray, np.ndarray]:
    """The largest element of each window, and where in its plane it stands.

    Of several equal ones it is the first; NaN counts as the largest, and the last NaN is taken.
    """
    outside, windows = hollow(windows), _trimmed(windows)
    kind = kind_of(windows)
    if kind == "overlapping":
        y, number = _fold_in_cells(np.maximum, x, windows, empty, True)
        # A result that is as small as the padding might have been found there.
        doubtful = (y == empty).any()
        index = _place_in_each(x, y, windows) if doubtful else _placed(number, windows)
    else:
        y = fold(np.maximum, x, windows, empty)
        place = {"single": _place_in_one, "inside": _place_inside}.get(kind, _place_in_each)
        index = place(x, y, windows)
    unordered = np.isnan(y)
    if unordered.any():
        plane = x.shape[x.ndim - len(windows) :]
        order = np.arange(math.prod(plane)).reshape(plane)
        last = fold(np.maximum, np.where(np.isnan(x), order, -1), windows, -1)
        np.copyto(index, last, where=unordered)
    if outside is not None:
        np.copyto(index, outside[1], where=outside[0])
    return y, index


@functools.lru_cache(256)
def hollow(windows: Windows) -> tuple[np.ndarray, np.ndarray] | None:
    """Which windows lie in the padding altogether, and the places they count for, if there are any.

    The place is that of the first position not before the plane, and may be beyond its end.
    """
    if not any([w.padding and w.dilation > 1 for w in windows]):
        return None
    empty, place = np.zeros((), bool), np.zeros((), np.int64)
    for w in windows:
        begin = np.arange(w.outputs) * w.stride - w.padding
        begin = np.where(begin < 0, begin % w.dilation, begin)
        empty = np.logical_or.outer(empty, begin >= w.length)
        place = np.add.outer(place * w.length, begin)
    return (empty, place) if empty.any() else None


def _place_in_one(x: np.ndarray, y: np.ndarray, windows: Windows) -> np.ndarray:
    """The places of the largest elements if there is one window in each plane."""
    plane = [w.length for w in windows]
    order = np.arange(math.prod(plane)).reshape(plane)[_inside(windows)].reshape(-1)
    shape = (*x.shape[: x.ndim - len(windows)], *[1] * len(windows))
    chosen: np.ndarray = x[_inside(windows)].reshape(*shape, order.size).argmax(-1)
    return order.take(chosen)


def _place_inside(x: np.ndarray, y: np.ndarray, windows: Windows) -> np.ndarray:
    """The places of the largest elements of windows without padding, laid out one after another."""
    lead = x.ndim - len(windows)
    steps = zip(x.strides[lead:], windows, strict=True)
    between, within = zip(*[(s * w.stride, s * w.dilation) for s, w in steps], strict=True)
    sizes = [w.size for w in windows]
    view = as_strided(x, (*y.shape, *sizes), (*x.strides[:lead], *between, *within))
    return _placed(view.reshape(*y.shape, math.prod(sizes)).argmax(-1), windows)


def _place_in_each(x: np.ndarray, y: np.ndarray, windows: Windows) -> np.ndarray:
    """The places of the largest elements ``y``: the first position of the window that holds it."""
    first = np.full(y.shape, _nowhere(windows))
    missed = np.empty(y.shape, bool)
    for number, results, elements in _positions(windows):
        missed.fill(True)
        np.not_equal(x[elements], y[results], out=missed[results])
        _note(first, number, missed)
    return _placed(first, windows)


@functools.lru_cache(256)
def _positions(windows: Windows) -> list[tuple[int, Any, Any]]:
    """:func:`parts` of windows over a plane, their positions numbered row by row."""
    found = []
    for steps in itertools.product(*map(parts, windows)):
        number = 0
        for (k, _, _), w in zip(steps, windows, strict=True):
            number = number * w.size + k
        found.append((number, (..., *[s[1] for s in steps]), (..., *[s[2] for s in steps])))
    return found


@functools.lru_cache(256)
def _nowhere(windows: Windows) -> Any:
    """What is larger than the numbers of all positions in a window, in a type that holds them."""
    kind = np.min_scalar_type(math.prod([w.size for w in windows]))
    return kind.type(np.iinfo(kind).max)


def _note(first: np.ndarray, number: int, missed: np.ndarray) -> None:
    """Where a position did not miss, ``first`` becomes its ``number`` if that is less."""
    candidate = np.negative(missed.view(np.uint8).astype(first.dtype, copy=False))
    candidate |= number
    np.minimum(first, candidate, out=first)


def _placed(number: np.ndarray, windows: Windows) -> np.ndarray:
    """The numbers of positions in windows as places in the plane."""
    corners, offsets = _layout(windows)
    index = offsets.take(number, mode="clip")
    index += corners
    return index


@functools.lru_cache(256)
def _layout(windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """Where windows begin in their plane, and how far their positions are from there."""
    corners, offsets = np.zeros((), np.int64), np.zeros((), np.int64)
    for w in windows:
        begin = np.arange(w.outputs) * w.stride - w.padding
        corners = np.add.outer(corners * w.length, begin)
        offsets = np.add.outer(offsets * w.length, np.arange(w.size) * w.dilation)
    return corners, offsets.reshape(-1)


BLOCK = 1 << 15
"""So many cells at a time: all that is made of them stays in the cache."""

Cells = dict[tuple[int, ...], np.ndarray]
"""Grids by the places in their planes where they begin, each in one row."""


def _fold_in_cells(
    ufunc: Any, x: np.ndarray, windows: Windows, empty: Any, numbered: bool
) -> tuple[np.ndarray, np.ndarray]:
    """:func:`fold`; if ``numbered`` also the number of the position that holds the result."""
    lead, counts = x.shape[: x.ndim - len(windows)], [w.outputs for w in windows]
    planes = x.reshape(math.prod(lead), *[w.length for w in windows])
    y = np.empty((len(planes), *counts), x.dtype)
    number = np.empty(y.shape if numbered else 0, type(_nowhere(windows)))
    grid = [w.outputs + w.reach for w in windows]
    results = (slice(None), *map(slice, counts))
    step = max(1, BLOCK // math.prod(grid))
    for start in range(0, len(planes), step):
        part = slice(start, start + step)
        cells = _cells(planes[part], windows, grid, empty)
        folded = _fold_cells(ufunc, cells, windows, grid)
        y[part] = folded.reshape(-1, *grid)[results]
        if numbered:
            found = _number_cells(folded, cells, windows, grid)
            number[part] = found.reshape(-1, *grid)[results]
    return y.reshape(*lead, *counts), number.reshape(*lead, *counts) if numbered else number


def _cells(planes: np.ndarray, windows: Windows, grid: list[int], empty: Any) -> Cells:
    """Planes taken apart into grids of every stride-th row and column, from all that windows need.

    In a grid the elements that neighbouring windows have at one position are neighbours. As grids
    are longer than the results by the reach of a window, all of them can be treated in one row.
    """
    cells = {}
    for begin in itertools.product(*[sorted({b for _, b in w.steps}) for w in windows]):
        row = np.full((len(planes), *grid), empty, planes.dtype)
        there, here = [slice(None)], [slice(None)]
        for b, w, n in zip(begin, windows, grid, strict=True):
            first = max(0, -((b - w.padding) // w.stride))
            last = max(first, min(n, (w.length - 1 - b + w.padding) // w.stride + 1))
            source = first * w.stride + b - w.padding
            there.append(slice(first, last))
            here.append(slice(source, source + (last - first) * w.stride, w.stride))
        row[tuple(there)] = planes[tuple(here)]
        cells[begin] = row.reshape(-1)
    return cells


def _fold_cells(ufunc: Any, cells: Cells, windows: Windows, grid: list[int]) -> np.ndarray:
    """The windows of all grids folded, the last dimension first; the last cells stay undefined."""
    size = valid = len(next(iter(cells.values())))
    for dim in reversed(range(len(windows))):
        jump = math.prod(grid[dim + 1 :])
        valid -= windows[dim].reach * jump
        folded: Cells = {}
        for begin in {key[:dim]: None for key in cells}:
            keys = [(c * jump, (*begin, b)) for c, b in windows[dim].steps]
            terms = [cells[key][shift:][:valid] for shift, key in keys]
            row = np.empty(size, terms[0].dtype)
            y = row[:valid]
            if len(terms) == 1:
                y[...] = terms[0]
            else:
                ufunc(terms[0], terms[1], out=y)
            for term in terms[2:]:
                ufunc(y, term, out=y)
            folded[begin] = row
        cells = folded
    return cells[()]


def _number_cells(
    folded: np.ndarray, cells: Cells, windows: Windows, grid: list[int]
) -> np.ndarray:
    """For each folded cell the first position in its window that holds the same."""
    first = np.full(len(folded), _nowhere(windows))
    jumps = [math.prod(grid[dim + 1 :]) for dim in range(len(grid))]
    valid = len(folded) - sum([w.reach * jump for w, jump in zip(windows, jumps, strict=True)])
    for number, position in enumerate(itertools.product(*[w.steps for w in windows])):
        shift = sum([c * jump for (c, _), jump in zip(position, jumps, strict=True)])
        there = cells[tuple([b for _, b in position])][shift:][:valid]
        _note(first[:valid], number, np.not_equal(there, folded[:valid]))
    return first


@functools.lru_cache(256)
def holdings(windows: Windows, with_padding: bool, kind: np.dtype) -> np.ndarray:
    """How many elements each window holds, or one number if all hold as many.

    Padding counts or not; what a window reaches beyond the padding never does.
    """
    total = np.ones((), np.int64)
    for w in windows:
        begin = np.arange(w.outputs) * w.stride - w.padding
        end = np.minimum(begin + w.size, w.length + w.padding)
        if not with_padding:
            begin, end = np.maximum(begin, 0), np.minimum(end, w.length)
        total = np.multiply.outer(total, end - begin)
    first = total.reshape(-1)[:1].reshape(())
    return (first if (total == first).all() else total).astype(kind)


def pick(x: np.ndarray, index: np.ndarray, rank: int) -> np.ndarray:
    """The elements at the places ``index`` of each plane, the last ``rank`` dimensions of ``x``."""
    size = math.prod(x.shape[x.ndim - rank :])
    return x.reshape(-1).take(_in_all(index, size, rank))


def put(y: np.ndarray, index: np.ndarray, plane: tuple[int, ...], once: bool) -> np.ndarray:
    """Planes of zeros with ``y`` at the places ``index``; what meets there is added up.

    ``once`` says that no place is named twice, or that the last value shall count.
    """
    rank = len(plane)
    x = np.zeros(math.prod(y.shape[: y.ndim - rank]) * math.prod(plane), y.dtype)
    where = _in_all(index, math.prod(plane), rank).reshape(-1)
    if once:
        x[where] = y.reshape(-1)
    else:
        np.add.at(x, where, y.reshape(-1))
    return x.reshape(*y.shape[: y.ndim - rank], *plane)


def _in_all(index: np.ndarray, size: int, rank: int) -> np.ndarray:
    """Places in planes of ``size`` elements as places among all elements."""
    planes = math.prod(index.shape[: index.ndim - rank])
    first = np.arange(planes) * size
    return index + first.reshape(*index.shape[: index.ndim - rank], *[1] * rank)
