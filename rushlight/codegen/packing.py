"""Packing: a matrix copied into panels, so that the micro-kernel reads it from end to end.

    target[p, (t, i), j] = source[rows[p · width + j] + taps[t] + i · step]

A panel has ``width`` columns; those beyond the last row of the source are zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.codegen.instructions import vector
from rushlight.codegen.microkernel import Registers
from rushlight.codegen.native import NativeText

FIELDS = (
    "panels", "rows", "tap_count", "inner", "step", "panel_size", "batches", "row_offsets", "taps",
)  # fmt: skip
"""The head of the table; the last three say where its lists begin."""

BLOCK = 4  # lanes of the square blocks that are transposed


@dataclass(frozen=True, slots=True)
class Packing:
    """How a matrix is packed.

    Args:
        kind: of its elements.
        width: of the panels.
        access: ``"rows"`` if its rows lie beside each other, ``"inner"`` if the elements along the
            inner index do, ``"any"`` otherwise.
    """

    kind: str
    width: int
    access: str

    @property
    def name(self) -> str:
        return f"pack_{self.kind}_{self.width}_{self.access}"

    def text(self, registers: Registers) -> str:
        """The function that packs some panels."""
        return Packer(self, registers).text()


class Packer(NativeText):
    """The text of one packing."""

    def __init__(self, packing: Packing, registers: Registers) -> None:
        super().__init__(packing.kind)
        self.packing, self.registers = packing, registers

    def text(self) -> str:
        self.source, self.table, self.target = [self.buffer(n) for n in range(3)]
        self.head = self.fields(self.table, FIELDS, 3)
        self.each("%begin", "%end", 1, [], lambda part, _: self.part(part))
        return self.function(self.packing.name)

    def part(self, part: str) -> list[str]:
        """One panel of one batch."""
        head, width = self.head, self.packing.width
        batch = self.let(f"udiv i64 {part}, {head['panels']}")
        panel = self.let(f"urem i64 {part}, {head['panels']}")
        offsets = self.offset(head["batches"], self.let(f"mul i64 {batch}, 2"))
        source = self.element(self.source, self.entry(offsets, 0))
        target = self.element(self.target, self.entry(offsets, 1))
        target = self.element(target, self.let(f"mul i64 {panel}, {head['panel_size']}"))
        first = self.let(f"mul i64 {panel}, {width}")
        rows = self.offset(head["row_offsets"], first)
        left = self.let(f"sub i64 {head['rows']}, {first}")
        full = self.let(f"icmp sge i64 {left}, {width}")
        self.choose(
            full,
            lambda: self.panel(source, target, rows, str(width)),
            lambda: self.panel(source, target, rows, left),
        )
        return []

    def panel(self, source: str, target: str, rows: str, count: str) -> None:
        width, inner, head = self.packing.width, self.packing.access == "inner", self.head
        full = count == str(width)
        if not full:
            number = self.let(f"mul i64 {head['tap_count']}, {head['inner']}")
            size = self.let(f"mul i64 {self.let(f'mul i64 {number}, {width}')}, {self.bytes}")
            arguments = [("ptr", target), ("i8", "0"), ("i64", size), ("i1", "false")]
            self.call("llvm.memset.p0.i64", "void", arguments)
        bases = [self.element(source, self.entry(rows, r)) for r in range(width)] if full else []
        beside = self.packing.access == "rows" and full

        def tap(t: str, values: list[str]) -> list[str]:
            (place,) = values
            offset = self.entry(head["taps"], t)
            here = [self.element(base, offset) for base in bases]
            begin = "0"
            if inner and full:
                begin = self.let(f"and i64 {head['inner']}, {-BLOCK}")
                carried = [("ptr", place)]
                (place,) = self.each("0", begin, BLOCK, carried, lambda i, v: square(here, i, v[0]))

            def turn(i: str, values: list[str]) -> list[str]:
                (place,) = values
                step = self.let(f"mul i64 {i}, {head['step']}")
                if beside:
                    self.copy(self.element(here[0], step), place, width)
                elif full:
                    for r, row in enumerate(here):
                        self.put(self.element(place, str(r)), self.get(self.element(row, step)))
                else:
                    there = self.element(source, self.let(f"add i64 {offset}, {step}"))
                    self.each("0", count, 1, [], lambda r, _: self.single(there, rows, place, r))
                return [self.element(place, str(width))]

            return self.each(begin, head["inner"], 1, [("ptr", place)], turn)

        def square(here: list[str], i: str, place: str) -> list[str]:
            self.transposed(here, i, place)
            return [self.element(place, str(width * BLOCK))]

        self.each("0", head["tap_count"], 1, [("ptr", target)], tap)

    def single(self, source: str, rows: str, place: str, r: str) -> list[str]:
        """An element of a panel that is not full."""
        self.put(self.element(place, r), self.get(self.element(source, self.entry(rows, r))))
        return []

    def get(self, place: str, lanes: int = 1) -> str:
        kind = vector(self.scalar, lanes)
        return self.let(f"load {kind}, ptr {place}, align {self.bytes}")

    def put(self, place: str, x: str, lanes: int = 1) -> None:
        kind = vector(self.scalar, lanes)
        self.write(f"store {kind} {x}, ptr {place}, align {self.bytes}")

    def copy(self, source: str, target: str, count: int) -> None:
        """Elements that lie beside each other, in as few pieces as there are."""
        lanes, done = self.registers.bytes // self.bytes, 0
        while done < count:
            while lanes > count - done:
                lanes //= 2
            x = self.get(self.element(source, str(done)), lanes)
            self.put(self.element(target, str(done)), x, lanes)
            done += lanes

    def transposed(self, rows: list[str], i: str, place: str) -> None:
        """Four elements of every row, as four rows of the panel: squares, and what is left."""
        kind, width = vector(self.scalar, BLOCK), self.packing.width
        for first in range(0, width, BLOCK):
            chosen = rows[first : first + BLOCK]
            xs = [self.get(self.element(row, i), BLOCK) for row in chosen]
            xs += ["poison"] * (BLOCK - len(xs))
            pairs = [
                self.shuffle(kind, xs[p], xs[p + 2], order)
                for p in (0, 1)
                for order in ((0, 4, 1, 5), (2, 6, 3, 7))
            ]
            for n in range(BLOCK):
                order = (0, 4, 1, 5) if n % 2 == 0 else (2, 6, 3, 7)
                y = self.shuffle(kind, pairs[n // 2], pairs[n // 2 + 2], order)
                spot = self.element(place, str(n * width + first))
                if len(chosen) == BLOCK:
                    self.put(spot, y, BLOCK)
                    continue
                half = ", ".join([f"i32 {m}" for m in range(len(chosen))])
                less = self.let(
                    f"shufflevector {kind} {y}, {kind} poison, <{len(chosen)} x i32> <{half}>"
                )
                self.put(spot, less, len(chosen))

    def shuffle(self, kind: str, x: str, y: str, order: tuple[int, ...]) -> str:
        chosen = ", ".join([f"i32 {n}" for n in order])
        return self.let(f"shufflevector {kind} {x}, {kind} {y}, <{len(order)} x i32> <{chosen}>")
