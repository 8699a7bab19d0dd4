"""Graphs that draw random numbers again: states of generators are bytes in them, like any value."""

from __future__ import annotations

from rushlight.graph.attributes import nested, with_nested
from rushlight.graph.control import Control
from rushlight.graph.ir import Graph, Node, copy, rebuild
from rushlight.ops.base import registry

SNAPSHOT, REDRAW = registry["control.snapshot"], registry["control.redraw"]


def replayed(graph: Graph) -> Graph:
    """The graph with draws from bytes in the places of draws from generators."""

    def change(node: Node, inputs: tuple[Node | None, ...]) -> Node:
        if "generator" in node.attrs:
            attrs = {name: value for name, value in node.attrs.items() if name != "generator"}
            return Node(REDRAW, inputs, {"op": node.op, **attrs}, node.type, node.source)
        if isinstance(node.op, Control):
            attrs = with_nested(node.attrs, map(replayed, nested(node.attrs)))
            return Node(node.op, inputs, {**attrs, "states": ()}, node.type, node.source)
        return copy(node, inputs)

    return rebuild(graph, change)


def original(node: Node) -> Node:
    """The draw that a node repeats, as if its bytes were a state."""
    attrs = {name: value for name, value in node.attrs.items() if name != "op"}
    return Node(node.attrs["op"], node.inputs, {**attrs, "generator": 0}, node.type, node.source)
