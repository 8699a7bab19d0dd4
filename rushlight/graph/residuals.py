"""What the gradient of a branch or of a step keeps of it, and what it computes again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rushlight.dims import example
from rushlight.errors import user_line
from rushlight.graph.control import Control, origin_of
from rushlight.graph.extents import dim_of
from rushlight.graph.inner import Part
from rushlight.graph.ir import (
    CAPTURED,
    CONSTANT,
    INPUT,
    Node,
    TensorType,
    constant,
    copy,
    walk,
)
from rushlight.ops.base import Op, registry
from rushlight.ops.views import View
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor

EXPAND = registry["expand"]


def dear(part: Part) -> list[Node]:
    """What the gradients of a part need and should not, or must not, be computed again.

    A cheap value of a few dear ones is kept in their place if it takes no more memory.
    """
    late = set(part.tangents.values())
    order = list(walk([*part.gradients.values()]))
    for node in order:
        if any([n in late for n in node.inputs]):
            late.add(node)
    needed = {n for node in order if node in late for n in node.inputs if n not in late}
    needed |= {n for n in part.gradients.values() if n not in late}
    kept: dict[Node | None, frozenset[Node]] = {None: frozenset()}  # what each value is made of
    for node in order:
        if node.op in (INPUT, CAPTURED, CONSTANT):
            kept[node] = frozenset([node]) if node.op is INPUT else frozenset()
        elif node not in late:
            below = frozenset().union(*[kept[n] for n in node.inputs])
            again = (is_cheap(node) and saves(below, node)) or is_invariant(node, below, part)
            kept[node] = below if again else frozenset([node])
    found = frozenset().union(*[kept[n] for n in needed])
    if any([origin_of(node) is not None for node in found]):
        raise TraceError(
            f"the gradient of a branch or loop at {user_line()} needs the state of a generator of "
            "random numbers inside it: draw the numbers before it, and give them to it"
        )
    return [node for node in order if node in found and node.op is not INPUT]


def saves(below: frozenset[Node], node: Node) -> bool:
    """Whether to keep rather what a value is made of: that is there, or takes less memory."""
    made = [n for n in below if n.op is not INPUT]
    more = sum([nbytes(n) for n in below]) - nbytes(node)
    return not made or more < 0 or (more == 0 and isinstance(node.op, View))


def is_invariant(node: Node, below: frozenset[Node], part: Part) -> bool:
    """Whether a value is the same at each step of a loop, which makes it once."""
    return bool(part.inputs) and not below and not is_random(node)


def nbytes(node: Node) -> int:
    """The bytes of a value, or an example of them."""
    several = node.type if isinstance(node.type, tuple) else (node.type,)
    return sum([example(kind.nbytes) for kind in several])


def is_cheap(node: Node) -> bool:
    """Whether a value is rather computed again than kept: element by element, or out of nothing."""
    op = node.op
    if not isinstance(op, Op) or is_random(node):
        return False
    return op.emit is not None or isinstance(op, View) or not node.inputs


def is_random(node: Node) -> bool:
    return "generator" in node.attrs or (
        isinstance(node.op, Control) and bool(node.attrs["states"])
    )


def stand_in(node: Node) -> Node:
    return Node(INPUT, (), {}, node.type, node.source)


def rebuilt(outputs: Sequence[Node], replaced: dict[Node, Node]) -> list[Node]:
    """Nodes over others, some of which are replaced."""
    new: dict[Node | None, Node] = {None: None, **replaced}  # type: ignore[dict-item]
    for node in walk(outputs, list(replaced)):
        new[node] = copy(node, tuple([new[n] for n in node.inputs]))
    return [new[node] for node in outputs]


def zeros(kind: TensorType) -> Node:
    one = constant(np.zeros((), kind.dtype.numpy))
    return one if not kind.shape else Node(EXPAND, (one,), {"size": kind.shape}, kind)


def type_of_tensor(t: Tensor) -> TensorType:
    return TensorType(tuple([dim_of(n) for n in t._array.shape]), t.dtype)
