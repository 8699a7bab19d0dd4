"""Graphs for all sizes, with numbers in the places of symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rushlight.dims import Dim, Symbol, at, known, symbols_of
from rushlight.graph.attributes import nested, with_nested
from rushlight.graph.ir import Graph, Node, TensorType


def symbols_in(graph: Graph) -> set[Symbol]:
    """All symbols that types or attributes mention."""
    found: set[Symbol] = set()
    for node in graph.nodes():
        found |= symbols_of([*[t.shape for t in types_of(node)], *node.attrs.values()])
        found = found.union(*map(symbols_in, nested(node.attrs)))
    return found


def called(graph: Graph, names: Mapping[str, Dim]) -> Graph:
    """The graph with other names for its sizes, to be shown: nothing is computed with these."""
    made, _ = Sizer(graph).at(names)  # type: ignore[arg-type]
    shown = {symbol: str(name) for symbol, name in names.items()}
    return replace(made, names={n: shown.get(name, name) for n, name in made.names.items()})


class Sizer:
    """Puts numbers in the places of symbols, again and again: each size is worked out once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = [
            (node, varying(node.attrs), [*map(Sizer, nested(node.attrs))]) for node in graph.nodes()
        ]
        kinds = [t for node, *_ in self.nodes for t in types_of(node)]
        self.kinds = {t: symbols_of(t.shape) for t in kinds}

    def at(self, sizes: Mapping[str, int]) -> tuple[Graph, dict[Node, Node]]:
        """The graph for these sizes, and what its nodes have become."""
        types: dict[Any, Any] = {
            t: TensorType(known(t.shape, sizes), t.dtype) if symbols else t
            for t, symbols in self.kinds.items()
        }
        new: dict[Any, Any] = {None: None}
        for node, names, inside in self.nodes:
            kind, attrs = node.type, node.attrs
            own = tuple([types[t] for t in kind]) if isinstance(kind, tuple) else types[kind]
            if names:
                attrs = {**attrs, **{name: known(attrs[name], sizes) for name in names}}
            if inside:
                attrs = with_nested(attrs, iter([sizer.at(sizes)[0] for sizer in inside]))
            inputs = tuple([new[n] for n in node.inputs])
            new[node] = Node(node.op, inputs, attrs, own, node.source)
        at: Any = new.__getitem__
        graph = self.graph
        made = Graph(
            tuple(map(at, graph.inputs)),
            tuple(map(at, graph.captured)),
            tuple(map(at, graph.outputs)),
            tuple([(at(target), at(value)) for target, value in graph.writes]),
            {at(node): name for node, name in graph.names.items()},
        )
        return made, new


def sized(graph: Graph, sizes: Mapping[str, int]) -> tuple[Graph, dict[Node, Node]]:
    """The graph with numbers in the places of symbols, and what its nodes have become."""
    return Sizer(graph).at(sizes)


def varying(attrs: Mapping[str, Any]) -> list[str]:
    """The names of the attributes in which there are symbols."""
    return [name for name, value in attrs.items() if symbols_of(value)]


def types_of(node: Node) -> tuple[TensorType, ...]:
    kind: Any = node.type
    return kind if isinstance(kind, tuple) else (kind,)


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
