"""Loops cut where a condition changes: what is joined or padded becomes copies of blocks.

The elements of ``cat`` are chosen by where they lie. A loop that is cut at the borders of its parts
chooses nothing: each part knows which one it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from rushlight.codegen.schedule import Nest
from rushlight.codegen.values import INDEX, MIRRORED, Loop, Value
from rushlight.dims import Size, at_least, is_known

PIECES = 5  # at most, for each is code of its own
WORTH = 16384  # elements below which a condition costs less than another step


def pieces(nest: Nest) -> list[Nest]:
    """Nests over parts of the loops of a nest, of which each tests less than it."""
    found = [nest]
    sizes = [loop.size for loop in nest.rows]
    if nest.columns or (is_known(sizes) and math.prod(sizes) < WORTH):
        return found
    while len(found) < PIECES:
        cuts = [(k, cut) for k, piece in enumerate(found) for cut in borders(piece)]
        if not cuts:
            break
        # Inner loops first: a condition on an outer one is tested once for many elements.
        k, (loop, border) = max(cuts, key=lambda c: found[c[0]].rows.index(c[1][0]))
        found[k : k + 1] = halves(found[k], loop, border)
    return found


def halves(nest: Nest, loop: Loop, border: Size) -> Iterator[Nest]:
    """The nest over what is before the border of a loop, and over what is behind it."""
    b = nest.b
    for start, size in ((0, border), (border, loop.size - border)):
        part = Loop(loop.name, size)
        half = Nest(b, nest.rows, (), nest.stores)
        half.replace({b.variable(loop): b.variable(part) + start}, {loop: (part,)})
        yield Nest(b, half.rows, (), half.stores)


def borders(nest: Nest) -> Iterator[tuple[Loop, Size]]:
    """The loops on which alone a condition depends, and where it changes."""
    for v in nest.values():
        relation = v.op in MIRRORED and v.args[0].kind == INDEX
        if not relation and (v.op not in ("floor", "mod") or v.kind != INDEX):
            continue
        found = line(nest, [(v.args[0], 1), (v.args[1], -1)] if relation else [(v.args[0], 1)])
        if found is not None:
            loop, factor, offset = found
            border = turning(v.op, factor, offset) if relation else carry(v.data, *found)
            if is_inside(border, loop.size):
                yield loop, border


def is_inside(border: Size | None, size: Size) -> bool:
    """Whether a border is in a loop whatever its size is, and not always at one of its ends."""
    if border is None or border in (0, size):
        return False
    return at_least(border, 0) and at_least(size, border)


def line(nest: Nest, terms: list[tuple[Value, int]]) -> tuple[Loop, int, Size] | None:
    """(loop, factor, offset) of a sum that depends on one loop alone."""
    atoms, offset = nest.b.expand(terms)
    if len(atoms) != 1:
        return None
    ((atom, factor),) = atoms.items()
    return (atom.data, factor, offset) if atom.op == "var" and is_known((factor,)) else None


def turning(op: str, factor: int, offset: Size) -> Size:
    """The first index at which ``factor · index + offset op 0`` is not what it is before."""
    if factor < 0:
        op, factor, offset = MIRRORED[op], -factor, -offset
    return -(offset // factor) if op in ("lt", "ge") else -offset // factor + 1


def carry(divisor: Size, loop: Loop, factor: int, offset: Size) -> Size | None:
    """The first index at which ⌊(factor · index + offset) / divisor⌋ is greater, if it is once."""
    first, last = offset // divisor, (offset + factor * (loop.size - 1)) // divisor
    return -((offset - last * divisor) // factor) if factor > 0 and last == first + 1 else None
