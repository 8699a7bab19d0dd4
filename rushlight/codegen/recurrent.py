"""Recurrent layers: a product and a cell for each step of time, in one loop of native code.

Rows lie step after step, one for each sequence. Sequences do not depend on each other, so threads
share *them*: each runs through all steps by itself, and nobody waits for anybody between two steps.
States have one block of rows more than there are steps: that of the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from rushlight.codegen.contraction import FIELDS as PRODUCT_FIELDS
from rushlight.codegen.contraction import VECTORS
from rushlight.codegen.instructions import width
from rushlight.codegen.kernel import Kernel, Stage, Store, make_kernel
from rushlight.codegen.microkernel import Registers
from rushlight.codegen.native import NativeText, table
from rushlight.codegen.pull import Buffer
from rushlight.codegen.tiling import Matrix, Planner, Target, Work, Works
from rushlight.codegen.values import Builder, Loop, Value

FIELDS = (
    "steps", "rows", "row_block", "row_parts", "backwards", "cell_first", "cell", "copy_count",
    "copies",
)  # fmt: skip
"""The table: steps of time, sequences, those of a part, parts; whether time runs backwards, whether
the cell comes before the product, where its buffers begin, and what is copied at the beginning."""

NAME = "recur_u8"


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

    @property
    def last(self) -> int:
        """Where the rows of the state of the end are."""
        return 0 if self.reverse else self.steps * self.rows


class Cell:
    """Builds the kernel of a cell: elements by buffer, block and row."""

    def __init__(self, shape: Shape, kind: str) -> None:
        self.shape, self.kind, self.b = shape, kind, Builder()
        self.loops = [
            Loop("t", shape.steps),
            Loop("r", shape.rows),
            Loop("j", shape.features),
        ]
        self.t, self.r, self.j = [self.b.variable(loop) for loop in self.loops]
        self.buffers: dict[str, Buffer] = {}
        self.stores: list[Store] = []

    def buffer(self, name: str, rows: int, blocks: int) -> Buffer:
        if name not in self.buffers:
            size = (rows, blocks * self.shape.features)
            self.buffers[name] = Buffer(self.kind, size)
        return self.buffers[name]

    def place(self, row: Value, blocks: int, block: int) -> Value:
        n = self.shape.features
        return self.b.affine(
            [(row, blocks * n), (self.j, 1), (self.b.constant(1, "index"), block * n)]
        )

    def row(self, offset: int) -> Value:
        return self.t * self.shape.rows + self.r + offset

    def sequence(self, name: str, blocks: int = 1, block: int = 0) -> Value:
        """An element of what has a row for every step."""
        buffer = self.buffer(name, self.shape.steps * self.shape.rows, blocks)
        return self.b.load(buffer, self.kind, (self.place(self.row(0), blocks, block),))

    def state(self, name: str, offset: int) -> Value:
        """An element of a buffer of states."""
        buffer = self.buffer(name, (self.shape.steps + 1) * self.shape.rows, 1)
        return self.b.load(buffer, self.kind, (self.place(self.row(offset), 1, 0),))

    def product(self, block: int) -> Value:
        """An element of the product of this step."""
        gates = self.shape.gates
        buffer = self.buffer("product", self.shape.rows, gates)
        return self.b.load(buffer, self.kind, (self.place(self.r, gates, block),))

    def bias(self, name: str, block: int) -> Value:
        buffer = self.buffer(name, 1, self.shape.gates)
        place = self.place(self.b.constant(0, "index"), 1, block)
        return self.b.load(buffer, self.kind, (place,))

    def put(self, name: str, value: Value, blocks: int = 1, block: int = 0) -> None:
        buffer = self.buffer(name, self.shape.steps * self.shape.rows, blocks)
        self.stores.append(Store(buffer, self.place(self.row(0), blocks, block), value))

    def put_state(self, name: str, value: Value, offset: int) -> None:
        buffer = self.buffer(name, (self.shape.steps + 1) * self.shape.rows, 1)
        self.stores.append(Store(buffer, self.place(self.row(offset), 1, 0), value))

    def kernel(self) -> Kernel:
        stage = Stage((), (), (), tuple(self.stores))
        return make_kernel(self.b, self.loops, [stage], self.loops[-1], self.shape.features)

    def sigmoid(self, x: Value) -> Value:
        return self.b.call("sigmoid", x)

    def tanh(self, x: Value) -> Value:
        return self.b.call("tanh", x)


def lstm(cell: Cell) -> None:
    """i, f, g, o = σ, σ, tanh, σ of z + product;  c' = f c + i g;  h' = o tanh(c')."""
    shape = cell.shape
    z = [cell.sequence("z", 4, k) + cell.product(k) for k in range(4)]
    i, f, g, o = cell.sigmoid(z[0]), cell.sigmoid(z[1]), cell.tanh(z[2]), cell.sigmoid(z[3])
    c = f * cell.state("cs", shape.past) + i * g
    tanh = cell.tanh(c)
    for k, gate in enumerate((i, f, g, o)):
        cell.put("gates", gate, 4, k)
    cell.put("tanh", tanh)
    cell.put_state("cs", c, shape.now)
    cell.put_state("hs", o * tanh, shape.now)


def lstm_gradient(cell: Cell) -> None:
    """The gradients of what the gates are taken of, and of the states before."""
    shape = cell.shape
    i, f, g, o = [cell.sequence("gates", 4, k) for k in range(4)]
    tanh = cell.sequence("tanh")
    dh = cell.state("dhs", shape.now) + cell.sequence("dy")
    dc = cell.state("dcs", shape.now) + dh * o * (1 - tanh * tanh)
    cell.put("dz", dc * g * (i - i * i), 4, 0)
    cell.put("dz", dc * cell.sequence("c_before") * (f - f * f), 4, 1)
    cell.put("dz", dc * i * (1 - g * g), 4, 2)
    cell.put("dz", dh * tanh * (o - o * o), 4, 3)
    cell.put_state("dcs", dc * f, shape.past)


def gru(cell: Cell) -> None:
    """r, u = σ of z + product;  n = tanh(z + r product);  h' = n + u (h - n)."""
    shape = cell.shape
    p = [cell.product(k) + cell.bias("b_hh", k) for k in range(3)]
    z = [cell.sequence("z", 3, k) for k in range(3)]
    r, u = cell.sigmoid(z[0] + p[0]), cell.sigmoid(z[1] + p[1])
    n = cell.tanh(z[2] + r * p[2])
    for k, gate in enumerate((r, u, n)):
        cell.put("gates", gate, 3, k)
    cell.put("inner", p[2])
    cell.put_state("hs", n + u * (cell.state("hs", shape.past) - n), shape.now)


def gru_gradient(cell: Cell) -> None:
    """The gradients of z and of the product with its bias, and what goes straight to h before."""
    shape = cell.shape
    r, u, n = [cell.sequence("gates", 3, k) for k in range(3)]
    dh = cell.state("dhs", shape.now) + cell.sequence("dy")
    du = dh * (cell.sequence("h_before") - n) * (u - u * u)
    dn = (dh - dh * u) * (1 - n * n)
    dr = dn * cell.sequence("inner") * (r - r * r)
    for name, last in (("dx", dn), ("dz", dn * r)):
        for k, gradient in enumerate((dr, du, last)):
            cell.put(name, gradient, 3, k)
    cell.put_state("dhs", dh * u, shape.past)


def rnn(cell: Cell, relu: bool = False) -> None:
    """h' = tanh(z + product), or relu of it."""
    x = cell.sequence("z") + cell.product(0)
    h = cell.b.max(x, 0) if relu else cell.tanh(x)
    cell.put_state("hs", h, cell.shape.now)


def rnn_gradient(cell: Cell, relu: bool = False) -> None:
    """The gradient of what h' is taken of."""
    shape = cell.shape
    dh = cell.state("dhs", shape.now) + cell.sequence("dy")
    h = cell.sequence("y")
    cell.put("dz", cell.b.where(h <= 0, 0, dh) if relu else dh * (1 - h * h))


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


@dataclass(frozen=True, slots=True)
class Kind:
    """What is particular to a kind of layer, forward or backward."""

    cell: Callable[[Cell], None]
    gates: int
    backward: bool
    copies: tuple[tuple[str, str], ...]
    accumulate: bool = False


BEGIN, END = (("h", "hs"),), (("dh", "dhs"),)
KINDS = {
    "lstm_scan": Kind(lstm, 4, False, (*BEGIN, ("c", "cs"))),
    "lstm_scan_gradient": Kind(lstm_gradient, 4, True, (*END, ("dc", "dcs"))),
    "gru_scan": Kind(gru, 3, False, BEGIN),
    "gru_scan_gradient": Kind(gru_gradient, 3, True, END, accumulate=True),
    "rnn_tanh_scan": Kind(rnn, 1, False, BEGIN),
    "rnn_tanh_scan_gradient": Kind(rnn_gradient, 1, True, END),
    "rnn_relu_scan": Kind(partial(rnn, relu=True), 1, False, BEGIN),
    "rnn_relu_scan_gradient": Kind(partial(rnn_gradient, relu=True), 1, True, END),
}
"""By the names of ops (:mod:`rushlight.ops.recurrent_scans`), whose operands and results have the
names that buffers have here."""


def recurrence(
    name: str, shape: Shape, element: str, registers: Registers, threads: int
) -> Recurrence | None:
    """The loop of an op; None if there is no product for it. Threads change no result."""
    kind = KINDS[name]
    works = product_works(kind, shape, element, registers)
    if works is None:
        return None
    cell = Cell(shape, element)
    kind.cell(cell)
    block = -(-shape.rows // max(1, min(threads, shape.rows)))
    parts = -(-shape.rows // block)
    works.list[-1] = cut(works.list[-1], shape.steps, block, parts)
    if not kind.backward:
        works.space["product"] = shape.rows * shape.gates * shape.features
    first = 3 + len(works.list[-1].buffers)
    row = shape.features * width(element)
    start = (shape.last if kind.backward else shape.first) * row
    copies = [(first + 2 * n, first + 2 * n + 1, row, start) for n in range(len(kind.copies))]
    numbers = {
        "steps": shape.steps,
        "rows": shape.rows,
        "row_block": block,
        "row_parts": parts,
        "backwards": int(shape.reverse != kind.backward),
        "cell_first": int(kind.backward),
        "cell": first + 2 * len(copies),
        "copy_count": len(copies),
    }
    return Recurrence(
        cell.kernel(),
        {buffer: name for name, buffer in cell.buffers.items()},
        works,
        table(FIELDS, numbers, {"copies": copies}),
        parts,
        kind.copies,
    )


def cut(product: Work, steps: int, block: int, parts: int) -> Work:
    """The product of all steps, whose parts are blocks of sequences."""
    at = {field: n for n, field in enumerate(PRODUCT_FIELDS)}
    numbers = product.table.copy()
    numbers[at["row_block"]], numbers[at["row_parts"]] = block, parts
    return product._replace(table=numbers, parts=steps * parts)


def product_works(kind: Kind, shape: Shape, element: str, registers: Registers) -> Works | None:
    """The product of a step: states by the weight, or gradients of gates by it.

    However few the sequences, the weight is packed: all steps read it. States of a great many
    would be packed too, which cannot be done before they are there; then there is no product.
    """
    steps, rows = [np.arange(count, dtype=np.int64) for count in (shape.steps, shape.rows)]
    features, wide = shape.features, shape.gates * shape.features
    none = np.zeros(1, np.int64)
    before = (steps * shape.rows + shape.past) * features  # where states before are
    if kind.backward:
        gates = np.arange(shape.gates) * features
        a = Matrix(rows * wide, gates, features, 1, steps * shape.rows * wide)
        b = Matrix(np.arange(features), gates * features, features, features, none)
        target = Target(rows * features, np.arange(features), before)
    else:
        a = Matrix(rows * features, none, features, 1, before)
        b = Matrix(np.arange(wide) * features, none, features, 1, none)
        target = Target(rows * wide, np.arange(wide), np.zeros_like(steps))
    planner = Planner(
        a, b, target, element, registers, kind.accumulate, packed=True, whole_rows=True
    )
    product, *others = planner.works.list
    if others:
        return None
    _, packed = planner.pack(b, VECTORS * planner.lanes, "w_hh")
    first, result = ("dz", "dhs") if kind.backward else ("hs", "product")
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
