"""Leaves of a graph in the order that their dimensions have in memory.

A tensor may lie in memory with its dimensions in another order than it shows them: images with
channels last, a transposed matrix. The graph then has a leaf in the order of memory, and permutes
it: nothing is copied at the border, and the permutation goes where all others do (``layout.py``).
"""

from __future__ import annotations

from collections.abc import Mapping

from rushlight import layouts
from rushlight.graph.ir import Graph, Node, TensorType, copy, rebuild
from rushlight.ops.base import registry
from rushlight.passes.layout import inverse

PERMUTE = registry["permute"]
Orders = Mapping[Node, tuple[int, ...]]
"""The dimensions of leaves from the slowest on."""


def in_memory_order(graph: Graph, orders: Orders) -> Graph:
    """The graph over leaves in the order of memory, in which it also writes to them.

    >>> import rushlight as rl
    >>> graph = rl.graph(lambda x: x.exp(), rl.ones(2, 3))
    >>> print(in_memory_order(graph, {graph.inputs[0]: (1, 0)}))  # doctest: +ELLIPSIS
    graph(%0: f32[3,2]):
      %1: f32[2,3] = permute(%0, dims=(1, 0))
      %2: f32[2,3] = exp(%1)  # ...
      return %2
    """
    turned = {node: turned_leaf(node, order) for node, order in orders.items()}
    if not turned:
        return graph

    def change(node: Node, inputs: tuple[Node | None, ...]) -> Node:
        if node in turned:
            return permuted(turned[node], inverse(orders[node]))
        return copy(node, inputs)

    new = rebuild(graph, change)
    names = zip(graph.names, new.names.items(), strict=True)
    return Graph(
        tuple([turned.get(node, node) for node in graph.inputs]),
        tuple([turned.get(node, node) for node in graph.captured]),
        new.outputs,
        tuple(
            [
                (turned[old], permuted(value, orders[old])) if old in turned else (target, value)
                for (old, _), (target, value) in zip(graph.writes, new.writes, strict=True)
            ]
        ),
        {turned.get(old, node): name for old, (node, name) in names},
    )


def turned_leaf(node: Node, order: tuple[int, ...]) -> Node:
    kind = TensorType(layouts.permuted(node.type.shape, order), node.type.dtype)
    return Node(node.op, (), node.attrs, kind, node.source)


def permuted(x: Node, order: tuple[int, ...]) -> Node:
    kind = TensorType(layouts.permuted(x.type.shape, order), x.type.dtype)
    return Node(PERMUTE, (x,), {"dims": order}, kind, x.source)
