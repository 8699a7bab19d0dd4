"""Weights of attention, a block of them at a time: exponentials of scores, row by row.

A row of scores comes in blocks. With the largest score m and the sum t = Σ exp(s − m) of all blocks
so far, the next block makes them m' and t exp(m − m') + Σ exp(s − m'), and what was summed with the
weights so far is multiplied by exp(m − m'), too.
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight.codegen.instructions import TYPES, vector
from rushlight.codegen.math import EXPANSIONS
from rushlight.codegen.microkernel import Registers, Vectors
from rushlight.codegen.values import RELATIONS, Builder, Value

FIELDS = (
    "columns", "width", "step", "y_step", "g_step", "causal", "scale", "bias_step", "noise_step",
)  # fmt: skip
"""The table: columns of the block, of y; steps of rows; whether columns after a row's own number
are left out; the bits of the float64 by which scores are multiplied; steps of bias and noise."""


class Rows(Vectors):
    """Text that goes through the rows of a block.

    Args:
        kind: of all elements.
        registers: of the processor.
        extras: which of bias and noise there are; their buffers come last.
    """

    NAME = ""
    BUFFERS: tuple[str, ...] = ()

    def __init__(self, kind: str, registers: Registers, extras: tuple[str, ...] = ()) -> None:
        super().__init__(kind, registers)
        self.extras = extras

    @property
    def name(self) -> str:
        return "_".join((self.NAME, self.kind, *self.extras))

    @property
    def buffers(self) -> tuple[str, ...]:
        return (*self.BUFFERS, *self.extras)

    def text(self) -> str:
        self.at = {name: self.buffer(n) for n, name in enumerate(self.buffers)}
        self.head = self.fields(self.at["table"], FIELDS, 0)
        scale = self.let(f"bitcast i64 {self.head['scale']} to double")
        if self.kind == "f32":
            scale = self.let(f"fptrunc double {scale} to float")
        self.scale = self.splat(self.kind, self.lanes, scale)
        self.each("%begin", "%end", 1, [], lambda row, _: self.row(row))
        return self.function(self.name)

    def row(self, row: str) -> list[str]:
        raise NotImplementedError

    def start(self, name: str, row: str, step: str) -> str:
        """Where a row begins."""
        return self.element(self.at[name], self.let(f"mul i64 {row}, {self.head[step]}"))

    def number(self, name: str, row: str) -> str:
        """The place of a row's number."""
        return self.element(self.at[name], row)

    def get(self, place: str) -> str:
        return self.let(f"load {self.scalar}, ptr {place}, align {self.bytes}")

    def put(self, x: str, place: str, kind: str = "") -> None:
        self.write(f"store {kind or self.scalar} {x}, ptr {place}, align {self.bytes}")

    def spread(self, x: str) -> str:
        return self.splat(self.kind, self.lanes, x)

    def limit(self, row: str) -> str:
        """How many columns of the block a row has."""
        first, before = [self.entry(self.at["here"], n) for n in range(2)]
        position = self.let(f"sub i64 {self.let(f'add i64 {first}, {row}')}, {before}")
        own = self.let(f"add i64 {position}, 1")
        is_causal = self.let(f"icmp ne i64 {self.head['causal']}, 0")
        columns = self.head["columns"]
        return self.let(f"select i1 {is_causal}, i64 {self.least(own, columns)}, i64 {columns}")

    def within(self, limit: str, j: str) -> str:
        """Which lanes from column j on are before the limit."""
        left = self.let(f"trunc i64 {self.let(f'sub i64 {limit}, {j}')} to i32")
        count = ", ".join([f"i32 {n}" for n in range(self.lanes)])
        every = self.splat("i32", self.lanes, left)
        return self.let(f"icmp slt <{self.lanes} x i32> <{count}>, {every}")

    def chosen(self, condition: str, x: str, y: str) -> str:
        return self.select(condition, self.kind, self.lanes, x, y)

    def arithmetic(self, op: str, x: str, y: str, lanes: int = 0) -> str:
        return self.binary(op, self.kind, lanes or self.lanes, x, y)

    def extra(self, name: str, row: str, j: str, mask: str) -> str:
        """Some elements of bias or noise; zeros outside of the mask, where there may be none."""
        place = self.element(self.start(name, row, f"{name}_step"), j)
        arguments = [
            ("ptr", place),
            ("i32", str(self.bytes)),
            (f"<{self.lanes} x i1>", mask),
            (self.vector, "zeroinitializer"),
        ]
        end = "f32" if self.kind == "f32" else "f64"
        return self.call(f"llvm.masked.load.v{self.lanes}{end}.p0", self.vector, arguments)

    def scores(self, s: str, row: str, j: str, mask: str) -> str:
        """scale · s + bias."""
        x = self.arithmetic("mul", self.load(self.element(s, j)), self.scale)
        if "bias" in self.extras:
            x = self.arithmetic("add", x, self.extra("bias", row, j, mask))
        return x

    def folded(self, x: str, combine: Callable[[str, str, int], str]) -> str:
        """All lanes in one: halves onto halves."""
        lanes = self.lanes
        while lanes > 1:
            half = lanes // 2
            x = combine(self.halved(x, lanes, 0), self.halved(x, lanes, half), half)
            lanes = half
        return x

    def larger(self, x: str, y: str, lanes: int = 0) -> str:
        """The larger number; a NaN makes its row NaN later on, by its weight."""
        lanes = lanes or self.lanes
        greater = self.compare("gt", self.kind, lanes, x, y)
        return self.select(greater, self.kind, lanes, x, y)

    def exp(self, x: str) -> str:
        b = Builder()
        given = b.load("x", self.kind, ())
        return Formula(self, {given: x}).of(EXPANSIONS["exp"](b, given))

    def vectors(self, end: str, body: Callable[[str], None]) -> None:
        """A loop over the vectors of a row."""

        def turn(j: str, _: list[str]) -> list[str]:
            body(j)
            return []

        self.each("0", end, self.lanes, [], turn)

    def pieces(self, end: str, body: Callable[[str, int], None]) -> None:
        """A loop over whole vectors of a row, and one over the elements that are left."""
        whole = self.let(f"and i64 {end}, {-self.lanes}")

        def turn(lanes: int) -> Callable[[str, list[str]], list[str]]:
            def one(j: str, _: list[str]) -> list[str]:
                body(j, lanes)
                return []

            return one

        self.each("0", whole, self.lanes, [], turn(self.lanes))
        self.each(whole, end, 1, [], turn(1))

    def piece(self, place: str, lanes: int) -> str:
        kind = vector(self.scalar, lanes)
        return self.let(f"load {kind}, ptr {place}, align {self.bytes}")


