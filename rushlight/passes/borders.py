"""The borders of graphs: what leaves one is not overwritten before, what enters is contiguous."""

from __future__ import annotations

import dataclasses

from rushlight.graph.control import Control
from rushlight.graph.ir import Graph, Node, copy, rebuild
from rushlight.ops.base import registry
from rushlight.ops.views import View

CLONE, VIEW = registry["clone"], registry["view"]


def copy_borders(graph: Graph) -> Graph:
    """The graph with copies of what its own border, or those of graphs inside, must not share."""
    return own_operands(copy_old_values(graph))


def copy_old_values(graph: Graph) -> Graph:
    """The graph in which old values of written tensors that are outputs, or written, are copies.

    >>> from rushlight.graph.parse import parse
    >>> print(copy_old_values(parse('''
    ... graph(%0: f32[2] = captured('a'), %1: f32[2] = captured('b')):
    ...   write %0 <- %1
    ...   write %1 <- %0
    ...   return
    ... ''')))
    graph(%0: f32[2] = captured('a'), %1: f32[2] = captured('b')):
      %2: f32[2] = clone(%1, order=None)
      %3: f32[2] = clone(%0, order=None)
      write %0 <- %2
      write %1 <- %3
      return
    """
    written = {target for target, _ in graph.writes}
    copies: dict[Node, Node] = {}

    def own(node: Node) -> Node:
        if node not in written:
            return node
        if node not in copies:
            copies[node] = Node(CLONE, (node,), {"order": None}, node.type)
        return copies[node]

    outputs = tuple([own(node) for node in graph.outputs])
    writes = tuple([(target, own(value)) for target, value in graph.writes])
    return dataclasses.replace(graph, outputs=outputs, writes=writes)


def own_operands(graph: Graph) -> Graph:
    """The graph in which operands of branches and loops are no views: native code reads them.

    A view that is only another shape of a value lies where that value does.
    """

    def own(node: Node | None) -> Node | None:
        if node is None or not isinstance(node.op, View):
            return node
        if node.op is VIEW and not isinstance(node.inputs[0].op, View):  # type: ignore[union-attr]
            return node
        return Node(CLONE, (node,), {"order": None}, node.type, node.source)

    def change(node: Node, inputs: tuple[Node | None, ...]) -> Node:
        return copy(node, tuple(map(own, inputs)) if isinstance(node.op, Control) else inputs)

    return rebuild(graph, change)
