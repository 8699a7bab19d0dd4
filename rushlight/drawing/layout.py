"""Places for the boxes of a picture: in layers from top to bottom, arrows pointing down.

An arrow that skips layers passes through a narrow cell of its own in each, so that it crosses no
box; all arrows of one box share these cells.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from itertools import pairwise

GAP, LAYER_GAP = 18.0, 34.0
SWEEPS = 12


class Cell:
    """A place in a layer: of a box, or of an arrow that passes by."""

    __slots__ = ("above", "below", "box", "height", "width", "x")

    def __init__(self, box: int | None, width: float, height: float) -> None:
        self.box, self.width, self.height = box, width, height
        self.above: list[Cell] = []
        self.below: list[Cell] = []
        self.x = 0.0  # of its middle


class Layout:
    """``layers`` of cells with their places, and the ``tops`` of the layers."""

    def __init__(
        self, sizes: Sequence[tuple[float, float]], arrows: Sequence[tuple[int, int]]
    ) -> None:
        self.layers = cells(sizes, arrows, levels(len(sizes), arrows))
        self.order()
        self.place()
        self.heights = [max(cell.height for cell in layer) for layer in self.layers]
        self.tops = [0.0]
        for layer, height in zip(self.layers, self.heights, strict=True):
            self.tops.append(self.tops[-1] + height + gap(layer))
        ends = [(c.x - c.width / 2, c.x + c.width / 2) for layer in self.layers for c in layer]
        self.left = min(start for start, _ in ends)
        self.width = max(end for _, end in ends) - self.left
        self.height = self.tops[-2] + self.heights[-1]

    def order(self) -> None:
        """Sorts each layer by where its neighbours are, and keeps the order of fewest crossings."""
        best = [list(layer) for layer in self.layers]
        fewest = crossings(best)
        rank = {cell: i for layer in self.layers for i, cell in enumerate(layer)}
        for sweep in range(SWEEPS):
            if not fewest:
                break
            down = sweep % 2 == 0
            for layer in self.layers if down else reversed(self.layers):
                wanted = {c: middle(c, c.above if down else c.below, rank) for c in layer}
                layer.sort(key=wanted.__getitem__)
                rank.update({cell: i for i, cell in enumerate(layer)})
            count = crossings(self.layers)
            if count < fewest:
                best, fewest = [list(layer) for layer in self.layers], count
        self.layers = best

    def place(self) -> None:
        """Moves cells below and above their neighbours, as far as the order allows."""
        for layer in self.layers:
            spread(layer, [0.0] * len(layer))
        for sweep in range(3 * SWEEPS):
            for layer in self.layers if sweep % 2 == 0 else reversed(self.layers):
                spread(layer, [balance(cell) for cell in layer])


def balance(cell: Cell) -> float:
    """Where the neighbours of a cell pull it: those of an arrow that passes keep it straight.

    A box follows the boxes it comes from and leads to, hardly the leaves beside them.
    """
    total = weights = 0.0
    for other in cell.above + cell.below:
        weight = 1.0
        if cell.box is None and other.box is None:
            weight = 8.0
        elif not other.above:
            weight = 0.05
        total += weight * other.x
        weights += weight
    return total / weights if weights else cell.x


def levels(count: int, arrows: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box: right above the first one that it points to.

    One that points to none is right below the last one that points to it.
    """
    height = [0] * count
    for a, b in sorted(arrows, reverse=True):
        height[a] = max(height[a], height[b] + 1)
    top = max(height)
    level, ends = [top - h for h in height], {b for _, b in arrows} - {a for a, _ in arrows}
    for end in ends:
        level[end] = 0
    for a, b in arrows:
        if b in ends:
            level[b] = max(level[b], level[a] + 1)
    return level


def cells(
    sizes: Sequence[tuple[float, float]], arrows: Sequence[tuple[int, int]], level: Sequence[int]
) -> list[list[Cell]]:
    """The layers, in the order of the boxes, with the cells of arrows that pass."""
    layers: list[list[Cell]] = [[] for _ in range(max(level) + 1)]
    own = [Cell(i, width, height) for i, (width, height) in enumerate(sizes)]
    for cell, at in zip(own, level, strict=True):
        layers[at].append(cell)
    trunk: dict[int, list[Cell]] = {i: [cell] for i, cell in enumerate(own)}
    for a, b in sorted(set(arrows), key=lambda arrow: level[arrow[1]]):
        passed = trunk[a]
        while level[a] + len(passed) < level[b]:
            cell = Cell(None, 0.0, 0.0)
            layers[level[a] + len(passed)].append(cell)
            join(passed[-1], cell)
            passed.append(cell)
        join(passed[level[b] - level[a] - 1], own[b])
    return layers


def join(above: Cell, below: Cell) -> None:
    above.below.append(below)
    below.above.append(above)


def middle(cell: Cell, neighbours: Sequence[Cell], rank: dict[Cell, int]) -> float:
    if not neighbours:
        return rank[cell]
    return sum([rank[n] for n in neighbours]) / len(neighbours)


def crossings(layers: Sequence[Sequence[Cell]]) -> int:
    """How many pairs of arrows cross."""
    count = 0
    for upper, lower in pairwise(layers):
        rank = {cell: i for i, cell in enumerate(lower)}
        passed: list[int] = []
        for cell in upper:
            ends = sorted(rank[below] for below in cell.below)
            count += sum([len(passed) - bisect_right(passed, end) for end in ends])
            for end in ends:
                insort(passed, end)
    return count


def spread(layer: Sequence[Cell], wanted: Sequence[float]) -> None:
    """Puts cells as near as possible to where they are wanted, in order and without overlap.

    With the distances taken off, the places only have to increase: neighbours that do not are
    pooled at their mean until all do. That is the least squares solution.
    """
    offsets = [0.0]
    for a, b in pairwise(layer):
        offsets.append(offsets[-1] + (a.width + b.width) / 2 + GAP)
    pools: list[tuple[float, float, int]] = []  # (mean, weight, how many)
    for cell, x, offset in zip(layer, wanted, offsets, strict=True):
        mean, weight, count = x - offset, 1.0 if cell.above else 0.1, 1
        while pools and pools[-1][0] >= mean:
            other, others, more = pools.pop()
            mean = (mean * weight + other * others) / (weight + others)
            weight, count = weight + others, count + more
        pools.append((mean, weight, count))
    places = [mean for mean, _, count in pools for _ in range(count)]
    for cell, place, offset in zip(layer, places, offsets, strict=True):
        cell.x = place + offset


def gap(layer: Sequence[Cell]) -> float:
    """The room below a layer: more where arrows go far to the side."""
    far = max([abs(c.x - b.x) for c in layer for b in c.below], default=0.0)
    return LAYER_GAP + min(far / 12, 40.0)
