"""Contractions: products that are summed over indices, as tiles of one micro-kernel.

What is multiplied, and where, stands in a table of 64-bit integers that the native code reads
while it runs: sizes, steps, and offsets of batches, rows, taps and blocks. So one compiled function
serves all products, convolutions and gradients of a kind, whatever their shapes.
"""

from __future__ import annotations

from rushlight.codegen.microkernel import Flavour, Registers, Tile
from rushlight.codegen.native import NativeText

FIELDS = (
    "row_parts", "column_parts", "rows", "row_block", "columns", "panels", "panel_block",
    "block_count", "a_step", "b_step", "b_panel", "accumulate", "batches", "blocks", "row_offsets",
    "target_offsets", "taps",
)  # fmt: skip
"""The head of the table; the last ones say where its lists begin."""

Common = tuple[str, ...]  # what all tiles of a panel are called with
VECTORS = 2  # registers of a panel's row


def tile_rows(registers: Registers) -> tuple[int, ...]:
    """The heights of tiles, the greatest first: sums, a row of B and an element of A fit."""
    return (12, 6, 3, 1) if registers.count >= 32 else (6, 4, 2, 1)


class Sweep(NativeText):
    """The function that runs through the tiles of some parts."""

    def __init__(self, flavour: Flavour, registers: Registers) -> None:
        super().__init__(flavour.kind)
        self.flavour, self.registers = flavour, registers
        self.panel = VECTORS * registers.bytes // self.bytes
        self.tiles: dict[str, Tile] = {}

    @property
    def name(self) -> str:
        return f"contract_{self.flavour.name}"

    def text(self) -> str:
        self.a, self.b, self.table, self.c = [self.buffer(n) for n in range(4)]
        self.head = self.lists = self.fields(self.table, FIELDS, 5)
        self.per_batch = self.let(f"mul i64 {self.head['row_parts']}, {self.head['column_parts']}")
        self.each("%begin", "%end", 1, [], lambda part, _: self.part(part))
        texts = [tile.text() for tile in self.tiles.values()]
        for tile in self.tiles.values():
            self.declared |= tile.declared
        return "\n\n".join([*texts, self.function(self.name)])

    def part(self, part: str) -> list[str]:
        """A block of rows by a block of panels of one batch."""
        head = self.head
        batch = self.let(f"udiv i64 {part}, {self.per_batch}")
        inside = self.let(f"urem i64 {part}, {self.per_batch}")
        i = self.let(f"udiv i64 {inside}, {head['column_parts']}")
        j = self.let(f"urem i64 {inside}, {head['column_parts']}")
        first = self.let(f"mul i64 {i}, {head['row_block']}")
        last = self.least(self.let(f"add i64 {first}, {head['row_block']}"), head["rows"])
        panel = self.let(f"mul i64 {j}, {head['panel_block']}")
        end = self.least(self.let(f"add i64 {panel}, {head['panel_block']}"), head["panels"])
        offsets = self.let(f"mul i64 {batch}, 3")
        own = self.let(f"getelementptr i64, ptr {self.lists['batches']}, i64 {offsets}")
        a, b, c = [
            self.element(base, self.entry(own, n))
            for n, base in enumerate((self.a, self.b, self.c))
        ]
        self.each(
            "0",
            head["block_count"],
            1,
            [],
            lambda number, _: self.block(number, a, b, c, (first, last), (panel, end)),
        )
        return []

    def block(
        self, number: str, a: str, b: str, c: str, rows: tuple[str, str], panels: tuple[str, str]
    ) -> list[str]:
        """All tiles of a part, for one block of what is summed over."""
        at = self.let(f"mul i64 {number}, 5")
        own = self.let(f"getelementptr i64, ptr {self.lists['blocks']}, i64 {at}")
        tap, taps, begin, inner, k = [self.entry(own, n) for n in range(5)]
        is_first = self.let(f"icmp eq i64 {number}, 0")
        alone = self.let(f"icmp eq i64 {self.head['accumulate']}, 0")
        fresh = self.let(f"and i1 {is_first}, {alone}")
        own_taps = self.let(f"getelementptr i64, ptr {self.lists['taps']}, i64 {tap}")
        step = "1" if self.flavour.unit else self.head["a_step"]
        a = self.element(a, self.let(f"mul i64 {begin}, {step}"))
        b = self.element(b, self.let(f"mul i64 {k}, {self.head['b_step']}"))

        def each_panel(j: str, _: list[str]) -> list[str]:
            column = self.let(f"mul i64 {j}, {self.panel}")
            left = self.let(f"sub i64 {self.head['columns']}, {column}")
            place = self.element(b, self.let(f"mul i64 {j}, {self.head['b_panel']}"))
            target = self.element(c, column)
            common = (a, own_taps, taps, inner, place, target, left, fresh)
            half = self.panel // 2
            full = self.let(f"icmp sge i64 {left}, {self.panel}")
            wide = self.let(f"icmp sgt i64 {left}, {half}")
            self.choose(
                full,
                lambda: self.rows_of(2, False, rows, common),
                lambda: self.choose(
                    wide,
                    lambda: self.rows_of(2, True, rows, common),
                    lambda: self.rows_of(1, True, rows, common),
                ),
            )
            return []

        self.each(panels[0], panels[1], 1, [], each_panel)
        return []

    def rows_of(self, vectors: int, masked: bool, rows: tuple[str, str], common: Common) -> None:
        """The tiles of a panel, the highest first."""
        a, taps, tap_count, inner, b, c, lanes, fresh = common
        begin, end = rows
        for height in tile_rows(self.registers):
            tile = Tile(self.flavour, self.registers, height, vectors, masked)
            self.tiles[tile.name] = tile
            count = self.let(f"sub i64 {end}, {begin}")
            whole = self.let(f"mul i64 {self.let(f'udiv i64 {count}, {height}')}, {height}")
            stop = self.let(f"add i64 {begin}, {whole}")

            def call(i: str, _: list[str], tile: Tile = tile) -> list[str]:
                own = self.let(f"getelementptr i64, ptr {self.lists['row_offsets']}, i64 {i}")
                there = self.let(f"getelementptr i64, ptr {self.lists['target_offsets']}, i64 {i}")
                self.write(
                    f"call void @{tile.name}(ptr {a}, ptr {own}, ptr {taps}, i64 {tap_count}, "
                    f"i64 {inner}, i64 {self.head['a_step']}, ptr {b}, i64 {self.head['b_step']}, "
                    f"ptr {c}, ptr {there}, i64 {lanes}, i1 {fresh})"
                )
                return []

            self.each(begin, stop, height, [], call)
            begin = stop
