"""Convolutions of 3 × 3 windows with fewer multiplications, as Winograd found them.

A tile of m × m results is a polynomial's coefficients, and can be computed from the values at m + 2
points: with B, G and A that evaluate and interpolate,

    Y = Aᵀ ((G g Gᵀ) ∘ (Bᵀ d B)) A

for a window g and the (m + 2) × (m + 2) elements d that a tile sees. Summed over channels, the
product by elements is one matrix product for each of the (m + 2)² points. The gradient of g is the
transpose of that, with sums over tiles: Gᵀ ((A y Aᵀ) ∘ (Bᵀ d B)) G for a gradient y.

>>> TRANSFORMS[2].output.tolist()
[[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, -1.0, 1.0]]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from rushlight.codegen.contraction import VECTORS
from rushlight.codegen.microkernel import Registers
from rushlight.codegen.repair import APART, SIDE, Direct, DirectResults, DirectSlopes, Tiles

TILE_FIELDS = (
    "channels", "tile_rows", "tile_columns", "height", "width", "tiles", "point", "images",
    "row_offsets", "column_offsets", "direct",
)  # fmt: skip
"""The table of all transforms but a weight's. The last list is the table of plain sums."""

WEIGHT_FIELDS = ("columns", "inner", "column_step", "inner_step", "point", "taps")


class Transform(NamedTuple):
    """The matrices Bᵀ, G and Aᵀ for tiles of one size."""

    input: np.ndarray
    weight: np.ndarray
    output: np.ndarray


def transform(points: Sequence[float]) -> Transform:
    """The matrices for these points and infinity: Toom and Cook's construction.

    Interpolation is the transpose of evaluation, so Bᵀ holds the coefficients of the products of
    (x − p), each without one of the points; G divides by what they are there.
    """
    count = len(points) + 1
    size = count + 1 - SIDE
    at = np.array(points)
    whole = np.poly(at)[::-1]
    parts = [np.poly(np.delete(at, n))[::-1] for n in range(len(at))]
    scale = np.array([np.prod(at[n] - np.delete(at, n)) for n in range(len(at))])
    b = np.zeros((count, count))
    for n, part in enumerate(parts):
        b[n, : count - 1] = part * np.sign(scale[n])
    b[-1] = whole
    g = np.zeros((count, SIDE))
    g[:-1] = at[:, None] ** np.arange(SIDE) / np.abs(scale)[:, None]
    g[-1, -1] = 1
    a = np.zeros((size, count))
    a[:, :-1] = at[None, :] ** np.arange(size)[:, None]
    a[-1, -1] = 1
    return Transform(b, g, a)


TRANSFORMS = {2: transform([0, 1, -1]), 4: transform([0, 0.75, -0.75, 1.5, -1.5])}
"""By the size of a tile. Errors are a third of those with the points ±1 and ±2."""


