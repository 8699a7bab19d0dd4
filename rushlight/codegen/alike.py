"""Groups that differ in nothing but whose values they compute have their kernels in common.

The layers of a network are alike, and so are their gradients and their updates: the loops of one
are those of all, with other memory.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import NamedTuple

from rushlight.codegen.kernel import Kernel
from rushlight.codegen.loops import Group, lower
from rushlight.graph.attributes import literal
from rushlight.graph.ir import CONSTANT, Node


class Lowered(NamedTuple):
    """The kernels of a group, whose nodes stand for its own."""

    kernels: list[Kernel]
    meant: dict[Node, Node]


class Alike:
    """:func:`rushlight.codegen.loops.lower`, once for all groups that are alike."""

    def __init__(self) -> None:
        self.known: dict[Hashable, tuple[list[Kernel], list[Node]]] = {}

    def lower(self, group: Group, late: Collection[Node] = ()) -> Lowered:
        key, nodes = form(group, late)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = lower(group, late), nodes
        kernels, own = found
        return Lowered(kernels, dict(zip(own, nodes, strict=True)))


def form(group: Group, late: Collection[Node] = ()) -> tuple[Hashable, list[Node]]:
    """All that a group's kernels depend on, with numbers for nodes; and the nodes of the numbers.

    Of what a group reads, kernels know the type, and the value if it is a number.
    """
    numbers: dict[Node, int] = {}
    parts: list[Hashable] = []
    inside = set(group.nodes)

    def number(node: Node | None) -> int:
        if node is None:
            return -1
        found = numbers.get(node)
        if found is None:
            found = numbers[node] = len(numbers)
            if node not in inside:
                single = node.op is CONSTANT and node.attrs["value"].size == 1
                value = node.attrs["value"].tobytes() if single else None
                parts.append((found, node.type, value))
        return found

    for node in group.nodes:
        operands = tuple([number(n) for n in node.inputs])
        attrs = literal(dict(node.attrs)) if node.attrs else ""
        parts.append((number(node), node.op, attrs, node.type, operands))
    results = tuple([number(node) for node in group.outputs])
    return (tuple(parts), results, tuple([number(node) for node in late])), list(numbers)
