"""Places for the boxes of a picture: in layers from top to bottom, arrows pointing down.

An arrow that skips layers passes through a narrow cell of its own in each, so that it crosses no
box; all arrows of one box share these cells.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

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
        """Sorts each layer by where its neighbours are, and keeps the order with least crossings."""
        best = [list(layer) for layer in self.layers]
        fewest = crossings(best)
        for sweep in range(SWEEPS):
            if not fewest:
                break
            down = sweep % 2 == 0
            for layer in self.layers if down else reversed(self.layers):
                rank = {c: i for row in self.layers for i, c in enumerate(row)}
                key = {c: middle(c, c.above if down else c.below, rank) for c in layer}
                layer.sort(key=key.__getitem__)
            count = crossings(self.layers)
            if count < fewest:
                best, fewest = [list(layer) for layer in self.layers], count
        self.layers = best

    def place(self) -> None:
        """Moves cells below and above their neighbours, as far as the order allows."""
        for layer in self.layers:
            spread(layer, [0.0] * len(layer))
        for sweep in range(2 * SWEEPS):
            down = sweep % 2 == 0
            for layer in self.layers if down else reversed(self.layers):
                last = sweep >= 2 * SWEEPS - 2
                near = [c.above + c.below if last else c.above if down else c.below for c in layer]
                spread(
                    layer,
                    [
                        sum([n.x for n in cells]) / len(cells) if cells else c.x
                        for c, cells in zip(layer, near, strict=True)
                    ],
                )


def levels(count: int, arrows: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box: below all that point to it; a source right above what it feeds."""
    level = [0] * count
    fed: list[list[int]] = [[] for _ in range(count)]
    for a, b in sorted(arrows, key=lambda arrow: arrow[1]):
        level[b] = max(level[b], level[a] + 1)
        fed[a].append(b)
    targets = {b for _, b in arrows}
    for a in range(count):
        if a not in targets and fed[a]:
            level[a] = min(level[b] for b in fed[a]) - 1
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
    for upper, lower in zip(layers, layers[1:], strict=False):
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
    for a, b in zip(layer, layer[1:], strict=False):
        offsets.append(offsets[-1] + (a.width + b.width) / 2 + GAP)
    pools: list[tuple[float, int]] = []  # (mean, how many)
    for x, offset in zip(wanted, offsets, strict=True):
        mean, count = x - offset, 1
        while pools and pools[-1][0] >= mean:
            other, others = pools.pop()
            mean = (mean * count + other * others) / (count + others)
            count += others
        pools.append((mean, count))
    places = [mean for mean, count in pools for _ in range(count)]
    for cell, place, offset in zip(layer, places, offsets, strict=True):
        cell.x = place + offset


def gap(layer: Sequence[Cell]) -> float:
    """The room below a layer: more where arrows go far to the side."""
    far = max([abs(c.x - b.x) for c in layer for b in c.below], default=0.0)
    return LAYER_GAP + min(far / 12, 40.0)
