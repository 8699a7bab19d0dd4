"""Packing: a matrix copied into panels, so that the micro-kernel reads it from end to end.

    target[p, (t, i), j] = source[rows[p · width + j] + taps[t] + i · step]

A panel has ``width`` columns; those beyond the last row of the source repeat it. Elements of 16
bits become 32 on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rushlight.codegen.instructions import TYPES, vector, width
from rushlight.codegen.microkernel import Registers
from rushlight.codegen.native import NativeText

FIELDS = (
    "panels", "groups", "rows", "tap_count", "inner", "step", "panel_size", "batches",
    "row_offsets", "taps",
)  # fmt: skip
"""The head of the table; the last three say where its lists begin."""

BLOCK = 4  # lanes of the square blocks that are transposed
GROUP = 4  # panels that are filled side by side, so that long pieces of memory are read

Turn = Callable[[list[str], str], None]


@dataclass(frozen=True, slots=True)
class Packing:
    """How a matrix is packed.

    Args:
        kind: of the elements in the panels.
        source: of the elements of the matrix.
        width: of the panels.
        access: ``"rows"`` if its rows lie beside each other, ``"inner"`` if the elements along the
            inner index do, ``"any"`` otherwise.
    """

    kind: str
    source: str
    width: int
    access: str

    @property
    def name(self) -> str:
        return f"pack_{self.kind}_{self.source}_{self.width}_{self.access}"

    @property
    def group(self) -> int:
        """How many panels a part has."""
        return GROUP if self.access == "rows" else 1

    def text(self, registers: Registers) -> str:
        """The function that packs some groups of panels."""
        return Packer(self, registers).text()


class Packer(NativeText):
    """The text of one packing."""

    def __init__(self, packing: Packing, registers: Registers) -> None:
        super().__init__(packing.kind)
        self.packing, self.half = packing, registers.half
        self.lanes = registers.bytes // self.bytes

    def text(self) -> str:
        self.source, self.table, self.target = [self.buffer(n) for n in range(3)]
        self.head = self.fields(self.table, FIELDS, 3)
        self.each("%begin", "%end", 1, [], lambda part, _: self.part(part))
        return self.function(self.packing.name)

    def part(self, part: str) -> list[str]:
        """A group of panels of one batch."""
        head, group = self.head, self.packing.group
        batch = self.let(f"udiv i64 {part}, {head['groups']}")
        number = self.let(f"urem i64 {part}, {head['groups']}")
        offsets = self.offset(head["batches"], self.let(f"mul i64 {batch}, 2"))
        source = self.at(self.source, self.entry(offsets, 0))
        target = self.element(self.target, self.entry(offsets, 1))
        first = self.let(f"mul i64 {number}, {group}")
        end = self.let(f"add i64 {first}, {group}")
        if group == 1:
            self.single(source, target, first)
            return []
        self.choose(
            self.fits(end),
            lambda: self.several(source, target, first, group),
            lambda: self.one_by_one(source, target, first, self.least(end, head["panels"])),
        )
        return []

    def fits(self, panels: str) -> str:
        """Whether there are rows for that many panels."""
        rows = self.let(f"mul i64 {panels}, {self.packing.width}")
        return self.let(f"icmp sle i64 {rows}, {self.head['rows']}")

    def several(self, source: str, target: str, panel: str, count: int) -> None:
        """Full panels, whose rows lie beside each other."""
        row = self.let(f"mul i64 {panel}, {self.packing.width}")
        base = self.at(source, self.entry(self.head["row_offsets"], row))

        def turn(rows: list[str], place: str) -> None:
            for n in range(count):
                place = place if n == 0 else self.element(place, self.head["panel_size"])
                for begin, lanes in self.pieces():
                    x = self.get(self.at(rows[0], str(n * self.packing.width + begin)), lanes)
                    self.put(self.element(place, str(begin)), x, lanes)

        self.elements([base], self.panel(target, panel), turn)

    def one_by_one(self, source: str, target: str, first: str, end: str) -> None:
        """The panels of a group that is not full."""

        def each(panel: str, _: list[str]) -> list[str]:
            self.choose(
                self.fits(self.let(f"add i64 {panel}, 1")),
                lambda: self.several(source, target, panel, 1),
                lambda: self.single(source, target, panel),
            )
            return []

        self.each(first, end, 1, [], each)

    def single(self, source: str, target: str, panel: str) -> None:
        """One panel, row by row; rows that are missing repeat the last one."""
        row = self.let(f"mul i64 {panel}, {self.packing.width}")
        last = self.let(f"add i64 {self.head['rows']}, -1")
        numbers = [
            self.least(self.let(f"add i64 {row}, {r}"), last) for r in range(self.packing.width)
        ]
        bases = [self.at(source, self.entry(self.head["row_offsets"], n)) for n in numbers]

        def turn(rows: list[str], place: str) -> None:
            for r, here in enumerate(rows):
                self.put(self.element(place, str(r)), self.get(here))

        self.elements(bases, self.panel(target, panel), turn)

    def panel(self, target: str, number: str) -> str:
        return self.element(target, self.let(f"mul i64 {number}, {self.head['panel_size']}"))

    def elements(self, bases: list[str], target: str, turn: Turn) -> None:
        """Runs through taps and the inner index: ``turn(rows, place)``."""
        wide, inner = self.packing.width, self.head["inner"]
        squares = self.packing.access == "inner"

        def tap(t: str, values: list[str]) -> list[str]:
            (place,) = values
            offset = self.entry(self.head["taps"], t)
            rows = [self.at(base, offset) for base in bases]
            begin = "0"
            if squares:
                begin = self.let(f"and i64 {inner}, {-BLOCK}")
                carried = [("ptr", place)]
                (place,) = self.each("0", begin, BLOCK, carried, lambda i, v: square(rows, i, v[0]))
            return self.each(begin, inner, 1, [("ptr", place)], lambda i, v: one(rows, i, v[0]))

        def one(rows: list[str], i: str, place: str) -> list[str]:
            step = i if squares else self.let(f"mul i64 {i}, {self.head['step']}")
            turn([self.at(row, step) for row in rows], place)
            return [self.element(place, str(wide))]

        def square(rows: list[str], i: str, place: str) -> list[str]:
            self.transposed(rows, i, place)
            return [self.element(place, str(wide * BLOCK))]

        self.each("0", self.head["tap_count"], 1, [("ptr", target)], tap)

    def at(self, base: str, offset: str) -> str:
        """A place in the source."""
        return self.let(f"getelementptr {TYPES[self.packing.source]}, ptr {base}, i64 {offset}")

    def get(self, place: str, lanes: int = 1) -> str:
        source = self.packing.source
        kind = vector(TYPES[source], lanes)
        x = self.let(f"load {kind}, ptr {place}, align {width(source)}")
        return self.cast(source, self.kind, lanes, x)

    def put(self, place: str, x: str, lanes: int = 1) -> None:
        kind = vector(self.scalar, lanes)
        self.write(f"store {kind} {x}, ptr {place}, align {self.bytes}")

    def pieces(self) -> Iterator[tuple[int, int]]:
        """The row of a panel in as few registers as possible: (begin, lanes)."""
        lanes, done = self.lanes, 0
        while done < self.packing.width:
            while lanes > self.packing.width - done:
                lanes //= 2
            yield done, lanes
            done += lanes

    def transposed(self, rows: list[str], i: str, place: str) -> None:
        """Four elements of every row, as four rows of the panel: squares, and what is left."""
        kind, wide = vector(self.scalar, BLOCK), self.packing.width
        for first in range(0, wide, BLOCK):
            chosen = rows[first : first + BLOCK]
            xs = [self.get(self.at(row, i), BLOCK) for row in chosen]
            xs += ["poison"] * (BLOCK - len(xs))
            pairs = [
                self.shuffle(kind, xs[p], xs[p + 2], order)
                for p in (0, 1)
                for order in ((0, 4, 1, 5), (2, 6, 3, 7))
            ]
            for n in range(BLOCK):
                order = (0, 4, 1, 5) if n % 2 == 0 else (2, 6, 3, 7)
                y = self.shuffle(kind, pairs[n // 2], pairs[n // 2 + 2], order)
                spot = self.element(place, str(n * wide + first))
                if len(chosen) < BLOCK:
                    y = self.shuffle(kind, y, "poison", tuple(range(len(chosen))))
                self.put(spot, y, len(chosen))

    def shuffle(self, kind: str, x: str, y: str, order: tuple[int, ...]) -> str:
        if len(order) == 1:
            return self.let(f"extractelement {kind} {x}, i64 {order[0]}")
        chosen = ", ".join([f"i32 {n}" for n in order])
        return self.let(f"shufflevector {kind} {x}, {kind} {y}, <{len(order)} x i32> <{chosen}>")
