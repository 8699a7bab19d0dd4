"""Blocks of rows by blocks of columns: native functions that are run for each pair of blocks.

A *unit* is a matrix of which only a block exists at a time, like the weights of attention. For each
unit a nest runs calls at four moments:

    for each block of rows: "begin"
    for each block of columns:
        "columns"
        for each block of rows: "pair"
    for each block of rows: "end"

A call is a native function with a table and places, which move with unit and blocks. Units are
dealt out to *shares*, each with working memory of its own, that threads run side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rushlight.codegen.native import NativeText, table

FIELDS = (
    "row_size", "column_size", "row_blocks", "column_blocks", "causal", "unit_count",
    "edges", "units", "places", "moves", "calls", "moments", "tables",
)  # fmt: skip
"""The head of the table; the last seven say where its lists begin."""

NAME = "nest_u8"
MOMENTS = ("begin", "columns", "pair", "end")
MOST = 12  # operands of a call
TABLE, HERE = -1, -2  # operands: the table of a call, and the first row and column of its blocks
PLACE, CALL = 6, 4 + MOST  # numbers of a place, and of a call


class Spot(NamedTuple):
    """Where an operand is: in bytes from the beginning of a buffer.

    Args:
        buffer: its name.
        offset: where the operand of the first block of the first unit is.
        units: where that of each unit is.
        share: bytes from one share to the next.
        row: bytes from one block of rows to the next.
        column: bytes from one block of columns to the next.
    """

    buffer: str
    offset: int = 0
    units: tuple[int, ...] = ()
    share: int = 0
    row: int = 0
    column: int = 0


class Call(NamedTuple):
    """A native function for one block; operands are spots, or ``TABLE`` or ``HERE``."""

    name: str
    operands: tuple[Spot | int, ...]
    table: np.ndarray
    parts: int


class Unit(NamedTuple):
    """The blocks of a unit: of rows from ``first`` to before ``last``, of columns up to ``end``."""

    first: int
    last: int
    end: int


@dataclass(slots=True)
class Nest:
    """All that is run.

    Args:
        row_size: of a block.
        column_size: of a block.
        row_blocks: in all.
        column_blocks: in all.
        causal: whether pairs wholly above the diagonal are left out.
        units: in their order.
        edges: the first unit of each share, and the number of units.
        calls: by moment, and by whether its blocks of rows and columns are the last ones.
    """

    row_size: int
    column_size: int
    row_blocks: int
    column_blocks: int
    causal: bool
    units: Sequence[Unit]
    edges: Sequence[int]
    calls: dict[tuple[str, bool, bool], list[Call]] = field(default_factory=dict)

    @property
    def shares(self) -> int:
        return len(self.edges) - 1

    @property
    def functions(self) -> list[str]:
        """The functions that are called, each once."""
        return list(dict.fromkeys([call.name for calls in self.calls.values() for call in calls]))

    @property
    def buffers(self) -> list[str]:
        """The buffers that are used, each once; after table and functions they are operands."""
        spots = [s for calls in self.calls.values() for call in calls for s in call.operands]
        return list(dict.fromkeys([spot.buffer for spot in spots if isinstance(spot, Spot)]))

    def table(self) -> np.ndarray:
        """The table of the native function."""
        numbers = {
            "row_size": self.row_size,
            "column_size": self.column_size,
            "row_blocks": self.row_blocks,
            "column_blocks": self.column_blocks,
            "causal": int(self.causal),
            "unit_count": len(self.units),
        }
        lists = Lists(self)
        listed: Mapping[str, object] = {
            "edges": self.edges,
            "units": np.array(self.units, np.int64),
            "places": lists.places,
            "moves": lists.moves,
            "calls": lists.calls,
            "moments": lists.moments,
            "tables": np.concatenate([np.zeros(0, np.int64), *lists.tables]),
        }
        return table(FIELDS, numbers, listed)


class Lists:
    """The lists of a nest's table, with equal entries once."""

    def __init__(self, nest: Nest) -> None:
        names = ["table", *nest.functions, *nest.buffers]
        self.number = {name: n for n, name in enumerate(names)}
        self.count = len(nest.units)
        self.known: dict[Spot, int] = {}
        self.moved: dict[tuple[int, ...], int] = {}
        self.placed: dict[bytes, int] = {}
        self.places: list[tuple[int, ...]] = []
        self.moves: list[int] = []
        self.tables: list[np.ndarray] = []
        self.size = 0
        self.calls: list[list[int]] = []
        self.moments: list[tuple[int, int]] = []
        for moment in MOMENTS:
            for last_column in (False, True):
                for last_row in (False, True):
                    begin = len(self.calls)
                    for call in nest.calls.get((moment, last_row, last_column), ()):
                        self.calls.append(self.call(call))
                    self.moments.append((begin, len(self.calls)))

    def call(self, call: Call) -> list[int]:
        own = [s if isinstance(s, int) else self.place(s) for s in call.operands]
        head = [self.number[call.name], call.parts, self.tabled(call.table), len(own)]
        return [*head, *own, *[0] * (MOST - len(own))]

    def tabled(self, numbers: np.ndarray) -> int:
        key = numbers.tobytes()
        if key not in self.placed:
            self.placed[key] = self.size
            self.tables.append(numbers)
            self.size += numbers.size
        return self.placed[key]

    def place(self, spot: Spot) -> int:
        if spot not in self.known:
            units = spot.units or (0,) * self.count
            if units not in self.moved:
                self.moved[units] = len(self.moves)
                self.moves.extend(units)
            self.known[spot] = len(self.places)
            steps = (spot.share, spot.row, spot.column)
            number = self.number[spot.buffer]
            self.places.append((number, spot.offset, self.moved[units], *steps))
        return self.known[spot]


