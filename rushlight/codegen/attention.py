"""Attention as a nest of blocks: of all weights only a block exists at a time.

A pair of blocks, of queries and of keys, makes a block of scores q · kᵀ, which becomes weights and
is multiplied by the values. The gradient computes the weights again, from the largest score and the
sum of each row:

    dv += wᵀ · g,   d = (g · vᵀ − Σ g · y) w scale,   dq += d · k,   dk += dᵀ · q

Both products and both directions are the contraction engine's. A block of the largest size, and
those at the edges, have works of their own.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from rushlight.codegen.fill import FIELDS as FILL_FIELDS
from rushlight.codegen.fill import NAME as FILL
from rushlight.codegen.instructions import width
from rushlight.codegen.microkernel import Registers
from rushlight.codegen.native import table
from rushlight.codegen.nest import HERE, TABLE, Call, Nest, Spot, Unit
from rushlight.codegen.products import Place
from rushlight.codegen.tiling import Matrix, Work, plan
from rushlight.codegen.weights import FIELDS, STAGES

ROWS, COLUMNS = 96, 128  # the most queries and keys of a block; fewer if half can be left out
SHARES = 16  # parts that are worth while, if there are as many units
KINDS = ("f32", "f64")
NONE = np.zeros(1, np.int64)


class Operand(NamedTuple):
    """A tensor of matrices: steps of its rows and columns, and where each matrix begins."""

    rows: int
    columns: int
    row_step: int
    column_step: int
    batches: tuple[int, ...]


class Block(NamedTuple):
    """A block of an operand: of which buffer or working memory, its steps, and where it is."""

    row_step: int
    column_step: int
    spot: Spot


@dataclass(frozen=True, slots=True)
class Attended:
    """Attention as native works.

    Args:
        nest: what is run.
        zeroed: buffers that must be zeros before, and their elements.
        space: elements of working memory.
    """

    nest: Nest
    zeroed: Mapping[str, int]
    space: int

    def works(self, kind: str) -> list[Work]:
        """What makes the zeros."""
        return [zeros(name, size * width(kind)) for name, size in self.zeroed.items()]


def zeros(name: str, size: int) -> Work:
    """The work that fills a buffer of that many bytes with zeros."""
    steps = dict.fromkeys(FILL_FIELDS, 0)
    numbers = steps | {"run": size, "middle_count": 1, "inner_count": 1}
    return Work(FILL, (name, "table"), table(FILL_FIELDS, numbers, {}), 1)


def operand(place: Place, batch: tuple[int, ...]) -> Operand:
    """A tensor seen as one matrix for each element of the batch; what is broadcast has no steps."""
    shape = (*(1,) * (len(batch) + 2 - len(place.shape)), *place.shape)
    strides = (*(0,) * (len(shape) - len(place.shape)), *place.strides)
    found = np.full(1, place.offset, np.int64)
    for size, own, step in zip(batch, shape, strides, strict=False):
        moved = np.arange(size, dtype=np.int64) * (step if own > 1 else 0)
        found = np.add.outer(found, moved).ravel()
    rows, columns = [s if n > 1 else 0 for n, s in zip(shape[-2:], strides[-2:], strict=True)]
    return Operand(shape[-2], shape[-1], rows, columns, tuple(found.tolist()))


class Plan:
    """Writes the calls of a nest."""

    def __init__(
        self,
        kind: str,
        registers: Registers,
        operands: Mapping[str, Place],
        scale: float,
        causal: bool,
    ) -> None:
        self.kind, self.registers, self.scale, self.causal = kind, registers, scale, causal
        self.bytes = width(kind)
        batch = np.broadcast_shapes(*[operands[x].shape[:-2] for x in ("q", "k", "v")])
        self.operands = {name: operand(place, batch) for name, place in operands.items()}
        self.rows, self.columns = self.operands["q"].rows, self.operands["k"].rows
        self.inner, self.wide = self.operands["q"].columns, self.operands["v"].columns
        self.row_size = even(self.rows, ROWS, 4)
        most = COLUMNS // 2 if causal and self.columns <= COLUMNS else COLUMNS
        self.column_size = even(self.columns, most, 2 * registers.bytes // self.bytes)
        self.row_blocks = -(-self.rows // self.row_size)
        self.column_blocks = -(-self.columns // self.column_size)
        self.extras = tuple([name for name in ("bias", "noise") if name in operands])
        self.regions: dict[str, int] = {}
        self.calls: dict[tuple[str, bool, bool], list[Call]] = {}

    def sizes(self) -> list[tuple[bool, bool, int, int]]:
        """The blocks that there are: whether they are the last ones, and their sizes."""
        rows = self.ends(self.rows, self.row_size, self.row_blocks)
        columns = self.ends(self.columns, self.column_size, self.column_blocks)
        return [(r, c, m, n) for (r, m), (c, n) in product(rows, columns)]

    def ends(self, count: int, size: int, blocks: int) -> list[tuple[bool, int]]:
        last = (True, count - (blocks - 1) * size)
        return [(False, size), last] if blocks > 1 else [last]

    def end_of(self, last_row: int) -> int:
        """The blocks of columns that rows before ``last_row`` see."""
        seen = min(self.columns, last_row) if self.causal else self.columns
        return -(-seen // self.column_size)

    def region(self, name: str, size: int) -> Spot:
        """Working memory of each share; where it is, is decided at the end."""
        self.regions[name] = max(size, self.regions.get(name, 0))
        return Spot(name)

    def of_rows(self, name: str) -> Block:
        """Rows of queries of an operand."""
        x = self.operands[name]
        return Block(x.row_step, x.column_step, self.spot(name, row=x.row_step * self.row_size))

    def of_columns(self, name: str) -> Block:
        """Rows of keys of an operand."""
        x = self.operands[name]
        step = x.row_step * self.column_size
        return Block(x.row_step, x.column_step, self.spot(name, column=step))

    def spot(self, name: str, row: int = 0, column: int = 0) -> Spot:
        x = self.operands[name]
        units = tuple([offset * self.bytes for offset in x.batches])
        return Spot(name, 0, units, 0, row * self.bytes, column * self.bytes)

    def add(self, moment: str, last_row: bool, last_column: bool, call: Call) -> None:
        """A call, once."""
        calls = self.calls.setdefault((moment, last_row, last_column), [])
        key = (call.name, call.operands, call.table.tobytes())
        if moment == "pair" or key not in [(c.name, c.operands, c.table.tobytes()) for c in calls]:
            calls.append(call)

    def multiply(
        self,
        last: tuple[bool, bool],
        sizes: tuple[int, int, int],
        a: Block,
        b: Block,
        y: Block,
        accumulate: bool,
    ) -> None:
        """y[m, n] (+)= Σ a[m, k] · b[n, k]: steps of a block are those of its two indices here."""
        m, n, k = sizes
        first = Matrix(np.arange(m) * a.row_step, NONE, k, a.column_step, NONE)
        second = Matrix(np.arange(n) * b.row_step, NONE, k, b.column_step, NONE)
        target = Matrix(np.arange(m) * y.row_step, NONE, 1, 1, NONE)
        how = {"accumulate": accumulate, "whole_rows": True}
        works = plan(first, second, target, self.kind, self.registers, **how)
        spots: dict[str, Spot | int] = {"a": a.spot, "b": b.spot, "y": y.spot, "table": TABLE}
        for work in works.list:
            early = work.name.startswith("pack_") and "b" in work.buffers and self.stays(b.spot)
            whose = f"of {b.spot.buffer} by {b.row_step}" if early else ""
            for name in work.buffers:
                if name not in spots:
                    key = f"{name} {work.name} {whose}"
                    spots[name] = self.region(key, works.space[name])
            operands = tuple([spots[name] for name in work.buffers])
            call = Call(work.name, operands, work.table, work.parts)
            if early:
                self.add("columns", False, last[1], call)
            else:
                self.add("pair", *last, call)

    def stays(self, spot: Spot) -> bool:
        """Whether an operand is the same for all blocks of rows."""
        return spot.buffer in self.operands and not spot.row

    def stage(
        self,
        moment: str,
        last: tuple[bool, bool],
        sizes: tuple[int, int],
        name: str,
        spots: Mapping[str, Spot],
        extras: Sequence[str] = (),
    ) -> None:
        """A stage over the rows of a block."""
        made = STAGES[name](self.kind, self.registers, tuple(extras))
        numbers = dict.fromkeys(FIELDS, 0)
        for x in {*extras, "y", "g"} & {*self.operands}:
            numbers[f"{x}_step"] = self.operands[x].row_step
        numbers |= {
            "columns": sizes[1],
            "width": self.wide,
            "step": self.column_size,
            "causal": int(self.causal),
            "scale": struct.unpack("<q", struct.pack("<d", self.scale))[0],
        }
        places: dict[str, Spot | int] = {"table": TABLE, "here": HERE, **spots}
        for x in extras:
            step = (self.operands[x].row_step * self.row_size, self.column_size)
            places[x] = self.spot(x, *step)
        operands = tuple([places[x] for x in made.buffers])
        self.add(moment, *last, Call(made.name, operands, table(FIELDS, numbers, {}), sizes[0]))

    def finish(self, units: list[Unit], edges: list[int], repeats: int) -> tuple[Nest, int]:
        """The nest, with places for all regions; each matrix is ``repeats`` units."""
        offsets, size = {}, 0
        for name, count in self.regions.items():
            offsets[name] = size
            size += -(-count * self.bytes // 64) * 64

        def placed(spot: Spot | int) -> Spot | int:
            if isinstance(spot, int):
                return spot
            if spot.buffer in offsets:
                return Spot("space", offsets[spot.buffer], (), size, spot.row, spot.column)
            return spot._replace(units=tuple([u for u in spot.units for _ in range(repeats)]))

        calls = {
            key: [call._replace(operands=tuple([placed(s) for s in call.operands])) for call in own]
            for key, own in self.calls.items()
        }
        sizes = (self.row_size, self.column_size, self.row_blocks, self.column_blocks)
        nest = Nest(*sizes, self.causal, units, edges, calls)
        return nest, size * nest.shares // self.bytes


def even(count: int, most: int, multiple: int) -> int:
    """The size of blocks of about one size, none larger than ``most``.

    >>> even(100, 96, 4), even(96, 96, 4)
    (52, 96)
    """
    blocks = -(-count // most)
    return -(-count // (blocks * multiple)) * multiple


def dealt(count: int) -> list[int]:
    """The first unit of each share, and their number."""
    shares = min(SHARES, count)
    return [n * count // shares for n in range(shares + 1)]


def forward(
    kind: str, registers: Registers, operands: Mapping[str, Place], scale: float, causal: bool
) -> Attended | None:
    """Attention of q, k, v and perhaps bias and noise; results are y, tops and totals."""
    if not takes(kind, operands):
        return None
    p = Plan(kind, registers, operands, scale, causal)
    q, k, v, y = p.of_rows("q"), p.of_columns("k"), p.of_columns("v"), p.of_rows("y")
    rows = {x: p.of_rows(x).spot for x in ("y", "tops", "totals")}
    s = Block(p.column_size, 1, p.region("scores", p.row_size * p.column_size))
    turned = Block(v.column_step, v.row_step, v.spot)
    for r, c, m, n in p.sizes():
        p.multiply((r, c), (m, n, p.inner), q, k, s, False)
        p.stage("pair", (r, c), (m, n), "weigh", {"s": s.spot, **rows}, p.extras)
        p.multiply((r, c), (m, p.wide, n), s, turned, y, True)
        p.stage("end", (r, False), (m, 0), "settle", rows)
    count = len(p.operands["q"].batches)
    groups = max(1, min(p.row_blocks // 2, SHARES // count))
    edges = [g * p.row_blocks // groups for g in range(groups + 1)]
    pairs = [*pairwise(edges)]
    units = [Unit(a, b, p.end_of(b * p.row_size)) for _ in range(count) for a, b in pairs]
    nest, space = p.finish(units, dealt(len(units)), groups)
    return Attended(nest, {}, space)


def takes(kind: str, operands: Mapping[str, Place]) -> bool:
    """Whether there is a nest for operands: none is empty, and columns of some lie beside."""
    if kind not in KINDS or any([0 in place.shape for place in operands.values()]):
        return False
    beside = [operands[x] for x in ("y", "g", "bias", "noise", "dq", "dk", "dv") if x in operands]
    columns = operands["k"].shape[-2]
    masks = [operands[x].shape[-1] for x in ("bias", "noise") if x in operands]
    return all([p.strides[-1] == 1 or p.shape[-1] == 1 for p in beside]) and all(
        [n == columns for n in masks]
    )


def backward(
    kind: str, registers: Registers, operands: Mapping[str, Place], scale: float, causal: bool
) -> Attended | None:
    """The gradients dq, dk and dv, from g, the operands and the results of :func:`forward`."""
    if not takes(kind, operands):
        return None
    p = Plan(kind, registers, operands, scale, causal)
    queries, *others = [p.operands[x].batches for x in ("dq", "dk", "dv")]
    groups = whole_groups(queries, others[0])
    if groups is None or groups != whole_groups(queries, others[1]):
        return None
    q, g, dq = [p.of_rows(x) for x in ("q", "g", "dq")]
    k, v, dk, dv = [p.of_columns(x) for x in ("k", "v", "dk", "dv")]
    size = p.row_size * p.column_size
    s, d = [Block(p.column_size, 1, p.region(x, size)) for x in ("scores", "gradients")]
    overlaps = p.region("overlaps", p.rows)._replace(row=p.row_size * p.bytes)
    rows = {x: p.of_rows(x).spot for x in ("tops", "totals")} | {"overlaps": overlaps}
    for r, c, m, n in p.sizes():
        spots = {"g": g.spot, "y": p.of_rows("y").spot, "overlaps": overlaps}
        p.stage("begin", (r, False), (m, 0), "overlap", spots)
        p.multiply((r, c), (m, n, p.inner), q, k, s, False)
        p.multiply((r, c), (m, n, p.wide), g, v, d, False)
        stage = {"s": s.spot, "d": d.spot, **rows}
        p.stage("pair", (r, c), (m, n), "unweigh", stage, p.extras)
        p.multiply((r, c), (n, p.wide, m), turn(s), turn(g), dv, True)
        p.multiply((r, c), (n, p.inner, m), turn(d), turn(q), dk, True)
        p.multiply((r, c), (m, p.inner, n), d, turn(k), dq, True)
    count = len(p.operands["q"].batches)
    units = [Unit(0, p.row_blocks, p.end_of(p.rows)) for _ in range(count)]
    edges = [edge * (count // groups) for edge in dealt(groups)]
    nest, space = p.finish(units, edges, 1)
    sizes = {x: int(np.prod(operands[x].shape)) for x in ("dq", "dk", "dv")}
    return Attended(nest, sizes, space)


def turn(x: Block) -> Block:
    """A block, transposed."""
    return Block(x.column_step, x.row_step, x.spot)


def whole_groups(queries: Sequence[int], keys: Sequence[int]) -> int | None:
    """How many groups of units have keys of their own; None if units share more than that."""
    if len(set(queries)) < len(queries):
        return None
    groups = len(set(keys))
    size = len(keys) // groups
    runs = all([len(set(keys[n : n + size])) == 1 for n in range(0, len(keys), size)])
    return groups if runs else None


NESTS = {"attend": forward, "attend_gradient": backward}
"""By the names of ops (:mod:`rushlight.ops.attention_blocks`), whose operands and results have the
names that buffers have here."""


def attended(
    name: str,
    kind: str,
    registers: Registers,
    places: Mapping[str, Place],
    scale: float,
    causal: bool,
) -> Attended | None:
    """The works of an op whose operands and results are at ``places``; None if there are none."""
    return NESTS[name](kind, registers, places, scale, causal)
