"""Memory of a program: blocks whose lifetimes do not meet share bytes of one buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

ALIGNMENT = 64  # bytes: a cache line, and the widest vector register


class Block(NamedTuple):
    """Bytes that are needed from one step of a program to another, both included.

    ``alignment`` is a power of two.
    """

    size: int
    first: int
    last: int
    alignment: int = ALIGNMENT


class Plan(NamedTuple):
    """Where each block starts, and how many bytes all need together."""

    offsets: list[int]
    size: int


def plan(blocks: Sequence[Block]) -> Plan:
    """Offsets such that blocks alive in the same step do not overlap, with a small total.

    The largest blocks are placed first, or those with most bytes for the longest time: whichever
    takes less.

    >>> from rushlight.runtime.arena import Block, plan
    >>> plan([Block(100, 0, 1), Block(64, 1, 2), Block(100, 2, 3)])
    Plan(offsets=[0, 128, 0], size=192)
    """
    sizes = [(-b.size, b.first) for b in blocks]
    areas = [(-b.size * (b.last - b.first + 1), b.first) for b in blocks]
    return min([place(blocks, ranks) for ranks in (sizes, areas)], key=lambda found: found.size)


def place(blocks: Sequence[Block], ranks: Sequence[tuple[int, int]]) -> Plan:
    """Places the blocks in the order of their ranks.

    Each goes into the smallest gap that takes it between the blocks that are alive together with
    it, or after them.
    """
    count, placed = len(blocks), 0
    offsets = [0] * count
    # The placed blocks, sorted by where they start.
    starts, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    firsts, lasts = np.empty(count, np.int32), np.empty(count, np.int32)
    for index in sorted(range(count), key=ranks.__getitem__):
        size, first, last, alignment = blocks[index]
        if size == 0:
            continue
        alive = ((firsts[:placed] <= last) & (lasts[:placed] >= first)).nonzero()[0]
        offset = best_fit(starts[alive], ends[alive], size, alignment)
        offsets[index] = offset
        position = int(starts[:placed].searchsorted(offset))
        row = (starts, offset), (ends, offset + size), (firsts, first), (lasts, last)
        for column, value in row:
            column[position + 1 : placed + 1] = column[position:placed]
            column[position] = value
        placed += 1
    return Plan(offsets, int(ends[:placed].max(initial=0)))


def best_fit(starts: np.ndarray, ends: np.ndarray, size: int, alignment: int) -> int:
    """The start of the smallest gap of that size between intervals, which are sorted by start."""
    free = np.empty(len(starts) + 1, np.int64)  # where each gap begins; the last has no end
    free[0] = 0
    np.maximum.accumulate(ends, out=free[1:])
    free += -free & (alignment - 1)
    gaps = starts - free[:-1]
    fits = (gaps >= size).nonzero()[0]
    return int(free[fits[gaps[fits].argmin()]] if len(fits) else free[-1])


class Arena:
    """One buffer of uninitialised bytes that starts at a multiple of ``alignment``.

    >>> from rushlight.runtime.arena import Arena
    >>> arena = Arena(1000)
    >>> arena.address % 64, arena.bytes.nbytes
    (0, 1000)
    """

    __slots__ = ("__weakref__", "address", "bytes")

    def __init__(self, size: int, alignment: int = ALIGNMENT) -> None:
        room = np.empty(size + alignment, np.uint8)
        skip = -room.ctypes.data % alignment
        self.bytes = room[skip : skip + size]
        self.address: int = room.ctypes.data + skip
