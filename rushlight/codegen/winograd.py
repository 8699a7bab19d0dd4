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

from collections.abc import Iterator, Mapping, Sequence
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
    "channels", "tile_rows", "tile_columns", "height", "width", "tiles", "point", "images",
    "row_offsets", "column_offsets",
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


TRANSFORMS = {2: transform([0, 1, -1]), 4: transform([0, 0.75, -0.75, 1.5, -1.5])}
"""By the size of a tile. Errors are a third of those with the points ±1 and ±2."""


class Text(Vectors):
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
        if self.what == "weight":
            self.head = self.fields(numbers, WEIGHT_FIELDS, 1)
            self.each("%begin", "%end", 1, [], lambda part, _: self.panel(part))
        else:
            self.head = self.fields(numbers, TILE_FIELDS, 3)
            self.each("%begin", "%end", 1, [], lambda part, _: self.tiles(part))
        return self.function(self.name)

    def tiles(self, part: str) -> list[str]:
        """A row of the tiles of an image."""
        head, reads = self.head, self.what in ("input", "gradient")
        image, row = self.divided(part, head["tile_rows"])
        first = self.let(f"mul i64 {part}, {head['tile_columns']}")
        count = self.matrix.shape[1 if reads else 0]
        base = self.source if reads else self.target
        images = self.element(base, self.entry(head["images"], image))
        offsets = self.several(head["row_offsets"], row, count)
        rows = [self.element(images, offset) for offset in offsets]
        inside = self.inside_of(row, head["height"])

        def tile(column: str, _: list[str]) -> list[str]:
            columns = self.several(head["column_offsets"], column, count)
            number = self.let(f"add i64 {first}, {column}")
            if reads:
                both = [
                    [self.let(f"and i1 {x}, {y}") for y in self.inside_of(column, head["width"])]
                    for x in inside
                ]
                body = partial(self.values, rows, columns, number, both)
            else:
                body = partial(self.results, rows, columns, number)
            return self.each("0", head["channels"], self.lanes, [], body)

        return self.each("0", head["tile_columns"], 1, [], tile)

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
        self, rows: list[str], columns: list[str], number: str, c: str, _: list[str]
    ) -> list[str]:
        """Some channels of a tile, from its values at all points."""
        places = self.all_points(self.element(self.source, self.place(number, c)))
        found = [self.load(place) for place in places]
        y = self.both([found[n : n + self.points] for n in range(0, len(found), self.points)])
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


