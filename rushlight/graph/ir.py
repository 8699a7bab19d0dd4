"""The graph: a typed, pure, printable little language.

    graph(%0: f32[64,1000], %1: f32[100,1000] = captured("fc.weight")):
      %2: f32[64,100] = nn.functional.linear(%0, %1, None)  # train.py:41
      return %2

Nodes are immutable and compared by identity. What a program changes stands at the border: a graph
has inputs, captured tensors, outputs, and *writes* (captured tensor ← value). A generator of random
numbers is a captured state that each random node takes and gives on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from rushlight import dtypes
from rushlight.graph.attributes import SHORT, Nested, literal, nested
from rushlight.graph.states import drawn
from rushlight.ops.base import Op


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and dtype of a value. Sizes that only a run knows are symbols (``dims.py``)."""

    shape: tuple[Any, ...]
    dtype: dtypes.dtype

    def __str__(self) -> str:
        return f"{SHORT[self.dtype.name]}[{','.join(map(str, self.shape))}]"

    @property
    def kind(self) -> str:
        """The short name of the dtype, which code generation uses."""
        return SHORT[self.dtype.name]

    @property
    def size(self) -> Any:
        return prod(self.shape)

    @property
    def nbytes(self) -> Any:
        return self.size * self.dtype.itemsize


Type = TensorType | tuple[TensorType, ...]


class Source(NamedTuple):
    """Where in the user's program a node comes from."""

    file: str
    line: int
    module: str = ""  # the path of the module, such as net.linear1

    def __str__(self) -> str:
        place = f"{self.file.rpartition('/')[2]}:{self.line}"
        return f"{self.module}  {place}" if self.module else place


class Structure(NamedTuple):
    """What is no op: a value from outside, or one of several results."""

    full_name: str

    @property
    def name(self) -> str:
        return self.full_name


