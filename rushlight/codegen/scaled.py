"""Products of one row with a matrix whose rows lie in memory: a sum of scaled rows.

    C[j] (+)= Σₖ A[k] · B[k, j]

Some rows of B are read side by side from end to end, so that every element is read once and in the
order it lies in memory; C is near all the while.
"""

from __future__ import annotations

from rushlight.codegen.microkernel import Vectors

FIELDS = (
    "sum_parts", "column_parts", "columns", "column_block", "inner", "sum_block", "sum_size",
    "a_step", "b_step", "accumulate", "batches",
)  # fmt: skip
"""The head of the table; the last one says where its list begins."""

TOGETHER = 8  # rows of B that are read side by side


class Scaled(Vectors):
    """The function that computes some blocks of columns."""

    @property
    def name(self) -> str:
        return f"scaled_{self.kind}"

    def text(self) -> str:
        self.a, self.b, self.table, self.c = [self.buffer(n) for n in range(4)]
        self.head = self.fields(self.table, FIELDS, 1)
        self.parts(self.part, self.registers.flush)
        return self.function(self.name)

    def part(self, part: str) -> list[str]:
        """A block of columns of one batch, for a part of what is summed."""
        head = self.head
        above, j = self.divided(part, head["column_parts"])
        batch, group = self.divided(above, head["sum_parts"])
        begin, end = self.range(j, head["column_block"], head["columns"])
        first, last = self.range(group, head["sum_block"], head["inner"])
        a, b, c = self.of_batch(head["batches"], batch, (self.a, self.b, self.c))
        c = self.element(c, self.let(f"mul i64 {group}, {head['sum_size']}"))
        b, c = self.element(b, begin), self.element(c, begin)
        count = self.let(f"sub i64 {end}, {begin}")
        fresh = self.let(f"icmp eq i64 {head['accumulate']}, 0")
        self.choose(fresh, lambda: self.clear(c, count), lambda: None)
        rows = self.let(f"sub i64 {last}, {first}")
        middle = self.let(f"add i64 {first}, {self.let(f'and i64 {rows}, {-TOGETHER}')}")
        self.each(first, middle, TOGETHER, [], lambda k, _: self.add(a, b, c, k, TOGETHER, count))
        self.each(middle, last, 1, [], lambda k, _: self.add(a, b, c, k, 1, count))
        return []

    def clear(self, c: str, count: str) -> None:
        size = self.let(f"mul i64 {count}, {self.bytes}")
        arguments = [("ptr", c), ("i8", "0"), ("i64", size), ("i1", "false")]
        self.call("llvm.memset.p0.i64", "void", arguments)

    def add(self, a: str, b: str, c: str, k: str, number: int, count: str) -> list[str]:
        """Adds some scaled rows from the k-th on."""
        head = self.head
        numbers = [k, *[self.let(f"add i64 {k}, {n}") for n in range(1, number)]]
        places = [self.element(a, self.let(f"mul i64 {n}, {head['a_step']}")) for n in numbers]
        scalars = [self.let(f"load {self.scalar}, ptr {p}, align {self.bytes}") for p in places]
        scales = [self.splat(self.kind, self.lanes, x) for x in scalars]
        rows = [self.element(b, self.let(f"mul i64 {n}, {head['b_step']}")) for n in numbers]
        whole = self.let(f"and i64 {count}, {-self.lanes}")

        def some(j: str, _: list[str]) -> list[str]:
            place = self.element(c, j)
            x = self.load(place)
            for row, scale in zip(rows, scales, strict=True):
                x = self.multiply_add(scale, self.load(self.element(row, j)), x)
            self.write(f"store {self.vector} {x}, ptr {place}, align {self.bytes}")
            return []

        def single(j: str, _: list[str]) -> list[str]:
            place, kind = self.element(c, j), self.scalar
            x = self.let(f"load {kind}, ptr {place}, align {self.bytes}")
            for row, scalar in zip(rows, scalars, strict=True):
                y = self.let(f"load {kind}, ptr {self.element(row, j)}, align {self.bytes}")
                x = self.multiply_add(scalar, y, x, 1)
            self.write(f"store {kind} {x}, ptr {place}, align {self.bytes}")
            return []

        self.each("0", whole, self.lanes, [], some)
        self.each(whole, count, 1, [], single)
        return []
