"""Proof that native code stays inside its memory: before a program runs, from its tables.

A native function that all programs share reads sizes and offsets from a table, so its table says
which bytes of each buffer it can reach: sums of offsets from lists and of multiples of steps, whose
least and greatest are those of their terms. Here each function has a rule that says so. It is a
second account of what the text of the function does, and cheap enough to ask every program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rushlight.codegen import (
    chains,
    contraction,
    dots,
    fill,
    fold,
    microkernel,
    nest,
    packing,
    recurrent,
    repair,
    scaled,
    transforms,
    weights,
)
from rushlight.codegen.instructions import width
from rushlight.codegen.microkernel import Registers
from rushlight.codegen.repair import SIDE
from rushlight.codegen.tiling import Works
from rushlight.runtime.program import CopyStep, JumpStep, KernelStep, Program, RowStep, Slot

NONE = np.zeros(0, np.int64)
WORD = 8  # bytes of a number in a table


class OutOfBounds(RuntimeError):
    """A program that would leave its memory: an error of ours, found before it does harm."""


class Memory(NamedTuple):
    """A buffer of a function: the bytes before and after its address that it may touch.

    ``numbers`` is what a table holds, ``function`` the name of what is to be called.
    """

    after: int
    before: int = 0
    numbers: np.ndarray = NONE
    function: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets in elements, from the lowest to the highest."""

    low: int
    high: int

    def __add__(self, other: Span) -> Span:
        return Span(self.low + other.low, self.high + other.high)


def span(offsets: np.ndarray) -> Span:
    return Span(int(offsets.min()), int(offsets.max()))


def steps(count: int, step: int = 1) -> Span:
    """The offsets 0, step, 2 · step, …"""
    end = (count - 1) * step
    return Span(min(0, end), max(0, end))


