"""How a contraction is cut: what is packed, which blocks are summed, which parts threads share.

A contraction is planned from *where* its operands are: offsets of rows, of taps, and of batches, as
NumPy arrays. The plan is a few works, each a native function with its table. It depends on shapes
and strides alone, never on the number of threads.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from rushlight.codegen.contraction import (
    COPIED,
    DEEPEST,
    DEPTH,
    DIRECT,
    FIELDS,
    PACKED,
    VECTORS,
    Sweep,
    in_strips,
    tile_rows,
)
from rushlight.codegen.dots import COLUMNS, MOST, Dots
from rushlight.codegen.dots import FIELDS as DOTS_FIELDS
from rushlight.codegen.fold import FIELDS as FOLD_FIELDS
from rushlight.codegen.fold import Fold
from rushlight.codegen.instructions import SMALL, width
from rushlight.codegen.microkernel import STRIP, Registers
from rushlight.codegen.native import table
from rushlight.codegen.packing import BLOCK, PIECES, Packing
from rushlight.codegen.packing import FIELDS as PACKING_FIELDS
from rushlight.codegen.scaled import FIELDS as SCALED_FIELDS
from rushlight.codegen.scaled import TOGETHER, Scaled

ROWS = 96  # of a block: with that depth, it fits into the second cache
NEAR = 1 << 16  # elements of A that stay in the second cache, wherever they lie
PART = 1 << 19  # multiply-adds that are worth a thread's while
COPY = 1 << 14  # elements to be copied that are
PARTS = 16  # that a contraction is cut into, if it is large enough
THIN, TALL = 40, 64  # rows for which B is not packed, by low and by high tiles
SCANT = 16  # rows for which high tiles copy panels of a large B where they are needed
FEW = 32  # rows for which dot products are better than packing B
COLUMN_BLOCK = 4096  # columns of scaled rows: fewer would read memory in short pieces
LONG = 64  # rows that are worth a sum of their own
READ = 4  # multiply-adds that it takes to read an element from memory
SHORT = 4  # elements below which a dot product is mostly the sum of lanes
FIRST, SECOND = 1 << 15, 1 << 19  # bytes of the first and the second cache
WAYS, LINE = 8, 64  # of these caches: lines of a set, bytes of a line

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
        return is_beside(self.rows)

    @property
    def along(self) -> bool:
        """Whether the elements of a row lie beside each other."""
        return self.even == 1

    @functools.cached_property
    def even(self) -> int | None:
        """The one step of all elements of a row, taps included; None if there is none."""
        if self.inner == 1:
            first = int(self.taps[1] - self.taps[0]) if len(self.taps) > 1 else 1
            return first if is_even(self.taps) else None
        follows = np.all(np.diff(self.taps) == self.inner * self.step)
        return self.step if follows else None


class Target(NamedTuple):
    """Where the elements of a result are: ``batches[b] + rows[r] + columns[j]``."""

    rows: Offsets
    columns: Offsets
    batches: Offsets

    @property
    def turned(self) -> Target:
        return Target(self.columns, self.rows, self.batches)


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


def second_cache(registers: Registers) -> int:
    """Bytes of the second cache: processors with registers of 64 bytes have twice as much of it."""
    return SECOND * 2 if registers.bytes == 64 else SECOND


def sets_of(apart: int, cache: int) -> int:
    """How many sets of a cache hold lines that are so many bytes apart."""
    lines, rest = divmod(abs(apart), LINE)
    sets = cache // (WAYS * LINE)
    return sets if rest else sets // gcd(sets, lines)


def is_beside(offsets: Offsets) -> bool:
    return bool(np.all(np.diff(offsets) == 1))


def is_even(offsets: Offsets) -> bool:
    """Whether all steps from one offset to the next are the same."""
    steps = np.diff(offsets)
    return bool(np.all(steps == steps[:1]))


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
        kind: of all elements; products of 16-bit ones are summed in 32 bits.
        registers: of the processor.
        how: ``accumulate=True`` adds to what the target holds; ``packed=True`` says that buffer b
            holds B packed already; with ``whole_rows=True`` only rows are cut into parts; operands
            that ``still`` names are packed once for many calls.
    """
    columns = np.arange(len(b.rows), dtype=np.int64)
    return Planner(a, b, Target(target.rows, columns, target.batches), kind, registers, **how).works


