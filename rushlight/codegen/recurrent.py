"""Recurrent layers: a product and a cell for each step of time, in one loop of native code.

Rows lie step after step, one for each sequence. Sequences do not depend on each other, so threads
share *them*: each runs through all steps by itself, and nobody waits for anybody between two steps.
States have one block of rows more than there are steps: that of the beginning.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from rushlight.codegen.contraction import FIELDS as PRODUCT_FIELDS
from rushlight.codegen.contraction import VECTORS
from rushlight.codegen.instructions import width
from rushlight.codegen.kernel import Kernel, Stage, Store, make_kernel
from rushlight.codegen.microkernel import Registers
from rushlight.codegen.native import NativeText, table
from rushlight.codegen.pull import Buffer
from rushlight.codegen.schedule import LOCAL_BYTES
from rushlight.codegen.tiling import Matrix, Planner, Target, Work, Works
from rushlight.codegen.traverse import substitute
from rushlight.codegen.values import Builder, Loop, Value
from rushlight.kernels.cells import Blocks

FIELDS = (
    "steps", "rows", "row_block", "row_parts", "backwards", "cell_first", "cell", "copy_count",
    "copies",
)  # fmt: skip
"""The table: steps of time, sequences, those of a part, parts; whether time runs backwards, whether
the cell comes before the product, where its buffers begin, and what is copied at the beginning."""

NAME = "recur_u8"
SEVERAL = 2  # steps for which the kernel of a cell is made: how many there are, the table says


@dataclass(frozen=True, slots=True)
class Shape:
    """Of a recurrent layer: steps of time, sequences, features of a state, blocks of gates."""

    steps: int
    rows: int
    features: int
    gates: int
    reverse: bool  # whether the last step comes first

    @property
    def past(self) -> int:
        """Rows from a step to the state before it, in a buffer of states."""
        return self.rows if self.reverse else 0

    @property
    def now(self) -> int:
        """Rows from a step to the state after it."""
        return 0 if self.reverse else self.rows

    @property
    def first(self) -> int:
        """Where the rows of the state of the beginning are."""
        return self.steps * self.rows if self.reverse else 0


class Step:
    """Builds the kernel of a step of time: elements by buffer, block and row.

    Args:
        shape: of the layer.
        kind: of all elements.
        offsets: where in their memory operands begin that do not begin with it, in elements.
        apart: whether states after the step are buffers of their own.
    """

    def __init__(
        self, shape: Shape, kind: str, offsets: Mapping[str, int], apart: bool = False
    ) -> None:
        self.shape, self.kind, self.offsets, self.b = shape, kind, offsets, Builder()
        self.apart = apart
        self.loops = [
            Loop("t", shape.steps),
            Loop("r", shape.rows),
            Loop("j", shape.features),
        ]
        self.t, self.r, self.j = [self.b.variable(loop) for loop in self.loops]
        self.buffers: dict[str, Buffer] = {}
        self.stages: list[list[Store]] = [[]]
        self.known: dict[Value, Value] = {}  # what stages have stored, and how it is read again

    def buffer(self, name: str, rows: int, blocks: int) -> Buffer:
        if name not in self.buffers:
            wide = blocks * self.shape.features
            before = -(-self.offsets.get(name, 0) // wide)
            self.buffers[name] = Buffer(self.kind, (before + rows, wide))
        return self.buffers[name]

    def place(self, row: Value, blocks: int, block: int, offset: int = 0) -> Value:
        n = self.shape.features
        start = self.b.constant(1, "index"), block * n + offset
        return self.b.affine([(row, blocks * n), (self.j, 1), start])

    def row(self, offset: int = 0) -> Value:
        return self.t * self.shape.rows + self.r + offset

    def load(self, name: str, rows: int, row: Value, blocks: int = 1) -> list[Value]:
        buffer, offset = self.buffer(name, rows, blocks), self.offsets.get(name, 0)
        places = [self.place(row, blocks, block, offset) for block in range(blocks)]
        return [self.b.load(buffer, self.kind, (place,)) for place in places]

    def store(self, name: str, rows: int, row: Value, values: Sequence[Value]) -> None:
        buffer, blocks = self.buffer(name, rows, len(values)), len(values)
        for block, value in enumerate(self.renewed(values)):
            self.stages[-1].append(Store(buffer, self.place(row, blocks, block), value))

    def sequence(self, name: str, blocks: int) -> list[Value]:
        """Elements of what has a row for every step."""
        return self.load(name, self.shape.steps * self.shape.rows, self.row(), blocks)

    def put(self, name: str, values: Sequence[Value]) -> None:
        self.store(name, self.shape.steps * self.shape.rows, self.row(), values)

    def forward(self, op: Any, unused: Container[str]) -> None:
        """The cell of a layer; ``unused`` results are not stored."""
        shape, count = self.shape, op.cell.states
        every = (shape.steps + 1) * shape.rows
        z, p = (
            self.sequence("z", shape.gates),
            self.load("product", shape.rows, self.r, shape.gates),
        )
        if "b_hh" in op.operands:
            none = self.b.constant(0, "index")
            p = [x + y for x, y in zip(p, self.load("b_hh", 1, none, shape.gates), strict=True)]
        names, kept = op.results[:count], op.results[count:]
        states = [self.load(name, every, self.row(shape.past))[0] for name in names]
        after, found = op.cell.forward(self.b, Blocks(z), Blocks(p), *states)
        if found:
            self.one_by_one(kept[0], found[0], kept[0] not in unused)
        for name, values in zip(kept[1:], found[1:], strict=True):
            if name not in unused:
                self.put(name, values)
        for name, value in zip(names, after, strict=True):
            if self.apart:
                self.put(f"{name} after", [value])
            else:
                self.store(name, every, self.row(shape.now), [value])

    def one_by_one(self, name: str, values: Sequence[Value], wanted: bool) -> None:
        """Each of some blocks in a stage of its own, for a row; later stages read it from memory.

        All in one would need more of the processor's window of instructions than there is, and
        more streams of memory than it can follow.
        """
        blocks, row, rows = len(values), self.row(), self.shape.steps * self.shape.rows
        if not wanted:
            row, rows = self.b.constant(0, "index"), 1
            size = blocks * self.shape.features
            self.buffers[name] = Buffer(self.kind, (1, size), local=True)
            if size * width(self.kind) > LOCAL_BYTES:
                return
        for block, again in enumerate(self.load(name, rows, row, blocks)):
            place, (value,) = self.place(row, blocks, block), self.renewed([values[block]])
            self.stages[-1].append(Store(self.buffers[name], place, value))
            self.stages.append([])
            self.known[values[block]] = again

    def renewed(self, values: Sequence[Value]) -> list[Value]:
        """Values in which those that stages before have stored are read from memory."""
        return substitute(self.b, values, self.known)

    def backward(self, op: Any) -> None:
        """The gradient of the cell; gradients of states stay where they are from step to step."""
        rows, count = self.shape.rows, op.cell.states
        names, carried = op.results[:-count], op.results[-count:]
        states = [self.load(name, rows, self.r)[0] for name in carried]
        states[0] = states[0] + self.sequence("dy", 1)[0]
        reads = zip(op.operands[1 + count :], op.cell.reads, strict=False)
        read = [self.sequence(name, blocks) for name, blocks in reads]
        found, rests = op.cell.backward(self.b, states, *read)
        for name, values in zip(names, found, strict=True):
            self.put(name, values)
        for name, rest in zip(carried, rests, strict=True):
            if rest is not None:
                self.store(name, rows, self.r, [rest])

    def kernel(self) -> Kernel:
        *rows, columns = self.loops
        if len(self.stages) == 1:
            stages, rows = [Stage((), stores=tuple(self.stages[0]))], self.loops
        else:
            stages = [Stage((columns,), stores=tuple(stores)) for stores in self.stages]
        return make_kernel(self.b, rows, stages, columns, self.shape.features)


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A recurrent layer as a loop of native code.

    Args:
        kernel: of the cell.
        names: of its buffers.
        works: what packs the weight, and last the product of a step.
        table: of the loop.
        parts: how many blocks of sequences there are.
        copies: pairs of buffers, of which the first becomes the beginning of the second.
    """

    kernel: Kernel
    names: dict[Buffer, str]
    works: Works
    table: np.ndarray
    parts: int
    copies: tuple[tuple[str, str], ...]

    @property
    def buffers(self) -> list[str]:
        """The names of the buffers that the loop is called with, after table and functions."""
        cell = [self.names[b] for b in (*self.kernel.inputs, *self.kernel.outputs)]
        ends = [name for pair in self.copies for name in pair]
        return [*self.works.list[-1].buffers, *ends, *cell]


