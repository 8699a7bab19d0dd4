"""Products with few rows whose second operand lies along what is summed: dot products.

    C[r, j] (+)= Σₖ A[r, k] · B[j, k]

Lanes run along k, so that every element of B is read once, in the order it lies in memory. The sum
of the lanes is taken at the end.
"""

from __future__ import annotations

from rushlight.codegen.microkernel import Registers, Vectors

FIELDS = (
    "sum_parts", "column_parts", "rows", "columns", "column_block", "inner", "sum_block",
    "sum_size", "accumulate", "batches", "row_offsets", "column_offsets", "target_rows",
    "target_columns",
)  # fmt: skip
"""The head of the table; the last five say where its lists begin."""

MOST = 3  # rows of a tile
COLUMNS = {1: 8, 2: 4, 3: 4}  # by rows: sums enough to keep the multipliers busy
AHEAD = 8  # registers of each column that are asked for before they are needed


class Dots(Vectors):
    """The function that computes some blocks of columns.

    Args:
        kind: of all elements.
        registers: of the processor.
        rows: of a tile.
    """

    def __init__(self, kind: str, registers: Registers, rows: int) -> None:
        super().__init__(kind, registers)
        self.rows, self.columns = rows, COLUMNS[rows]

    @property
    def name(self) -> str:
        return f"dots_{self.kind}_{self.rows}"

    def text(self) -> str:
        self.a, self.b, self.table, self.c = [self.buffer(n) for n in range(4)]
        self.head = self.fields(self.table, FIELDS, 5)
        self.parts(self.part, self.registers.flush)
        return self.function(self.name)

    def part(self, part: str) -> list[str]:
        """A block of columns of one batch, for a part of what is summed."""
        head = self.head
        above, j = self.divided(part, head["column_parts"])
        batch, group = self.divided(above, head["sum_parts"])
        columns = self.range(j, head["column_block"], head["columns"])
        inner = self.range(group, head["sum_block"], head["inner"])
        a, b, c = self.of_batch(head["batches"], batch, (self.a, self.b, self.c))
        c = self.element(c, self.let(f"mul i64 {group}, {head['sum_size']}"))

        def tile(j: str, _: list[str]) -> list[str]:
            numbers = self.clamped(j, self.columns, columns[1])
            bases = [self.element(b, self.entry(head["column_offsets"], n)) for n in numbers]
            places = [self.element(c, self.entry(head["target_columns"], n)) for n in numbers]

            def row(i: str, _: list[str]) -> list[str]:
                return self.tile(a, i, bases, places, inner)

            return self.each("0", head["rows"], self.rows, [], row)

        return self.each(*columns, self.columns, [], tile)

    def clamped(self, first: str, count: int, end: str) -> list[str]:
        """Numbers from the first on; beyond the end they repeat the last one."""
        last = self.let(f"sub i64 {end}, 1")
        return [first] + [
            self.least(self.let(f"add i64 {first}, {n}"), last) for n in range(1, count)
        ]

    def tile(
        self,
        a: str,
        i: str,
        columns: list[str],
        places: list[str],
        inner: tuple[str, str],
    ) -> list[str]:
        """Some rows by some columns."""
        head, (begin, end) = self.head, inner
        numbers = self.clamped(i, self.rows, head["rows"])
        rows = [self.element(a, self.entry(head["row_offsets"], n)) for n in numbers]
        targets = [self.entry(head["target_rows"], n) for n in numbers]
        count = self.let(f"sub i64 {end}, {begin}")
        whole = self.let(f"add i64 {begin}, {self.let(f'and i64 {count}, {-self.lanes}')}")
        zeros = [(self.vector, "zeroinitializer")] * (self.rows * self.columns)

        def turn(k: str, sums: list[str]) -> list[str]:
            return self.turn(rows, columns, k, sums, "")

        def rest(k: str, sums: list[str]) -> list[str]:
            mask = self.first_lanes(self.let(f"sub i64 {end}, {k}"))
            return self.turn(rows, columns, k, sums, mask)

        sums = self.each(begin, whole, self.lanes, zeros, turn)
        carried = [(self.vector, x) for x in sums]
        sums = self.each(whole, end, self.lanes, carried, rest)
        spots = [self.element(place, target) for target in targets for place in places]
        more = self.let(f"icmp ne i64 {head['accumulate']}, 0")
        olds = [self.old(spot, more) for spot in spots]  # all of them before any is written
        for spot, old, x in zip(spots, olds, sums, strict=True):
            y = self.let(f"fadd {self.scalar} {old}, {self.total(x)}")
            self.write(f"store {self.scalar} {y}, ptr {spot}, align {self.bytes}")
        return []

    def turn(
        self, rows: list[str], columns: list[str], k: str, sums: list[str], mask: str
    ) -> list[str]:
        """As many products of every row and column as a register has lanes."""
        sums = list(sums)
        xs = [self.load(self.element(row, k), mask) for row in rows]
        for j, column in enumerate(columns):
            self.fetch(self.element(self.element(column, k), str(AHEAD * self.lanes)), False)
            y = self.load(self.element(column, k), mask)
            for r, x in enumerate(xs):
                n = r * self.columns + j
                sums[n] = self.multiply_add(x, y, sums[n])
        return sums

    def total(self, x: str) -> str:
        """The sum of all lanes."""
        lanes = self.lanes
        while lanes > 1:
            low, high = [self.halved(x, lanes, begin) for begin in (0, lanes // 2)]
            lanes //= 2
            kind = self.scalar if lanes == 1 else f"<{lanes} x {self.scalar}>"
            x = self.let(f"fadd {kind} {low}, {high}")
        return x

    def old(self, place: str, more: str) -> str:
        """What C holds already, if it is added to."""
        return self.branch(
            more,
            self.scalar,
            "0.0",
            lambda: self.let(f"load {self.scalar}, ptr {place}, align {self.bytes}"),
        )
