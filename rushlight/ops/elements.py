"""What rules of code generation are made of: indices of elements, folds, errors of bad indices.

A rule (``Op.at``, ``Op.scatter``, ``Op.scan``) says with a builder ``b`` what one element is, given
sources ``x`` of elements and an index ``i``: a tuple of index values, or ints. Rules are asked for
results that have elements only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.dims import Size, broadcast, is_known, known
from rushlight.dtypes import bfloat16
from rushlight.kernels.indices import out_of_bounds

Index = Sequence[Any]


ALL = slice(None)


def kind_of(dtype: np.dtype) -> str:
    """The kind of scalar that an array's elements are: f32, i64, b1, bf16, …"""
    if dtype == bfloat16.numpy:
        return "bf16"
    return "b1" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"


def wide(x: Any) -> Any:
    """A scalar to compute with: half types as float32."""
    return x.cast("f32") if x.kind in ("f16", "bf16") else x


def same(x: Any) -> Any:
    """A scalar that is moved only."""
    return x


def flat(i: Index, shape: Sequence[int]) -> Any:
    """The position, in C order, of the element at ``i``."""
    position: Any = 0
    for j, n in zip(i, shape, strict=True):
        position = position * n + j
    return position


def unflat(position: Any, shape: Sequence[int]) -> tuple[Any, ...]:
    """The index of the element at a position in C order."""
    index: list[Any] = []
    for n in reversed(shape[1:]):
        position, rest = (position // n, position % n) if n else (0, 0)  # nothing is there
        index.insert(0, rest)
    return (position, *index) if shape else ()


def replaced(i: Index, dims: Sequence[int], parts: Index) -> list[Any]:
    """The index ``i`` with ``parts`` in the dimensions ``dims``."""
    index = list(i)
    for d, part in zip(dims, parts, strict=True):
        index[d] = part
    return index


def woven(i: Index, dims: Sequence[int], parts: Index) -> list[Any]:
    """The index ``i`` of the other dimensions with ``parts`` put in as the dimensions ``dims``."""
    index = list(i)
    for d, part in sorted(zip(dims, parts, strict=True), key=lambda pair: pair[0]):
        index.insert(d, part)
    return index


def folded_dims(ndim: int, dim: Sequence[int] | None) -> tuple[int, ...]:
    """The dimensions that a reduction over ``dim`` folds: None stands for all of them."""
    return tuple(range(ndim)) if dim is None else tuple(dim)


def reduced(
    b: Any,
    how: str,
    i: Index,
    x: Any,
    dim: Sequence[int] | None,
    keepdim: bool,
    element: Callable[[Any], Any] = wide,
) -> Any:
    """``element(x[…])`` folded over the dimensions ``dim``, for the result at ``i``."""
    dims = folded_dims(x.ndim, dim)
    kept = [j for d, j in enumerate(i) if d not in dims] if keepdim else i
    sizes = [x.shape[d] for d in dims]
    return b.fold(how, sizes, lambda *ks: element(x[woven(kept, dims, ks)]))


def extreme(b: Any, how: str, i: Index, x: Any, dim: Sequence[int] | None, keepdim: bool) -> Any:
    """The largest (``how = "max"``) or smallest (``"min"``) element over the dimensions ``dim``."""
    if x.kind == "b1":
        how = {"max": "or", "min": "and"}[how]
    return reduced(b, how, i, x, dim, keepdim)


def guarded(b: Any, condition: Any, index: Index) -> tuple[Any, ...]:
    """``index`` where the condition holds, else that of the first element, which can be loaded."""
    return tuple([b.within(condition, j) for j in index])


def among(b: Any, conditions: Sequence[Any]) -> Any:
    """Whether all conditions hold."""
    found = b.constant(True, "b1")
    for condition in conditions:
        if condition.op != "constant":
            found = condition if found.op == "constant" and found.data else found & condition
        elif not condition.data:
            return condition
    return found


def inside(b: Any, index: Index, shape: Sequence[int]) -> Any:
    """Whether an element of a tensor of this shape is at ``index``."""
    limits = [(b.position(j), n) for j, n in zip(index, shape, strict=True)]
    return among(b, [c for j, n in limits for c in (j >= 0, j < n)])


def number(b: Any, value: Any) -> Any:
    """A Python number as a scalar of the kind it has by itself."""
    if isinstance(value, (bool, np.bool_)):
        return b.constant(value, "b1")
    return b.constant(value, "i64" if isinstance(value, (int, np.integer)) else "f64")


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error for a position that is not there.

    The braces of ``message`` are filled with the position and then with ``sizes``, which a kernel
    for all sizes knows as symbols only. Where negative positions count from the end of ``wraps``
    elements, that is how the user meant one that is still negative.
    """

    error: type[Exception]
    message: str
    sizes: tuple[Size, ...] = ()
    wraps: Size = 0

    def __call__(self, position: int) -> Exception:
        meant = position - self.wraps if position < 0 else position
        return self.error(self.message.format(meant, *self.sizes))

    def at(self, sizes: Mapping[str, int]) -> Refusal:
        """The error where symbols are these numbers."""
        return replace(self, sizes=known(self.sizes, sizes), wraps=known(self.wraps, sizes))


def refusal(error: type[Exception], dim: int, size: Size, prefix: str = "", wraps: Size = 0) -> Any:
    """The error for an index outside of dimension ``dim``, in the words that kernels use."""
    return Refusal(error, prefix + out_of_bounds("{}", dim, "{}"), (size,), wraps)


def only(b: Any, value: Any, position: Any) -> Any:
    """The one element there is, at a checked position, which must not be forgotten."""
    return b.where(position.cast("i64").eq(0), value, b.constant(0, value.kind))


def looked_up(b: Any, x: Any, index: Index) -> Any:
    """``x[index]``; checks of positions in dimensions of size 1 are kept, too."""
    value = x[index]
    for j, n in zip(index, x.shape, strict=True):
        if n == 1 and not isinstance(j, int) and j.op == "checked":
            value = only(b, value, j)
    return value


def seen_along(b: Any, j: Any, places: range | Span) -> tuple[list[Any], Any]:
    """Whether position ``j`` is one of ``places``, as conditions, and which one it is."""
    place = b.position(j) - places.start
    count = places.count if isinstance(places, Span) else len(places)
    conditions = [place >= 0, place < places.step * count]
    if places.step > 1:
        conditions.append((place % places.step).eq(0))
    return conditions, place // places.step


def chosen(
    b: Any,
    conditions: Sequence[Any],
    x: Any,
    index: Index,
    otherwise: Callable[[], Any],
    element: Callable[[Any], Any] = same,
) -> Any:
    """``x[index]`` where all conditions hold, elsewhere what ``otherwise()`` says."""
    holds = among(b, conditions)
    if holds.op == "constant":
        return element(x[index] if holds.data else otherwise())
    return b.where(holds, element(x[guarded(b, holds, index)]), element(otherwise()))


def span(size: Any, k: Any) -> Any:
    """What an index or a slice names of so many positions: one of them, or a range."""
    limits = (k.start, k.stop) if isinstance(k, slice) else (k,)
    if is_known((size, *limits)):
        return range(size)[k]
    if not isinstance(k, slice):
        return k
    begin, step = k.start or 0, k.step or 1
    end = size if k.stop is None else k.stop
    return Span(begin, (end - begin + step - 1) // step, step)


def clipped(k: slice, n: Any) -> slice:
    """A slice of ``n`` positions with limits from 0 to ``n``."""

    def limit(i: Any, otherwise: Any) -> Any:
        if i is None:
            return otherwise
        if i < 0:
            return n + i if n + i >= 0 else 0
        return i if i <= n else n

    start, stop = limit(k.start, 0), limit(k.stop, n)
    return slice(start, stop if start <= stop else start, k.step)


def counted(i: Any, n: Any) -> Any:
    """A position among ``n``, counted from the first one."""
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of bounds for a dimension of size {n}")
    return n + i if i < 0 else i


@dataclass(frozen=True, slots=True)
class Span:
    """Positions one after the other, as many as only a run knows."""

    start: Any
    count: Any
    step: int = 1


def parts_of(index: tuple, shape: Sequence[int]) -> Iterator[Any]:
    """What each part of a basic index names: a position, a range, or None for a new dimension."""
    named, dim = len([k for k in index if k is not None and k is not ...]), 0
    for k in index if ... in index else (*index, ...):
        if k is None:
            yield None
        elif k is ...:
            free = len(shape) - named
            yield from [span(n, ALL) for n in shape[dim : dim + free]]
            dim += free
        else:
            yield span(shape[dim], k)
            dim += 1


def named(
    b: Any, i: Index, shape: Sequence[int], indices: Sequence[Any], layout: tuple[bool, ...]
) -> list[Any]:
    """The index of the element of ``x[…]`` at ``i``, where sources of positions are laid out.

    The dimensions that positions make stand where these stand, or first if they stand apart.
    """
    where = [d for d, here in enumerate(layout) if here]
    first = where[0] if where[-1] - where[0] < len(where) else 0
    count = max([x.ndim for x in indices])
    own, others = i[first : first + count], [*i[:first], *i[first + count :]]
    for d, x in zip(where, indices, strict=True):
        size = shape[d]
        wrong = refusal(IndexError, d, size, wraps=size)
        others.insert(d, b.wrapped(x.broadcast(own), size, wrong))
    return others


def named_shape(
    shape: Sequence[int], indices: Sequence[Any], layout: tuple[bool, ...]
) -> tuple[int, ...]:
    """The shape of ``x[…]``; see :func:`named`."""
    where = [d for d, here in enumerate(layout) if here]
    first = where[0] if where[-1] - where[0] < len(where) else 0
    rest = [n for d, n in enumerate(shape) if d not in where]
    return (*rest[:first], *broadcast(*[x.shape for x in indices]), *rest[first:])


def combining(how: str, kind: str) -> str:
    """How a scatter folds values: sums and products of truth values are their extremes."""
    return {"add": "max", "mul": "min"}.get(how, how) if kind == "b1" else how
