"""Tiles that Winograd's way spoils: how they are noticed, and computed again as plain sums.

The results of a tile share their rounding errors, which are relative to the largest values at its
points, and a NaN or an infinity spreads over the whole tile; a plain sum has only its own. So the
largest magnitude over all channels is taken at all points, and at each place of the tile. If these
are finite and not far apart, what all share is small for each place. If not, the tile is computed
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rushlight.codegen.instructions import mangled, repeated
from rushlight.codegen.microkernel import Registers, Vectors

SIDE = 3  # of a window
APART = {"output": 6, "slope": 9}  # powers of two from a place of a tile to its points, at most
MANTISSA = {"f32": 23, "f64": 52}  # bits


class Tiles(Vectors):
    """Text about tiles, whose places are lists of offsets of rows and of columns."""

    @property
    def word_type(self) -> str:
        """Integers of the size of elements."""
        return f"i{8 * self.bytes}"

    def several(self, offsets: str, number: str, count: int) -> str:
        """The offsets of all that belongs to a row or column of tiles."""
        return self.offset(offsets, self.let(f"mul i64 {number}, {count}"))

    def entries(self, offsets: str, count: int) -> list[str]:
        return [self.entry(offsets, n) for n in range(count)]

    def put(self, place: str, x: str) -> None:
        self.write(f"store {self.vector} {x}, ptr {place}, align {self.bytes}")

    def put_tile(
        self, rows: Sequence[str], columns: Sequence[str], values: list[list[str]]
    ) -> None:
        """Stores a tile, from its last element on.

        Those beyond the border have the place of the last one inside, which comes after them.
        """
        for row, own in reversed([*zip(rows, values, strict=True)]):
            for column, value in reversed([*zip(columns, own, strict=True)]):
                self.put(self.element(row, column), value)

    def gathered(self, places: list[str]) -> str:
        """A register of elements from anywhere."""
        x = "poison"
        for n, place in enumerate(places):
            x = self.let(
                f"insertelement {self.vector} {x}, {self.scalar} {self.one(place)}, i64 {n}"
            )
        return x

    def one(self, place: str) -> str:
        return self.let(f"load {self.scalar}, ptr {place}, align {self.bytes}")

    def judged(
        self, top: str, apart: int, base: str, rows: str, columns: str, count: int, channels: str
    ) -> tuple[str, str]:
        """Whether the results of a tile are finite, and at all places of the size of their points.

        Magnitudes are compared as integers: as such they have the same order, NaN is above
        infinity, and a power of two between two of them is a difference.

        Args:
            top: the largest magnitudes at the points, in lanes.
            apart: powers of two between them and those at any place, at most.
        """
        places = self.entries(columns, count)

        def row(number: str, values: list[str]) -> list[str]:
            start = self.element(base, self.entry(rows, number))
            here = [self.element(start, place) for place in places]
            zeros = [(self.integers, "zeroinitializer")] * count
            largest = self.each("0", channels, self.lanes, zeros, partial(self.largest, here))
            least, most = values
            for one in [self.largest_lane(x) for x in largest]:
                least = self.intrinsic("umin", self.word_type, 1, least, one)
                most = self.intrinsic("umax", self.word_type, 1, most, one)
            return [least, most]

        word = self.word_type
        carried = [(word, "-1"), (word, self.largest_lane(top))]
        least, most = self.each(0, count, 1, carried, row)
        bits = MANTISSA[self.kind]
        infinity = (1 << (8 * self.bytes - 1)) - (1 << bits)
        finite = self.let(f"icmp ult {word} {most}, {infinity}")
        between = self.let(f"sub {word} {most}, {least}")
        return finite, self.let(f"icmp ule {word} {between}, {apart << bits}")

    def largest(self, places: list[str], c: str, found: list[str]) -> list[str]:
        """The larger ones of magnitudes and those of some channels at places."""
        xs = [self.load(self.element(place, c)) for place in places]
        return [self.larger(x, top) for x, top in zip(xs, found, strict=True)]

    def larger(self, x: str, top: str) -> str:
        """The magnitudes of a register, where they are larger than others."""
        bits = self.let(f"bitcast {self.vector} {x} to {self.integers}")
        mask = repeated(self.word_type, str((1 << (8 * self.bytes - 1)) - 1), self.lanes)
        size = self.let(f"and {self.integers} {bits}, {mask}")
        return self.intrinsic("umax", self.word_type, self.lanes, top, size)

    def largest_lane(self, x: str) -> str:
        name = f"llvm.vector.reduce.umax.{mangled(self.word_type, self.lanes)}"
        return self.call(name, self.word_type, [(self.integers, x)])


class Direct(Tiles):
    """The text of the function that computes one tile as plain sums.

    Sums of a part, a tap or a row of an image, are added to those of all.
    """

    ARGUMENTS = (
        "ptr %a", "ptr %b", "ptr %table", "i1 %finite", "i64 %image", "i64 %row", "i64 %column",
        "ptr %y", "ptr %rows", "ptr %columns",
    )  # fmt: skip
    NAME = "direct"

    def __init__(self, kind: str, registers: Registers, size: int) -> None:
        super().__init__(kind, registers)
        self.size = size
        self.zeros = [(self.vector, "zeroinitializer")] * size**2

    def text(self) -> str:
        self.rows = [self.element("%y", row) for row in self.entries("%rows", self.size)]
        self.columns = self.entries("%columns", self.size)
        self.tile()
        head = f"define internal void @{self.NAME}({', '.join(self.ARGUMENTS)}) noinline {{"
        return "\n".join([head, "entry:", *self.frames[0].lines, "ret void", "}"])

    def tile(self) -> None:
        raise NotImplementedError

    def store(self, c: str, flat: list[str]) -> list[str]:
        """Stores some channels of the tile; a loop carries nothing on."""
        values = [flat[n : n + self.size] for n in range(0, len(flat), self.size)]
        self.put_tile(self.rows, [self.let(f"add i64 {x}, {c}") for x in self.columns], values)
        return []

    def added(self, xs: list[str], ys: list[str]) -> list[str]:
        return [self.let(f"fadd {self.vector} {x}, {y}") for x, y in zip(xs, ys, strict=True)]

    def everywhere(self, place: str) -> str:
        """An element in all lanes."""
        return self.splat(self.kind, self.lanes, self.one(place))


class DirectResults(Direct):
    """Results from an image and a weight: sums over taps and channels."""

    FIELDS = (
        "channels", "inner", "column_step", "inner_step", "images", "row_offsets",
        "column_offsets", "taps",
    )  # fmt: skip

    def tile(self) -> None:
        head = self.head = self.fields("%table", self.FIELDS, 4)
        self.image = self.element("%a", self.entry(head["images"], "%image"))
        seen = self.size + SIDE - 1
        self.seen_rows = self.several(head["row_offsets"], "%row", seen)
        self.seen_columns = self.several(head["column_offsets"], "%column", seen)
        self.each("0", head["channels"], self.lanes, [], lambda c, _: self.some(c))

    def some(self, c: str) -> list[str]:
        """Some channels of the tile."""
        numbers = [self.let(f"add i64 {c}, {n}") for n in range(self.lanes)]
        steps = [self.let(f"mul i64 {n}, {self.head['column_step']}") for n in numbers]
        weights = [self.element("%b", step) for step in steps]

        def down(n: str, totals: list[str]) -> list[str]:
            carried = [(self.vector, x) for x in totals]
            return self.each(
                0, SIDE, 1, carried, lambda m, v: self.added(v, self.tap(weights, n, m))
            )

        return self.store(c, self.each(0, SIDE, 1, self.zeros, down))

    def tap(self, weights: list[str], down: str, right: str) -> list[str]:
        """The sums over channels for one element of the windows."""
        rows = self.entries(self.offset(self.seen_rows, down), self.size)
        columns = self.entries(self.offset(self.seen_columns, right), self.size)
        starts = [self.element(self.image, row) for row in rows]
        places = [self.element(start, column) for start in starts for column in columns]
        number = self.let(f"add i64 {self.let(f'mul i64 {down}, {SIDE}')}, {right}")
        own = self.entry(self.head["taps"], number)
        lanes = [self.element(weight, own) for weight in weights]

        def turn(i: str, sums: list[str]) -> list[str]:
            step = self.let(f"mul i64 {i}, {self.head['inner_step']}")
            w = self.gathered([self.element(lane, step) for lane in lanes])
            xs = [self.everywhere(self.element(place, i)) for place in places]
            return [self.multiply_add(x, w, y) for x, y in zip(xs, sums, strict=True)]

        return self.each("0", self.head["inner"], 1, self.zeros, turn)


class DirectSlopes(Direct):
    """The gradient of a weight for one channel of images: sums over images and places.

    Rows of an image in which the channel is zero are left out, if the other factors are finite:
    most channels that are to be computed again are zero almost everywhere.
    """

    FIELDS = (
        "channels", "count", "height", "width", "a_down", "a_right", "b_down", "b_right",
        "a_images", "b_images",
    )  # fmt: skip

    def tile(self) -> None:
        head = self.head = self.fields("%table", self.FIELDS, 2)
        zeros = [zero for _, zero in self.zeros]
        self.each("0", head["channels"], self.lanes, [], lambda c, _: self.store(c, zeros))
        self.each("0", head["count"], 1, [], lambda n, _: self.image(n))

    def image(self, number: str) -> list[str]:
        head = self.head
        first = self.element("%a", self.entry(head["a_images"], number))
        first = self.element(first, "%image")
        second = self.element("%b", self.entry(head["b_images"], number))

        def row(p: str, _: list[str]) -> list[str]:
            below = [self.let(f"add i64 {p}, {n}") for n in range(SIDE)]
            downs = [self.let(f"mul i64 {n}, {head['a_down']}") for n in below]
            seen = [self.element(first, down) for down in downs]
            own = self.element(second, self.let(f"mul i64 {p}, {head['b_down']}"))
            skipped = self.let(f"and i1 %finite, {self.zero(seen)}")
            self.choose(skipped, lambda: None, lambda: self.row(seen, own))
            return []

        return self.each("0", head["height"], 1, [], row)

    def zero(self, seen: list[str]) -> str:
        """Whether all elements of some rows are zeros."""
        columns = self.let(f"add i64 {self.head['width']}, {SIDE - 1}")
        zero = self.constant(0.0, self.kind, 1)

        def column(q: str, found: list[str]) -> list[str]:
            (all_zeros,) = found
            right = self.let(f"mul i64 {q}, {self.head['a_right']}")
            for row in seen:
                x = self.one(self.element(row, right))
                own = self.let(f"fcmp oeq {self.scalar} {x}, {zero}")
                all_zeros = self.let(f"and i1 {all_zeros}, {own}")
            return [all_zeros]

        (all_zeros,) = self.each("0", columns, 1, [("i1", "true")], column)
        return all_zeros

    def row(self, seen: list[str], own: str) -> None:
        """Adds what one row of results gives."""

        def some(c: str, _: list[str]) -> list[str]:
            there = self.element(own, c)
            sums = self.each(
                "0", self.head["width"], 1, self.zeros, lambda q, v: self.place(seen, there, q, v)
            )
            places = [self.let(f"add i64 {x}, {c}") for x in self.columns]
            old = [self.load(self.element(row, x)) for row in self.rows for x in places]
            return self.store(c, self.added(old, sums))

        self.each("0", self.head["channels"], self.lanes, [], some)

    def place(self, seen: list[str], own: str, q: str, sums: list[str]) -> list[str]:
        y = self.load(self.element(own, self.let(f"mul i64 {q}, {self.head['b_right']}")))
        beside = [self.let(f"add i64 {q}, {n}") for n in range(SIDE)]
        rights = [self.let(f"mul i64 {n}, {self.head['a_right']}") for n in beside]
        places = [self.element(row, right) for row in seen for right in rights]
        pairs = zip([self.everywhere(x) for x in places], sums, strict=True)
        return [self.multiply_add(x, y, z) for x, z in pairs]
