"""Recurrent layers in dynamic mode: a loop over time in native code, for sequences of any lengths.

The kernel of a cell and the product of its states know nothing of steps, sequences or directions:
each step calls them with addresses of its own, which are computed here for each call. So code is
compiled once for a cell of a size, whatever lengths and batches come.

The states of all sequences lie in one array: those of the beginning (or, in a reversed layer, of
the end) come first, then for each step those after it (or before it). Where all sequences are of
one length, the states before and after steps are views of it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rushlight.codegen import timeline
from rushlight.codegen.contraction import FIELDS, VECTORS
from rushlight.codegen.kernel import Kernel
from rushlight.codegen.llvm import function, module
from rushlight.codegen.native import table
from rushlight.codegen.pull import Buffer
from rushlight.codegen.recurrent import Shape, Step, cell_of
from rushlight.codegen.tiling import Matrix, Planner, Target, Work
from rushlight.config import config
from rushlight.graph.attributes import SHORT
from rushlight.kernels.recurrent import Backward, Forward, Weights
from rushlight.runtime.arena import Arena
from rushlight.runtime.cache import object_code
from rushlight.runtime.driver import STEP, driver
from rushlight.runtime.jit import Library, load, target
from rushlight.runtime.natives import address, registers
from rushlight.runtime.threads import pool
from rushlight.runtime.verify import OutOfBounds, verify_works

ROWS = 1 << 20  # sequences for which kernels are made: fewer are as good
WAKE = 1 << 22  # multiply-adds that are worth waking a thread for
NONE = frozenset[str]()
ONE, SAME, ROW, BEFORE, AFTER = range(5)
"""Where a step finds its rows in an array: one for all rows, or always the same rows, those of the
step, or of the states before or after it."""

Array = np.ndarray
Place = tuple[Array, int]


class Code(NamedTuple):
    """A kernel over the rows of a step: where it is, and the names of its buffers."""

    address: int
    names: tuple[str, ...]
    library: Library


@functools.lru_cache(256)
def code_of_cell(
    op: Any, features: int, kind: str, vector_bytes: int, unused: frozenset[str] = NONE
) -> Code:
    """The cell of an op of :mod:`rushlight.ops.recurrent_scans`, without results not wanted."""
    shape = Shape(1, ROWS, features, op.cell.gates, False)
    made = cell_of(op, shape, kind, (), unused, True)
    return compiled(made.kernel, made.names)


@functools.lru_cache(64)
def code_of_sum(features: int, kind: str, vector_bytes: int) -> Code:
    """The sum of what reaches an output by itself and through the step that follows."""
    step = Step(Shape(1, ROWS, features, 1, False), kind, {})
    (a,), (b,) = [step.sequence(name, 1) for name in ("dh", "dy")]
    step.put("dr", [a + b])
    return compiled(step.kernel(), {buffer: name for name, buffer in step.buffers.items()})


def compiled(kernel: Kernel, names: Mapping[Buffer, str]) -> Code:
    machine = target()
    text = function("cell", kernel, machine.vector_bytes, machine.has_f16c)
    library = load([object_code(module([text]))])
    order = tuple([names[buffer] for buffer in (*kernel.inputs, *kernel.outputs)])
    return Code(library.address("cell"), order, library)


class Product(NamedTuple):
    """Rows of a step by a weight: what packs it, the packed elements; a function, its table."""

    pack: Work
    space: int
    address: int
    table: Array


@functools.lru_cache(256)
def product_of(
    *, rows: int, columns: int, inner: int, blocks: int = 1, turned: bool = False,
    accumulate: bool = False, kind: str, vector_bytes: int,
) -> Product | None:  # fmt: skip
    """Rows of ``blocks`` · ``inner`` elements by a weight that has a row for each column.

    Or, ``turned``, a column. None if there are so many that they would have to be packed too.
    """
    depth, none = blocks * inner, np.zeros(1, np.int64)
    lines, across = np.arange(rows, dtype=np.int64), np.arange(columns, dtype=np.int64)
    taps = np.arange(blocks, dtype=np.int64) * inner
    step = columns if turned else 1
    a = Matrix(lines * depth, taps, inner, 1, none)
    b = Matrix(across if turned else across * depth, taps * step, inner, step, none)
    goal = Target(lines * columns, across, none)
    how: Any = {"accumulate": accumulate, "packed": True, "whole_rows": True}
    planner = Planner(a, b, goal, kind, registers(), **how)
    works = planner.works
    if len(works.list) != 1:
        return None
    _, packed = planner.pack(b, VECTORS * planner.lanes, "weight")
    product = works.list[0] = works.list[0]._replace(buffers=("a", packed, "table", "y"))
    works.list.reverse()
    bare = np.dtype("f8" if kind == "f64" else "f4")
    sizes = {"a": rows * depth, "weight": columns * depth, "y": rows * columns}
    verify_works(works, {x: np.empty(n, bare) for x, n in sizes.items()}, registers())
    return Product(works.list[0], works.space[packed], address(product.name), product.table)


class Rows:
    """How many rows each step has, and where the rows of steps and states begin.

    Args:
        sizes: of steps: none has more than the one before it.
        reverse: whether the last step comes first.
    """

    def __init__(self, sizes: Array, reverse: bool) -> None:
        self.sizes, self.reverse = sizes, reverse
        self.batch, self.total = int(sizes[0]), int(sizes.sum())
        self.even = int(sizes[-1]) == self.batch
        self.starts = np.cumsum(sizes) - sizes
        late = self.starts + self.batch
        early = np.append(0, late[:-1])
        self.before: Array = late if reverse else early
        self.after: Array = early if reverse else late
        none = np.zeros_like(sizes)
        self.begins = np.stack((none, none, self.starts, self.before, self.after), 1)
        most = self.batch + self.total
        self.ends_at = (1, self.batch, self.total, most, most)  # rows that steps need of an array

    @functools.cached_property
    def different(self) -> tuple[Array, Any]:
        """The different sizes, and which of them each step has."""
        if self.even:
            return self.sizes[:1], 0
        return np.unique(self.sizes, return_inverse=True)

    def ends(self) -> Array | slice:
        """The rows, among those of states, of each sequence's last step."""
        if self.even:
            return slice(self.total, None)
        sequences = np.arange(self.batch)
        lengths = np.searchsorted(-self.sizes, -sequences)
        return self.starts[lengths - 1] + self.batch + sequences

    def states(self, first: Array) -> Array:
        """Memory for the states of all times, with the first ones in it."""
        states = np.empty((self.batch + self.total, first.shape[1]), first.dtype)
        states[self.ends() if self.reverse else slice(self.batch)] = first
        return states

    def last(self, states: Array) -> Array:
        return states[slice(self.batch) if self.reverse else self.ends()]

    def at(self, states: Array, begins: Array) -> Array:
        """The states that begin at these rows, step by step."""
        if self.even or begins[0]:
            return states[begins[0] :][: self.total]
        return states[np.repeat(begins - self.starts, self.sizes) + np.arange(self.total)]


