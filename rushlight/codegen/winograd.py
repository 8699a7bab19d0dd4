"""Plans of convolutions of 3 × 3 windows by Winograd's way: blocks of images, point by point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rushlight.codegen.contraction import VECTORS
from rushlight.codegen.instructions import width
from rushlight.codegen.microkernel import Registers
from rushlight.codegen.native import table
from rushlight.codegen.products import Place
from rushlight.codegen.repair import MANTISSA, SIDE, DirectResults, DirectSlopes
from rushlight.codegen.tiling import Matrix, Work, Works, plan, shared_out
from rushlight.codegen.transforms import TILE_FIELDS, WEIGHT_FIELDS

BLOCK = 1 << 20  # elements of transformed images that stay in a cache while they are multiplied
CHUNK = 1 << 14  # elements to transform that are worth a thread's while


class Weight(NamedTuple):
    """Where a weight is: the steps of its results and channels, and the 3 × 3 elements of each."""

    column_step: int
    inner_step: int
    taps: np.ndarray


class Images(NamedTuple):
    """Where images are, channels last: the first element of each, and the steps of their sides."""

    starts: np.ndarray
    steps: Sequence[int]
    sides: Sequence[int]
    channels: int


class Block(NamedTuple):
    """What is multiplied together: some images, or some rows of the tiles of one."""

    images: slice
    rows: slice


def winograd_works(
    letters: tuple[str, str, str],
    x: Place,
    w: Place,
    y: Place,
    size: int,
    kind: str,
    registers: Registers,
) -> Works | None:
    """The works of a product of 3 × 3 windows; None if there are none for how or what they are.

    Args:
        letters: of images, rows, columns and a window's rows, columns and channels in ``x``; then
            of a weight and the results, or of results and the gradient of the weight.
        size: of the tiles.
    """
    if kind not in MANTISSA:
        return None
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
        weight = weight_of(letters, window, w)
        return Tiling(size, kind, registers).forward(images, weight, results)
    if min(window) < 0 or w.strides[-1] != 1:
        return None
    results = Images(w.offset + starts * w.strides[0], w.strides[1:3], images.sides, w.shape[-1])
    return Tiling(size, kind, registers).backward(images, results)


def weight_of(letters: tuple[str, str, str], window: Sequence[int], w: Place) -> Weight:
    """Where a weight is, whose rows and columns may be seen from their end."""
    of_x, of_w, of_y = letters
    step_of = dict(zip(of_w, w.strides, strict=True))
    order = [np.arange(SIDE)[:: -1 if step < 0 else 1] for step in window]
    down, right = [n * step_of[x] for n, x in zip(order, of_x[3:5], strict=True)]
    return Weight(step_of[of_y[-1]], step_of[of_x[-1]], w.offset + np.add.outer(down, right))


class Tiling:
    """Plans one convolution: blocks of images that stay in a cache, one after the other."""

    def __init__(self, size: int, kind: str, registers: Registers) -> None:
        self.size, self.kind, self.registers = size, kind, registers
        self.points = (size + SIDE - 1) ** 2
        self.panel = VECTORS * registers.bytes // width(kind)
        self.works = Works(kind)

    def forward(self, x: Images, w: Weight, y: Images) -> Works:
        """Results from images and a weight."""
        self.weight(w, x.channels, y.channels)
        rows, columns = self.offsets("input", x)
        numbers = {
            "channels": y.channels,
            "inner": x.channels,
            "column_step": w.column_step,
            "inner_step": w.inner_step,
        }
        for block in self.blocks(x, y):
            tiles = self.tiles(x, block)
            self.transform("input", x, block, ("a", "points of x"))
            a, b = self.matrix(tiles, x.channels), self.matrix(y.channels, x.channels)
            names = ("points of x", "points of w", "points of y")
            self.product(a, b, self.matrix(tiles, y.channels), names)
            lists = {
                "images": x.starts[block.images],
                "row_offsets": rows[block.rows],
                "column_offsets": columns,
                "taps": w.taps,
            }
            direct = table(DirectResults.FIELDS, numbers, lists)
            self.transform("output", y, block, ("points of y", "y"), direct)
        return self.works

    def backward(self, x: Images, y: Images) -> Works:
        """The gradient of the weight from images and the gradient of results."""
        for number, block in enumerate(self.blocks(x, y)):
            tiles = self.tiles(x, block)
            self.transform("input", x, block, ("a", "points of x"))
            self.transform("gradient", y, block, ("b", "points of y"))
            first, second = self.turned(tiles, x.channels), self.turned(tiles, y.channels)
            target = self.matrix(x.channels, y.channels)
            names = ("points of x", "points of y", "points of w")
            self.product(first, second, target, names, accumulate=number > 0)
        weights = Images(
            np.arange(x.channels, dtype=np.int64) * (SIDE * SIDE * y.channels),
            (SIDE * y.channels, y.channels),
            (SIDE, SIDE),
            y.channels,
        )
        numbers = {
            "channels": y.channels,
            "count": len(x.starts),
            "height": x.sides[0],
            "width": x.sides[1],
            "a_down": x.steps[0],
            "a_right": x.steps[1],
            "b_down": y.steps[0],
            "b_right": y.steps[1],
        }
        direct = table(DirectSlopes.FIELDS, numbers, {"a_images": x.starts, "b_images": y.starts})
        block = Block(slice(0, x.channels), slice(0, 1))
        self.transform("slope", weights, block, ("points of w", "y"), direct)
        return self.works

    def blocks(self, x: Images, y: Images) -> Iterator[Block]:
        """What stays in a cache, but no less than is worth to read a weight for."""
        down, right = [-(-side // self.size) for side in x.sides]
        room = max(BLOCK // self.points, x.channels * y.channels)
        most = max(1, room // (right * (x.channels + y.channels)))  # rows of tiles
        count, together = len(x.starts), max(1, most // down)
        pieces = -(-down // most)
        edges = [n * down // pieces for n in range(pieces + 1)]
        for image in range(0, count, together):
            for begin, end in pairwise(edges):
                yield Block(slice(image, min(count, image + together)), slice(begin, end))

    def tiles(self, x: Images, block: Block) -> int:
        """How many tiles a block has."""
        right = -(-x.sides[1] // self.size)
        return (
            (block.images.stop - block.images.start) * (block.rows.stop - block.rows.start) * right
        )

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

    def weight(self, w: Weight, channels: int, columns: int) -> None:
        """The transform of the weight. It reads nothing else, so its result may be kept."""
        panels = -(-columns // self.panel)
        numbers = {
            "columns": columns,
            "inner": channels,
            "column_step": w.column_step,
            "inner_step": w.inner_step,
            "point": panels * self.panel * channels,
        }
        data = table(WEIGHT_FIELDS, numbers, {"taps": w.taps})
        name = f"winograd_weight_{self.kind}_{self.size}"
        self.works.list.append(Work(name, ("b", "table", "points of w"), data, panels))

    def offsets(self, what: str, x: Images) -> list[np.ndarray]:
        """Where the rows and columns of tiles are.

        Tiles reach beyond the border; what they see or give there is what is at the border.
        """
        step = SIDE if what == "slope" else self.size
        count, more = (self.size + SIDE - 1, SIDE - 1) if what == "input" else (step, 0)
        found = []
        for side, each in zip(x.sides, x.steps, strict=True):
            places = np.add.outer(np.arange(0, side, step, dtype=np.int64), np.arange(count))
            found.append(np.minimum(places, side + more - 1) * each)
        return found

    def transform(
        self,
        what: str,
        x: Images,
        block: Block,
        buffers: tuple[str, str],
        direct: np.ndarray | None = None,
    ) -> None:
        """Images to their values at points, or back; ``direct`` is for tiles to compute again."""
        row_offsets, column_offsets = self.offsets(what, x)
        row_offsets, starts = row_offsets[block.rows], x.starts[block.images]
        (rows, count), (columns, _) = row_offsets.shape, column_offsets.shape
        tiles = len(starts) * rows * columns
        wide = -(-x.channels // self.panel) * self.panel if what == "gradient" else x.channels
        numbers = {
            "channels": x.channels,
            "tile_rows": rows,
            "tile_columns": columns,
            "height": x.sides[0] - block.rows.start * self.size,
            "width": x.sides[1],
            "tiles": tiles,
            "point": tiles * wide,
        }
        lists = {"images": starts, "row_offsets": row_offsets, "column_offsets": column_offsets}
        lists["direct"] = np.empty(0, np.int64) if direct is None else direct
        parts = len(starts) * rows
        chunk = shared_out(parts, parts * columns * x.channels * count // CHUNK)
        name = f"winograd_{what}_{self.kind}_{self.size}"
        data = table(TILE_FIELDS, numbers, lists)
        source, target = buffers
        used = (source, "table", target) if direct is None else (source, "table", target, "a", "b")
        self.works.list.append(Work(name, used, data, parts, chunk))