class Text(Tiles):
    """The text of one transform: input, weight or output, or that of a gradient or its result."""

    def __init__(self, name: str, registers: Registers) -> None:
        _, self.what, kind, size = name.split("_")
        super().__init__(kind, registers)
        self.name, self.size, self.points = name, int(size), int(size) + SIDE - 1
        b, g, a = TRANSFORMS[self.size]
        matrices = {"input": b, "weight": g, "output": a, "gradient": a.T, "slope": g.T}
        self.matrix: np.ndarray = matrices[self.what]

    def text(self) -> str:
        self.source, numbers, self.target = [self.buffer(n) for n in range(3)]
        self.direct: Direct | None = None
        if self.what == "weight":
            self.head = self.fields(numbers, WEIGHT_FIELDS, 1)
            self.each("%begin", "%end", 1, [], lambda part, _: self.panel(part))
        else:
            self.head = self.fields(numbers, TILE_FIELDS, 4)
            if self.what == "output":
                self.direct = DirectResults(self.kind, self.registers, self.size)
            elif self.what == "slope":
                self.direct = DirectSlopes(self.kind, self.registers, SIDE)
            self.each("%begin", "%end", 1, [], lambda part, _: self.tiles(part))
        if self.direct is None:
            return self.function(self.name)
        text = self.direct.text()
        self.declared |= self.direct.declared
        return "\n\n".join([text, self.function(self.name)])

    def tiles(self, part: str) -> list[str]:
        """A row of the tiles of an image."""
        head, reads = self.head, self.what in ("input", "gradient")
        image, row = self.divided(part, head["tile_rows"])
        first = self.let(f"mul i64 {part}, {head['tile_columns']}")
        count = self.matrix.shape[1 if reads else 0]
        base = self.source if reads else self.target
        images = self.element(base, self.entry(head["images"], image))
        row_offsets = self.several(head["row_offsets"], row, count)
        rows = [self.element(images, offset) for offset in self.entries(row_offsets, count)]
        inside = self.inside_of(row, head["height"])

        def tile(column: str, _: list[str]) -> list[str]:
            column_offsets = self.several(head["column_offsets"], column, count)
            columns = self.entries(column_offsets, count)
            number = self.let(f"add i64 {first}, {column}")
            if reads:
                both = [
                    [self.let(f"and i1 {x}, {y}") for y in self.inside_of(column, head["width"])]
                    for x in inside
                ]
                body = partial(self.values, rows, columns, number, both)
            else:
                body = partial(self.results, rows, columns, number)
            top = [] if reads else [(self.integers, "zeroinitializer")]
            tops = self.each("0", head["channels"], self.lanes, top, body)
            if self.direct is not None:
                places = images, row_offsets, column_offsets
                apart = APART[self.what]
                finite, near = self.judged(tops[0], apart, *places, count, head["channels"])
                self.choose(
                    self.let(f"and i1 {finite}, {near}"),
                    lambda: None,
                    lambda: self.repair(finite, image, row, column, *places),
                )
            return []

        return self.each("0", head["tile_columns"], 1, [], tile)

    def repair(self, *about: str) -> None:
        """Computes a tile again, as plain sums of the operands."""
        values = (self.buffer(3), self.buffer(4), self.head["direct"], *about)
        kinds = [argument.split()[0] for argument in Direct.ARGUMENTS]
        pairs = [f"{kind} {x}" for kind, x in zip(kinds, values, strict=True)]
        self.write(f"call void @{Direct.NAME}({', '.join(pairs)})")

    def inside_of(self, number: str, side: str) -> list[str]:
        """Which elements of a gradient's tile are there: others add nothing to sums over tiles."""
        if self.what != "gradient":
            return []
        begin = self.let(f"mul i64 {number}, {self.size}")
        places = [self.let(f"add i64 {begin}, {n}") for n in range(self.size)]
        return [self.let(f"icmp slt i64 {place}, {side}") for place in places]

    def values(
        self,
        rows: list[str],
        columns: list[str],
        number: str,
        inside: list[list[str]],
        c: str,
        _: list[str],
    ) -> list[str]:
        """The values at all points, of some channels of a tile."""
        here = [self.let(f"add i64 {column}, {c}") for column in columns]
        d = [[self.load(self.element(row, column)) for column in here] for row in rows]
        for row, holds in zip(d, inside, strict=False):
            for n, there in enumerate(holds):
                pair = f"{self.vector} {row[n]}, {self.vector} zeroinitializer"
                row[n] = self.let(f"select i1 {there}, {pair}")
        self.put_points(self.element(self.target, self.place(number, c)), self.both(d))
        return []

    def place(self, number: str, c: str) -> str:
        """Where the channels of a tile are among those of all; a gradient's are in panels."""
        if self.what != "gradient":
            first = self.let(f"mul i64 {number}, {self.head['channels']}")
            return self.let(f"add i64 {first}, {c}")
        wide = VECTORS * self.lanes
        own = self.let(f"and i64 {c}, {wide - 1}")
        panel = self.let(f"mul i64 {self.let(f'sub i64 {c}, {own}')}, {self.head['tiles']}")
        first = self.let(f"add i64 {panel}, {self.let(f'mul i64 {number}, {wide}')}")
        return self.let(f"add i64 {first}, {own}")

    def results(
        self, rows: list[str], columns: list[str], number: str, c: str, tops: list[str]
    ) -> list[str]:
        """Some channels of a tile, from its values at all points; carries the largest of those."""
        places = self.all_points(self.element(self.source, self.place(number, c)))
        found = [self.load(place) for place in places]
        y = self.both([found[n : n + self.points] for n in range(0, len(found), self.points)])
        here = [self.let(f"add i64 {column}, {c}") for column in columns]
        self.put_tile(rows, here, y)
        (top,) = tops
        for x in found:
            top = self.larger(x, top)
        return [top]

    def panel(self, panel: str) -> list[str]:
        """A panel of columns of the transformed weight, packed for the micro-kernel."""
        head, wide = self.head, VECTORS * self.lanes
        last = self.let(f"add i64 {head['columns']}, -1")
        taps = [self.entry(head["taps"], n) for n in range(SIDE * SIDE)]
        size = self.let(f"mul i64 {head['inner']}, {wide}")
        target = self.element(self.target, self.let(f"mul i64 {panel}, {size}"))
        first = self.let(f"mul i64 {panel}, {wide}")

        def register(begin: str, _: list[str]) -> list[str]:
            here = self.let(f"add i64 {first}, {begin}")
            numbers = [
                self.least(self.let(f"add i64 {here}, {n}"), last) for n in range(self.lanes)
            ]
            steps = [self.let(f"mul i64 {n}, {head['column_step']}") for n in numbers]
            lanes = [self.element(self.source, step) for step in steps]
            body = partial(self.weights, lanes, taps, self.element(target, begin))
            return self.each("0", head["inner"], 1, [], body)

        return self.each(0, wide, self.lanes, [], register)

    def weights(
        self, lanes: list[str], taps: list[str], target: str, i: str, _: list[str]
    ) -> list[str]:
        """One element of the sums, for the columns in the lanes of a register."""
        step = self.let(f"mul i64 {i}, {self.head['inner_step']}")
        places = [self.let(f"add i64 {step}, {tap}") for tap in taps]
        g = [self.gathered([self.element(lane, place) for lane in lanes]) for place in places]
        u = self.both([g[n : n + SIDE] for n in range(0, SIDE * SIDE, SIDE)])
        row = self.let(f"mul i64 {i}, {VECTORS * self.lanes}")
        self.put_points(self.element(target, row), u)
        return []

    def all_points(self, base: str) -> list[str]:
        """The places of the values at all points."""
        places = [base]
        for _ in range(self.points**2 - 1):
            places.append(self.element(places[-1], self.head["point"]))
        return places

    def put_points(self, base: str, values: list[list[str]]) -> None:
        flat = [x for row in values for x in row]
        for place, x in zip(self.all_points(base), flat, strict=True):
            self.put(place, x)

    def both(self, d: list[list[str]]) -> list[list[str]]:
        """M d Mᵀ for the matrix M of this transform."""
        columns = [self.times([row[n] for row in d]) for n in range(len(d[0]))]
        return [self.times([column[n] for column in columns]) for n in range(len(self.matrix))]

    def times(self, xs: list[str]) -> list[str]:
        """M x for a column of registers."""
        return [self.combined(row.tolist(), xs) for row in self.matrix]

    def combined(self, factors: list[float], xs: list[str]) -> str:
        total = ""
        for factor, x in sorted(zip(factors, xs, strict=True), key=lambda pair: pair[0] != 1):
            if factor == 0:
                continue
            if not total:
                total = (
                    x if factor == 1 else self.let(f"fmul {self.vector} {x}, {self.all(factor)}")
                )
            elif abs(factor) == 1:
                op = "fadd" if factor == 1 else "fsub"
                total = self.let(f"{op} {self.vector} {total}, {x}")
            else:
                total = self.multiply_add(x, self.all(factor), total)
        return total

    def all(self, number: float) -> str:
        return self.constant(number, self.kind, self.lanes)
