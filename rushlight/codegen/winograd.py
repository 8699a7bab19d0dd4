"""Convolutions of 3 × 3 windows with fewer multiplications, as Winograd found them.

A tile of m × m results is a polynomial's coefficients, and can be computed from the values at m + 2
points: with B, G and A that evaluate and interpolate,

    Y = Aᵀ ((G g Gᵀ) ∘ (Bᵀ d B)) A

for a window g and the (m + 2) × (m + 2) elements d that a tile sees. Summed over channels, the
product by elements is one matrix product for each of the (m + 2)² points.

>>> TRANSFORMS[2].output.tolist()
[[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, -1.0, 1.0]]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from rushlight.codegen.contraction import VECTORS
from rushlight.codegen.instructions import width
from rushlight.codegen.microkernel import Registers, Vectors
from rushlight.codegen.native import table
from rushlight.codegen.products import Place
from rushlight.codegen.tiling import Matrix, Work, Works, plan

SIDE = 3  # of a window
BLOCK = 1 << 20  # elements of transformed images that stay in a cache while they are multiplied
CHUNK = 1 << 14  # elements to transform that are worth a thread's while

TILE_FIELDS = (
    "channels", "tile_rows", "tile_columns", "point", "images", "row_offsets", "column_offsets",
)  # fmt: skip
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


TRANSFORMS = {2: transform([0, 1, -1]), 4: transform([0, 1, -1, 2, -2])}
"""By the size of a tile."""


class Text(Vectors):
    """The text of one of the three transforms."""

    def __init__(self, name: str, registers: Registers) -> None:
        _, self.what, kind, size = name.split("_")
        super().__init__(kind, registers)
        self.name, self.size = name, int(size)
        self.matrix: np.ndarray = getattr(TRANSFORMS[self.size], self.what)

    def text(self) -> str:
        self.source, numbers, self.target = [self.buffer(n) for n in range(3)]
        if self.what == "weight":
            self.head = self.fields(numbers, WEIGHT_FIELDS, 1)
            self.each("%begin", "%end", 1, [], lambda part, _: self.panel(part))
        else:
            self.head = self.fields(numbers, TILE_FIELDS, 3)
            self.each("%begin", "%end", 1, [], lambda part, _: self.tiles(part))
        return self.function(self.name)

    def tiles(self, part: str) -> list[str]:
        """A row of the tiles of an image."""
        head = self.head
        image, row = self.divided(part, head["tile_rows"])
        first = self.let(f"mul i64 {part}, {head['tile_columns']}")
        inside = self.what == "input"
        count = self.size + SIDE - 1 if inside else self.size
        images = self.element(
            self.source if inside else self.target, self.entry(head["images"], image)
        )
        rows = [
            self.element(images, offset) for offset in self.several(head["row_offsets"], row, count)
        ]

        def tile(column: str, _: list[str]) -> list[str]:
            columns = self.several(head["column_offsets"], column, count)
            number = self.let(f"add i64 {first}, {column}")
            place = self.let(f"mul i64 {number}, {head['channels']}")
            body = self.values if inside else self.results
            self.each(
                "0", head["channels"], self.lanes, [], lambda c, _: body(rows, columns, place, c)
            )
            return []

        return self.each("0", head["tile_columns"], 1, [], tile)

    def values(self, rows: list[str], columns: list[str], place: str, c: str) -> list[str]:
        """The values at all points, of some channels of a tile."""
        here = [self.let(f"add i64 {column}, {c}") for column in columns]
        d = [[self.load(self.element(row, column)) for column in here] for row in rows]
        base = self.element(self.target, self.let(f"add i64 {place}, {c}"))
        self.put_points(base, self.both(d))
        return []

    def results(self, rows: list[str], columns: list[str], place: str, c: str) -> list[str]:
        """Some channels of a tile, from its values at all points."""
        base = self.element(self.source, self.let(f"add i64 {place}, {c}"))
        points = self.size + SIDE - 1
        places = self.points(base, points * points)
        d = [[self.load(places[u * points + v]) for v in range(points)] for u in range(points)]
        y = self.both(d)
        here = [self.let(f"add i64 {column}, {c}") for column in columns]
        # From the last on: those beyond the border lie where the last one inside is stored then.
        for row, values in reversed([*zip(rows, y, strict=True)]):
            for column, value in reversed([*zip(here, values, strict=True)]):
                self.put(self.element(row, column), value)
        return []

    def panel(self, panel: str) -> list[str]:
        """A panel of columns of the transformed weight, packed for the micro-kernel."""
        head, wide = self.head, VECTORS * self.lanes
        last = self.let(f"add i64 {head['columns']}, -1")
        taps = [self.entry(head["taps"], n) for n in range(SIDE * SIDE)]
        size = self.let(f"mul i64 {head['inner']}, {wide}")
        target = self.element(self.target, self.let(f"mul i64 {panel}, {size}"))
        for begin in range(0, wide, self.lanes):
            first = self.let(f"mul i64 {panel}, {wide}")
            numbers = [
                self.least(self.let(f"add i64 {first}, {begin + n}"), last)
                for n in range(self.lanes)
            ]
            steps = [self.let(f"mul i64 {n}, {head['column_step']}") for n in numbers]
            lanes = [self.element(self.source, step) for step in steps]
            body = partial(self.weights, lanes, taps, self.element(target, str(begin)))
            self.each("0", head["inner"], 1, [], body)
        return []

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

    def several(self, offsets: str, number: str, count: int) -> list[str]:
        """The offsets of all that belongs to a row or column of tiles."""
        begin = self.offset(offsets, self.let(f"mul i64 {number}, {count}"))
        return [self.entry(begin, n) for n in range(count)]

    def points(self, base: str, count: int) -> list[str]:
        """The places of the values at all points."""
        places = [base]
        for _ in range(count - 1):
            places.append(self.element(places[-1], self.head["point"]))
        return places

    def put_points(self, base: str, values: list[list[str]]) -> None:
        flat = [x for row in values for x in row]
        for place, x in zip(self.points(base, len(flat)), flat, strict=True):
            self.put(place, x)

    def put(self, place: str, x: str) -> None:
        self.write(f"store {self.vector} {x}, ptr {place}, align {self.bytes}")

    def gathered(self, places: list[str]) -> str:
        x = "poison"
        for n, place in enumerate(places):
            one = self.let(f"load {self.scalar}, ptr {place}, align {self.bytes}")
            x = self.let(f"insertelement {self.vector} {x}, {self.scalar} {one}, i64 {n}")
        return x

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


def winograd_works(
    letters: tuple[str, str, str],
    x: Place,
    w: Place,
    y: Place,
    size: int,
    kind: str,
    registers: Registers,
) -> Works | None:
    """The works of a product of 3 × 3 windows; None if they do not lie as they should.

    Args:
        letters: of images, rows, columns and a window's rows, columns and channels in ``x``.
        size: of the tiles.
    """
    of_x, of_w, of_y = letters
    lanes = registers.bytes // width(kind)
    images, height, long, _, _, channels = x.shape
    columns = y.shape[-1]
    own, down, right, *window, beside = x.strides
    step_of = dict(zip(of_w, w.strides, strict=True))
    if beside != 1 or (abs(window[0]), abs(window[1])) != (down, right):
        return None
    if channels % lanes or columns % lanes:
        return None
    begin, first = x.offset, w.offset
    sides = []
    for step, letter in zip(window, of_x[3:5], strict=True):
        along = step_of[letter]
        if step < 0:  # a window that is seen from its end
            begin, first, along = begin + 2 * step, first + 2 * along, -along
        sides.append(along)
    taps = first + np.add.outer(np.arange(SIDE) * sides[0], np.arange(SIDE) * sides[1])
    counts = -(-height // size), -(-long // size)
    points = (size + SIDE - 1) ** 2
    works = Works(kind)
    panel = VECTORS * lanes
    panels = -(-columns // panel)
    point = panels * panel * channels
    works.space["points of w"] = points * point
    numbers = {
        "columns": columns,
        "inner": channels,
        "column_step": step_of[of_y[-1]],
        "inner_step": step_of[of_x[-1]],
        "point": point,
    }
    data = table(WEIGHT_FIELDS, numbers, {"taps": taps})
    name = f"winograd_weight_{kind}_{size}"
    works.list.append(Work(name, ("b", "table", "points of w"), data, panels))
    each = points * counts[0] * counts[1] * (channels + columns)
    most = max(1, max(BLOCK, points * channels * columns) // each)
    for image in range(0, images, most):
        several = np.arange(image, min(images, image + most), dtype=np.int64)
        tiles = len(several) * counts[0] * counts[1]
        seen = begin + several * own
        works.list.append(
            tile_work("input", size, kind, seen, (down, right), (height, long), channels, tiles)
        )
        product = plan(
            points_of(tiles, channels, points),
            points_of(columns, channels, points),
            points_of(tiles, columns, points),
            kind,
            registers,
            packed=True,
        )
        names = {"a": "points of x", "b": "points of w", "y": "points of y"}
        for work in product.list:
            buffers = tuple([names.get(name, name) for name in work.buffers])
            works.list.append(work._replace(buffers=buffers))
        own_space = {
            **product.space,
            "points of x": points * tiles * channels,
            "points of y": points * tiles * columns,
        }
        for name, space in own_space.items():
            works.space[name] = max(space, works.space.get(name, 0))
        made = y.offset + several * y.strides[0]
        works.list.append(
            tile_work("output", size, kind, made, y.strides[1:3], (height, long), columns, tiles)
        )
    return works


def points_of(rows: int, inner: int, points: int) -> Matrix:
    """A matrix for each point, one after the other."""
    start = np.zeros(1, np.int64)
    count = np.arange(rows, dtype=np.int64) * inner
    return Matrix(count, start, inner, 1, np.arange(points, dtype=np.int64) * rows * inner)


def tile_work(
    what: str,
    size: int,
    kind: str,
    images: np.ndarray,
    steps: Sequence[int],
    sides: Sequence[int],
    channels: int,
    tiles: int,
) -> Work:
    """The transform of images to their values at points, or back.

    Tiles reach beyond the border; what they see or give there is what is at the border.
    """
    inside = what == "input"
    count, more = (size + SIDE - 1, SIDE - 1) if inside else (size, 0)
    offsets = []
    for side, step in zip(sides, steps, strict=True):
        begins = np.arange(0, side, size, dtype=np.int64)
        offsets.append(np.minimum(np.add.outer(begins, np.arange(count)), side + more - 1) * step)
    numbers = {
        "channels": channels,
        "tile_rows": len(offsets[0]),
        "tile_columns": len(offsets[1]),
        "point": tiles * channels,
    }
    lists = {"images": images, "row_offsets": offsets[0], "column_offsets": offsets[1]}
    buffers = ("a", "table", "points of x") if inside else ("points of y", "table", "y")
    parts = len(images) * len(offsets[0])
    chunk = max(1, min(parts, CHUNK // (len(offsets[1]) * channels * count)))
    return Work(
        f"winograd_{what}_{kind}_{size}", buffers, table(TILE_FIELDS, numbers, lists), parts, chunk
    )
