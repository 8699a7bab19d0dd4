"""Graphs for all sizes, with numbers in the places of symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.dims import Dim, Symbol, at, known, symbols_of
from rushlight.graph.ir import Graph, Node, TensorType


def symbols_in(graph: Graph) -> set[Symbol]:
    """All symbols that types or attributes mention."""
    found: set[Symbol] = set()
    for node in graph.nodes():
        kinds = node.type if isinstance(node.type, tuple) else (node.type,)
        found |= symbols_of([*[t.shape for t in kinds], *node.attrs.values()])
    return found


def sized(graph: Graph, sizes: Mapping[str, int]) -> tuple[Graph, dict[Node, Node]]:
    """The graph with numbers in the places of symbols, and what its nodes have become."""
    new: dict[Any, Any] = {None: None}
    for node in graph.nodes():
        kind = node.type
        several = kind if isinstance(kind, tuple) else (kind,)
        kinds = tuple([TensorType(known(t.shape, sizes), t.dtype) for t in several])
        attrs = {name: known(value, sizes) for name, value in node.attrs.items()}
        inputs = tuple([new[n] for n in node.inputs])
        own = kinds if isinstance(kind, tuple) else kinds[0]
        new[node] = Node(node.op, inputs, attrs, own, node.source)
    made = Graph(
        tuple([new[n] for n in graph.inputs]),
        tuple([new[n] for n in graph.captured]),
        tuple([new[n] for n in graph.outputs]),
        tuple([(new[target], new[value]) for target, value in graph.writes]),
        {new[node]: name for node, name in graph.names.items()},
    )
    return made, new


def sizes_of(graph: Graph, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """What the symbols are for inputs of these shapes, as far as an input has them for a size.

    >>> from rushlight.graph.parse import parse
    >>> graph = parse("graph(%0: f32[B,2*B]):\\n  return %0", {"B": Dim.symbol("B", 2)})
    >>> sizes_of(graph, [(3, 6)])
    {'B': 3}
    """
    pairs = [
        (size, n)
        for node, shape in zip(graph.inputs, shapes, strict=True)
        for size, n in zip(node.type.shape, shape, strict=True)
    ]
    found: dict[str, int] = {}
    names = {s.name for s in symbols_in(graph)}
    for size, n in pairs:
        if isinstance(size, Dim) and str(size) in names:
            found.setdefault(str(size), n)
    for size, n in pairs:
        wanted = at(size, found) if {s.name for s in symbols_of(size)} <= set(found) else n
        if wanted != n:
            raise ValueError(f"a size is {n}, but it must be {size}, which is {wanted} here")
    return found