class Calls:
    """What native code is to call for each step.

    Args:
        rows: of the steps.
        backward: whether the steps are taken in the other order.
        cost: of it all, in multiply-adds.
    """

    def __init__(self, rows: Rows, backward: bool, cost: int) -> None:
        self.rows = rows
        self.order = slice(None, None, -1 if rows.reverse != backward else 1)
        threads = pool().threads if cost >= WAKE else 1
        self.block = -(-rows.batch // min(threads, rows.batch))
        self.parts = -(-rows.batch // self.block)
        self.first: list[tuple[Work, Array]] = []
        self.list: list[Array] = []
        self.holds: list[Any] = []  # what native code has addresses of

    def add(self, function: int, buffers: Array, by_rows: bool) -> None:
        """A function for each step, with the addresses in the rows of ``buffers``."""
        calls = np.empty((len(buffers), timeline.CALL), np.int64)
        calls[:, 0], calls[:, 2], calls[:, 3] = function, self.rows.sizes, by_rows
        calls[:, 1] = buffers.ctypes.data + buffers.strides[0] * np.arange(len(buffers))
        self.holds.append(buffers)
        self.list.append(calls)

    def places(self, found: Sequence[Place]) -> Array:
        """For each step where its rows of arrays are."""
        for array, where in found:
            if self.rows.ends_at[where] > len(array) or not array.flags.c_contiguous:
                raise OutOfBounds(f"steps need more rows than an array of {array.shape} has")
        self.holds.append(found)
        bases = [array.ctypes.data for array, _ in found]
        strides = [array.strides[0] for array, _ in found]
        begins = self.rows.begins.take([where for _, where in found], 1)
        return np.ascontiguousarray(begins * strides + bases)

    def kernel(self, code: Code, buffers: Mapping[str, Place]) -> None:
        """A kernel of elements."""
        self.holds.append(code.library)
        self.add(code.address, self.places([buffers[name] for name in code.names]), True)

    def product(self, plan: Product, weight: Array, a: Place, y: Place) -> None:
        """A product of rows by a weight, which is packed before the first step."""
        packed, weight = Arena(plan.space * weight.itemsize), np.ascontiguousarray(weight)
        ends = (weight.ctypes.data, plan.pack.table.ctypes.data, packed.address)
        self.first.append((plan.pack, np.array(ends, np.int64)))
        sizes, which = self.rows.different
        tables = np.repeat(plan.table[None], len(sizes), 0)
        for field, value in (("rows", sizes), ("row_block", self.block), ("row_parts", self.parts)):
            tables[:, FIELDS.index(field)] = value
        found = self.places((a, a, a, y))
        found[:, 1] = packed.address
        found[:, 2] = tables.ctypes.data + which * tables.strides[0]
        self.holds.append((packed, weight, tables))
        self.add(plan.address, found, False)

    def run(self) -> None:
        every = np.stack(self.list, 1)[self.order].reshape(-1, timeline.CALL)
        numbers = {"count": len(every), "row_block": self.block}
        head = table(timeline.FIELDS, numbers, {"calls": every})
        buffers = np.array([head.ctypes.data], np.int64)
        loop = Work(timeline.NAME, (), head, self.parts)
        works = [*self.first, (loop, buffers)]
        steps, error = np.zeros((len(works), STEP), np.int64), np.zeros(2, np.int64)
        for row, (work, own) in zip(steps, works, strict=True):
            chunk = work.chunk if self.parts > 1 else work.parts
            count = work.parts
            row[:5] = address(work.name), own.ctypes.data, count, chunk, -(-count // chunk)
        threads = pool()
        if self.parts > 1:
            threads.begin()
        try:
            driver().run(steps.ctypes.data, len(steps), threads.address, error.ctypes.data)
        finally:
            if self.parts > 1:
                threads.end()


def forward(
    op: Any,
    z: Array,
    first: Sequence[Array],
    weights: Weights,
    sizes: Array,
    reverse: bool,
    recording: bool,
) -> Forward | None:
    """:func:`rushlight.kernels.recurrent.forward` for the cell of ``op``; None if it cannot be.

    Unless recording, what came before steps and what is kept for gradients is left out.
    """
    w_hh, b_hh, w_hr = weights
    rows, cell = Rows(sizes, reverse), op.cell
    wide, outputs = w_hh.shape
    features = wide // cell.gates
    how = {"kind": SHORT[z.dtype.name], "vector_bytes": config.vector_bytes}
    plan = product_of(rows=rows.batch, columns=wide, inner=outputs, **how)
    narrow = None
    if w_hr is not None:
        narrow = product_of(rows=rows.batch, columns=outputs, inner=features, **how)
    if plan is None or (narrow is None) != (w_hr is None) or rows.batch > ROWS:
        return None
    states = [rows.states(state) for state in first]
    product = np.empty((rows.batch, wide), z.dtype)
    names, results = op.results[: cell.states], op.results[cell.states :]
    kept = [np.empty((rows.total, n * features), z.dtype) for n in cell.keeps if recording]
    buffers = {"z": (z, ROW), "product": (product, SAME)}
    for name, state in zip(names, states, strict=True):
        buffers |= {name: (state, BEFORE), f"{name} after": (state, AFTER)}
    buffers |= {name: (array, ROW) for name, array in zip(results, kept, strict=False)}
    if "b_hh" in op.operands:
        bias = np.zeros(wide, z.dtype) if b_hh is None else np.ascontiguousarray(b_hh)
        buffers["b_hh"] = bias[None], ONE
    calls, h = Calls(rows, False, rows.total * wide * outputs), f"{names[0]} after"
    calls.product(plan, w_hh, buffers[names[0]], buffers["product"])
    if narrow:
        after, buffers[h] = buffers[h], (np.empty((rows.batch, features), z.dtype), SAME)
    unused = NONE if recording else frozenset(results)
    calls.kernel(code_of_cell(op, features, **how, unused=unused), buffers)
    if narrow and w_hr is not None:
        calls.product(narrow, w_hr, buffers[h], after)
    calls.run()
    before = [rows.at(state, rows.before) for state in states if recording]
    last = [rows.last(state) for state in states]
    return Forward(rows.at(states[0], rows.after), last, before, kept)


def backward(
    op: Any,
    dy: Array,
    last: Sequence[Array],
    read: Sequence[Array],
    weights: Weights,
    sizes: Array,
    reverse: bool,
) -> Backward | None:
    """:func:`rushlight.kernels.recurrent.backward` for ``op``; None if it cannot be."""
    w_hh, _, w_hr = weights
    rows, cell = Rows(sizes, reverse), op.cell
    wide, outputs = w_hh.shape
    features = wide // cell.gates
    how = {"kind": SHORT[dy.dtype.name], "vector_bytes": config.vector_bytes}
    gates = {"inner": features, "blocks": cell.gates, "accumulate": cell.passes}
    plan = product_of(rows=rows.batch, columns=outputs, turned=True, **gates, **how)
    wider = None
    if w_hr is not None:
        wider = product_of(rows=rows.batch, columns=features, inner=outputs, turned=True, **how)
    if plan is None or (wider is None) != (w_hr is None) or rows.batch > ROWS:
        return None
    dy, *read = [np.ascontiguousarray(array) for array in (dy, *read)]
    states = [state.copy() for state in last]
    blocks = [np.empty((rows.total, wide), dy.dtype) for _ in range(1 + cell.passes)]
    names, carried = op.results[: -cell.states], op.results[-cell.states :]
    rowwise = zip((*names, *op.operands[1 + cell.states :]), (*blocks, *read), strict=False)
    buffers = {name: (array, ROW) for name, array in rowwise}
    buffers |= {name: (state, SAME) for name, state in zip(carried, states, strict=True)}
    buffers["dy"], dh, dr = (dy, ROW), buffers[carried[0]], dy
    calls = Calls(rows, True, rows.total * wide * outputs)
    if wider and w_hr is not None:
        dr, whole = np.empty_like(dy), np.empty((rows.batch, features), dy.dtype)
        summed = {"dh": dh, "dy": buffers["dy"], "dr": (dr, ROW)}
        calls.kernel(code_of_sum(outputs, **how), summed)
        calls.product(wider, w_hr, summed["dr"], (whole, SAME))
        buffers[carried[0]], buffers["dy"] = (whole, SAME), (np.zeros_like(whole), SAME)
    calls.kernel(code_of_cell(op, features, **how), buffers)
    calls.product(plan, w_hh, (blocks[-1], ROW), dh)
    calls.run()
    return Backward(blocks, states, dr)
