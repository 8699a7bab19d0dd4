"""Groups of nodes to kernels: whose elements are computed in which loops.

The elements of the outputs are expressed by what the ops say (``Op.at``), back to what is in
memory; then the loops are put in order (:mod:`rushlight.codegen.schedule`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, Protocol

from rushlight.codegen.kernel import Kernel, Store
from rushlight.codegen.pull import Pull, linear, unravel
from rushlight.codegen.schedule import Nest
from rushlight.codegen.values import Loop, Value
from rushlight.graph.ir import ITEM, Node


class Group(Protocol):
    """Nodes that become one step of a program, and those of them that are needed later."""

    @property
    def nodes(self) -> Sequence[Node]: ...

    @property
    def outputs(self) -> Sequence[Node]: ...


def lower(group: Group, late: Collection[Node] = ()) -> list[Kernel]:
    """The kernels that compute the outputs of a group, to be run one after the other.

    Args:
        group: its nodes are computed in one sweep; all others they depend on are in memory.
        late: outputs that take the memory of an input, and are stored after its last use.
    """
    if any([0 in node.type.shape for node in group.outputs]):
        return []
    pull = Pull(group.nodes)
    rows, columns, whole = space(pull, group)
    b = pull.b
    index = [b.variable(loop) for loop in rows]
    row = linear(b, index, [loop.size for loop in rows])
    stores = []
    for node in group.outputs:
        place = row if node.type.size != math.prod([n.size for n in rows]) else row
        if whole is not None and node.type.size == whole[1]:
            place = whole[0]
        value = pull.element(node, unravel(b, place, node.type.shape))
        stores.append(Store(pull.buffer(node), place, value))
    nest = Nest(b, rows, columns, stores)
    nest.split()
    nest.collapse()
    return [nest.kernel([pull.buffer(node) for node in late])]


def space(
    pull: Pull, group: Group
) -> tuple[list[Loop], tuple[Loop, ...], tuple[Value, int] | None]:
    """The loops over rows and columns, and the place of an element in rows × columns."""
    b = pull.b
    for node in group.nodes:
        if node.op is ITEM or node.op.folded is None or node not in pull.inside:
            continue
        shapes = [n.type.shape if n is not None else None for n in node.inputs]
        dims = [d % len(shapes[0]) for d in node.op.folded(node.attrs, *shapes)]
        full = shapes[0]
        if not dims:
            continue
        columns = b.level(tuple([full[d] for d in dims]), 0)
        kept = [d for d in range(len(full)) if d not in dims]
        rows = {d: Loop(f"r{'xyzuvw'[n % 6]}", full[d]) for n, d in enumerate(kept)}
        loops: list[Any] = [
            rows[d] if d in rows else columns[dims.index(d)] for d in range(len(full))
        ]
        place = linear(b, [b.variable(loop) for loop in loops], full)
        return list(rows.values()), columns, (place, math.prod(full))
    shape = max([n.type.shape for n in group.outputs], key=lambda s: len([n for n in s if n > 1]))
    return [Loop(f"i{'xyzuvw'[n % 6]}", size) for n, size in enumerate(shape)], (), None
