"""How often a ``while`` loop runs, where that is known: it counts, ``i < n`` and then ``i + 1``.

Such a loop is one over rows, of which there are none: what its gradient needs is kept where it
belongs, and need not be made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rushlight import dtypes
from rushlight.graph.inner import Part
from rushlight.graph.ir import CAPTURED, INPUT, Graph, Node, interpret, walk
from rushlight.ops.base import registry

LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, OTHER = [
    registry[name] for name in ("lt", "le", "gt", "ge", "ne")
]
MIRRORED = {LESS: GREATER, LESS_EQUAL: GREATER_EQUAL, GREATER: LESS, GREATER_EQUAL: LESS_EQUAL}
MIRRORED[OTHER] = OTHER
ADD, SUB, VIEW, CAST = [registry[name] for name in ("add", "sub", "view", "cast")]
FEW = 16  # nodes of a number that is computed while tracing


def known_steps(condition: Part, body: Part, first: list[Node]) -> int | None:
    """How many steps a loop has that begins with the values ``first``; None if nobody knows.

    >>> def loop(n):
    ...     return rl.while_loop(lambda i, x: i < n, lambda i, x: (i + 3, x * 2), (1, rl.ones(2)))
    >>> "control.scan" in str(rl.graph(lambda: loop(10)))
    True
    """
    (asked,) = condition.outputs
    while asked.op in (VIEW, CAST):
        asked = asked.inputs[0]  # type: ignore[assignment]
    if asked.op not in MIRRORED:
        return None
    left, right = asked.inputs
    op: Any = asked.op
    if right in condition.inputs:
        left, right, op = right, left, MIRRORED[op]
    if left not in condition.inputs:
        return None
    place = condition.inputs.index(left)
    by = increment(body.outputs[place], body.inputs[place], still(body))
    begin, end = number(first[place], {}), number(right, still(condition))
    if by is None or begin is None or end is None:
        return None
    count = trips(op, begin, end, by)
    limits = dtypes.iinfo(first[place].type.dtype)
    if count is None or not limits.min <= begin + by * count <= limits.max:
        return None  # it goes on beyond the numbers there are
    return count


def trips(op: Any, begin: int, end: int, by: int) -> int | None:
    """How often ``begin + by * i`` compares with ``end`` before it does not; None for ever.

    >>> trips(LESS, 0, 10, 3), trips(GREATER_EQUAL, 4, 0, -1), trips(OTHER, 0, 5, 2)
    (4, 5, None)
    """
    if op in (GREATER, GREATER_EQUAL):
        begin, end, by = -begin, -end, -by
    if op is OTHER:
        if begin == end:
            return 0
        return (end - begin) // by if by and (end - begin) % by == 0 <= (end - begin) * by else None
    if op in (LESS_EQUAL, GREATER_EQUAL):
        end += 1
    if begin >= end:
        return 0
    return -((begin - end) // by) if by > 0 else None


def increment(after: Node, before: Node, outside: Mapping[Node, Node]) -> int | None:
    """The number that a step adds to a value."""
    if after.op not in (ADD, SUB) or after.type != before.type:
        return None
    left, right = after.inputs
    if right is before and after.op is ADD:
        left, right = right, left
    if left is not before:
        return None
    by = number(right, outside)
    return -by if by is not None and after.op is SUB else by


def still(part: Part) -> dict[Node, Node]:
    """What is captured and never written to, and what it is outside."""
    changed, outer = dict.fromkeys(part.changed), part.inner.outer
    return {n: outer.current(x) for x, n in part.inner.closed.items() if x not in changed}


def number(node: Node | None, outside: Mapping[Node, Node]) -> int | None:
    """The integer that a node is, if it is made of constants."""
    if node is None:
        return None
    node = outside.get(node, node)
    if node.type.size != 1 or node.type.dtype.category != dtypes.INT:
        return None
    below = [below for below, _ in zip(walk([node]), range(FEW + 1), strict=False)]
    if len(below) > FEW or any([n.op in (INPUT, CAPTURED) for n in below]):
        return None
    ((value,), _) = interpret(Graph((), (), (node,)), ())
    return int(value.item())
