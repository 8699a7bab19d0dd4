"""Partial sums to a result: the end of contractions that are summed in several parts.

    target[b, rows[i] + j · step] (+)= Σₛ source[b, s, i, j]

The parts are added one after the other. Results of 16 bits are rounded here, once.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.codegen.instructions import TYPES, vector, width
from rushlight.codegen.microkernel import Registers
from rushlight.codegen.native import NativeText

FIELDS = (
    "rows",
    "columns",
    "sums",
    "sum_size",
    "step",
    "accumulate",
    "batches",
    "row_offsets",
)
"""The head of the table; the last two say where its lists begin."""


@dataclass(frozen=True, slots=True)
class Fold:
    """How partial sums are added.

    Args:
        kind: of the sums.
        result: of the elements of the result.
    """

    kind: str
    result: str

    @property
    def name(self) -> str:
        return f"fold_{self.kind}_{self.result}"

    def text(self, registers: Registers) -> str:
        """The function that adds up some rows."""
        return Folder(self, registers).text()


class Folder(NativeText):
    """The text of one fold."""

    def __init__(self, fold: Fold, registers: Registers) -> None:
        super().__init__(fold.kind)
        self.fold, self.half = fold, registers.half
        self.lanes = registers.bytes // self.bytes

    def text(self) -> str:
        self.source, self.table, self.target = [self.buffer(n) for n in range(3)]
        self.head = self.fields(self.table, FIELDS, 2)
        self.each("%begin", "%end", 1, [], lambda part, _: self.row(part))
        return self.function(self.fold.name)

    def row(self, part: str) -> list[str]:
        """One row of one batch."""
        head = self.head
        batch, i = self.divided(part, head["rows"])
        size = self.let(f"mul i64 {head['sums']}, {head['sum_size']}")
        source = self.element(self.source, self.let(f"mul i64 {batch}, {size}"))
        source = self.element(source, self.let(f"mul i64 {i}, {head['columns']}"))
        place = self.entry(head["row_offsets"], i)
        place = self.let(f"add i64 {place}, {self.entry(head['batches'], batch)}")
        target = self.at(self.target, place)
        beside = self.let(f"icmp eq i64 {head['step']}, 1")
        whole = self.let(f"and i64 {head['columns']}, {-self.lanes}")
        whole = self.let(f"select i1 {beside}, i64 {whole}, i64 0")
        self.each(
            "0",
            whole,
            self.lanes,
            [],
            lambda j, _: self.sum(source, target, j, self.lanes),
        )
        self.each(whole, head["columns"], 1, [], lambda j, _: self.sum(source, target, j, 1))
        return []

    def sum(self, source: str, target: str, j: str, lanes: int) -> list[str]:
        """Some elements of a row."""
        head, kind = self.head, vector(self.scalar, lanes)
        stored = vector(TYPES[self.fold.result], lanes)
        place = self.at(target, self.let(f"mul i64 {j}, {head['step']}"))
        result, align = self.fold.result, width(self.fold.result)
        more = self.let(f"icmp ne i64 {head['accumulate']}, 0")

        def old() -> str:
            x = self.let(f"load {stored}, ptr {place}, align {align}")
            return self.cast(result, self.kind, lanes, x)

        start = self.branch(more, kind, self.constant(0.0, self.kind, lanes), old)

        def add(s: str, values: list[str]) -> list[str]:
            part = self.element(source, self.let(f"mul i64 {s}, {head['sum_size']}"))
            x = self.let(f"load {kind}, ptr {self.element(part, j)}, align {self.bytes}")
            return [self.let(f"fadd {kind} {values[0]}, {x}")]

        (total,) = self.each("0", head["sums"], 1, [(kind, start)], add)
        total = self.cast(self.kind, result, lanes, total)
        self.write(f"store {stored} {total}, ptr {place}, align {align}")
        return []

    def at(self, base: str, offset: str) -> str:
        """A place in the target."""
        return self.let(f"getelementptr {TYPES[self.fold.result]}, ptr {base}, i64 {offset}")
