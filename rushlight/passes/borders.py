"""The border of a graph: what leaves it is not overwritten before it has left."""

from __future__ import annotations

import dataclasses

from rushlight.graph.ir import Graph, Node
from rushlight.ops.base import registry

CLONE = registry["clone"]


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
