"""Chains: a product and the loops after it, block of rows by block of rows.

What a product has just made of some rows is in cache when the bias, the activation or the
normalisation of those rows is computed right away. The kernels are called one after the other for
each part of the product, by one function that all programs share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rushlight.codegen import contraction, transforms
from rushlight.codegen.kernel import Kernel, values_of
from rushlight.codegen.native import NativeText, table
from rushlight.codegen.pull import Buffer
from rushlight.codegen.tiling import Work

FIELDS = ("rows", "row_block", "row_parts", "count", "links")
"""The table: rows of a batch, of a part, parts of a batch, and for each of ``count`` links after
the product where its buffers begin, and how many of its parts a row is."""

NAME = "chain_u8"
FEW = 24  # rows of a part, for each of which B is read anew
LARGE = 1 << 19  # elements of B that are not read so often, since no near cache holds them


class Rows(NamedTuple):
    """How a product is cut into blocks of whole rows."""

    rows: int
    row_block: int
    row_parts: int
    batches: int

    @property
    def total(self) -> int:
        return self.batches * self.rows


def rows_of(work: Work) -> Rows | None:
    """The rows of a product whose parts are blocks of them, one after the other in memory.

    None if there are none, or if a large B would be read for each few of them.
    """
    if work.name.startswith("winograd_output_"):
        return rows_of_tiles(work)
    if not work.name.startswith("contract_"):
        return None
    head = dict(zip(contraction.FIELDS, work.table.tolist(), strict=False))
    if head["column_parts"] != 1:
        return None
    rows, columns = head["rows"], head["columns"]
    last = head["blocks"] + 5 * (head["block_count"] - 1)
    _, taps, _, inner, before = work.table[last : last + 5].tolist()
    if head["row_block"] < min(FEW, rows) and columns * (before + taps * inner) > LARGE:
        return None
    batches = work.parts // head["row_parts"]
    begin, there = head["batches"], head["target_offsets"]
    starts = work.table[begin + 2 : begin + 3 * batches : 3]
    offsets = work.table[there : there + rows]
    if not np.array_equal(starts, np.arange(batches) * rows * columns):
        return None
    if not np.array_equal(offsets, np.arange(rows) * columns):
        return None
    return Rows(rows, head["row_block"], head["row_parts"], batches)


def rows_of_tiles(work: Work) -> Rows | None:
    """The rows of a convolution in tiles: a part is a row of tiles of an image.

    None if the work is one of several, of which only the first begins at 0.
    """
    head = dict(zip(transforms.TILE_FIELDS, work.table.tolist(), strict=False))
    begin, there = head["images"], head["row_offsets"]
    images = work.parts // head["tile_rows"]
    rows, high = (
        head["height"] * head["width"],
        (head["column_offsets"] - there) // head["tile_rows"],
    )
    starts = work.table[begin : begin + images] + work.table[there]
    if not np.array_equal(starts, np.arange(images) * rows * head["channels"]):
        return None
    return Rows(rows, high * head["width"], head["tile_rows"], images)


def reads_own_rows(kernel: Kernel, buffer: Buffer) -> bool:
    """Whether each part of a kernel reads its own share of a buffer, in their order."""
    share, rest = divmod(buffer.size, kernel.count)
    if rest or kernel.window is not None or kernel.across is not None:
        return False
    outer = [loop for loop in kernel.rows if loop is not kernel.vector] or list(kernel.rows)
    sizes = [loop.size for loop in outer]
    steps = {loop: share * math.prod(sizes[n + 1 :]) for n, loop in enumerate(outer)}
    loads = [v for v in values_of(kernel.stages) if v.op == "load" and v.data is buffer]
    for load in loads:
        terms, offset = kernel.b.expand([(load.args[0], 1)])
        if any([atom.op != "var" or step < 0 for atom, step in terms.items()]) or offset < 0:
            return False
        found = {atom.data: step for atom, step in terms.items()}
        if any([found.pop(loop, 0) != step for loop, step in steps.items() if loop.size > 1]):
            return False
        if offset + sum([(loop.size - 1) * step for loop, step in found.items()]) >= share:
            return False
    return True


def replaced(kernel: Kernel, buffer: Buffer) -> list[Buffer]:
    """The results whose elements take the place of those of ``buffer`` they are made of."""
    if len(kernel.stages) != 1:
        return []
    (stage,) = kernel.stages
    reads = {v.args[0] for v in values_of(kernel.stages) if v.op == "load" and v.data is buffer}
    stores = [store for store in stage.stores if store.how == "set" and reads == {store.index}]
    return [store.buffer for store in stores if store.buffer.node is not None]


def chain_table(rows: Rows, links: Sequence[tuple[int, int]]) -> np.ndarray:
    """The table of a chain; a link is where its buffers begin, and how many parts a row is."""
    numbers = {
        "rows": rows.rows,
        "row_block": rows.row_block,
        "row_parts": rows.row_parts,
        "count": len(links),
    }
    return table(FIELDS, numbers, {"links": np.ravel(links)})


class Chain(NativeText):
    """The text of the function: buffers are the table, the functions, and then those of each."""

    def __init__(self) -> None:
        super().__init__("u8")

    def text(self) -> str:
        numbers = self.buffer(0)
        self.head = self.fields(numbers, FIELDS, 1)
        self.own = self.let(f"add i64 {self.head['count']}, 2")  # where the product's begin
        self.each("%begin", "%end", 1, [], lambda part, _: self.part(part))
        return self.function(NAME)

    def part(self, part: str) -> list[str]:
        head = self.head
        batch, block = self.divided(part, head["row_parts"])
        before = self.let(f"mul i64 {batch}, {head['rows']}")
        rows = self.range(block, head["row_block"], head["rows"])
        begin, end = [self.let(f"add i64 {before}, {row}") for row in rows]
        after = self.let(f"add i64 {part}, 1")
        self.run("1", self.own, part, after)
        self.each("0", head["count"], 1, [], lambda n, _: self.link(n, begin, end))
        return []

    def link(self, number: str, begin: str, end: str) -> list[str]:
        """One kernel over the rows of the part."""
        pair = self.offset(self.head["links"], self.let(f"mul i64 {number}, 2"))
        place, per = self.entry(pair, 0), self.entry(pair, 1)
        parts = [self.let(f"mul i64 {row}, {per}") for row in (begin, end)]
        self.run(self.let(f"add i64 {number}, 2"), place, *parts)
        return []

    def run(self, function: str, place: str, begin: str, end: str) -> None:
        called, buffers = self.buffer(function), self.buffers_from(place)
        self.write(f"call void {called}(ptr {buffers}, i64 {begin}, i64 {end})")
