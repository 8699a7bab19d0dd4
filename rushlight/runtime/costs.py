"""What steps cost: bytes, floating-point operations, and the time that a machine needs for them.

A kernel's operations are those of its scalar values, as often as the loops they depend on turn:
arithmetic, comparisons and folds count 1, ``fma`` 2, moves and selects 0, and functions such as
``exp`` the operations of their polynomials. A product of m×k by k×n numbers counts 2·m·n·k.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from rushlight.codegen.kernel import Kernel, Stage
from rushlight.codegen.math import EXPANSIONS, expand
from rushlight.codegen.traverse import Free, walk
from rushlight.codegen.values import FLOATS, RELATIONS, Builder, Loop, Value
from rushlight.graph.ir import Node, TensorType

SINGLE = frozenset(
    (
        "add", "sub", "mul", "div", "min", "max", "neg", "abs", "sqrt", "floor", "ceil", "trunc",
        "rint", "copysign", "fold", "scan", *RELATIONS,
    )
)  # fmt: skip
"""The operations that count 1."""

PRODUCTS: dict[str, Callable[..., int]] = {
    "mm": lambda y, a, b: 2 * y.size * a.shape[-1],
    "mv": lambda y, a, b: 2 * y.size * a.shape[-1],
    "dot": lambda y, a, b: 2 * a.size,
    "bmm": lambda y, a, b: 2 * y.size * a.shape[-1],
    "linear": lambda y, x, w, bias: 2 * y.size * x.shape[-1],
    "plus_mm": lambda y, start, a, b: 2 * y.size * a.shape[-1],
    "convolve": lambda y, x, w, bias: 2 * y.size * math.prod(w.shape[1:]),
    "convolve_transposed": lambda x, y, w, bias: 2 * y.size * math.prod(w.shape[1:]),
    "convolve_weight": lambda w, x, y: 2 * y.size * math.prod(w.shape[1:]),
}
"""The operations of contractions, from the types of result and operands."""


PATIENCE = 0.05  # seconds that each measurement of the machine takes


class Cost(NamedTuple):
    """Bytes read and written, and operations; None where nobody knows how many."""

    read: int
    written: int
    flops: int | None

    @property
    def moved(self) -> int:
        return self.read + self.written

    @property
    def seconds(self) -> float:
        """The least time that this machine needs, by its roofline."""
        here = machine()
        traffic = self.read + 2 * self.written  # what is written is fetched first
        return max(traffic / here.bandwidth(self.moved), (self.flops or 0) / here.flops)


def call_cost(node: Node) -> Cost:
    """The cost of a library call."""
    operands = [n.type if n is not None else None for n in node.inputs]
    results = node.type if isinstance(node.type, tuple) else (node.type,)
    rule = PRODUCTS.get(node.op.name)
    flops = rule(results[0], *operands) if rule is not None else None
    return Cost(nbytes([t for t in operands if t is not None]), nbytes(results), flops)


def nbytes(types: Iterable[TensorType]) -> int:
    return sum([t.nbytes for t in types])


def kernel_cost(kernel: Kernel) -> Cost:
    """The cost of all parts of a kernel."""
    count = Count(kernel)
    for stage in kernel.stages:
        count.stage(stage)
    return Cost(total(count.loads), total(count.stores), count.flops)


def total(elements: dict[Any, int]) -> int:
    """The bytes of so many elements of buffers; caches see to it that each is moved once."""
    return sum([min(n, b.size) * b.dtype.itemsize for b, n in elements.items() if not b.local])


class Count:
    """Counts the values of a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.free = Free()
        self.flops = 0
        self.known: set[Value] = set()
        self.loads: dict[Any, int] = {}
        self.stores: dict[Any, int] = {}

    def stage(self, stage: Stage) -> None:
        scans = {part.value for part in stage.scans}
        for v in computed(stage.roots, self.known | scans):
            self.flops += cost(v) * self.turns(v)
            if v.op == "load":
                self.loads[v.data] = self.loads.get(v.data, 0) + self.turns(v)
        for part in (*stage.folds, *stage.scans):
            loops = frozenset(stage.loops).union(*[self.free(v) for v in part.body])
            self.flops += cost(part.value) * self.product(loops)
            self.known.add(part.value)
        for store in stage.stores:
            turns = self.product(frozenset((*self.kernel.rows, *stage.loops)))
            self.stores[store.buffer] = self.stores.get(store.buffer, 0) + turns
            if store.how != "set":
                self.loads[store.buffer] = self.loads.get(store.buffer, 0) + turns
                self.flops += turns * (store.value.kind in FLOATS)

    def turns(self, v: Value) -> int:
        """How often a value is computed, each loop that it does not depend on left."""
        inner = v.data.loops if v.op == "fold" else ()
        return self.product(self.free(v).union(inner))

    def product(self, loops: frozenset[Loop]) -> int:
        window = self.kernel.window
        if window is not None and window.loop in loops:  # which the parts share
            loops -= {window.part}
        return math.prod([loop.size for loop in loops])


def computed(roots: Iterable[Value], known: set[Value]) -> list[Value]:
    """The values that roots need, without the sides of selects that are hardly ever needed."""
    values = walk(roots, known)
    slow = {v.args[1] for v in values if v.op == "rare"}
    return walk(roots, known | slow) if slow else values


def cost(v: Value) -> int:
    """The floating-point operations of computing one value from its operands."""
    if (v.args[-1].kind if v.args else v.kind) not in FLOATS:
        return 0
    if v.op in EXPANSIONS:
        return cost_of(v.op, v.args[-1].kind, len(v.args))
    return 2 if v.op == "fma" else int(v.op in SINGLE)


@functools.cache
def cost_of(function: str, kind: str, operands: int) -> int:
    """The operations of a function's polynomial.

    >>> cost_of("rsqrt", "f32", 1)
    2
    """
    b = Builder()
    args = [b.load(f"x{i}", kind, ()) for i in range(operands)]
    return sum([cost(v) for v in computed([expand(b, b.call(function, *args))], set())])


class Machine(NamedTuple):
    """What a processor can do at best: traffic by the bytes that are used, operations a second."""

    traffic: tuple[tuple[int, float], ...]  # (up to so many bytes, bytes per second)
    flops: float

    def bandwidth(self, nbytes: int) -> float:
        """Bytes per second if so many are used: fewer fit into faster caches."""
        return next((speed for size, speed in self.traffic if nbytes <= size), self.traffic[-1][1])


@functools.cache
def machine() -> Machine:
    """This processor, measured once: copies within each cache and beyond, a product of matrices."""
    traffic = []
    for size in (1 << 15, 1 << 18, 1 << 21, 1 << 25):
        source = np.ones(size // 8, np.float32)
        target = np.empty_like(source)
        traffic.append((size, 1.5 * size / best(np.copyto, target, source)))
    flops = 0.0
    for n in (64, 512):  # on one thread and, if that helps, on all
        a = np.ones((n, n), np.float32)
        flops = max(flops, 2 * n**3 / best(np.matmul, a, a, np.empty_like(a)))
    return Machine(tuple(traffic), flops)


def best(function: Callable[..., Any], *args: Any) -> float:
    """The seconds of a call, in the quickest of many."""
    found, calls = math.inf, 0
    end = time.perf_counter() + PATIENCE
    while calls < 10 or time.perf_counter() < end:
        calls += 1
        begin = time.perf_counter()
        function(*args)
        found = min(found, time.perf_counter() - begin)
    return found