class Images(NamedTuple):
    """Where images are, channels last: the first element of each, and the steps of their sides."""

    starts: np.ndarray
    steps: Sequence[int]
    sides: Sequence[int]
    channels: int


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
        letters: of images, rows, columns and a window's rows, columns and channels in ``x``; then
            of a weight and the results, or of results and the gradient of the weight.
        size: of the tiles.
    """
    lanes = registers.bytes // width(kind)
    count, height, long, _, _, channels = x.shape
    own, down, right, *window, beside = x.strides
    if beside != 1 or (abs(window[0]), abs(window[1])) != (down, right):
        return None
    if channels % lanes or y.shape[-1] % lanes:
        return None
    begin = x.offset + 2 * (min(0, window[0]) + min(0, window[1]))
    starts = np.arange(count, dtype=np.int64)
    images = Images(begin + starts * own, (down, right), (height, long), channels)
    if letters[2][:3] == letters[0][:3]:
        results = Images(starts * y.strides[0], y.strides[1:3], images.sides, y.shape[-1])
        return Tiling(size, kind, registers).forward(letters, images, window, w, results)
    if min(window) < 0 or w.strides[-1] != 1:
        return None
    results = Images(w.offset + starts * w.strides[0], w.strides[1:3], images.sides, w.shape[-1])
    return Tiling(size, kind, registers).backward(images, results)


class Tiling:
    """Plans one convolution: blocks of images that stay in a cache, one after the other."""

    def __init__(self, size: int, kind: str, registers: Registers) -> None:
        self.size, self.kind, self.registers = size, kind, registers
        self.points = (size + SIDE - 1) ** 2
        self.panel = VECTORS * registers.bytes // width(kind)
        self.works = Works(kind)

    def forward(
        self, letters: tuple[str, str, str], x: Images, window: Sequence[int], w: Place, y: Images
    ) -> Works:
        """Results from images and a weight."""
        self.weight(letters, window, w, x.channels, y.channels)
        for block in self.blocks(x, y):
            tiles = self.tiles(x, block)
            self.transform("input", x, block, ("a", "points of x"))
            a, b = self.matrix(tiles, x.channels), self.matrix(y.channels, x.channels)
            names = ("points of x", "points of w", "points of y")
            self.product(a, b, self.matrix(tiles, y.channels), names)
            self.transform("output", y, block, ("points of y", "y"))
        return self.works

    def backward(self, x: Images, y: Images) -> Works:
        """The gradient of the weight from images and the gradient of results."""
        for block in self.blocks(x, y):
            tiles = self.tiles(x, block)
            self.transform("input", x, block, ("a", "points of x"))
            self.transform("gradient", y, block, ("b", "points of y"))
            first, second = self.turned(tiles, x.channels), self.turned(tiles, y.channels)
            target = self.matrix(x.channels, y.channels)
            names = ("points of x", "points of y", "points of w")
            self.product(first, second, target, names, accumulate=block.start > 0)
        weights = Images(
            np.arange(x.channels, dtype=np.int64) * (SIDE * SIDE * y.channels),
            (SIDE * y.channels, y.channels),
            (SIDE, SIDE),
            y.channels,
        )
        self.transform("slope", weights, slice(0, x.channels), ("points of w", "y"))
        return self.works

    def blocks(self, x: Images, y: Images) -> Iterator[slice]:
        """Images that are multiplied together: no fewer than are worth to read a weight for."""
        one = self.tiles(x, slice(0, 1)) * (x.channels + y.channels)
        most = max(1, max(BLOCK // self.points, x.channels * y.channels) // one)
        for image in range(0, len(x.starts), most):
            yield slice(image, min(len(x.starts), image + most))

    def tiles(self, x: Images, block: slice) -> int:
        """How many tiles a block has."""
        down, right = [-(-side // self.size) for side in x.sides]
        return (block.stop - block.start) * down * right

    def matrix(self, rows: int, inner: int) -> Matrix:
        """A matrix for each point, one after the other."""
        start, batches = np.zeros(1, np.int64), np.arange(self.points, dtype=np.int64)
        offsets = np.arange(rows, dtype=np.int64) * inner
        return Matrix(offsets, start, inner, 1, batches * rows * inner)

    def turned(self, inner: int, rows: int) -> Matrix:
        """The transposes of such matrices."""
        start, batches = np.zeros(1, np.int64), np.arange(self.points, dtype=np.int64)
        offsets = np.arange(rows, dtype=np.int64)
        return Matrix(offsets, start, inner, rows, batches * rows * inner)

    def product(
        self,
        a: Matrix,
        b: Matrix,
        target: Matrix,
        names: tuple[str, str, str],
        accumulate: bool = False,
    ) -> None:
        """The products at all points; the second operand is packed already."""
        product = plan(a, b, target, self.kind, self.registers, packed=True, accumulate=accumulate)
        own = dict(zip(("a", "b", "y"), names, strict=True))
        for work in product.list:
            buffers = tuple([own.get(name, name) for name in work.buffers])
            self.works.list.append(work._replace(buffers=buffers))
        self.need(product.space)
        for name, x in zip(names, (a, b, target), strict=True):
            rows = -(-len(x.rows) // self.panel) * self.panel if x is b else len(x.rows)
            self.need({name: self.points * rows * x.inner})

    def need(self, space: Mapping[str, int]) -> None:
        for name, size in space.items():
            self.works.space[name] = max(size, self.works.space.get(name, 0))

    def weight(
        self,
        letters: tuple[str, str, str],
        window: Sequence[int],
        w: Place,
        channels: int,
        columns: int,
    ) -> None:
        """The transform of the weight, whose rows and columns may be seen from their end."""
        of_x, of_w, of_y = letters
        step_of = dict(zip(of_w, w.strides, strict=True))
        order = [np.arange(SIDE)[:: -1 if step < 0 else 1] for step in window]
        down, right = [n * step_of[x] for n, x in zip(order, of_x[3:5], strict=True)]
        panels = -(-columns // self.panel)
        numbers = {
            "columns": columns,
            "inner": channels,
            "column_step": step_of[of_y[-1]],
            "inner_step": step_of[of_x[-1]],
            "point": panels * self.panel * channels,
        }
        data = table(WEIGHT_FIELDS, numbers, {"taps": w.offset + np.add.outer(down, right)})
        name = f"winograd_weight_{self.kind}_{self.size}"
        self.works.list.append(Work(name, ("b", "table", "points of w"), data, panels))

    def transform(self, what: str, x: Images, block: slice, buffers: tuple[str, str]) -> None:
        """Images to their values at points, or back.

        Tiles reach beyond the border; what they see or give there is what is at the border.
        """
        step = SIDE if what == "slope" else self.size
        count, more = (self.size + SIDE - 1, SIDE - 1) if what == "input" else (step, 0)
        offsets = []
        for side, each in zip(x.sides, x.steps, strict=True):
            places = np.add.outer(np.arange(0, side, step, dtype=np.int64), np.arange(count))
            offsets.append(np.minimum(places, side + more - 1) * each)
        rows, columns = [len(side) for side in offsets]
        starts = x.starts[block]
        tiles = len(starts) * rows * columns
        wide = -(-x.channels // self.panel) * self.panel if what == "gradient" else x.channels
        numbers = {
            "channels": x.channels,
            "tile_rows": rows,
            "tile_columns": columns,
            "height": x.sides[0],
            "width": x.sides[1],
            "tiles": tiles,
            "point": tiles * wide,
        }
        lists = {"images": starts, "row_offsets": offsets[0], "column_offsets": offsets[1]}
        parts = len(starts) * rows
        chunk = max(1, min(parts, CHUNK // (columns * x.channels * count)))
        name = f"winograd_{what}_{self.kind}_{self.size}"
        data = table(TILE_FIELDS, numbers, lists)
        source, target = buffers
        self.works.list.append(Work(name, (source, "table", target), data, parts, chunk))
