"""What steps cost: bytes, floating-point operations, and the time that a machine needs for them.

A kernel's operations are those of its scalar values, as often as the loops they depend on turn:
arithmetic, comparisons and folds count 1, ``fma`` 2, moves and selects 0, and functions such as
``exp`` the operations of their polynomials. A product of m×k by k×n numbers counts 2·m·n·k.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rushlight.codegen import contraction, dots, scaled
from rushlight.codegen.kernel import Kernel, Stage
from rushlight.codegen.math import EXPANSIONS, expand
from rushlight.codegen.traverse import Free, walk
from rushlight.codegen.values import FLOATS, RELATIONS, Builder, Loop, Value
from rushlight.graph.attributes import SHORT
from rushlight.graph.ir import Node, TensorType
from rushlight.kernels import scalars
from rushlight.kernels.engine import engine
from rushlight.ops.recurrent_scans import Scan

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
    "linear": lambda y, x, w, *_: 2 * y.size * x.shape[-1],
    "plus_mm": lambda y, start, a, b: 2 * y.size * a.shape[-1],
    "convolve": lambda y, x, w, *_: 2 * y.size * math.prod(w.shape[1:]),
    "convolve_transposed": lambda x, y, w, *_: 2 * y.size * math.prod(w.shape[1:]),
    "convolve_weight": lambda w, x, y: 2 * y.size * math.prod(w.shape[1:]),
    "attention": lambda y, q, k, v, *_: 2 * (q.size + y.size) * k.shape[-2],
    "attend": lambda y, q, k, v, *_: 2 * (q.size + y.size) * k.shape[-2],
    "attend_gradient": lambda dq, g, y, m, t, q, k, *_: (6 * q.size + 4 * y.size) * k.shape[-2],
    "rnn_tanh_layer": lambda y, x, h, *weights: recurrent(x, weights),
    "rnn_relu_layer": lambda y, x, h, *weights: recurrent(x, weights),
    "gru_layer": lambda y, x, h, *weights: recurrent(x, weights),
    "lstm_layer": lambda y, x, h, c, *weights: recurrent(x, weights),
}
"""The operations of contractions, from the types of result and operands."""

HEADS = {"contract": contraction.FIELDS, "dots": dots.FIELDS, "scaled": scaled.FIELDS}
"""How the tables of functions for products begin."""

WIDE = {"float16": "float32", "bfloat16": "float32"}  # what half types are computed in
PATIENCE = 0.05  # seconds that each measurement of the machine takes


class Cost(NamedTuple):
    """Bytes read and written, and operations; None where nobody knows how many.

    They are those of all ``runs``: what one of them moves may stay in a cache for the next.
    """

    read: int
    written: int
    flops: int | None
    runs: int = 1

    def plus(self, other: Cost) -> Cost:
        """The cost of both."""
        unknown = self.flops is None or other.flops is None
        flops = None if unknown else (self.flops or 0) + (other.flops or 0)
        return Cost(self.read + other.read, self.written + other.written, flops)

    def times(self, runs: int) -> Cost:
        """The cost of so many runs."""
        flops = None if self.flops is None else runs * self.flops
        return Cost(runs * self.read, runs * self.written, flops, runs)

    @property
    def moved(self) -> int:
        return self.read + self.written

    @property
    def seconds(self) -> float:
        """The least time that this machine needs, by its roofline."""
        here = machine()
        traffic = self.read + 2 * self.written  # what is written is fetched first
        bandwidth = here.bandwidth(self.moved // max(1, self.runs))
        return max(traffic / bandwidth, (self.flops or 0) / here.flops)


def call_cost(node: Node) -> Cost:
    """The cost of a library call."""
    operands: list[Any] = [n.type if n is not None else None for n in node.inputs]
    results = node.type if isinstance(node.type, tuple) else (node.type,)
    rule = PRODUCTS.get(node.op.name)
    flops = rule(results[0], *operands) if rule is not None else None
    if isinstance(node.op, Scan):
        flops = 2 * operands[0].shape[0] * operands[node.op.operands.index("w_hh")].size
    if node.op.name == "contract":
        letters = "".join(node.attrs["letters"][:2])
        sizes = dict(zip(letters, [n for t in operands if t for n in t.shape], strict=True))
        flops = 2 * math.prod(sizes.values())
    return Cost(nbytes([t for t in operands if t is not None]), nbytes(results), flops)


def table_flops(name: str, table: np.ndarray, parts: int) -> int | None:
    """The operations of a function for products, as its table says; None of another function.

    Those of a convolution by Winograd's way are fewer than its windows have products.
    """
    kind = name.partition("_")[0]
    if kind not in HEADS:
        return None
    head = dict(zip(HEADS[kind], table.tolist(), strict=False))
    cuts = [head[cut] for cut in ("sum_parts", "row_parts", "column_parts") if cut in head]
    batches = -(-parts // math.prod(cuts))
    depth = head.get("inner", 0)
    if kind == "contract":
        blocks = table[head["blocks"] :][: 5 * head["block_count"]].reshape(-1, 5)
        depth = int((blocks[:, 1] * blocks[:, 3]).sum())  # taps by elements of each
    return 2 * batches * head.get("rows", 1) * head["columns"] * depth


def recurrent(x: Any, weights: Iterable[Any]) -> int:
    """The operations of all matrices of a recurrent layer, for each row of inputs."""
    return 2 * x.shape[0] * sum([w.size for w in weights if w is not None and len(w.shape) == 2])


def op_flops(op: Any, attrs: Mapping[str, Any], y: Any, operands: Sequence[Any]) -> int | None:
    """The operations of an op that runs by itself, from the types of result and operands.

    A gradient that one kernel computes takes each product of the op twice, once for each factor.
    """
    if op.name == "fused_gradient":
        inner = attrs["op"]
        flops = op_flops(inner, {}, operands[0], operands[-len(inner.operands) :])
        return None if flops is None else 2 * flops
    if op.name in PRODUCTS:
        return PRODUCTS[op.name](y, *operands)
    if op.folded is not None:
        return operands[0].size
    if op.emit is None:
        return 0 if op.at is not None else None
    names = [y.dtype.name if x is None else x.dtype.name for x in operands]
    names += names[:1] * (len(op.operands) - len(names))  # numbers are of the type beside them
    count = emitted(op.emit, tuple(names), tuple(attrs.items()))
    return None if count is None else y.size * count


def rule_flops(
    op: Any, rule: Callable[..., Any], g: Any, operands: Sequence[Any], attrs: Mapping[str, Any]
) -> int | None:
    """The operations of a derivative rule that runs on bare arrays."""
    if op.name in PRODUCTS:
        return 0 if rule.__name__ == "vjp_bias" else PRODUCTS[op.name](g, *operands)
    formula = formula_of(rule)
    count = emitted(formula, (g.dtype.name,) * (2 + len(operands)), tuple(attrs.items()))
    return None if count is None else g.size * count


@functools.lru_cache(maxsize=1 << 10)
def formula_of(rule: Callable[..., Any]) -> Callable[..., Value]:
    """A rule of arrays as one for builders."""
    return functools.partial(on_scalars, rule)


def on_scalars(rule: Callable[..., Any], b: Builder, *values: Value, **attrs: Any) -> Value:
    return scalars.run(b, rule, values, **attrs)


@functools.lru_cache(maxsize=1 << 12)
def emitted(
    rule: Callable[..., Value], names: tuple[str, ...], attrs: tuple[tuple[str, Any], ...]
) -> int | None:
    """The operations of one element by a rule for builders; None if it does not say so."""
    b = Builder()
    try:
        args = [b.load(f"x{i}", SHORT[WIDE.get(n, n)], ()) for i, n in enumerate(names)]
        value = rule(b, *args, **dict(attrs))
    except (AttributeError, LookupError, TypeError, ValueError, NotImplementedError):
        return None
    return sum([cost(v) for v in computed([value], set())])


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
    """This processor, measured once: copies within each cache and beyond, products of matrices."""
    traffic = []
    for size in (1 << 15, 1 << 18, 1 << 21, 1 << 25):
        source = np.ones(size // 8, np.float32)
        target = np.empty_like(source)
        traffic.append((size, 1.5 * size / best(np.copyto, target, source)))
    flops = 0.0
    own = engine(np.dtype(np.float32))  # which may use wider registers than NumPy's library
    for n in (64, 512):  # on one thread and, if that helps, on all
        a = np.ones((n, n), np.float32)
        flops = max(flops, 2 * n**3 / best(np.matmul, a, a, np.empty_like(a)))
        if own is not None:
            flops = max(flops, 2 * n**3 / best(own, ("ij", "jk", "ik"), a, a))
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
