"""Products in dynamic mode by the contraction engine, for arrays of any strides.

A plan is kept for each pair of shapes and strides. Each thread of Python has plans of its own, and
memory between their works that all of them share, since it serves one call at a time.
"""

from __future__ import annotations

import threading
from itertools import accumulate
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from rushlight.codegen.products import Place, product_works
from rushlight.codegen.pull import strides
from rushlight.graph.attributes import DTYPES, LONG, SHORT
from rushlight.runtime.arena import ALIGNMENT, Arena
from rushlight.runtime.driver import STEP, driver
from rushlight.runtime.natives import address, registers
from rushlight.runtime.threads import pool
from rushlight.runtime.verify import verify_works

MOST = 256  # plans that are kept
WAKE = 1 << 21  # multiply-adds that are worth waking a thread for

Array = NDArray[np.generic]
Letters = tuple[str, str, str]


class Call:
    """A product of arrays of certain shapes and strides."""

    def __init__(self, letters: Letters, a: Array, b: Array) -> None:
        pairs = zip(letters[0] + letters[1], a.shape + b.shape, strict=True)
        sizes: dict[str, int] = {}
        cost = 1
        for letter, n in pairs:
            cost *= n if letter not in sizes else 1
            sizes[letter] = n if sizes.get(letter, 1) == 1 else sizes[letter]
        self.shape, self.dtype = tuple([sizes[x] for x in letters[2]]), a.dtype
        places = [Place(x.shape, tuple([s // x.itemsize for s in x.strides])) for x in (a, b)]
        result = Place(self.shape, strides(self.shape))
        first, second = places
        works = product_works(letters, first, second, result, SHORT[a.dtype.name], registers())
        assert works is not None
        verify_works(works, {"a": a, "b": b, "y": np.empty(self.shape, a.dtype)}, registers())
        self.wakes = cost >= WAKE
        kind = DTYPES[LONG[works.kind]].numpy
        lines = [-(-n * kind.itemsize // ALIGNMENT) for n in works.space.values()]
        begins = dict(zip(works.space, accumulate(lines, initial=0), strict=False))
        memory = plans.room(sum(lines) * ALIGNMENT)
        steps = np.zeros((len(works.list), STEP), np.int64)
        tables, fills = [], []
        for row, work in zip(steps, works.list, strict=True):
            table = np.zeros(len(work.buffers), np.int64)
            for n, name in enumerate(work.buffers):
                if name in begins:
                    table[n] = memory.address + begins[name] * ALIGNMENT
                elif name == "table":
                    table[n] = work.table.ctypes.data
                else:
                    fills.append(("aby".index(name), table.ctypes.data + 8 * n))
            chunks = -(-work.parts // work.chunk)
            row[:] = address(work.name), table.ctypes.data, work.parts, work.chunk, chunks, 0
            tables.append((table, work.table))
        fill, error = np.array(fills, np.int64), np.zeros(2, np.int64)
        counts = steps.ctypes.data, len(steps), error.ctypes.data, fill.ctypes.data, len(fill)
        part = np.array(counts, np.int64)
        native = driver()
        self.part, self.run = part.ctypes.data, native.call
        self.holds = memory, steps, tables, fill, error, part, native

    def __call__(self, a: Array, b: Array) -> Array:
        y = np.empty(self.shape, self.dtype)
        threads = pool()
        if not self.wakes:
            self.run(self.part, (a, b, y), threads.address)
            return y
        threads.begin()
        try:
            self.run(self.part, (a, b, y), threads.address)
        finally:
            threads.end()
        return y


class Plans(threading.local):
    """The calls of a thread, by what they are made for, and their memory, by its size."""

    def __init__(self) -> None:
        self.known: dict[object, Call] = {}
        self.rooms: WeakValueDictionary[int, Arena] = WeakValueDictionary()

    def room(self, size: int) -> Arena:
        """Memory of at least that size; sizes are powers of two, so that there are few."""
        size = 1 << max(12, (size - 1).bit_length())
        room = self.rooms.get(size)
        if room is None:
            room = self.rooms[size] = Arena(size)
        return room


plans = Plans()


def product(letters: Letters, a: Array, b: Array) -> Array:
    """The product of two arrays of one dtype, not empty, summed over letters.

    >>> from rushlight.runtime.products import product
    >>> product(("mk", "kn", "mn"), np.ones((2, 3)), np.ones((3, 2)))
    array([[3., 3.],
           [3., 3.]])
    """
    key = letters, a.dtype, a.shape, a.strides, b.shape, b.strides
    known = plans.known
    call = known.get(key)
    if call is None:
        if any([s % x.itemsize for x in (a, b) for s in x.strides]):
            return product(letters, np.ascontiguousarray(a), np.ascontiguousarray(b))
        if len(known) >= MOST:
            known.clear()
        call = known[key] = Call(letters, a, b)
    return call(a, b)