class Nested(NativeText):
    """The text of the function; buffers: the table, the functions, and the operands' buffers."""

    def __init__(self) -> None:
        super().__init__("u8")

    def text(self) -> str:
        self.operands = self.let(f"alloca [{MOST} x ptr], align 8")
        self.here = self.let("alloca [2 x i64], align 8")
        self.head = self.fields(self.buffer(0), FIELDS, 7)
        self.each("%begin", "%end", 1, [], lambda share, _: self.part(share))
        return self.function(NAME)

    def part(self, share: str) -> list[str]:
        """The units of a share."""
        after = self.let(f"add i64 {share}, 1")
        begin, end = [self.entry(self.head["edges"], n) for n in (share, after)]
        return self.each(begin, end, 1, [], lambda unit, _: self.unit(share, unit))

    def unit(self, share: str, unit: str) -> list[str]:
        """All pairs of blocks of a unit."""
        head = self.head
        own = self.offset(head["units"], self.let(f"mul i64 {unit}, 3"))
        first, last, end = [self.entry(own, n) for n in range(3)]

        def at(moment: str, row: str, column: str) -> list[str]:
            self.moment(moment, share, unit, row, column)
            return []

        def columns(column: str, _: list[str]) -> list[str]:
            self.moment("columns", share, unit, "", column)
            diagonal = self.let(f"mul i64 {column}, {head['column_size']}")
            diagonal = self.let(f"udiv i64 {diagonal}, {head['row_size']}")
            diagonal = self.let(f"mul i64 {diagonal}, {head['causal']}")
            start = self.call("llvm.smax.i64", "i64", [("i64", first), ("i64", diagonal)])
            return self.each(start, last, 1, [], lambda row, _: at("pair", row, column))

        self.each(first, last, 1, [], lambda row, _: at("begin", row, ""))
        self.each("0", end, 1, [], columns)
        self.each(first, last, 1, [], lambda row, _: at("end", row, ""))
        return []

    def moment(self, name: str, share: str, unit: str, row: str, column: str) -> None:
        """The calls of a moment; without a row or a column, these are 0 and not the last."""
        head = self.head
        variant = str(4 * MOMENTS.index(name))
        for number, blocks, weight in ((row, "row_blocks", 1), (column, "column_blocks", 2)):
            if number:
                final = self.let(f"add i64 {head[blocks]}, -1")
                is_last = self.let(f"icmp eq i64 {number}, {final}")
                more = self.let(f"select i1 {is_last}, i64 {weight}, i64 0")
                variant = self.let(f"add i64 {variant}, {more}")
        row, column = row or "0", column or "0"
        for n, (block, size) in enumerate(((row, "row_size"), (column, "column_size"))):
            place = self.offset(self.here, n)
            self.write(f"store i64 {self.let(f'mul i64 {block}, {head[size]}')}, ptr {place}")
        pair = self.offset(head["moments"], self.let(f"mul i64 {variant}, 2"))
        begin, end = [self.entry(pair, n) for n in range(2)]
        where = (share, unit, row, column)
        self.each(begin, end, 1, [], lambda call, _: self.run(call, where))

    def run(self, number: str, where: tuple[str, str, str, str]) -> list[str]:
        """One call."""
        call = self.offset(self.head["calls"], self.let(f"mul i64 {number}, {CALL}"))
        function, parts, place, count = [self.entry(call, n) for n in range(4)]
        numbers = self.offset(self.head["tables"], place)

        def operand(n: str, _: list[str]) -> list[str]:
            own = self.entry(call, self.let(f"add i64 {n}, 4"))
            is_table = self.let(f"icmp eq i64 {own}, {TABLE}")
            usual = self.let(f"select i1 {is_table}, ptr {numbers}, ptr {self.here}")
            is_place = self.let(f"icmp sge i64 {own}, 0")
            x = self.branch(is_place, "ptr", usual, lambda: self.place(own, where))
            spot = self.let(f"getelementptr ptr, ptr {self.operands}, i64 {n}")
            self.write(f"store ptr {x}, ptr {spot}, align 8")
            return []

        self.each("0", count, 1, [], operand)
        called = self.buffer(function)
        self.write(f"call void {called}(ptr {self.operands}, i64 0, i64 {parts})")
        return []

    def place(self, number: str, where: tuple[str, str, str, str]) -> str:
        """Where a place is now."""
        share, unit, row, column = where
        own = self.offset(self.head["places"], self.let(f"mul i64 {number}, {PLACE}"))
        buffer, offset, moves = [self.entry(own, n) for n in range(3)]
        move = self.entry(self.head["moves"], self.let(f"add i64 {moves}, {unit}"))
        offset = self.let(f"add i64 {offset}, {move}")
        for n, block in enumerate((share, row, column), 3):
            step = self.let(f"mul i64 {block}, {self.entry(own, n)}")
            offset = self.let(f"add i64 {offset}, {step}")
        return self.element(self.buffer(buffer), offset)
