"""How a contraction is cut: what is packed, which blocks are summed, which parts threads share.

A contraction is planned from *where* its operands are: offsets of rows, of taps, and of batches, as
NumPy arrays. The plan is a few works, each a native function with its table.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from rushlight.codegen.contraction import FIELDS, VECTORS, Sweep, tile_rows
from rushlight.codegen.instructions import width
from rushlight.codegen.microkernel import Flavour, Registers
from rushlight.codegen.native import table
from rushlight.codegen.packing import FIELDS as PACKING_FIELDS
from rushlight.codegen.packing import Packing

DEPTH = 256  # of a block of what is summed: a panel of it fits into the first cache
ROWS = 96  # of a block: with that depth, it fits into the second cache
SMALL = 1 << 16  # elements of a matrix that stays in the second cache wherever it lies
PART = 1 << 19  # multiply-adds that are worth a thread's while
PARTS = 16  # that a contraction is cut into, if it is large enough
THIN = 16  # rows for which no operand is packed: each of its elements is read about once

Offsets = np.ndarray


@dataclass(frozen=True, eq=False)
class Matrix:
    """An operand: where the elements of its rows are, in elements from its beginning.

    Element (r, (t, i)) of batch b is at ``batches[b] + rows[r] + taps[t] + i · step``.
    """

    rows: Offsets
    taps: Offsets
    inner: int
    step: int
    batches: Offsets

    @property
    def depth(self) -> int:
        """The number of elements of a row."""
        return len(self.taps) * self.inner

    @functools.cached_property
    def beside(self) -> bool:
        """Whether the rows lie beside each other."""
        return bool(np.all(np.diff(self.rows) == 1))

    @functools.cached_property
    def even(self) -> int | None:
        """The one step of all elements of a row, taps included; None if there is none."""
        if self.inner == 1:
            steps = np.unique(np.diff(self.taps))
            return None if len(steps) > 1 else int(steps[0]) if len(steps) else 1
        follows = np.all(np.diff(self.taps) == self.inner * self.step)
        return self.step if follows else None


class Work(NamedTuple):
    """One native function to be run over its parts; buffers are named."""

    name: str
    buffers: tuple[str, ...]
    table: np.ndarray
    parts: int
    chunk: int = 1


@dataclass(slots=True)
class Works:
    """Works in their order, and the elements of the buffers between them."""

    kind: str
    list: list[Work] = field(default_factory=list)
    space: dict[str, int] = field(default_factory=dict)


def matrix(
    shape: Sequence[int],
    strides: Sequence[int],
    rows: Sequence[int],
    inner: Sequence[int],
    batches: Sequence[int] = (),
) -> Matrix:
    """A strided array as a matrix: which of its dimensions are rows, summed, and batches.

    >>> m = matrix((2, 3), (3, 1), rows=[0], inner=[1])
    >>> m.rows.tolist(), m.inner, m.step
    ([0, 3], 3, 1)
    """

    def offsets(dims: Sequence[int]) -> Offsets:
        found = np.zeros(1, np.int64)
        for d in dims:
            found = np.add.outer(found, np.arange(shape[d], dtype=np.int64) * strides[d]).ravel()
        return found

    count, step, outer = 1, 1, list(inner)
    if outer:  # the innermost dimensions that follow each other are one
        last = outer.pop()
        count, step = shape[last], strides[last]
        while outer and strides[outer[-1]] == count * step:
            count *= shape[outer.pop()]
    return Matrix(offsets(rows), offsets(outer), count, step, offsets(batches))


def plan(
    a: Matrix, b: Matrix, target: Matrix, kind: str, registers: Registers, **how: Any
) -> Works:
    """The works of C[m, n] = Σ A[m, k] · B[n, k] for all batches, with buffers a, b and y.

    Args:
        a: rows m of the first operand.
        b: rows n, the columns of the result.
        target: where the rows of the result are; its columns lie beside each other.
        kind: of all elements.
        registers: of the processor.
        how: ``accumulate=True`` adds to what the target holds; ``packed=True`` says that buffer b
            holds B packed already; with ``whole_rows=True`` only rows are cut into parts.
    """
    return Planner(a, b, target, kind, registers, **how).works


class Planner:
    """Decides about one contraction."""

    def __init__(
        self,
        a: Matrix,
        b: Matrix,
        target: Matrix,
        kind: str,
        registers: Registers,
        accumulate: bool = False,
        packed: bool = False,
        whole_rows: bool = False,
    ) -> None:
        self.kind, self.registers, self.target = kind, registers, target
        self.panel = VECTORS * registers.bytes // width(kind)
        self.height = tile_rows(registers)[0]
        self.works = Works(kind)
        m, n, k = len(a.rows), len(b.rows), a.depth
        first, second = "a", "b"
        if packed:
            b, packs = packed_form(b, self.panel), True
        else:
            packs = not self.reads_rows(b, m)
            if packs:
                b, second = self.pack(b, self.panel, "b")
        if self.packs_first(a, n):
            a, first = self.pack(a, self.height, "a")
        unit = a.step == 1 and not (a.inner == 1 and a.beside)
        flavour = Flavour(kind, unit, packs)
        parts, numbers = self.cut(m, n, k, len(target.batches), whole_rows)
        numbers |= {
            "rows": m,
            "columns": n,
            "a_step": a.step,
            "b_step": self.panel if packs else b.even or 0,
            "b_panel": self.panel * k if packs else self.panel,
            "accumulate": int(accumulate),
        }
        blocks = blocks_of(a)
        numbers["block_count"] = len(blocks)
        lists = {
            "batches": np.stack(np.broadcast_arrays(a.batches, b.batches, target.batches), 1),
            "blocks": blocks,
            "row_offsets": a.rows,
            "target_offsets": target.rows,
            "taps": a.taps,
        }
        step = Work(
            f"contract_{flavour.name}",
            (first, second, "table", "y"),
            table(FIELDS, numbers, lists),
            parts,
        )
        self.works.list.append(step)

    def reads_rows(self, b: Matrix, m: int) -> bool:
        """Whether B may stay where it is."""
        if not b.beside or b.even is None:
            return False
        return m <= THIN or (len(b.rows) * b.depth <= SMALL and m <= ROWS)

    def packs_first(self, a: Matrix, n: int) -> bool:
        """Whether A is packed: it cannot be read, or its rows would get in each other's way."""
        if a.step != 1 and not a.beside:
            return True
        return len(a.taps) == 1 and n >= 8 * self.panel and len(a.rows) * a.depth > SMALL * 4

    def pack(self, x: Matrix, wide: int, name: str) -> tuple[Matrix, str]:
        access = "rows" if x.beside else "inner" if x.step == 1 and x.inner >= 4 else "any"
        packing = Packing(self.kind, wide, access)
        packed = packed_form(x, wide)
        panels = -(-len(x.rows) // wide)
        numbers = {
            "panels": panels,
            "rows": len(x.rows),
            "tap_count": len(x.taps),
            "inner": x.inner,
            "step": x.step,
            "panel_size": wide * x.depth,
        }
        lists = {
            "batches": np.stack([np.unique(x.batches), np.unique(packed.batches)], 1),
            "row_offsets": x.rows,
            "taps": x.taps,
        }
        parts = panels * len(lists["batches"])
        chunk = max(1, min(parts, PART // 8 // max(1, numbers["panel_size"])))
        data = table(PACKING_FIELDS, numbers, lists)
        self.works.list.append(
            Work(packing.name, (name, "table", f"packed {name}"), data, parts, chunk)
        )
        self.works.space[f"packed {name}"] = parts * wide * x.depth
        return packed, f"packed {name}"

    def cut(
        self, m: int, n: int, k: int, batches: int, whole_rows: bool
    ) -> tuple[int, dict[str, int]]:
        """Parts of one contraction: blocks of rows by blocks of panels."""
        panels = -(-n // self.panel)
        wanted = max(1, min(PARTS, m * n * k * batches // PART))
        rows = min(m, ROWS)
        row_parts = -(-m // rows) if m else 0
        per = panels
        while not whole_rows and batches * row_parts * -(-panels // per) < wanted and per > 4:
            per = -(-per // 2)
        least = 2 if whole_rows else 4
        while batches * row_parts * -(-panels // per) < wanted and rows > least * self.height:
            rows = -(-rows // 2 // self.height) * self.height
            row_parts = -(-m // rows)
        while not whole_rows and batches * row_parts * -(-panels // per) < wanted and per > 1:
            per = -(-per // 2)
        column_parts = -(-panels // per) if panels else 0
        numbers = {
            "row_parts": row_parts,
            "column_parts": column_parts,
            "row_block": rows,
            "panels": panels,
            "panel_block": per,
        }
        return batches * row_parts * column_parts, numbers


def packed_form(x: Matrix, wide: int) -> Matrix:
    """Where the elements of a matrix are after packing."""
    order = np.arange(len(x.rows), dtype=np.int64)
    rows = order // wide * (wide * x.depth) + order % wide
    size = -(-len(x.rows) // wide) * wide * x.depth
    _, number = np.unique(x.batches, return_inverse=True)
    taps = np.arange(len(x.taps), dtype=np.int64) * (x.inner * wide)
    return Matrix(rows, taps, x.inner, wide, number.astype(np.int64) * size)


def blocks_of(a: Matrix) -> list[tuple[int, int, int, int, int]]:
    """Blocks of what is summed: first tap, taps, first element, elements, elements before."""
    taps, inner = len(a.taps), a.inner
    if inner <= DEPTH or taps * inner <= DEPTH * 3 // 2:
        count = max(1, -(-taps * inner // DEPTH)) if taps * inner > DEPTH * 3 // 2 else 1
        edges = [n * taps // count for n in range(count + 1)]
        pairs = [(p, q) for p, q in pairwise(edges) if q > p or count == 1]
        return [(p, q - p, 0, inner, p * inner) for p, q in pairs]
    count = -(-inner // DEPTH)
    edges = [n * inner // count for n in range(count + 1)]
    return [(t, 1, p, q - p, t * inner + p) for t in range(taps) for p, q in pairwise(edges)]


@functools.cache
def text_of(name: str, registers: Registers) -> str:
    """The text of a native function by its name."""
    what, kind, *rest = name.split("_")
    if what == "pack":
        return Packing(kind, int(rest[0]), rest[1]).text(registers)
    return Sweep(Flavour(kind, rest[0] == "unit", rest[1] == "packed"), registers).text()
