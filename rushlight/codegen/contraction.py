"""Contractions: products that are summed over indices, as tiles of one micro-kernel.

What is multiplied, and where, stands in a table of 64-bit integers that the native code reads
while it runs: sizes, steps, and offsets of batches, rows, taps and blocks. So one compiled function
serves all products, convolutions and gradients of a kind, whatever their shapes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from rushlight.codegen.microkernel import AHEAD, STRIP, Registers, Tile, Vectors
from rushlight.codegen.native import NativeText

FIELDS = (
    "sum_parts", "row_parts", "column_parts", "rows", "row_block", "columns", "panels",
    "panel_block", "block_count", "sum_blocks", "sum_size", "a_step", "b_step", "b_panel",
    "reading", "strips", "accumulate", "batches", "blocks", "row_offsets", "target_offsets", "taps",
)  # fmt: skip
"""The head of the table; the last ones say where its lists begin."""

PACKED, DIRECT, COPIED = range(3)  # how B is read: from panels, where it lies, or both
VECTORS = 2  # registers of a panel's row
GROUP = 4  # panels that are copied at once
DEPTH = 384  # of a block of what is summed: a panel of it fits into the first cache
SLIM = 8  # rows of tiles of one register: of more, the addresses would fill all other registers
USUAL = 32  # bytes of a register of which two are multiplied at a time
DEEPEST = DEPTH * 3 // 2  # of a block that is not cut in two


class Panel(NamedTuple):
    """What all tiles of a panel are called with."""

    a: str
    taps: str
    tap_count: str
    inner: str
    b: str
    b_step: str
    ahead: str
    c: str
    columns: str
    fresh: str


def tile_rows(registers: Registers) -> tuple[int, int]:
    """The heights of tiles: as many sums as registers hold beside a row of B, and fewer.

    The low tile has columns that need a mask, which takes a register more.
    """
    return (12, 8) if registers.count >= 32 else (6, 4)


def in_strips(registers: Registers) -> bool:
    """Whether a packed A lies in strips: the addresses of high tiles' rows fill all registers."""
    high, low = tile_rows(registers)
    return high % STRIP == low % STRIP == 0 and high > 2 * STRIP


