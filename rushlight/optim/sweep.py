"""A formula of elements, recorded once and swept over many arrays.

An optimizer's ``update`` is algebra, and algebra makes a temporary for every operation. Called with
lanes, which stand for arrays, it leaves a list of NumPy calls instead. Each result is then given
the memory of a value that is no longer needed, and the list runs over all parameters of a group, a
piece at a time, so that what one call writes the next still finds in the cache. Large pieces are
shared among threads.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rushlight.config import config
from rushlight.settings import get_num_threads

PIECE = 1 << 17
"""Elements of a piece: enough work for a NumPy call, and yet all its operands fit the cache."""

LARGE = 1 << 14  # elements of a piece that is worth a thread: NumPy then works without the GIL
ENOUGH = 1 << 21  # elements times calls that are worth a thread
MOST_THREADS = 4  # more would wait for the GIL
WORTH = 1 << 16  # elements that native code sweeps so much sooner that it may be loaded
PATIENCE = 1 << 25  # elements times calls that NumPy sweeps in the time in which it is

NUMBER = -1  # stands for an operand that is a number, in the order of a recording's numbers

Rows = list[NDArray[Any]]

Calls = tuple[tuple[Any, ...], ...]
"""Operations as (kernel, operand, …). Operands count the lanes first, then the results of calls."""


class Recording:
    """What became of ``lanes`` arrays in a formula: calls, and the numbers that occur in them."""

    def __init__(self, lanes: int) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.numbers: list[float] = []
        self.lanes = [Lane(self, i) for i in range(lanes)]

    def add(self, kernel: Callable[..., Any], *operands: Any) -> Lane:
        call: list[Any] = [kernel]
        for x in operands:
            if isinstance(x, Lane):
                call.append(x.index)
            else:
                call.append(NUMBER)
                self.numbers.append(x)
        self.calls.append(tuple(call))
        return Lane(self, len(self.lanes) + len(self.calls) - 1)

    def sweep(self, results: Sequence[Lane | None]) -> Sweep:
        """The calls as a program that leaves ``results`` in the arrays; None: not written."""
        places = tuple([None if lane is None else lane.index for lane in results])
        return Sweep((tuple(self.calls), len(self.lanes), places), self.numbers)


class Lane:
    """Stands for the elements of an array in a formula: the operators and methods of a tensor.

    >>> recording = Recording(2)
    >>> p, g = recording.lanes
    >>> q = p - 0.1 * g
    >>> [call[0].__name__ for call in recording.calls]
    ['multiply', 'subtract']
    """

    __slots__ = ("index", "recording")
    __array_ufunc__ = None  # NumPy's numbers leave arithmetic with lanes to the lanes

    def __init__(self, recording: Recording, index: int) -> None:
        self.recording, self.index = recording, index

    def __add__(self, other: Any) -> Lane:
        return self.recording.add(np.add, self, other)

    def __sub__(self, other: Any) -> Lane:
        return self.recording.add(np.subtract, self, other)

    def __rsub__(self, other: float) -> Lane:
        return self.recording.add(np.subtract, other, self)

    def __mul__(self, other: Any) -> Lane:
        if isinstance(other, (int, float)) and other == 1:
            return self
        return self.recording.add(np.multiply, self, other)

    def __truediv__(self, other: Any) -> Lane:
        return self.recording.add(np.divide, self, other)

    def __rtruediv__(self, other: float) -> Lane:
        return self.recording.add(np.divide, other, self)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Lane:
        return self.recording.add(np.negative, self)

    def sqrt(self) -> Lane:
        return self.recording.add(np.sqrt, self)

    def abs(self) -> Lane:
        return self.recording.add(np.absolute, self)

    def maximum(self, other: Lane) -> Lane:
        return self.recording.add(np.maximum, self, other)


def maximum(a: NDArray[Any], b: NDArray[Any], out: NDArray[Any]) -> None:
    """``np.maximum``, which wants ``out`` by name."""
    np.maximum(a, b, out=out)


Formula = tuple[Calls, int, tuple[int | None, ...]]
"""Calls, how many arrays have values at the start, the value of each array in the end."""


class Native:
    """Finds native code for formulas, once so much was swept that it is worth the wait.

    ``load`` returns what makes it; the package sets it, since that takes a while to import.
    """

    def __init__(self) -> None:
        self.load: Callable[[], Callable[..., Any]] | None = None
        self.make: Callable[..., Any] | None = None
        self.swept = 0

    def wanted(self, formula: Formula, size: int, dtype: np.dtype) -> Any:
        """The native code of a formula for ``size`` elements; None: NumPy shall sweep them."""
        if size < WORTH or not config.fuse_eager or self.load is None:
            return None
        if self.make is None:
            self.swept += size * len(formula[0])
            if self.swept < PATIENCE:
                return None
            self.make = self.load()
        return self.make(*formula, dtype)


native = Native()


class Plan(NamedTuple):
    """A list of calls with places for all values: arrays first, then numbers, then scratch rows."""

    steps: list[tuple[Callable[..., Any], itemgetter]]  # a kernel, and its operands and result
    written: frozenset[int]  # which arrays it changes
    scratch: int  # how many scratch rows it needs


@functools.lru_cache(maxsize=256)
def plan(calls: Calls, lanes: int, results: tuple[int | None, ...]) -> Plan:
    """Places for the values of ``calls``.

    Args:
        calls: what was recorded.
        lanes: how many of the arrays have values at the start.
        results: for each array the value that it shall have in the end; None: it is only read.
    """
    arrays = len(results)
    last_use = {x: i for i, (_, *operands) in enumerate(calls) for x in operands}
    last_use.update({x: len(calls) for x in results if x is not None})
    written = frozenset([i for i, x in enumerate(results) if x is not None])
    home = {x: i for i, x in enumerate(results) if x is not None}
    numbers = sum([operands.count(NUMBER) for _, *operands in calls])
    place = {i: i for i in range(lanes)}
    free = set(written.difference(range(lanes)))  # places whose values are not needed any more
    rows = arrays + numbers  # as far as places are in use
    number = arrays
    steps: list[tuple[Any, itemgetter]] = []
    for i, (kernel, *operands) in enumerate(calls):
        sources = []
        for x in operands:
            sources.append(number if x == NUMBER else place[x])
            number += x == NUMBER
        dying = [
            place[x]
            for x in operands
            if x != NUMBER and last_use[x] == i and (place[x] >= arrays or place[x] in written)
        ]
        free.update(dying)
        result = lanes + i
        # A final value goes home, or else to scratch, so that it never stands in another's way.
        wishes = [*dying, *[row for row in free if row >= arrays]]
        if result in home:
            wishes = [home[result], *[row for row in wishes if row >= arrays]]
        target = next((row for row in wishes if row in free), rows)
        rows += target == rows
        free.discard(target)
        place[result] = target
        called = maximum if kernel is np.maximum else kernel
        steps.append((called, itemgetter(*sources, target)))
    moves = {i: place[x] for i, x in enumerate(results) if x is not None and place[x] != i}
    for target, source in moves.items():
        if source in moves:  # it would be overwritten before it is read
            steps.append((np.positive, itemgetter(source, rows)))
            moves[target] = rows
            rows += 1
    steps += [(np.positive, itemgetter(source, target)) for target, source in moves.items()]
    return Plan(steps, written, rows - arrays - numbers)


class Sweep:
    """A formula and its numbers, ready to run.

    >>> recording = Recording(2)
    >>> p, g = recording.lanes
    >>> sweep = recording.sweep([p - 0.1 * g, None])
    >>> x = np.ones(3)
    >>> sweep.run([[x, np.array([1.0, 2.0, 3.0])]], x.dtype)
    >>> x
    array([0.9, 0.8, 0.7])
    """

    def __init__(self, formula: Formula, numbers: Sequence[float]) -> None:
        self.formula, self.numbers = formula, numbers
        self.plan = plan(*formula)

    def run(self, sets: Iterable[Sequence[NDArray[Any]]], dtype: np.dtype) -> None:
        """Runs the calls on each set of arrays, computing in the real type ``dtype``."""
        numbers = [np.array(x, dtype) for x in self.numbers]
        work = functools.partial(self.work, numbers=numbers, dtype=dtype)
        plain: list[Sequence[NDArray[Any]]] = []
        for arrays in sets:
            if all([a.dtype is dtype and a.flags.c_contiguous for a in arrays]):
                plain.append(arrays)
            else:
                rows = [as_row(a, dtype) for a in arrays]
                work(cut(rows))
                for i in self.plan.written:
                    restore(arrays[i], rows[i])
        code = native.wanted(self.formula, sum([arrays[0].size for arrays in plain]), dtype)
        if code is not None and all([len({a.size for a in arrays}) == 1 for arrays in plain]):
            code.run(plain, self.numbers)
        else:
            self.share(plain, work)

    def share(self, sets: Sequence[Sequence[NDArray[Any]]], work: Callable[..., None]) -> None:
        """Runs the calls on contiguous arrays, in several threads if they are large."""
        small: list[Rows] = []
        large: list[Rows] = []
        for arrays in sets:
            rows = [a.reshape(-1) for a in arrays]
            if rows[0].size >= LARGE:
                large += cut(rows)
            else:
                small.append(rows)
        calls = sum([rows[0].size for rows in large]) * len(self.plan.steps)
        threads = min(calls // ENOUGH, MOST_THREADS)
        if threads > 1 and (threads := min(threads, get_num_threads())) > 1:
            shared = iter(large)
            others = [
                helpers(os.getpid()).submit(copy_context().run, work, shared)
                for _ in range(threads - 1)
            ]
            work(shared)
            work(small)
            for other in others:
                other.result()
        else:
            work([*large, *small])

    def work(self, pieces: Iterable[Rows], numbers: Rows, dtype: np.dtype) -> None:
        """Runs the calls on pieces, which several threads may take from one iterator."""
        steps, scratch = self.plan.steps, np.empty((self.plan.scratch, PIECE), dtype)
        others: dict[int, Rows] = {}  # numbers and scratch rows, by the length of a piece
        for rows in pieces:
            size = rows[0].size
            if size not in others:
                others[size] = [*numbers, *scratch[:, :size]]
            values = rows + others[size]
            for kernel, pick in steps:
                kernel(*pick(values))


@functools.cache
def helpers(process: int) -> ThreadPoolExecutor:
    """The threads that help; a forked process has none of its parent's, so it gets its own."""
    return ThreadPoolExecutor(MOST_THREADS - 1, "rushlight-sweep")


def cut(rows: Rows) -> list[Rows]:
    """Rows of equal length in pieces."""
    return [[row[i : i + PIECE] for row in rows] for i in range(0, rows[0].size, PIECE)]


def as_row(array: NDArray[Any], dtype: np.dtype) -> NDArray[Any]:
    """The elements one after the other in ``dtype``, each complex one as two real ones.

    >>> as_row(np.array([[1 + 2j]]), np.dtype(float))
    array([1., 2.])
    """
    row = np.ascontiguousarray(array).reshape(-1)
    if row.dtype.kind == "c":
        row = row.view(row.real.dtype)
    return row.astype(dtype, copy=False)


def restore(array: NDArray[Any], row: NDArray[Any]) -> None:
    """Writes the elements of a row back into the array they were taken from."""
    elements = row.view(array.dtype) if array.dtype.kind == "c" else row
    np.copyto(array, elements.reshape(array.shape), casting="unsafe")