class Made(NamedTuple):
    """The kernel of a cell, and the names of its buffers."""

    kernel: Kernel
    names: dict[Buffer, str]


@lru_cache(64)
def cell_of(
    op: Any,
    shape: Shape,
    element: str,
    offsets: tuple[tuple[str, int], ...],
    unused: frozenset[str],
    apart: bool = False,
) -> Made:
    """The kernel of a step of time, which is the same for any number of steps."""
    step = Step(shape, element, dict(offsets), apart)
    if op.backward:
        step.backward(op)
    else:
        step.forward(op, unused)
    return Made(
        step.kernel(),
        {buffer: name for name, buffer in step.buffers.items() if not buffer.local},
    )


def recurrence(
    op: Any,
    shape: Shape,
    element: str,
    registers: Registers,
    threads: int,
    offsets: Mapping[str, int],
    unused: Container[str],
) -> Recurrence | None:
    """The loop of an op of :mod:`rushlight.ops.recurrent_scans`; None if it has no product.

    Buffers have the names of its operands and results. Threads change no result.
    """
    if not shape.rows:
        return None
    works = product_works(op, shape, element, registers)
    if works is None:
        return None
    if not op.backward:
        works.space["product"] = shape.rows * shape.gates * shape.features
    some = frozenset([name for name in op.results if name in unused])
    cell = cell_of(op, replace(shape, steps=SEVERAL), element, tuple(offsets.items()), some)
    block = -(-shape.rows // max(1, min(threads, shape.rows)))
    parts = -(-shape.rows // block)
    works.list[-1] = cut(works.list[-1], shape.steps, block, parts)
    count = op.cell.states
    states = op.results[-count:] if op.backward else op.results[:count]
    pairs = tuple(zip(op.operands[1 : 1 + count], states, strict=True))
    first = 3 + len(works.list[-1].buffers)
    row = shape.features * width(element)
    start = 0 if op.backward else shape.first * row
    copies = [(first + 2 * n, first + 2 * n + 1, row, start) for n in range(count)]
    numbers = {
        "steps": shape.steps,
        "rows": shape.rows,
        "row_block": block,
        "row_parts": parts,
        "backwards": int(shape.reverse != op.backward),
        "cell_first": int(op.backward),
        "cell": first + 2 * len(copies),
        "copy_count": len(copies),
    }
    return Recurrence(
        cell.kernel,
        cell.names,
        works,
        table(FIELDS, numbers, {"copies": copies}),
        parts,
        pairs,
    )


def cut(product: Work, steps: int, block: int, parts: int) -> Work:
    """The product of all steps, whose parts are blocks of sequences."""
    at = {field: n for n, field in enumerate(PRODUCT_FIELDS)}
    numbers = product.table.copy()
    numbers[at["row_block"]], numbers[at["row_parts"]] = block, parts
    return product._replace(table=numbers, parts=steps * parts)


def product_works(op: Any, shape: Shape, element: str, registers: Registers) -> Works | None:
    """The product of a step: states by the weight, or gradients of gates by it.

    However few the sequences, the weight is packed: all steps read it. States of a great many
    would be packed too, which cannot be done before they are there; then there is no product.
    """
    steps, rows = [np.arange(count, dtype=np.int64) for count in (shape.steps, shape.rows)]
    features, wide = shape.features, shape.gates * shape.features
    none, here = np.zeros(1, np.int64), np.zeros_like(steps)
    if op.backward:
        gates = np.arange(shape.gates) * features
        a = Matrix(rows * wide, gates, features, 1, steps * shape.rows * wide)
        b = Matrix(np.arange(features), gates * features, features, features, none)
        target = Target(rows * features, np.arange(features), here)
        first, result = "dz", op.results[-op.cell.states]
    else:
        before = (steps * shape.rows + shape.past) * features  # where states before are
        a = Matrix(rows * features, none, features, 1, before)
        b = Matrix(np.arange(wide) * features, none, features, 1, none)
        target = Target(rows * wide, np.arange(wide), here)
        first, result = "hs", "product"
    how = {"accumulate": op.backward and op.cell.passes, "packed": True, "whole_rows": True}
    planner = Planner(a, b, target, element, registers, **how)
    product, *others = planner.works.list
    if others:
        return None
    _, packed = planner.pack(b, VECTORS * planner.lanes, "w_hh")
    planner.works.list.append(product._replace(buffers=(first, packed, "table", result)))
    del planner.works.list[0]
    return planner.works


class Recur(NativeText):
    """The text of the loop; buffers: the table, the functions of product and cell, and theirs."""

    def __init__(self) -> None:
        super().__init__("u8")

    def text(self) -> str:
        self.head = self.fields(self.buffer(0), FIELDS, 1)
        self.product, self.cell = self.buffer(1), self.buffer(2)
        self.product_buffers = self.buffers_from(3)
        self.cell_buffers = self.buffers_from(self.head["cell"])
        self.first = self.let(f"icmp ne i64 {self.head['cell_first']}, 0")
        self.backwards = self.let(f"icmp ne i64 {self.head['backwards']}, 0")
        self.each("%begin", "%end", 1, [], lambda part, _: self.part(part))
        return self.function(NAME)

    def part(self, part: str) -> list[str]:
        """A block of sequences, through all steps."""
        head = self.head
        begin, end = self.range(part, head["row_block"], head["rows"])
        self.each("0", head["copy_count"], 1, [], lambda n, _: self.copy(n, begin, end))
        last = self.let(f"sub i64 {head['steps']}, 1")
        self.each("0", head["steps"], 1, [], lambda s, _: self.step(part, s, last, begin, end))
        return []

    def copy(self, number: str, begin: str, end: str) -> list[str]:
        """The rows of a first state."""
        own = self.offset(self.head["copies"], self.let(f"mul i64 {number}, 4"))
        row, start = self.entry(own, 2), self.entry(own, 3)
        places = []
        for side, offset in ((0, "0"), (1, start)):
            base = self.buffer(self.entry(own, side))
            step = self.let(f"add i64 {self.let(f'mul i64 {begin}, {row}')}, {offset}")
            places.append(self.element(base, step))
        size = self.let(f"mul i64 {self.let(f'sub i64 {end}, {begin}')}, {row}")
        arguments = [("ptr", places[1]), ("ptr", places[0]), ("i64", size), ("i1", "false")]
        self.call("llvm.memcpy.p0.p0.i64", "void", arguments)
        return []

    def step(self, part: str, number: str, last: str, begin: str, end: str) -> list[str]:
        """One step of time."""
        other = self.let(f"sub i64 {last}, {number}")
        t = self.let(f"select i1 {self.backwards}, i64 {other}, i64 {number}")
        before = self.let(f"mul i64 {t}, {self.head['rows']}")
        rows = [self.let(f"add i64 {before}, {row}") for row in (begin, end)]
        own = self.let(f"mul i64 {t}, {self.head['row_parts']}")
        own = self.let(f"add i64 {own}, {part}")
        product = (self.product, self.product_buffers, own, self.let(f"add i64 {own}, 1"))
        cell = (self.cell, self.cell_buffers, *rows)
        self.choose(self.first, lambda: self.both(cell, product), lambda: self.both(product, cell))
        return []

    def both(self, *calls: Sequence[str]) -> None:
        for function, buffers, begin, end in calls:
            self.write(f"call void {function}(ptr {buffers}, i64 {begin}, i64 {end})")