def up_to(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


class Call:
    """One native function with its buffers, over its parts."""

    def __init__(
        self, name: str, buffers: Sequence[Memory], parts: int, registers: Registers
    ) -> None:
        self.name, self.buffers, self.parts, self.registers = name, buffers, parts, registers
        self.words = name.split("_")
        self.kind = self.words[1] if len(self.words) > 1 else ""
        self.head: dict[str, int] = {}
        self.numbers = NONE

    def verify(self) -> None:
        """Raises :class:`OutOfBounds` if any part can leave its memory."""
        rule = RULES.get(self.words[0])
        if rule is None:
            raise OutOfBounds(f"there is no rule for the memory of {self.name}")
        if self.parts > 0:
            rule(self)

    @property
    def lanes(self) -> int:
        return self.registers.bytes // width(self.kind)

    def read(self, number: int, fields: Sequence[str]) -> Callable[[str], int]:
        """Reads the head of the table in a buffer; gives the fields by their names."""
        self.numbers = self.buffers[number].numbers
        self.need(len(self.numbers) >= len(fields), "its table has no head")
        head = self.numbers[: len(fields)].tolist()
        self.head = dict(zip(fields, head, strict=True))
        return self.head.__getitem__

    def list(self, name: str, count: int) -> np.ndarray:
        """A list of the table."""
        begin = self.head[name]
        inside = begin >= 0 and count > 0 and begin + count <= len(self.numbers)
        self.need(inside, f"{count} {name} from {begin} on are not in its table")
        return self.numbers[begin : begin + count]

    def rows(self, name: str, count: int, wide: int) -> np.ndarray:
        """A list of rows of numbers."""
        return self.list(name, count * wide).reshape(count, wide)

    def need(self, holds: bool, what: str) -> None:
        if not holds:
            raise OutOfBounds(f"{self.name} over {self.parts} parts: {what}")

    def reach(self, number: int, elements: Span, kind: str = "") -> None:
        """States that a buffer is touched at these elements."""
        size, memory = width(kind or self.kind), self.buffers[number]
        low, high = elements.low * size, (elements.high + 1) * size
        if low < -memory.before or high > memory.after:
            reached = f"it reaches bytes {low} to {high} of buffer {number}"
            self.need(False, f"{reached}, which has {-memory.before} to {memory.after}")

    def run(self, function: int, first: int, parts: int) -> None:
        """States that a function is called with the buffers from a number on."""
        name = self.buffers[function].function
        if name:  # kernels of the program alone have no table
            Call(name, self.buffers[first:], parts, self.registers).verify()


def contract(call: Call) -> None:
    t = call.read(2, contraction.FIELDS)
    wide = call.lanes * contraction.VECTORS
    count = -(-call.parts // (t("sum_parts") * t("row_parts") * t("column_parts")))
    a, b, c = call.rows("batches", count, 3).T
    blocks = call.rows("blocks", t("block_count"), 5)
    tap, taps, begin, inner, before = blocks.T
    depth = taps * inner
    call.need((t("panels") - 1) * wide < t("columns"), "it has empty panels")
    targets = span(call.list("target_offsets", t("rows"))) + steps(t("columns"))
    call.reach(3, span(c) + targets + steps(t("sum_parts"), t("sum_size")))
    if not depth.any():
        return
    rows, offsets = call.list("row_offsets", t("rows")), call.list("taps", (tap + taps).max())
    own = span(rows)
    if t("strips"):
        first = rows[:: microkernel.STRIP]
        call.need(t("row_block") % microkernel.STRIP == 0, "parts cut strips of rows")
        call.need(t("a_step") == microkernel.STRIP, "strips are not one after the other")
        own = span(first) + steps(microkernel.STRIP)
    call.reach(0, span(a) + own + span(offsets) + steps((begin + inner).max(), t("a_step")))
    place = span(b) + steps((before + depth).max(), t("b_step"))
    if t("reading") == contraction.PACKED:
        call.reach(1, place + steps(t("panels"), t("b_panel")) + steps(wide))
    else:
        call.need(t("b_panel") == wide, "panels of a matrix are not beside each other")
        call.reach(1, place + steps(t("columns")))
    if t("reading") == contraction.COPIED:
        call.need(depth.max() <= contraction.DEEPEST, "a block is deeper than its copy")


def dot_products(call: Call) -> None:
    t = call.read(2, dots.FIELDS)
    count = -(-call.parts // (t("sum_parts") * t("column_parts")))
    a, b, c = call.rows("batches", count, 3).T
    rows, columns = [call.list(f"target_{x}", t(x)) for x in ("rows", "columns")]
    call.reach(3, span(c) + span(rows) + span(columns) + steps(t("sum_parts"), t("sum_size")))
    if t("inner"):
        call.reach(0, span(a) + span(call.list("row_offsets", t("rows"))) + steps(t("inner")))
        call.reach(1, span(b) + span(call.list("column_offsets", t("columns"))) + steps(t("inner")))


def scaled_rows(call: Call) -> None:
    t = call.read(2, scaled.FIELDS)
    count = -(-call.parts // (t("sum_parts") * t("column_parts")))
    a, b, c = call.rows("batches", count, 3).T
    call.reach(3, span(c) + steps(t("columns")) + steps(t("sum_parts"), t("sum_size")))
    if t("inner"):
        call.reach(0, span(a) + steps(t("inner"), t("a_step")))
        call.reach(1, span(b) + steps(t("inner"), t("b_step")) + steps(t("columns")))


def pack(call: Call) -> None:
    t = call.read(1, packing.FIELDS)
    _, kind, source, wide, access = call.words
    per = t("panels") if access != "rows" else t("blocks") * t("tap_count")
    sources, targets = call.rows("batches", -(-call.parts // per), 2).T
    rows = call.list("row_offsets", t("rows"))
    call.need(access != "rows" or bool((np.diff(rows) == 1).all()), "rows are not beside")
    call.need(access != "inner" or t("step") == 1, "elements of rows are not beside")
    call.need((t("panels") - 1) * int(wide) < t("rows"), "it has empty panels")
    taps = call.list("taps", t("tap_count"))
    beside = len(taps) >= packing.BLOCK and bool((np.diff(taps) == 1).all())
    call.need(access != "taps" or beside, "taps are not beside")
    places = span(rows) + span(taps) + steps(t("inner"), t("step"))
    call.reach(0, span(sources) + places, source)
    size = t("tap_count") * t("inner") * int(wide)
    call.reach(2, span(targets) + steps(t("panels"), t("panel_size")) + steps(size), kind)


def fold_sums(call: Call) -> None:
    t = call.read(1, fold.FIELDS)
    count = -(-call.parts // t("rows"))
    parts = steps(count, t("sums") * t("sum_size")) + steps(t("sums"), t("sum_size"))
    call.reach(0, parts + steps(t("rows"), t("columns")) + steps(t("columns")))
    rows = span(call.list("batches", count)) + span(call.list("row_offsets", t("rows")))
    call.reach(2, rows + steps(t("columns"), t("step")), call.words[2])


def fill_zeros(call: Call) -> None:
    t = call.read(1, fill.FIELDS)
    outer = -(-call.parts // (t("inner_count") * t("middle_count")))
    loops = steps(t("inner_count"), t("inner_step")) + steps(t("middle_count"), t("middle_step"))
    begin = Span(t("offset"), t("offset"))
    if t("run"):
        call.reach(0, begin + loops + steps(outer, t("outer_step")) + steps(t("run")), "u8")


def winograd(call: Call) -> None:
    _, what, call.kind, size = call.words
    points, wide = (int(size) + SIDE - 1) ** 2, contraction.VECTORS * call.lanes
    if what == "weight":
        t = call.read(1, transforms.WEIGHT_FIELDS)
        places = steps(t("columns"), t("column_step")) + steps(t("inner"), t("inner_step"))
        call.reach(0, places + span(call.list("taps", SIDE**2)))
        call.reach(2, steps(call.parts * t("inner") * wide) + steps(points, t("point")))
        return
    t = call.read(1, transforms.TILE_FIELDS)
    several = {"input": int(size) + SIDE - 1, "slope": SIDE}.get(what, int(size))
    images, values = (0, 2) if what in ("input", "gradient") else (2, 0)
    count = -(-call.parts // t("tile_rows"))
    rows = span(call.list("row_offsets", t("tile_rows") * several))
    columns = span(call.list("column_offsets", t("tile_columns") * several))
    channels, tiles = up_to(t("channels"), call.lanes), call.parts * t("tile_columns")
    call.reach(images, span(call.list("images", count)) + rows + columns + steps(channels))
    place = steps(tiles, t("channels")) + steps(channels)
    if what == "gradient":
        place = steps(-(-channels // wide), wide * t("tiles")) + steps(tiles, wide) + steps(wide)
    call.reach(values, place + steps(points, t("point")))
    if what in ("output", "slope"):
        numbers = call.numbers[t("direct") :]
        buffers = [*call.buffers[3:5], Memory(numbers.nbytes, numbers=numbers)]
        again = Call(f"{what}_{call.kind}", buffers, call.parts, call.registers)
        if what == "output":
            winograd_results(again, count, t("tile_rows"), t("tile_columns"), int(size))
        else:
            winograd_slopes(again, count)


def winograd_results(call: Call, images: int, rows: int, columns: int, size: int) -> None:
    """Tiles that are computed again from images and a weight."""
    t, seen = call.read(2, repair.DirectResults.FIELDS), size + SIDE - 1
    places = span(call.list("row_offsets", rows * seen))
    places += span(call.list("column_offsets", columns * seen))
    call.reach(0, span(call.list("images", images)) + places + steps(t("inner")))
    channels = up_to(t("channels"), call.lanes)
    own = steps(channels, t("column_step")) + steps(t("inner"), t("inner_step"))
    call.reach(1, own + span(call.list("taps", SIDE**2)))


def winograd_slopes(call: Call, channels: int) -> None:
    """Gradients of a weight that are computed again from images and the gradient of results."""
    t = call.read(2, repair.DirectSlopes.FIELDS)
    more = SIDE - 1
    a, b = [span(call.list(f"{x}_images", t("count"))) for x in "ab"]
    a += steps(t("height") + more, t("a_down")) + steps(t("width") + more, t("a_right"))
    b += steps(t("height"), t("b_down")) + steps(t("width"), t("b_right"))
    call.reach(0, a + steps(channels))
    call.reach(1, b + steps(up_to(t("channels"), call.lanes)))


def weight_rows(call: Call) -> None:
    """The stages of attention's weights; those with scores read them by whole registers."""
    what, call.kind, *extras = call.words
    buffers = (*weights.STAGES[what].BUFFERS, *extras)
    t = call.read(buffers.index("table"), weights.FIELDS)
    rows = call.parts
    reached = {
        **dict.fromkeys(("tops", "totals", "overlaps"), steps(rows)),
        **dict.fromkeys("sd", steps(rows, t("step")) + steps(up_to(t("columns"), call.lanes))),
        **{x: steps(rows, t(f"{x}_step")) + steps(t("width")) for x in "yg"},
        **{x: steps(rows, t(f"{x}_step")) + steps(t("columns")) for x in ("bias", "noise")},
    }
    for number, name in enumerate(buffers):
        if name in reached:
            call.reach(number, reached[name])
        elif name == "here":
            call.reach(number, steps(2), "i64")


def chain(call: Call) -> None:
    t = call.read(0, chains.FIELDS)
    call.rows("links", t("count"), 2)
    call.run(1, t("count") + 2, call.parts)


def recur(call: Call) -> None:
    t = call.read(0, recurrent.FIELDS)
    call.need(t("row_parts") >= call.parts, "it has more parts than blocks of sequences")
    for source, target, row, start in call.rows("copies", t("copy_count"), 4).tolist():
        rows = steps(t("rows") * row)
        call.reach(source, rows, "u8")
        call.reach(target, rows + Span(start, start), "u8")
    call.run(1, 3, t("steps") * t("row_parts"))


def nested(call: Call) -> None:
    """All calls of a nest, each with its operands where they can be."""
    t = call.read(0, nest.FIELDS)
    units = call.rows("units", t("unit_count"), 3)
    edges = call.list("edges", call.parts + 1)
    call.need(edges[0] >= 0 and edges[-1] <= len(units), "shares have units that are not there")
    chosen = slice(int(edges[0]), int(edges[-1]))
    shares = np.repeat(np.arange(call.parts), np.diff(edges))
    first, last, end = units[chosen].T
    moments = call.rows("moments", 4 * len(nest.MOMENTS), 2)
    calls = call.rows("calls", int(moments.max()), nest.CALL)
    for variant, (begin, stop) in enumerate(moments.tolist()):
        moment = nest.MOMENTS[variant // 4]
        rows = ends(first, last, t("row_blocks"), variant & 1, moment != "columns")
        columns = ends(end * 0, end, t("column_blocks"), variant & 2, moment in ("columns", "pair"))
        there = (rows[0] <= rows[1]) & (columns[0] <= columns[1])
        if there.any():
            for own in calls[begin:stop].tolist():
                block = Blocks(there, chosen, shares, rows, columns)
                nested_call(call, own, block)


Ends = tuple[np.ndarray, np.ndarray]


class Blocks(NamedTuple):
    """Which units have blocks of a kind, in which shares, and their first and last ones."""

    there: np.ndarray
    units: slice
    shares: np.ndarray
    rows: Ends
    columns: Ends


def ends(first: np.ndarray, after: np.ndarray, count: int, is_last: int, moves: bool) -> Ends:
    """The first and the last block of each unit: the very last one of all, or those before it."""
    if not moves:
        return first * 0, first * 0 - (1 if is_last else 0)
    if is_last:
        return np.maximum(first, count - 1), np.minimum(after, count) - 1
    return first, np.minimum(after, count - 1) - 1


def nested_call(call: Call, own: Sequence[int], blocks: Blocks) -> None:
    function, parts, table, count, *operands = own
    numbers = call.numbers[call.head["tables"] + table :]
    here = Memory(2 * WORD)
    buffers = [
        Memory(numbers.nbytes, numbers=numbers)
        if operand == nest.TABLE
        else here
        if operand == nest.HERE
        else nested_place(call, operand, blocks)
        for operand in operands[:count]
    ]
    Call(call.buffers[function].function, buffers, parts, call.registers).verify()


def nested_place(call: Call, number: int, blocks: Blocks) -> Memory:
    """What is around a place, wherever it is."""
    begin = call.head["places"] + number * nest.PLACE
    buffer, offset, moves, share, row, column = call.numbers[begin : begin + nest.PLACE].tolist()
    units = call.numbers[call.head["moves"] + moves :][blocks.units]
    fixed = offset + units + share * blocks.shares
    ways = [
        fixed + row * rows + column * columns for rows in blocks.rows for columns in blocks.columns
    ]
    found = span(np.stack(ways)[:, blocks.there])
    memory = call.buffers[buffer]
    call.need(found.low >= 0, f"a place lies {-found.low} bytes before buffer {buffer}")
    return Memory(memory.after - found.high, found.low)


RULES: Mapping[str, Callable[[Call], None]] = {
    "contract": contract,
    "dots": dot_products,
    "scaled": scaled_rows,
    "pack": pack,
    "fold": fold_sums,
    "fill": fill_zeros,
    "winograd": winograd,
    "chain": chain,
    "recur": recur,
    "nest": nested,
    **dict.fromkeys(weights.STAGES, weight_rows),
}
"""By the first words of the functions' names."""


def verify(program: Program, registers: Registers) -> None:
    """Raises :class:`OutOfBounds` unless all steps stay inside their memory.

    How often loops turn is not known here: of a row that a counter chooses, only its size is.
    """
    memories = [memory_of(program, slot) for slot in program.slots]
    for step in program.steps:
        match step:
            case KernelStep(shared=True):
                buffers = [memories[slot] for slot in step.slots]
                Call(step.name, buffers, step.parts, registers).verify()
            case CopyStep():
                fits(step, memories[step.source].after, memories[step.target].after)
            case RowStep():
                fits(step, step.nbytes, memories[step.source].after)
                fits(step, step.nbytes, memories[step.target].after)
            case JumpStep():
                fits(step, step.to, len(program.steps))


def fits(what: object, size: int, room: int) -> None:
    if not 0 <= size <= room:
        raise OutOfBounds(f"{what} needs {size} of {room}")


def memory_of(program: Program, slot: Slot) -> Memory:
    """The memory of a slot, which lies inside of what it is a piece of."""
    whole = {"arena": program.arena, "kept": program.kept}.get(slot.where)
    if whole is not None:
        fits(slot, slot.place + slot.nbytes, whole)
    name, shared = program.functions[slot.place] if slot.where == "function" else ("", False)
    numbers = program.constants[slot.place] if slot.where == "constant" else NONE
    return Memory(slot.nbytes, 0, numbers, name if shared else "")


def verify_works(works: Works, operands: Mapping[str, np.ndarray], registers: Registers) -> None:
    """The same for works with arrays as operands."""
    size = width(works.kind)
    known = {name: Memory(count * size) for name, count in works.space.items()}
    known |= {name: around(array) for name, array in operands.items()}
    for work in works.list:
        table = Memory(work.table.nbytes, numbers=work.table)
        buffers = [table if name == "table" else known[name] for name in work.buffers]
        Call(work.name, buffers, work.parts, registers).verify()


def around(array: np.ndarray) -> Memory:
    """The memory of an array: its first element has others before it where strides are negative."""
    spans = [steps(n, step) for n, step in zip(array.shape, array.strides, strict=True)]
    before, after = [sum([getattr(s, side) for s in spans]) for side in ("low", "high")]
    return Memory(after + array.itemsize, -before)
