"""Packing: a matrix copied into panels, so that the micro-kernel reads it from end to end.

    target[p, (t, i), j] = source[rows[p · width + j] + taps[t] + i · step]

A panel has ``width`` columns; those beyond the last row of the source repeat it. Elements of 16
bits become 32 on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from rushlight.codegen.instructions import TYPES, vector, width
from rushlight.codegen.microkernel import Registers
from rushlight.codegen.native import NativeText

FIELDS = (
    "panels", "blocks", "rows", "tap_count", "inner", "step", "panel_size", "batches",
    "row_offsets", "taps",
)  # fmt: skip
"""The head of the table; the last three say where its lists begin."""

BLOCK = 4  # lanes of the square blocks that are transposed
GROUP = 4  # panels that are filled side by side, so that long pieces of memory are read
LINE = 4  # squares that follow each other in a row: all of a cache line is read at once
PIECES = 32  # of what is summed, for which all panels are filled: each may be on another page

Edges = tuple[str, str]
Piece = tuple[Edges, Edges]  # taps, and elements along the inner index
Turn = Callable[[list[str], str], None]


@dataclass(frozen=True, slots=True)
class Packing:
    """How a matrix is packed.

    Args:
        kind: of the elements in the panels.
        source: of the elements of the matrix.
        width: of the panels.
        access: ``"rows"`` if its rows lie beside each other, ``"inner"`` if the elements along the
            inner index do, ``"taps"`` if those of all taps do, ``"any"`` otherwise.
    """

    kind: str
    source: str
    width: int
    access: str

    @property
    def name(self) -> str:
        return f"pack_{self.kind}_{self.source}_{self.width}_{self.access}"

    @property
    def by_panels(self) -> bool:
        """Whether a part is a panel; else it is a piece of all panels."""
        return self.access != "rows"

    def text(self, registers: Registers) -> str:
        """The function that packs some parts."""
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
        """A panel of one batch, or a piece of all its panels."""
        head = self.head
        if self.packing.by_panels:
            batch, panel = self.divided(part, head["panels"])
            source, target = self.places(batch)
            taps, inner = ("0", head["tap_count"]), ("0", head["inner"])
            return self.single(source, target, panel, (taps, inner))
        above, block = self.divided(part, head["blocks"])
        batch, tap = self.divided(above, head["tap_count"])
        source, target = self.places(batch)
        inner = self.range(block, str(PIECES), head["inner"])
        before = self.let(f"mul i64 {tap}, {head['inner']}")
        before = self.let(f"add i64 {before}, {inner[0]}")
        target = self.element(target, self.let(f"mul i64 {before}, {self.packing.width}"))
        piece = (tap, self.let(f"add i64 {tap}, 1")), inner
        full = self.let(f"udiv i64 {head['rows']}, {self.packing.width}")
        grouped = self.let(f"and i64 {full}, {-GROUP}")
        edges = ("0", grouped, full, head["panels"])
        counts = (GROUP, 1, 0)
        for begin, end, count in zip(edges, edges[1:], counts, strict=False):
            self.each(
                begin,
                end,
                count or 1,
                [],
                partial(self.panels, source, target, piece, count),
            )
        return []

    def places(self, batch: str) -> tuple[str, str]:
        """Where the source and the panels of a batch begin."""
        offsets = self.offset(self.head["batches"], self.let(f"mul i64 {batch}, 2"))
        source = self.at(self.source, self.entry(offsets, 0))
        return source, self.element(self.target, self.entry(offsets, 1))

    def panels(
        self,
        source: str,
        target: str,
        piece: Piece,
        count: int,
        panel: str,
        _: list[str],
    ) -> list[str]:
        """Full panels whose rows lie beside each other; or, if ``count`` is 0, the last one."""
        if not count:
            return self.single(source, target, panel, piece)
        row = self.let(f"mul i64 {panel}, {self.packing.width}")
        base = self.at(source, self.entry(self.head["row_offsets"], row))

        def turn(rows: list[str], place: str) -> None:
            for n in range(count):
                place = place if n == 0 else self.element(place, self.head["panel_size"])
                for begin, lanes in self.pieces():
                    x = self.get(self.at(rows[0], str(n * self.packing.width + begin)), lanes)
                    self.put(self.element(place, str(begin)), x, lanes)

        return self.elements([base], self.panel(target, panel), piece, turn)

    def single(self, source: str, target: str, panel: str, piece: Piece) -> list[str]:
        """One panel, row by row; rows that are missing repeat the last one."""
        row = self.let(f"mul i64 {panel}, {self.packing.width}")
        last = self.let(f"add i64 {self.head['rows']}, -1")
        numbers = [
            self.least(self.let(f"add i64 {row}, {r}"), last) for r in range(self.packing.width)
        ]
        bases = [self.at(source, self.entry(self.head["row_offsets"], n)) for n in numbers]
        if self.packing.access == "taps":
            return self.windows(bases, self.panel(target, panel))

        def turn(rows: list[str], place: str) -> None:
            for r, here in enumerate(rows):
                self.put(self.element(place, str(r)), self.get(here))

        return self.elements(bases, self.panel(target, panel), piece, turn)

    def windows(self, bases: list[str], target: str) -> list[str]:
        """One panel, all taps of an inner element at a time; the last squares may overlap."""
        wide = self.packing.width
        apart = self.let(f"mul i64 {self.head['inner']}, {wide}")
        last = self.let(f"add i64 {self.head['tap_count']}, {-BLOCK}")
        bases = [self.at(base, self.entry(self.head["taps"], 0)) for base in bases]

        def each_inner(i: str, _: list[str]) -> list[str]:
            offset = self.let(f"mul i64 {i}, {self.head['step']}")
            rows = [self.at(base, offset) for base in bases]
            place = self.element(target, self.let(f"mul i64 {i}, {wide}"))
            taps = "0", self.head["tap_count"]
            return self.each(*taps, BLOCK, [], lambda t, _: square(rows, place, t))

        def square(rows: list[str], place: str, t: str) -> list[str]:
            t = self.least(t, last)
            place = self.element(place, self.let(f"mul i64 {t}, {apart}"))
            self.transposed(rows, t, place, apart)
            return []

        return self.each("0", self.head["inner"], 1, [], each_inner)

    def panel(self, target: str, number: str) -> str:
        return self.element(target, self.let(f"mul i64 {number}, {self.head['panel_size']}"))

    def elements(self, bases: list[str], target: str, piece: Piece, turn: Turn) -> list[str]:
        """Runs through some taps and some of the inner index: ``turn(rows, place)``."""
        wide, (taps, (first, last)) = self.packing.width, piece
        squares = self.packing.access == "inner"

        def tap(t: str, values: list[str]) -> list[str]:
            (place,) = values
            offset = self.entry(self.head["taps"], t)
            rows = [self.at(base, offset) for base in bases]
            begin = first
            for count in (LINE, 1) if squares else ():
                end = self.let(f"and i64 {last}, {-BLOCK * count}")
                turns = partial(square, rows, count)
                (place,) = self.each(begin, end, BLOCK * count, [("ptr", place)], turns)
                begin = end
            return self.each(begin, last, 1, [("ptr", place)], lambda i, v: one(rows, i, v[0]))

        def one(rows: list[str], i: str, place: str) -> list[str]:
            step = i if squares else self.let(f"mul i64 {i}, {self.head['step']}")
            turn([self.at(row, step) for row in rows], place)
            return [self.element(place, str(wide))]

        def square(rows: list[str], count: int, i: str, values: list[str]) -> list[str]:
            self.transposed(rows, i, values[0], str(wide), count)
            return [self.element(values[0], str(wide * BLOCK * count))]

        self.each(*taps, 1, [("ptr", target)], tap)
        return []

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

    def transposed(self, rows: list[str], i: str, place: str, apart: str, count: int = 1) -> None:
        """Four elements of every row, ``count`` times, as rows of the panel: squares and a rest."""
        places = [place]
        for _ in range(1, BLOCK * count):
            places.append(self.element(places[-1], apart))
        for first in range(0, self.packing.width, BLOCK):
            chosen = [self.at(row, i) for row in rows[first : first + BLOCK]]
            for n in range(count):
                self.square(chosen, places[n * BLOCK : (n + 1) * BLOCK], first)
                chosen = [self.at(row, str(BLOCK)) for row in chosen]

    def square(self, rows: list[str], places: list[str], first: int) -> None:
        """Four elements of at most four rows, as columns from the ``first`` on."""
        kind = vector(self.scalar, BLOCK)
        xs = [self.get(row, BLOCK) for row in rows]
        xs += ["poison"] * (BLOCK - len(xs))
        pairs = [
            self.shuffle(kind, xs[p], xs[p + 2], order)
            for p in (0, 1)
            for order in ((0, 4, 1, 5), (2, 6, 3, 7))
        ]
        for n, place in enumerate(places):
            order = (0, 4, 1, 5) if n % 2 == 0 else (2, 6, 3, 7)
            y = self.shuffle(kind, pairs[n // 2], pairs[n // 2 + 2], order)
            if len(rows) < BLOCK:
                y = self.shuffle(kind, y, "poison", tuple(range(len(rows))))
            self.put(self.element(place, str(first)), y, len(rows))

    def shuffle(self, kind: str, x: str, y: str, order: tuple[int, ...]) -> str:
        if len(order) == 1:
            return self.let(f"extractelement {kind} {x}, i64 {order[0]}")
        chosen = ", ".join([f"i32 {n}" for n in order])
        return self.let(f"shufflevector {kind} {x}, {kind} {y}, <{len(order)} x i32> <{chosen}>")