class Sweep(NativeText):
    """The function that runs through the tiles of some parts.

    Args:
        kind: of all elements.
        registers: of the processor.
    """

    def __init__(self, kind: str, registers: Registers) -> None:
        super().__init__(kind)
        self.registers = registers
        self.lanes = registers.bytes // self.bytes
        self.width = self.lanes * VECTORS
        self.tiles: dict[str, Tile] = {}

    @property
    def name(self) -> str:
        return f"contract_{self.kind}"

    def text(self) -> str:
        self.a, self.b, self.table, self.c = [self.buffer(n) for n in range(4)]
        self.head = self.fields(self.table, FIELDS, 5)
        room = GROUP * self.width * DEEPEST
        self.write(f"%copy = alloca [{room} x {self.scalar}], align 64")
        self.parts(self.part, self.registers.flush)
        functions: list[Tile | Copy] = [
            *self.tiles.values(),
            Copy(self.kind, self.registers),
        ]
        texts = [function.text() for function in functions]
        for function in functions:
            self.declared |= function.declared
        return "\n\n".join([*texts, self.function(self.name)])

    def part(self, part: str) -> list[str]:
        """A block of rows by a block of panels of one batch, for some blocks of the sum."""
        head = self.head
        above, j = self.divided(part, head["column_parts"])
        above, i = self.divided(above, head["row_parts"])
        batch, group = self.divided(above, head["sum_parts"])
        rows = self.range(i, head["row_block"], head["rows"])
        panels = self.range(j, head["panel_block"], head["panels"])
        blocks = self.range(group, head["sum_blocks"], head["block_count"])
        a, b, c = self.of_batch(head["batches"], batch, (self.a, self.b, self.c))
        c = self.element(c, self.let(f"mul i64 {group}, {head['sum_size']}"))

        def block(number: str, _: list[str]) -> list[str]:
            is_first = self.let(f"icmp eq i64 {number}, {blocks[0]}")
            return self.block(number, is_first, (a, b, c), rows, panels)

        return self.each(*blocks, 1, [], block)

    def block(
        self,
        number: str,
        is_first: str,
        places: tuple[str, str, str],
        rows: tuple[str, str],
        panels: tuple[str, str],
    ) -> list[str]:
        """All tiles of a part, for one block of what is summed over."""
        (a, b, c), head = places, self.head
        own = self.offset(head["blocks"], self.let(f"mul i64 {number}, 5"))
        tap, tap_count, begin, inner, k = [self.entry(own, n) for n in range(5)]
        alone = self.let(f"icmp eq i64 {head['accumulate']}, 0")
        fresh = self.let(f"and i1 {is_first}, {alone}")
        taps = self.offset(head["taps"], tap)
        a = self.element(a, self.let(f"mul i64 {begin}, {head['a_step']}"))
        b = self.element(b, self.let(f"mul i64 {k}, {head['b_step']}"))

        depth = self.let(f"mul i64 {tap_count}, {inner}")
        copied = self.let(f"icmp eq i64 {head['reading']}, {COPIED}")
        size = self.let(f"mul i64 {depth}, {self.width}")
        step = self.let(f"select i1 {copied}, i64 {self.width}, i64 {head['b_step']}")
        packed = self.let(f"icmp eq i64 {head['reading']}, {PACKED}")
        ahead = self.let(f"select i1 {packed}, i64 {AHEAD * self.width}, i64 0")
        beyond = self.let(f"select i1 {copied}, i64 {size}, i64 {head['b_panel']}")

        def each_group(first: str, _: list[str]) -> list[str]:
            end = self.least(self.let(f"add i64 {first}, {GROUP}"), panels[1])
            there = self.element(b, self.let(f"mul i64 {first}, {head['b_panel']}"))
            before = self.let(f"mul i64 {first}, {self.width}")
            left = self.let(f"sub i64 {head['columns']}, {before}")
            self.choose(copied, lambda: self.copy(there, depth, left), lambda: None)
            base = self.let(f"select i1 {copied}, ptr %copy, ptr {there}")
            return self.each(first, end, 1, [], lambda j, _: each_panel(base, first, j))

        def each_panel(base: str, first: str, j: str) -> list[str]:
            number = self.let(f"sub i64 {j}, {first}")
            place = self.element(base, self.let(f"mul i64 {number}, {beyond}"))
            column = self.let(f"mul i64 {j}, {self.width}")
            left = self.let(f"sub i64 {head['columns']}, {column}")
            there = self.element(c, column)
            panel = Panel(a, taps, tap_count, inner, place, step, ahead, there, left, fresh)
            several = self.let(f"icmp sgt i64 {left}, {self.lanes}")
            self.choose(several, lambda: self.usual(rows, panel), lambda: self.slim(rows, panel))
            return []

        return self.each(*panels, GROUP, [], each_group)

    def copy(self, b: str, depth: str, columns: str) -> None:
        """Copies a group of panels to where they are read from end to end."""
        arguments = f"ptr {b}, i64 {self.head['b_step']}, i64 {depth}, i64 {columns}, ptr %copy"
        self.write(f"call void @{Copy.NAME}({arguments})")

    def usual(self, rows: tuple[str, str], panel: Panel) -> None:
        """High tiles, then as many low ones as leave the fewest rows empty.

        A panel that is not full is read through a mask, in low tiles, unless B is packed.
        """
        high, low = tile_rows(self.registers)
        begin, end = rows
        count = self.let(f"sub i64 {end}, {begin}")
        number = self.let(f"udiv i64 {self.let(f'add i64 {count}, {high - 1}')}, {high}")
        empty = self.let(f"sub i64 {self.let(f'mul i64 {number}, {high}')}, {count}")
        lows = self.let(f"udiv i64 {empty}, {high - low}")
        full = self.let(f"icmp sge i64 {panel.columns}, {self.width}")
        packed = self.let(f"icmp ne i64 {self.head['reading']}, {DIRECT}")
        whole = self.let(f"or i1 {full}, {packed}")
        highs = self.let(f"select i1 {whole}, i64 {self.let(f'sub i64 {number}, {lows}')}, i64 0")
        highs = self.call("llvm.smax.i64", "i64", [("i64", highs), ("i64", "0")])
        middle = self.let(f"add i64 {begin}, {self.let(f'mul i64 {highs}, {high}')}")
        middle = self.least(middle, end)

        def tiles(strips: bool) -> None:
            for rows, direct, place in (
                (high, False, (begin, middle)),
                (low, True, (middle, end)),
            ):
                tile = Tile(self.kind, self.registers, rows, VECTORS, direct, strips)
                self.tile_loop(tile, place, panel)

        if in_strips(self.registers):
            strips = self.let(f"icmp ne i64 {self.head['strips']}, 0")
            self.choose(strips, lambda: tiles(True), lambda: tiles(False))
        else:
            tiles(False)

    def slim(self, rows: tuple[str, str], panel: Panel) -> None:
        """The tiles of a panel that is one register wide, or half of a wide one."""

        def tiles(registers: Registers) -> None:
            self.tile_loop(Tile(self.kind, registers, SLIM, 1, True), rows, panel)

        if self.registers.bytes <= USUAL:
            tiles(self.registers)
            return
        several = self.let(f"icmp sgt i64 {panel.columns}, {self.lanes // 2}")
        half = replace(self.registers, bytes=self.registers.bytes // 2)
        self.choose(several, lambda: tiles(self.registers), lambda: tiles(half))

    def tile_loop(self, tile: Tile, rows: tuple[str, str], panel: Panel) -> None:
        self.tiles[tile.name] = tile
        head = self.head

        def call(i: str, _: list[str]) -> list[str]:
            arguments = (
                panel.a,
                self.offset(head["row_offsets"], i),
                self.least(self.let(f"sub i64 {rows[1]}, {i}"), str(tile.rows)),
                panel.taps,
                panel.tap_count,
                panel.inner,
                head["a_step"],
                panel.b,
                panel.b_step,
                panel.ahead,
                panel.c,
                self.offset(head["target_offsets"], i),
                panel.columns,
                panel.fresh,
            )
            kinds = [argument.split()[0] for argument in Tile.ARGUMENTS]
            pairs = [f"{kind} {x}" for kind, x in zip(kinds, arguments, strict=True)]
            self.write(f"call void @{tile.name}({', '.join(pairs)})")
            return []

        self.each(*rows, tile.rows, [], call)


class Copy(Vectors):
    """The text of the function that copies a group of panels."""

    NAME = "copy_panels"
    ARGUMENTS = "ptr %b, i64 %step, i64 %depth, i64 %columns, ptr %target"

    def text(self) -> str:
        width = self.lanes * VECTORS
        self.size = self.let(f"mul i64 %depth, {width}")
        counts = [self.let(f"sub i64 %columns, {v * self.lanes}") for v in range(GROUP * VECTORS)]
        self.choose(
            self.let(f"icmp sge i64 %columns, {GROUP * width}"),
            lambda: self.rows([""] * len(counts)),
            lambda: self.rows([self.first_lanes(count) for count in counts]),
        )
        head = f"define internal void @{self.NAME}({self.ARGUMENTS}) {{"
        return "\n".join([head, "entry:", *self.frames[0].lines, "ret void", "}"])

    def rows(self, masks: list[str]) -> None:
        """All rows of the panels, each register through its mask."""

        def row(_: str, values: list[str]) -> list[str]:
            source, target = values
            for v, mask in enumerate(masks):
                panel, register = divmod(v, VECTORS)
                x = self.load(self.element(source, str(v * self.lanes)), mask)
                place = self.element(target, self.let(f"mul i64 {self.size}, {panel}"))
                place = self.element(place, str(register * self.lanes))
                self.write(f"store {self.vector} {x}, ptr {place}, align {self.bytes}")
            return [self.element(source, "%step"), self.element(target, str(self.lanes * VECTORS))]

        self.each("0", "%depth", 1, [("ptr", "%b"), ("ptr", "%target")], row)