class Formula:
    """A value of the builder as instructions of vectors."""

    def __init__(self, text: Vectors, known: dict[Value, str]) -> None:
        self.text, self.known = text, known

    def of(self, v: Value) -> str:
        if v not in self.known:
            self.known[v] = self.compute(v)
        return self.known[v]

    def compute(self, v: Value) -> str:
        text, lanes = self.text, self.text.lanes
        if v.op == "constant":
            return text.constant(v.data, v.kind, lanes)
        args = [self.of(a) for a in v.args]
        inner = v.args[-1].kind
        if v.op in RELATIONS:
            return text.compare(v.op, inner, lanes, *args)
        if v.op == "where":
            return text.select(args[0], v.kind, lanes, args[1], args[2])
        if v.op == "bits":
            before, after = vector(TYPES[inner], lanes), vector(TYPES[v.kind], lanes)
            return text.let(f"bitcast {before} {args[0]} to {after}")
        if v.op == "fma":
            return text.multiply_add(args[0], args[1], args[2])
        if v.op == "shl":
            return text.let(f"shl {vector(TYPES[v.kind], lanes)} {args[0]}, {args[1]}")
        return text.binary(v.op, v.kind, lanes, *args)


class Weigh(Rows):
    """Scores become weights exp(s − m'), times noise; m, t and y follow."""

    NAME = "weigh"
    BUFFERS = ("s", "table", "here", "tops", "totals", "y")

    def row(self, row: str) -> list[str]:
        kind, lanes, head = self.kind, self.lanes, self.head
        s, limit = self.start("s", row, "step"), self.limit(row)
        least = self.constant(-float("inf"), kind, lanes)

        def most(j: str, values: list[str]) -> list[str]:
            mask = self.within(limit, j)
            x = self.chosen(mask, self.scores(s, row, j, mask), least)
            self.put(x, self.element(s, j), self.vector)
            return [self.larger(x, values[0])]

        (found,) = self.each("0", limit, lanes, [(self.vector, least)], most)
        top, total = self.number("tops", row), self.number("totals", row)
        is_first = self.let(f"icmp eq i64 {self.entry(self.at['here'], 1)}, 0")
        low = self.constant(-float("inf"), kind, 1)
        old = self.select(is_first, kind, 1, low, self.get(top))
        new = self.larger(self.folded(found, self.larger), old, 1)
        nothing = self.compare("eq", kind, 1, new, low)
        base = self.select(nothing, kind, 1, self.constant(0, kind, 1), new)
        change = self.exp(self.spread(self.arithmetic("sub", old, base, 1)))
        change = self.let(f"extractelement {self.vector} {change}, i64 0")
        center = self.spread(base)
        zeros = self.constant(0, kind, lanes)

        def weigh(j: str, values: list[str]) -> list[str]:
            mask, place = self.within(limit, j), self.element(s, j)
            x = self.exp(self.arithmetic("sub", self.load(place), center))
            x = self.chosen(mask, x, zeros)
            more = self.arithmetic("add", values[0], x)
            if "noise" in self.extras:
                x = self.arithmetic("mul", x, self.extra("noise", row, j, mask))
            self.put(x, place, self.vector)
            return [more]

        (sums,) = self.each("0", head["columns"], lanes, [(self.vector, zeros)], weigh)
        before = self.select(is_first, kind, 1, self.constant(0, kind, 1), self.get(total))
        after = self.arithmetic("mul", before, change, 1)
        added = self.folded(sums, lambda x, y, n: self.arithmetic("add", x, y, n))
        self.put(self.arithmetic("add", after, added, 1), total)
        self.put(new, top)
        stays = self.compare("eq", kind, 1, change, self.constant(1, kind, 1))
        changes = self.let(f"or i1 {is_first}, {self.let(f'xor i1 {stays}, true')}")
        self.choose(changes, lambda: self.rescale(row, is_first, change), lambda: None)
        return []

    def rescale(self, row: str, is_first: str, change: str) -> None:
        """The row of y times ``change``; zeros at first, whatever memory holds."""
        y, factor = self.start("y", row, "y_step"), self.spread(change)

        def some(j: str, lanes: int) -> None:
            place = self.element(y, j)
            by = factor if lanes > 1 else change
            x = self.arithmetic("mul", self.piece(place, lanes), by, lanes)
            t = vector(self.scalar, lanes)
            zero = self.constant(0, self.kind, lanes)
            x = self.let(f"select i1 {is_first}, {t} {zero}, {t} {x}")
            self.put(x, place, t)

        self.pieces(self.head["width"], some)


