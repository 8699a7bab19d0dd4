"""Index spaces: which loop variables of a group stand in which dimension of a node.

A *place* says, dimension by dimension, which axes of a group make up the index at which a node is
pulled: one axis, several (after a reshape), none (size 1), or None where it is computed (a slice, a
gather). An axis that a reshape cuts in two knows its parts, so that places made before stay valid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rushlight.graph.ir import Node


class Axis:
    """One loop variable of a group."""

    __slots__ = ("parts", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.parts: tuple[Axis, ...] = ()

    def __repr__(self) -> str:
        return f"<{self.size}>"


Axes = tuple[Axis, ...]
Place = tuple["Axes | None", ...]


def axes_of(shape: Iterable[int]) -> Place:
    """Fresh axes, one for each dimension that has more than one index."""
    return tuple([() if n == 1 else (Axis(n),) for n in shape])


def atoms(axes: Iterable[Axis]) -> Iterator[Axis]:
    """The axes, or what they were cut into."""
    for axis in axes:
        if axis.parts:
            yield from atoms(axis.parts)
        else:
            yield axis


def flat(place: Place) -> Axes | None:
    """All axes of a place in order, or None if some of it is computed."""
    found: list[Axis] = []
    for axes in place:
        if axes is None:
            return None
        found.extend(axes)
    return tuple(atoms(found))


def same(a: Place, b: Place) -> bool:
    """Whether two places of one node are surely the same index."""
    if None in a or None in b:
        return False
    if a is b or a == b:
        return True
    pairs = zip(a, b, strict=True)
    return all([tuple(atoms(x or ())) == tuple(atoms(y or ())) for x, y in pairs])


def split(axes: Iterable[Axis], sizes: Sequence[int]) -> Place | None:
    """The axes dealt out to dimensions of these sizes, cut where needed; None if they do not fit.

    >>> split(axes_of((6,))[0], (2, 3))
    ((<2>,), (<3>,))
    """
    rest = list(atoms(axes))[::-1]
    place: list[Axes] = []
    for size in sizes:
        own: list[Axis] = []
        while size > 1:
            if not rest:
                return None
            axis = rest.pop()
            if axis.size > size:
                if axis.size % size:
                    return None
                axis.parts = (Axis(size), Axis(axis.size // size))
                rest.append(axis.parts[1])
                axis = axis.parts[0]
            elif not axis.size or size % axis.size:
                return None
            own.append(axis)
            size //= axis.size
        place.append(tuple(own))
    return None if rest else tuple(place)


def opaque(shape: Iterable[int]) -> Place:
    """The place of a node at an index that is computed."""
    return tuple([() if n == 1 else None for n in shape])


def broadcast(place: Place, shape: Sequence[int]) -> Place:
    """Where an operand of this shape is read by an elementwise op at ``place``."""
    own = place[len(place) - len(shape) :]
    return tuple([() if n == 1 else axes for n, axes in zip(shape, own, strict=True)])


def reshaped(place: Place, result: Sequence[int], shape: Sequence[int]) -> Place:
    """Where a view with shape ``result`` reads its operand: block by block of equal size."""
    if 0 in shape or math.prod(result) != math.prod(shape):  # sizes may have been made up
        return opaque(shape)
    found: list[Axes | None] = []
    i = j = 0
    while j < len(shape):
        first, left, right = j, 1, shape[j]
        begin = i
        j += 1
        while left != right or (j < len(shape) and shape[j] == 1):
            if left < right:
                left *= result[i]
                i += 1
            else:
                right *= shape[j]
                j += 1
        block = place[begin:i]
        axes = None if None in block else [a for part in block for a in part or ()]
        own = None if axes is None else split(axes, shape[first:j])
        found.extend(opaque(shape[first:j]) if own is None else own)
    return tuple(found)


def permuted(place: Place, dims: Sequence[int]) -> Place:
    found: list[Axes | None] = [()] * len(dims)
    for axes, d in zip(place, dims, strict=True):
        found[d] = axes
    return tuple(found)


BROADCAST = frozenset(("expand", "clone", "masked_fill", "tril", "triu"))
RESHAPES = frozenset(("view", "squeeze", "unsqueeze"))
ALONG = frozenset(("slice", "select"))
"""Ops that compute the index of the dimension ``dim`` alone."""


def pulled(node: Node, place: Place) -> list[Place | None]:
    """Where each input of ``node`` is read when the node is computed at ``place``."""
    op, attrs = node.op, node.attrs
    if op.emit is not None or op.name in BROADCAST:
        shape = node.type.shape
        kinds = [None if n is None else n.type.shape for n in node.inputs]
        return [s if s is None else place if s == shape else broadcast(place, s) for s in kinds]
    shapes = [None if n is None or isinstance(n.type, tuple) else n.type.shape for n in node.inputs]
    first: Any = shapes[0] if shapes else None
    if op.name in RESHAPES:
        return [reshaped(place, node.type.shape, first)]
    if op.name == "permute":
        return [permuted(place, attrs["dims"])]
    if op.name == "transpose" and first:
        order = list(range(len(first)))
        d, e = attrs["dim0"], attrs["dim1"]
        order[d], order[e] = order[e], order[d]
        return [permuted(place, order)]
    if op.name in ALONG and first and isinstance(attrs.get("dim"), int):
        dim = attrs["dim"] % len(first)
        rest = place[:dim] + place[dim + (len(place) == len(first)) :]
        return [rest[:dim] + opaque(first[dim : dim + 1]) + rest[dim:]]
    if op.name in ("gather", "cat") and first:
        dim = attrs["dim"] % len(first)
        own = [beyond(place, node.type.shape, shape, dim) for shape in shapes if shape is not None]
        return [own[0], place] if op.name == "gather" else [*own]
    return [None if shape is None else opaque(shape) for shape in shapes]


def beyond(place: Place, result: Sequence[int], shape: Sequence[int], dim: int) -> Place:
    """Where an operand is read at the index of the result but for ``dim``."""
    if len(shape) != len(result):
        return opaque(shape)
    lines = enumerate(zip(shape, result, place, strict=True))
    return tuple([() if n == 1 else None if d == dim or n != m else a for d, (n, m, a) in lines])


def beside(full: Place, shape: Sequence[int], whole: Sequence[int], folded: Iterable[int]) -> Place:
    """Where another operand of a fold over ``folded`` of an operand of shape ``whole`` is read."""
    rows = [d for d in range(len(whole)) if d not in set(folded)]
    if tuple(shape) == tuple(whole):
        return full
    if [whole[d] for d in rows] == list(shape):
        return tuple([full[d] for d in rows])
    fits = len(shape) <= len(whole) and all(
        [n in (1, m) for n, m in zip(shape[::-1], whole[::-1], strict=False)]
    )
    return broadcast(full, shape) if fits else opaque(shape)


def total(axes: Iterable[Axis]) -> int:
    """How many indices there are."""
    return math.prod([axis.size for axis in axes])
