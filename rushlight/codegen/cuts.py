"""Loops cut where a condition changes: what is joined or padded becomes copies of blocks.

The elements of ``cat`` are chosen by where they lie. A loop that is cut at the borders of its parts
chooses nothing: each part knows which one it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from rushlight.codegen.schedule import Nest
from rushlight.codegen.values import INDEX, Loop, Value
from rushlight.dims import is_known

PIECES = 5  # at most, for each is code of its own
WORTH = 16384  # elements below which a condition costs less than another step

MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def pieces(nest: Nest) -> list[Nest]:
    """Nests over parts of the loops of a nest, of which each tests less than it."""
    found = [nest]
    if nest.columns or math.prod([loop.example for loop in nest.rows]) < WORTH:
        return found
    while len(found) < PIECES:
        cuts = [(k, cut) for k, piece in enumerate(found) for cut in borders(piece)]
        if not cuts:
            break
        # Inner loops first: a condition on an outer one is tested once for many elements.
        k, (loop, border) = max(cuts, key=lambda c: found[c[0]].rows.index(c[1][0]))
        found[k : k + 1] = halves(found[k], loop, border)
    return found


def halves(nest: Nest, loop: Loop, border: int) -> Iterator[Nest]:
    """The nest over what is before the border of a loop, and over what is behind it."""
    b = nest.b
    for start, size in ((0, border), (border, loop.size - border)):
        part = Loop(loop.name, size)
        half = Nest(b, nest.rows, (), nest.stores)
        half.replace({b.variable(loop): b.variable(part) + start}, {loop: (part,)})
        yield Nest(b, half.rows, (), half.stores)


def borders(nest: Nest) -> Iterator[tuple[Loop, int]]:
    """The loops on which alone a condition depends, and where it changes."""
    for v in nest.values():
        if v.op in MIRRORED and v.args[0].kind == INDEX:
            found = line(nest, [(v.args[0], 1), (v.args[1], -1)])
            if found is not None:
                loop, factor, offset = found
                border = turning(v.op, factor, offset)
                if is_known((border,)) and 0 < border < loop.example:
                    yield loop, border
        elif v.op in ("floor", "mod") and v.kind == INDEX:
            found = line(nest, [(v.args[0], 1)])
            if found is not None and found[1] > 0:
                loop, factor, offset = found
                first, last = offset // v.data, (offset + factor * (loop.size - 1)) // v.data
                if last == first + 1:
                    yield loop, -((offset - last * v.data) // factor)


def line(nest: Nest, terms: list[tuple[Value, int]]) -> tuple[Loop, int, int] | None:
    """(loop, factor, offset) of a sum that depends on one loop alone."""
    atoms, offset = nest.b.expand(terms)
    if len(atoms) != 1:
        return None
    ((atom, factor),) = atoms.items()
    return (atom.data, factor, offset) if atom.op == "var" else None


def turning(op: str, factor: int, offset: int) -> int:
    """The first index at which ``factor · index + offset op 0`` is not what it is before."""
    if factor < 0:
        op, factor, offset = MIRRORED[op], -factor, -offset
    return -(offset // factor) if op in ("lt", "ge") else -offset // factor + 1