class Settle(Rows):
    """y becomes y / t, and what is not finite by want of weights becomes 0."""

    NAME = "settle"
    BUFFERS = ("table", "tops", "totals", "y")

    def row(self, row: str) -> list[str]:
        kind = self.kind
        top, total = self.number("tops", row), self.number("totals", row)
        zero, one = self.constant(0, kind, 1), self.constant(1, kind, 1)
        low = self.constant(-float("inf"), kind, 1)
        m, t = self.get(top), self.get(total)
        self.put(self.select(self.compare("eq", kind, 1, m, low), kind, 1, zero, m), top)
        t = self.select(self.compare("eq", kind, 1, t, zero), kind, 1, one, t)
        self.put(t, total)
        y, every = self.start("y", row, "y_step"), self.spread(t)

        def some(j: str, lanes: int) -> None:
            place = self.element(y, j)
            by = every if lanes > 1 else t
            x = self.arithmetic("div", self.piece(place, lanes), by, lanes)
            self.put(x, place, vector(self.scalar, lanes))

        self.pieces(self.head["width"], some)
        return []


class Overlap(Rows):
    """The sum of g · y of each row."""

    NAME = "overlap"
    BUFFERS = ("g", "table", "y", "overlaps")

    def row(self, row: str) -> list[str]:
        g, y = self.start("g", row, "g_step"), self.start("y", row, "y_step")
        whole = self.let(f"and i64 {self.head['width']}, {-self.lanes}")

        def turn(j: str, values: list[str]) -> list[str]:
            a, b = [self.load(self.element(base, j)) for base in (g, y)]
            return [self.multiply_add(a, b, values[0])]

        def rest(j: str, values: list[str]) -> list[str]:
            a, b = [self.get(self.element(base, j)) for base in (g, y)]
            return [self.multiply_add(a, b, values[0], 1)]

        zeros = [(self.vector, self.constant(0, self.kind, self.lanes))]
        (sums,) = self.each("0", whole, self.lanes, zeros, turn)
        start = self.folded(sums, lambda a, b, n: self.arithmetic("add", a, b, n))
        (total,) = self.each(whole, self.head["width"], 1, [(self.scalar, start)], rest)
        self.put(total, self.number("overlaps", row))
        return []


class Unweigh(Rows):
    """Scores s become weights, and the gradients d of weights become those of scores."""

    NAME = "unweigh"
    BUFFERS = ("s", "d", "table", "here", "tops", "totals", "overlaps")

    def row(self, row: str) -> list[str]:
        kind, lanes = self.kind, self.lanes
        s, d = self.start("s", row, "step"), self.start("d", row, "step")
        limit, one = self.limit(row), self.constant(1, kind, 1)
        top, overlap = [self.spread(self.get(self.number(x, row))) for x in ("tops", "overlaps")]
        share = self.arithmetic("div", one, self.get(self.number("totals", row)), 1)
        share, zeros = self.spread(share), self.constant(0, kind, lanes)

        def some(j: str) -> None:
            mask = self.within(limit, j)
            x = self.arithmetic("sub", self.scores(s, row, j, mask), top)
            p = self.chosen(mask, self.arithmetic("mul", self.exp(x), share), zeros)
            g, w = self.load(self.element(d, j)), p
            if "noise" in self.extras:
                noise = self.extra("noise", row, j, mask)
                g, w = [self.arithmetic("mul", v, noise) for v in (g, p)]
            g = self.arithmetic("mul", self.arithmetic("sub", g, overlap), p)
            g = self.chosen(mask, self.arithmetic("mul", g, self.scale), zeros)
            self.put(w, self.element(s, j), self.vector)
            self.put(g, self.element(d, j), self.vector)

        self.vectors(self.head["columns"], some)
        return []


STAGES: dict[str, type[Rows]] = {c.NAME: c for c in (Weigh, Settle, Overlap, Unweigh)}


def text_of(name: str, registers: Registers) -> str:
    """The text of a stage by its name."""
    what, kind, *extras = name.split("_")
    return STAGES[what](kind, registers, tuple(extras)).text()