class Planner:
    """Decides about one contraction."""

    def __init__(
        self,
        a: Matrix,
        b: Matrix,
        target: Target,
        kind: str,
        registers: Registers,
        accumulate: bool = False,
        packed: bool = False,
        whole_rows: bool = False,
        still: str = "",
    ) -> None:
        self.stored, self.kind = kind, "f32" if kind in SMALL else kind
        self.still = still
        self.registers, self.accumulate, self.whole_rows = registers, accumulate, whole_rows
        self.lanes = registers.bytes // width(self.kind)
        self.works = Works(self.kind)
        if len(a.rows) and len(b.rows) and len(target.batches):
            self.decide(a, b, target, packed)

    def decide(self, a: Matrix, b: Matrix, target: Target, packed: bool) -> None:
        """Takes the form that reads the operands best."""
        straight, turned = (a, b, target, "a", "b"), (b, a, target.turned, "b", "a")
        if packed or self.stored != self.kind:
            return self.sweep(*straight, packed=packed)
        for form, few in ((straight, FEW), (turned, self.lanes // 2)):
            if self.takes_scaled(*form[:3]):
                return self.scaled(*form)
            if self.takes_dots(*form[:2], few):
                return self.dots(*form)
        return self.sweep(*(turned if self.takes_turned(*straight[:3]) else straight))

    def takes_turned(self, a: Matrix, b: Matrix, target: Target) -> bool:
        """Whether few columns are better seen as rows, so that registers are full."""
        narrow = len(b.rows) <= self.lanes * 3 // 4 and len(a.rows) >= 4 * self.lanes
        if not narrow or a.depth < LONG or self.whole_rows:
            return False
        return a.beside and a.even is not None and is_even(target.rows)

    def takes_dots(self, a: Matrix, b: Matrix, few: int) -> bool:
        """Whether B lies along the sums, and rows are too few for tiles or for packing B."""
        if len(a.rows) > few or not b.along:
            return False
        if len(a.rows) == 1:
            return a.depth >= SHORT
        long = a.depth >= max(2 * self.lanes, 8 * len(a.rows))
        return long and (a.along or len(b.rows) >= 4 * len(a.rows))

    def takes_scaled(self, a: Matrix, b: Matrix, target: Target) -> bool:
        """Whether one row is multiplied by a matrix whose rows are read as they are."""
        reads = b.beside and b.even is not None and is_beside(target.columns)
        return len(a.rows) == 1 and reads and a.depth > 0 and len(b.rows) > VECTORS * self.lanes

    def scaled(self, a: Matrix, b: Matrix, target: Target, first: str, second: str) -> None:
        """A sum of scaled rows."""
        n, k, batches = len(b.rows), a.depth, len(target.batches)
        if a.even is None:
            a, first = self.pack(a, 1, first)
        wanted = self.wanted(n * k * batches)
        column_parts = -(-n // COLUMN_BLOCK)
        block = -(-n // (column_parts * self.lanes)) * self.lanes
        sums = self.sums(wanted // (column_parts * batches), k // LONG, target)
        sum_block = -(-k // (sums * TOGETHER)) * TOGETHER
        sums = max(1, -(-k // sum_block)) if k else 1
        into, name = self.into(target, sums)
        numbers = {
            "sum_parts": sums,
            "column_parts": column_parts,
            "columns": n,
            "column_block": block,
            "inner": k,
            "sum_block": sum_block,
            "sum_size": n if sums > 1 else 0,
            "a_step": a.even or 0,
            "b_step": b.even or 0,
            "accumulate": int(self.accumulate and name == "y"),
        }
        own = (a.rows[0] + a.taps[0], b.rows[0] + b.taps[0], into.rows[0] + into.columns[0])
        lists = {"batches": self.batches(a, b, into) + np.array(own)}
        data = table(SCALED_FIELDS, numbers, lists)
        buffers = (first, second, "table", name)
        parts = column_parts * sums * batches
        self.add(f"scaled_{self.kind}", buffers, data, parts, n * k * batches)
        self.fold(target, sums, name)

    def dots(self, a: Matrix, b: Matrix, target: Target, first: str, second: str) -> None:
        """Dot products of a few rows with all columns."""
        m, n, k = len(a.rows), len(b.rows), a.depth
        if not a.along:
            a, first = self.pack(a, 1, first)
        high = m if m <= MOST else -(-m // -(-m // MOST))
        cost = max(m, READ) * n * k * len(target.batches)
        wanted = self.wanted(cost)
        block = max(1, -(-n // max(1, wanted // len(target.batches))))
        block = -(-block // COLUMNS[high]) * COLUMNS[high]
        column_parts = -(-n // block)
        sums = self.sums(wanted // (column_parts * len(target.batches)), k // (8 * DEPTH), target)
        sum_block = -(-k // (sums * self.lanes)) * self.lanes
        sums = max(1, -(-k // sum_block)) if k else 1
        into, name = self.into(target, sums, free=True)
        numbers = {
            "sum_parts": sums,
            "column_parts": column_parts,
            "rows": m,
            "columns": n,
            "column_block": block,
            "inner": k,
            "sum_block": sum_block,
            "sum_size": m * n if sums > 1 else 0,
            "accumulate": int(self.accumulate and name == "y"),
        }
        lists = {
            "batches": self.batches(a, b, into),
            "row_offsets": a.rows + a.taps[0],
            "column_offsets": b.rows + b.taps[0],
            "target_rows": into.rows,
            "target_columns": into.columns,
        }
        data = table(DOTS_FIELDS, numbers, lists)
        buffers = (first, second, "table", name)
        parts = column_parts * sums * len(target.batches)
        self.add(f"dots_{self.kind}_{high}", buffers, data, parts, cost)
        self.fold(target, sums, name)

    def sweep(
        self,
        a: Matrix,
        b: Matrix,
        target: Target,
        first: str,
        second: str,
        packed: bool = False,
    ) -> None:
        """Tiles of the micro-kernel."""
        m, n, k = len(a.rows), len(b.rows), a.depth
        panel = self.lanes * VECTORS
        reading = PACKED if packed else self.reading(b, m, second in self.still)
        if packed:
            b = packed_form(b, panel)
        elif reading == PACKED:
            b, second = self.pack(b, panel, second)
        strips = False
        if self.packs_first(a, n, packed):
            strips = in_strips(self.registers)
            a, first = self.pack(a, STRIP if strips else tile_rows(self.registers)[0], first)
        blocks = blocks_of(a)
        batches, copied = len(target.batches), reading == COPIED
        wanted = self.wanted(m * n * k * batches)
        most = self.sums(wanted, len(blocks), target)
        cuts = {s: self.cut(m, n, k // s, batches * s, panel, copied) for s in powers(most)}

        def parts_of(cut: Mapping[str, int]) -> int:
            return cut["row_parts"] * cut["column_parts"] * batches

        def price(sums: int) -> tuple[bool, int]:
            return 2 * sums * parts_of(cuts[sums]) < wanted, moved(m, n, k, sums, cuts[sums])

        sums = min(cuts, key=price)
        numbers, parts = cuts[sums], parts_of(cuts[sums])
        per_sum = -(-len(blocks) // sums)
        sums = -(-len(blocks) // per_sum)
        into, name = self.into(target, sums)
        numbers |= {
            "sum_parts": sums,
            "sum_blocks": per_sum,
            "sum_size": m * n if sums > 1 else 0,
            "block_count": len(blocks),
            "rows": m,
            "columns": n,
            "a_step": a.step,
            "b_step": panel if reading == PACKED else b.even or 0,
            "b_panel": panel * k if reading == PACKED else panel,
            "reading": reading,
            "strips": int(strips),
            "accumulate": int(self.accumulate and name == "y"),
        }
        lists = {
            "batches": self.batches(a, b, into),
            "blocks": blocks,
            "row_offsets": a.rows,
            "target_offsets": into.rows,
            "taps": a.taps,
        }
        data = table(FIELDS, numbers, lists)
        buffers = (first, second, "table", name)
        self.add(
            f"contract_{self.kind}",
            buffers,
            data,
            parts * sums,
            m * n * k * len(target.batches),
        )
        self.fold(target, sums, name)

    def batches(self, a: Matrix, b: Matrix, target: Target) -> Offsets:
        return np.stack(np.broadcast_arrays(a.batches, b.batches, target.batches), 1)

    def add(
        self, name: str, buffers: tuple[str, ...], data: Offsets, parts: int, cost: int
    ) -> None:
        """A work that costs so many multiply-adds; as many parts are a chunk as are worth one."""
        chunk = max(1, min(parts, PART * parts // max(1, cost)))
        self.works.list.append(Work(name, buffers, data, parts, chunk))

    def wanted(self, cost: int) -> int:
        """How many parts a contraction should have."""
        return max(1, min(PARTS, cost // PART))

    def sums(self, wanted: int, most: int, target: Target) -> int:
        """In how many parts the sums are taken: several if there is little else to share."""
        parts = 1 if self.whole_rows else max(1, min(wanted, most))
        return parts if parts == 1 or is_even(target.columns) else 1

    def into(self, target: Target, sums: int, free: bool = False) -> tuple[Target, str]:
        """Where sums go: to the result, or to memory of their own if there are several.

        Unless they are ``free`` to go anywhere, their columns lie beside each other.
        """
        if sums == 1 and self.stored == self.kind and (free or is_beside(target.columns)):
            return target, "y"
        m, n, count = len(target.rows), len(target.columns), len(target.batches)
        self.works.space["sums"] = count * sums * m * n
        rows, columns = np.arange(m, dtype=np.int64) * n, np.arange(n, dtype=np.int64)
        return Target(rows, columns, np.arange(count, dtype=np.int64) * (sums * m * n)), "sums"

    def fold(self, target: Target, sums: int, name: str) -> None:
        """Adds partial sums up."""
        if name == "y":
            return
        m, n = len(target.rows), len(target.columns)
        numbers = {
            "rows": m,
            "columns": n,
            "sums": sums,
            "sum_size": m * n,
            "step": int(target.columns[1] - target.columns[0]) if n > 1 else 1,
            "accumulate": int(self.accumulate),
        }
        lists = {"batches": target.batches, "row_offsets": target.rows}
        data = table(FOLD_FIELDS, numbers, lists)
        parts = m * len(target.batches)
        chunk = max(1, min(parts, PART // 4 // max(1, n * sums)))
        work = Work(Fold(self.kind, self.stored).name, (name, "table", "y"), data, parts, chunk)
        self.works.list.append(work)

    def reading(self, b: Matrix, m: int, still: bool) -> int:
        """How B is read: where it lies if that is only a few times, else from panels.

        Rows at steps of a power of two fall into few sets of a cache and drive each other out.
        Panels of a large B are made where they are needed: all of them would not stay near. For
        high tiles that is so for very few rows only: each row of a panel is on another page.
        """
        if not b.depth:
            return DIRECT
        if self.stored != self.kind or not b.beside or b.even is None:
            return PACKED
        high = tile_rows(self.registers)[0] > 6
        size = len(b.rows) * b.depth * width(self.kind)
        sets = sets_of(b.even * width(self.kind), second_cache(self.registers))
        near = min(b.depth, DEPTH) <= sets * WAYS
        if size > SECOND:
            direct, copied = (0, SCANT) if high else (THIN, 2 * ROWS)
        else:
            direct, copied = TALL if high else THIN, 0
        if still and m > SCANT:
            direct = copied = 0
        if (m <= direct and near) or (m <= ROWS and size <= FIRST):
            return DIRECT
        return COPIED if m <= copied and not still else PACKED

    def packs_first(self, a: Matrix, n: int, again: bool) -> bool:
        """Whether A is packed: it must be converted, or its rows get in each other's way.

        High tiles read it so seldom that it may lie anywhere unless the columns are many. But if
        its sums lie across memory each of their elements is on another page. If B was packed for
        many products ``again`` and again, such a tile leaves A to each of them as it lies.
        """
        if self.stored != self.kind:
            return a.depth > 0
        size, panel, most = len(a.rows) * a.depth, VECTORS * self.lanes, 0
        if tile_rows(self.registers)[0] <= 6:
            least, most = (8, 4 * NEAR) if a.along else (3, NEAR)
        elif again:
            return False
        elif a.along:
            least = 8 if self.collide(a) else 16
        else:
            least = 2 if size > NEAR // 2 else 8
        return n >= least * panel and len(a.taps) == 1 and size > most

    def collide(self, a: Matrix) -> bool:
        """Whether the rows of a tile drive each other out of the half of a cache they have."""
        if len(a.rows) < 2 or not is_even(a.rows):
            return False
        apart = int(a.rows[1] - a.rows[0]) * width(self.kind)
        return apart != 0 and 2 * tile_rows(self.registers)[0] > sets_of(apart, FIRST) * WAYS

    def pack(self, x: Matrix, wide: int, name: str) -> tuple[Matrix, str]:
        """A copy of an operand in panels."""
        packing = Packing(self.kind, self.stored, wide, "any" if wide == 1 else access_of(x))
        packed = packed_form(x, wide)
        panels, blocks = -(-len(x.rows) // wide), -(-x.inner // PIECES)
        numbers = {
            "panels": panels,
            "blocks": blocks,
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
        size = panels * wide * x.depth * len(lists["batches"])
        parts = (panels if packing.by_panels else blocks * len(x.taps)) * len(lists["batches"])
        chunk = shared_out(parts, size // COPY)
        data = table(PACKING_FIELDS, numbers, lists)
        place = f"packed {name}"
        self.works.list.append(Work(packing.name, (name, "table", place), data, parts, chunk))
        self.works.space[place] = size
        return packed, place

    def cut(self, m: int, n: int, k: int, batches: int, panel: int, copied: bool) -> dict[str, int]:
        """Parts of one contraction: blocks of rows by blocks of panels.

        A large B is read anew, or copied, for each block of rows: then few rows stay together.
        """
        panels, high = -(-n // panel), tile_rows(self.registers)[0]
        wanted = self.wanted(m * n * k * batches)
        together = m <= 2 * ROWS and n * k * width(self.kind) > SECOND
        room = second_cache(self.registers) > SECOND
        row_parts = -(-m // (2 * ROWS if together or room else ROWS))
        rows = -(-m // (row_parts * high)) * high
        per, whole = panels, self.whole_rows

        def too_few() -> bool:
            return batches * row_parts * -(-panels // per) < wanted

        while not whole and too_few() and per > 4:
            per = -(-per // 2)
        while not (copied or together) and too_few() and rows > (2 if whole else 4) * high:
            rows = -(-rows // 2 // high) * high
            row_parts = -(-m // rows)
        while not whole and too_few() and per > 1:
            per = -(-per // 2)
        column_parts = -(-panels // per)
        others = batches * column_parts
        row_parts, rows = balanced(m, -(-m // rows), others, self.registers)
        return {
            "row_parts": row_parts,
            "column_parts": column_parts,
            "row_block": rows,
            "panels": panels,
            "panel_block": per,
        }


def moved(m: int, n: int, k: int, sums: int, cut: Mapping[str, int]) -> int:
    """How many elements parts read and write: operands once for each, and sums of their own."""
    read = k * (m * cut["column_parts"] + n * cut["row_parts"])
    return read + (4 * sums * m * n if sums > 1 else 0)


def powers(most: int) -> list[int]:
    """The powers of two up to ``most``, and itself."""
    return [*[1 << n for n in range(most.bit_length()) if 1 << n < most], most]


def balanced(m: int, parts: int, others: int, registers: Registers) -> tuple[int, int]:
    """About as many parts of rows, and the rows of one, such that threads end together.

    Two threads do, and four if they can. There are ``others`` of each part; if there are many of
    all, any share is near enough.
    """
    high, low = tile_rows(registers)
    if parts == 1 or parts * others > 2 * PARTS:
        return parts, -(-m // (parts * high)) * high

    def cut(count: int) -> tuple[int, int]:
        rows = -(-m // (count * (high - low))) * (high - low)
        return -(-m // rows), rows

    def time(cut: tuple[int, int]) -> tuple[int, int]:
        two, four = [-(-cut[0] * others // n) * n * cut[1] for n in (2, 4)]
        return 2 * two + four, two

    return min([cut(n) for n in range(parts - parts // 3, parts + 2)], key=time)


def shared_out(parts: int, worth: int) -> int:
    """How many parts are a chunk, if so many chunks are ``worth`` a thread's while.

    They are so small that threads end together; a work that is worth none is one chunk.
    """
    return parts if worth < 2 else max(1, -(-parts // max(worth, PARTS)))


def access_of(x: Matrix) -> str:
    """Which elements of an operand lie beside each other: :class:`Packing`."""
    if x.beside:
        return "rows"
    if x.step == 1 and x.inner >= BLOCK:
        return "inner"
    return "taps" if len(x.taps) >= BLOCK and is_beside(x.taps) else "any"


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
    if taps * inner <= DEEPEST:
        return [(0, taps, 0, inner, 0)]
    if inner <= DEPTH:
        count = -(-taps // (DEPTH // max(1, inner)))
        edges = [n * taps // count for n in range(count + 1)]
        return [(p, q - p, 0, inner, p * inner) for p, q in pairwise(edges)]
    count = -(-inner // DEPTH)
    edges = [n * inner // count for n in range(count + 1)]
    return [(t, 1, p, q - p, t * inner + p) for t in range(taps) for p, q in pairwise(edges)]


@functools.cache
def text_of(name: str, registers: Registers) -> str:
    """The text of a native function by its name."""
    what, kind, *rest = name.split("_")
    if what == "pack":
        return Packing(kind, rest[0], int(rest[1]), rest[2]).text(registers)
    if what == "fold":
        return Fold(kind, rest[0]).text(registers)
    if what == "dots":
        return Dots(kind, registers, int(rest[0])).text()
    if what == "scaled":
        return Scaled(kind, registers).text()
    return Sweep(kind, registers).text()
