"""Formulas of elements as native code: one loop, for arrays of any length.

What an optimizer does to a parameter is recorded as a list of NumPy calls. Here the list becomes
one function that goes over memory once. Each call rounds as NumPy does, in the same order, so the
results are the same bit for bit.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight.codegen.kernel import Kernel, Store, chunk_of
from rushlight.codegen.llvm import function, module
from rushlight.codegen.pull import Buffer, Columns
from rushlight.codegen.schedule import Nest
from rushlight.codegen.values import INDEX
from rushlight.graph.attributes import SHORT
from rushlight.runtime.cache import object_code
from rushlight.runtime.driver import STEP, driver
from rushlight.runtime.host import put_aside
from rushlight.runtime.jit import load, target
from rushlight.runtime.threads import pool

NUMBER = -1  # stands for an operand that is the next one of the formula's numbers
LENGTH = 1 << 20  # of the arrays that the loop is made for; its code is that of any length

Calls = tuple[tuple[Any, ...], ...]
Rows = Sequence[NDArray[Any]]


OPERATIONS: dict[Any, str] = {
    np.add: "add",
    np.subtract: "sub",
    np.multiply: "mul",
    np.divide: "div",
    np.maximum: "max",
    np.negative: "neg",
    np.absolute: "abs",
    np.sqrt: "sqrt",
}


class Sweeper:
    """The native function of a formula.

    Args:
        calls: (NumPy function, operand, …); operands count the arrays that are read, then the
            results of calls, and ``NUMBER`` takes the next number.
        lanes: how many of the arrays are read.
        results: for each array the value that is written to it; None: it is not.
        dtype: of all arrays and numbers.

    >>> half = Sweeper(((np.multiply, 0, NUMBER),), 1, (1,), np.dtype(np.float32))
    >>> x = np.array([1, 2, 3], np.float32)
    >>> half.run([[x]], [0.5])
    >>> x
    array([0.5, 1. , 1.5], dtype=float32)
    """

    def __init__(
        self, calls: Calls, lanes: int, results: tuple[int | None, ...], dtype: np.dtype
    ) -> None:
        self.dtype = dtype
        kind = SHORT[dtype.name]
        self.numbers = Buffer(kind, (max(1, sum([c.count(NUMBER) for c in calls])),))
        self.arrays = [Buffer(kind, (LENGTH,)) for _ in results]
        kernel = self.kernel(calls, lanes, results)
        places = {array: n for n, array in enumerate(self.arrays)}
        used = [places.get(buffer, -2) for buffer in (*kernel.inputs, *kernel.outputs)]
        self.order = [*used, -1]  # columns of a table: arrays, then numbers (-2) and errors (-1)
        text = module([function("sweep", kernel, target().vector_bytes)])
        self.library = load([object_code(text)])
        put_aside()
        self.address = self.library.address("sweep")

    def kernel(self, calls: Calls, lanes: int, results: tuple[int | None, ...]) -> Kernel:
        b = Columns()
        i = b.loop("i", LENGTH)
        values = [b.load(array, array.kind, (i,)) for array in self.arrays[:lanes]]
        count = 0
        for call, *operands in calls:
            found = []
            for x in operands:
                if x == NUMBER:
                    place = b.constant(count, INDEX)
                    found.append(b.load(self.numbers, self.numbers.kind, (place,)))
                    count += 1
                else:
                    found.append(values[x])
            make = b.unary if len(found) == 1 else b.binary
            values.append(make(OPERATIONS[call], *found))
        pairs = zip(self.arrays, results, strict=True)
        stores = [Store(array, i, values[x]) for array, x in pairs if x is not None]
        nest = Nest(b, [i.data], (), stores)
        self.cost = nest.cost()
        (kernel,) = nest.kernels([store.buffer for store in stores])
        return kernel

    def run(self, sets: Sequence[Rows], numbers: Sequence[float]) -> None:
        """Runs the formula on each set of contiguous arrays of one length."""
        count = len(sets)
        constants, error = np.array(numbers or [0.0], self.dtype), np.zeros(2, np.int64)
        ends = [constants.ctypes.data, error.ctypes.data]
        pointers = [[*[a.__array_interface__["data"][0] for a in rows], *ends] for rows in sets]
        table = np.take(np.array(pointers, np.int64), self.order, axis=1)
        sizes = [rows[0].size for rows in sets]
        chunks = {size: max(1, chunk_of(size, self.cost)) for size in {*sizes} - {0}}
        steps = np.zeros((count, STEP), np.int64)
        steps[:, 0] = self.address
        steps[:, 1] = table.ctypes.data + table.strides[0] * np.arange(count)
        steps[:, 2], steps[:, 3] = sizes, [chunks.get(size, 1) for size in sizes]
        steps[:, 4] = -(-steps[:, 2] // steps[:, 3])
        threads, parallel = pool(), bool(chunks) and int(steps[:, 4].max()) > 1
        if parallel:
            threads.begin()
        try:
            driver().run(steps.ctypes.data, count, threads.address, error.ctypes.data)
        finally:
            if parallel:
                threads.end()


@functools.lru_cache(maxsize=256)
def sweeper(
    calls: Calls, lanes: int, results: tuple[int | None, ...], dtype: np.dtype
) -> Sweeper | None:
    """The native function of a formula; None if none can be made here."""
    try:
        return Sweeper(calls, lanes, results, dtype)
    except (ImportError, OSError, RuntimeError):
        return None