INPUT, CAPTURED, CONSTANT = Structure("input"), Structure("captured"), Structure("constant")
ITEM = Structure("item")  # one of several results
STRUCTURES = {s.name: s for s in (INPUT, CAPTURED, CONSTANT, ITEM)}


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One value (or tuple of values): an op of other nodes."""

    op: Any
    inputs: tuple[Node | None, ...]
    attrs: Mapping[str, Any]
    type: Any
    source: Source | None = None

    def __repr__(self) -> str:
        return f"<{self.op.full_name}: {show(self.type)}>"


@dataclass(frozen=True, slots=True)
class Graph(Nested):
    """Inputs, captured values, outputs, and what is written to captured values in the end."""

    inputs: tuple[Node, ...]
    captured: tuple[Node, ...] = ()
    outputs: tuple[Node, ...] = ()
    writes: tuple[tuple[Node, Node], ...] = ()
    names: Mapping[Node, str] = field(default_factory=dict)  # of captured, and carried, values

    @property
    def roots(self) -> tuple[Node, ...]:
        return (*self.outputs, *[value for _, value in self.writes])

    def nodes(self) -> list[Node]:
        """All nodes, each after those it depends on; unused inputs too."""
        return [*self.inputs, *self.captured, *walk(self.roots, (*self.inputs, *self.captured))]

    def __str__(self) -> str:
        return show_graph(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and str(self) == str(other)


def walk(roots: Sequence[Node], known: Sequence[Node] = ()) -> Iterator[Node]:
    """The nodes below ``roots``, each after those it depends on, without the ``known`` ones."""
    seen = set(known)
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            for n in reversed(node.inputs):
                if n is not None and n not in seen:
                    stack.append((n, False))


def rebuild(graph: Graph, change: Callable[[Node, tuple[Node | None, ...]], Node]) -> Graph:
    """The graph with ``change(node, new inputs)`` for every node: the shape of all passes."""
    new: dict[Node | None, Node | None] = {None: None}
    for node in graph.nodes():
        new[node] = change(node, tuple([new[n] for n in node.inputs]))
    at: Any = new.__getitem__
    return Graph(
        tuple(map(at, graph.inputs)),
        tuple(map(at, graph.captured)),
        tuple(map(at, graph.outputs)),
        tuple([(at(target), at(value)) for target, value in graph.writes]),
        {at(node): name for node, name in graph.names.items()},
    )


def copy(node: Node, inputs: tuple[Node | None, ...]) -> Node:
    """``node`` over other inputs; itself if they are its own."""
    same = all([a is b for a, b in zip(node.inputs, inputs, strict=True)])
    return node if same else Node(node.op, inputs, node.attrs, node.type, node.source)


def constant(value: np.ndarray, source: Source | None = None) -> Node:
    """A node that is the array ``value``."""
    return Node(CONSTANT, (), {"value": value}, type_of(value), source)


def item(node: Node, index: int) -> Node:
    """One of the results of ``node``."""
    return Node(ITEM, (node,), {"index": index}, node.type[index], node.source)


@lru_cache(4096)
def show(kind: Type) -> str:
    return f"({', '.join(map(str, kind))})" if isinstance(kind, tuple) else str(kind)


def show_graph(graph: Graph, sources: bool = True) -> str:
    nodes = graph.nodes()
    number = {node: f"%{i}" for i, node in enumerate(nodes)}
    named = {n: f" = input({graph.names[n]!r})" for n in graph.inputs if n in graph.names}
    heads = [f"{number[n]}: {n.type}{named.get(n, '')}" for n in graph.inputs]
    heads += [f"{number[n]}: {n.type} = {call(n, number, graph)}" for n in graph.captured]
    lines = [f"graph({', '.join(heads)}):"]
    for node in nodes[len(heads) :]:
        where = f"  # {node.source}" if node.source and sources else ""
        lines.append(f"  {number[node]}: {show(node.type)} = {call(node, number, graph)}{where}")
        for inner in nested(node.attrs) if node.attrs else ():
            lines += [f"    {line}" for line in show_graph(inner, sources).splitlines()]
    lines += [f"  write {number[t]} <- {number[value]}" for t, value in graph.writes]
    lines.append(f"  return {', '.join([number[n] for n in graph.outputs])}".rstrip())
    return "\n".join(lines)


def call(node: Node, number: Mapping[Node, str], graph: Graph) -> str:
    if node.op is CAPTURED:
        return f"captured({graph.names.get(node, '')!r})"
    parts = [number[n] if n is not None else "None" for n in node.inputs]
    if node.attrs:
        parts += [f"{name}={literal(value)}" for name, value in node.attrs.items()]
    return f"{node.op.full_name}({', '.join(parts)})"


def type_of(array: Any) -> Type:
    """The type of an array, or of each of a tuple of arrays."""
    if isinstance(array, tuple):
        return tuple([type_of(a) for a in array])  # type: ignore[misc]
    return tensor_type(array.shape, array.dtype)


@lru_cache(4096)  # many values have the same type
def tensor_type(shape: tuple[int, ...], kind: np.dtype) -> TensorType:
    return TensorType(shape, dtypes.from_numpy(kind))


def check(graph: Graph) -> None:
    """An error unless every node depends on earlier ones only and writes fit their targets."""
    known = set(graph.nodes())
    for target, value in graph.writes:
        if target not in (*graph.inputs, *graph.captured) or value not in known:
            raise TypeError(f"{target} is written to, but is not from outside")
        if target.type != value.type:
            raise TypeError(f"a value {value.type} is written to a captured {target.type}")
    for node in known:
        if isinstance(node.op, Op) and not isinstance(node.type, (tuple, TensorType)):
            raise TypeError(f"{node} has no type")
        if node.op is ITEM and node.type != node.inputs[0].type[node.attrs["index"]]:  # type: ignore[union-attr]
            raise TypeError(f"{node} has not the type of that result")
        list(map(check, nested(node.attrs)))


def interpret(graph: Graph, inputs: Sequence[Any], captured: Sequence[Any] = ()) -> Any:
    """(outputs, written values): the graph run with the ops' eager kernels, node by node."""
    values: dict[Node, Any] = dict(zip(graph.inputs, inputs, strict=True))
    values.update(zip(graph.captured, captured, strict=True))
    with np.errstate(all="ignore"):
        for node in graph.nodes():
            if node not in values:
                values[node] = compute(node, [n and values[n] for n in node.inputs])
                if type_of(values[node]) != node.type:
                    raise TypeError(f"{node} computed {show(type_of(values[node]))}")
    return [values[n] for n in graph.outputs], [values[v] for _, v in graph.writes]


def compute(node: Node, arrays: Sequence[Any]) -> Any:
    """The result of one node."""
    if node.op is CONSTANT:
        return node.attrs["value"]
    if node.op is ITEM:
        return arrays[0][node.attrs["index"]]
    if "generator" in node.attrs:
        return drawn(node.op, arrays, node.attrs)
    y = node.op.compute(arrays, node.attrs)
    return tuple([np.asarray(part) for part in y]) if isinstance(y, tuple) else np.asarray(y)
