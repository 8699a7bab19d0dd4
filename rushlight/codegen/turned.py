"""Blocks of elements that lie across the lanes: read as rows, and turned in registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rushlight.codegen.blocks import Number
from rushlight.codegen.instructions import memory, vector, width
from rushlight.codegen.kernel import values_of
from rushlight.codegen.memory import Memory
from rushlight.codegen.traverse import unguarded
from rushlight.codegen.values import Loop, Value


class Turned(Memory):
    """Loads of as many elements across the vectorised loop as there are lanes along it.

    Where neighbours along the vectorised loop are apart in memory, those of another loop lie beside
    each other: then a square of elements is as many loads as it has rows, not elements.
    """

    def turned(self, across: Loop) -> Mapping[Value, list[str]]:
        """The loads that lie along ``across``: their lanes, for each index of a square.

        ``across`` is open at the first of these indices.
        """
        values = values_of(self.kernel.stages)
        found = {v: self.rows_of(v, across) for v in values if v.op == "load"}
        squares = {v: rows for v, rows in found.items() if rows is not None}
        return {v: self.transposed(memory(v.data.kind), rows) for v, rows in squares.items()}

    def rows_of(self, v: Value, across: Loop) -> list[str] | None:
        """The rows of a square that a load is made of; None if they do not lie along ``across``."""
        buffer, lanes = v.data, self.lanes
        if width(buffer.kind) < 4:
            return None
        place, condition = unguarded(self.b, v.args[0])
        even, moving, offset = self.split(place)
        steps = [factor for atom, factor in even if across in self.free(atom)]
        own = [atom for atom, _ in (*even, *moving) if atom.op == "var" and atom.data is across]
        if len(moving) != 1 or moving[0][0].op != "var" or steps != [1] or len(own) != 1:
            return None
        if condition is not None and self.free(condition) & {across, self.along}:
            return None
        kind, step, align = memory(buffer.kind), moving[0][1], width(buffer.kind)
        mask = None if condition is None else self.get(condition, lanes)
        address = self.address(buffer, [*even, *moving], offset, kind)
        rows = []
        for lane in range(lanes):
            distance = self.amount(lane * step)
            row = self.let(f"getelementptr {kind}, ptr {address}, i64 {distance}")
            if mask is None:
                line = f"load {vector(kind, lanes)}, ptr {row}, align {align}"
                rows.append(self.let(line))
            else:
                rows.append(self.masked("load", kind, lanes, row, align, mask))
        return rows

    def transposed(self, kind: str, rows: list[str]) -> list[str]:
        """Columns from rows: halves change places, then quarters, until single elements do."""
        lanes, rows = len(rows), [*rows]
        t, half = vector(kind, lanes), lanes // 2
        while half:
            for n in [n for n in range(lanes) if not n & half]:
                pair = f"{t} {rows[n]}, {t} {rows[n + half]}"
                upper = [lanes + j - half if j & half else j for j in range(lanes)]
                lower = [lanes + j if j & half else j + half for j in range(lanes)]
                rows[n], rows[n + half] = [
                    self.let(f"shufflevector {pair}, <{lanes} x i32> <{chosen(order)}>")
                    for order in (upper, lower)
                ]
            half //= 2
        return rows

    def square(
        self, across: Loop, first: Number, row: Callable[[list[str]], list[str]]
    ) -> list[str]:
        """``row`` for as many indices of ``across`` as there are lanes."""

        def alone(index: str, _: list[str]) -> list[str]:
            self.enter(across, index)
            return row([])

        if self.lanes == 1 or self.mask is not None:
            end = self.let(f"add i64 {first}, {self.full}")
            return self.each(first, end, 1, [], alone)
        known: dict[Value, list[str]] = {}

        def read(_index: str, _: list[str]) -> list[str]:
            self.enter(across, str(first))
            known.update(self.turned(across))
            return []

        def line(index: str, _: list[str]) -> list[str]:
            self.enter(across, self.let(f"add i64 {first}, {index}"))
            self.frames[-1].known.update({v: lines[int(index)] for v, lines in known.items()})
            return row([])

        self.once(0, [], read)
        return self.unrolled(self.lanes, [], line)


def chosen(order: list[int]) -> str:
    return ", ".join([f"i32 {n}" for n in order])
