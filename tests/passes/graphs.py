"""Graphs made by hand or at random, and ways to run them that show what passes must keep."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.graph.ir import CAPTURED, INPUT, Graph, Node, compute, constant, item, type_of
from rushlight.ops.base import registry
from rushlight.passes.fuse import Group
from rushlight.passes.order import Plan


class Maker:
    """Makes nodes together with an example of their value, which gives them their types."""

    def __init__(self, seed: int = 0, dtype: Any = np.float32) -> None:
        self.random = np.random.default_rng(seed)
        self.dtype = dtype
        self.values: dict[Node | None, Any] = {None: None}
        self.inputs: list[Node] = []
        self.captured: list[Node] = []

    def leaf(self, op: Any, value: np.ndarray) -> Node:
        node = Node(op, (), {}, type_of(value))
        self.values[node] = value
        return node

    def input(self, *shape: int) -> Node:
        self.inputs.append(self.leaf(INPUT, self.normal(shape)))
        return self.inputs[-1]

    def capture(self, *shape: int) -> Node:
        self.captured.append(self.leaf(CAPTURED, self.normal(shape)))
        return self.captured[-1]

    def normal(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.asarray(self.random.normal(size=shape)).astype(self.dtype)

    def constant(self, value: Any, dtype: Any = None) -> Node:
        array = np.asarray(value, self.dtype if dtype is None else dtype)
        node = constant(array)
        self.values[node] = array
        return node

    def __call__(self, name: str, *inputs: Node | None, **attrs: Any) -> Node:
        op = registry[name]
        draft = Node(op, inputs, attrs, None)
        with np.errstate(all="ignore"):
            value = compute(draft, [self.values[n] for n in inputs])
        node = Node(op, inputs, attrs, type_of(value))
        self.values[node] = value
        return node

    def item(self, node: Node, index: int) -> Node:
        part = item(node, index)
        self.values[part] = self.values[node][index]
        return part

    def graph(self, *outputs: Node, writes: Any = ()) -> Graph:
        names = {n: f"c{i}" for i, n in enumerate(self.captured)}
        return Graph(tuple(self.inputs), tuple(self.captured), outputs, tuple(writes), names)

    def arguments(self) -> tuple[list[Any], list[Any]]:
        return [self.values[n] for n in self.inputs], [self.values[n] for n in self.captured]


def random_graph(seed: int, count: int = 25, dtype: Any = np.float32) -> tuple[Maker, Graph]:
    """A graph of everyday ops; the same seed makes the same one."""
    make = Maker(seed, dtype)
    choose = make.random
    pool = [make.input(4, 6), make.input(6), make.input(4, 1), make.capture(4, 6), make.capture()]
    pool += [make.constant(2.0), make.constant(np.zeros((4, 6)))]
    while len(pool) < count + 7:
        x = pool[max(0, len(pool) - 1 - int(choose.exponential(4)))]
        node = random_node(make, x, pool)
        if node is not None and np.size(make.values[node]) <= 4096:
            pool.append(node)
    outputs = {int(i) for i in choose.integers(5, len(pool), 3)} | {len(pool) - 1}
    writes = []
    for target in make.captured:
        fitting = [n for n in pool[7:] if n.type == target.type]
        if fitting and choose.random() < 0.7:
            writes.append((target, fitting[int(choose.integers(len(fitting)))]))
    return make, make.graph(*[pool[i] for i in sorted(outputs)], writes=writes)


def random_node(make: Maker, x: Node, pool: list[Node]) -> Node | None:
    choose, shape = make.random, x.type.shape
    floating = x.type.dtype.is_floating_point
    rank = len(shape)
    kinds = ["unary", "binary", "binary", "move", "move", "fold", "fold", "rows", "other", "other"]
    match kinds[int(choose.integers(len(kinds)))]:
        case "unary" if floating:
            return make(str(choose.choice(["neg", "abs", "exp", "tanh", "relu", "square"])), x)
        case "binary" if floating:
            y = pool[int(choose.integers(len(pool)))]
            try:
                np.broadcast_shapes(shape, y.type.shape)
            except ValueError:
                return None
            if y.type.dtype is not x.type.dtype:
                return None
            return make(str(choose.choice(["add", "sub", "mul", "maximum", "minimum"])), x, y)
        case "move":
            return random_move(make, x)
        case "fold" if rank and floating:
            dims = tuple(sorted(choose.permutation(rank)[: choose.integers(1, rank + 1)].tolist()))
            name = str(choose.choice(["sum", "mean", "amax"]))
            return make(name, x, dim=dims, keepdim=bool(choose.random() < 0.6))
        case "rows" if rank and floating:
            d = int(choose.integers(rank))
            small = make("mul", x, make.constant(0.01))
            top = make("amax", small, dim=(d,), keepdim=True)
            e = make("exp", make("sub", small, top))
            return make("div", e, make("sum", e, dim=(d,), keepdim=True))
        case "other" if rank and floating:
            return random_other(make, x)
    return None


def random_other(make: Maker, x: Node) -> Node | None:
    """Products, several results, scans, scatters, gathers, choices."""
    choose, shape = make.random, x.type.shape
    rank = len(shape)
    d = int(choose.integers(rank))
    match int(choose.integers(7)):
        case 0 if rank == 2:
            return make("mm", x, make("permute", x, dims=(1, 0)))
        case 1:
            both = make("var_mean", x, dim=(d,), correction=0, keepdim=True)
            parts = [make.item(both, k) for k in (0, 1)]
            return make("add", make("sub", x, parts[1]), parts[int(choose.integers(2))])
        case 2:
            return make("cumsum", make("tanh", x), dim=d)
        case 3:
            index = make.constant(choose.integers(0, shape[d], shape), np.int64)
            return make("gather", x, index, dim=d)
        case 4:
            return make("cat", x, make("neg", x), dim=d, kind=x.type.dtype.numpy)
        case 5:
            mask = make("gt", x, make.constant(0.0))
            return make("where", mask, x, make("exp", make("neg", make("abs", x))))
        case 6:
            index = make.constant(choose.integers(0, shape[d], shape[d]), np.int64)
            return make("index_add", make("exp", x), make("tanh", x), index, dim=d, alpha=1)
    return None


def random_move(make: Maker, x: Node) -> Node | None:
    choose, shape = make.random, x.type.shape
    rank, size = len(shape), math.prod(shape)
    name = str(
        choose.choice(["permute", "transpose", "view", "unsqueeze", "squeeze", "expand", "slice"])
    )
    if name == "permute":
        return make("permute", x, dims=tuple(choose.permutation(rank).tolist()))
    if name == "transpose" and rank:
        return make("transpose", x, dim0=int(choose.integers(rank)), dim1=-1)
    if name == "view":
        shapes = [(size,), (1, size), (size, 1), (2, size // 2), (size // 3, 3), (4, size // 4)]
        shapes = [s for s in shapes if math.prod(s) == size]
        return make("view", x, shape=shapes[int(choose.integers(len(shapes)))])
    if name == "unsqueeze" and rank < 4:
        return make("unsqueeze", x, dim=int(choose.integers(-1 - rank, rank + 1)))
    if name == "squeeze":
        return make("squeeze", x, dim=None)
    if name == "expand" and rank < 4:
        sizes = tuple([n if n > 1 else int(choose.integers(1, 4)) for n in shape])
        return make("expand", x, size=(*([2] if choose.random() < 0.3 else []), *sizes))
    if name == "slice" and rank:
        d = int(choose.integers(rank))
        first = int(choose.integers(shape[d]))
        last = int(choose.integers(first + 1, shape[d] + 1))
        return make("slice", x, dim=d, start=first, end=last, step=int(choose.integers(1, 3)))
    return None


def execute(graph: Graph, plan: Plan, inputs: Any, captured: Any) -> Any:
    """(outputs, written values) by the steps of a plan, which read nothing but memory.

    Groups start with what is in memory and leave their outputs there; values stored in place
    overwrite the captured ones at once.
    """
    memory = dict(zip((*graph.inputs, *graph.captured), (*inputs, *captured), strict=True))
    for step in plan.steps:
        inside: dict[Node | None, Any] = {None: None}
        for node in step.nodes:
            arrays = [inside[n] if n in inside else read(memory, n) for n in node.inputs]
            with np.errstate(all="ignore"):
                inside[node] = compute(node, arrays)
        for node in step.outputs if isinstance(step, Group) else (step.node,):
            memory[node] = inside[node]
            if node in plan.stores:
                memory[plan.stores[node]] = inside[node]
    written = [read(memory, value) for _, value in graph.writes]
    return [read(memory, n) for n in graph.outputs], written


def read(memory: dict[Node, Any], node: Any) -> Any:
    if node.op.name == "constant":
        return node.attrs["value"]
    if node.op.name == "item" and node not in memory:
        return memory[node.inputs[0]][node.attrs["index"]]
    return memory[node]


def equal(a: Any, b: Any, rtol: float = 1e-5) -> bool:
    """Whether two results of a graph are the same, but for rounding."""
    pairs = zip((*a[0], *a[1]), (*b[0], *b[1]), strict=True)
    return all(
        [
            x.shape == y.shape
            and x.dtype == y.dtype
            and np.allclose(x, y, rtol=rtol, atol=1e-5, equal_nan=True)
            for x, y in pairs
        ]
    )
