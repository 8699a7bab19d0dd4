"""Pools come before what is done alike to each element of a channel.

    max_pool(relu(x + b)) = relu(max_pool(x) + b)

Sums and ``relu`` never turn the order of two numbers around, rounded ones neither, so both sides
are the same number; the right one adds a quarter as often, and where windows overlap not again.
Only if b is infinite, and an x is the other infinity, the NaN of their sum may be left out.
"""

from __future__ import annotations

from collections import Counter

from rushlight.dtypes import FLOAT
from rushlight.graph.ir import ITEM, Graph, Node, copy, rebuild
from rushlight.ops.base import registry
from rushlight.ops.pooling import MaxPool

ADD, RELU = registry["add"], registry["relu"]


def pools_first(graph: Graph) -> Graph:
    """The graph with pools before sums and ``relu`` that nobody else reads."""
    uses = Counter([n for node in graph.nodes() for n in node.inputs])
    uses.update(graph.roots)

    def change(node: Node, inputs: tuple[Node | None, ...]) -> Node:
        pool = pool_of(node, uses)
        count = steps_before(pool, uses) if pool is not None else 0
        if pool is None or not count:
            return copy(node, inputs)
        before = inputs[0] if pool is node else inputs[0] and inputs[0].inputs[0]
        return lifted(node, pool, before, count)

    return rebuild(graph, change)


def pool_of(node: Node, uses: Counter[Node | None]) -> Node | None:
    """The pool whose largest elements a node is, if nobody asks where they stand."""
    if isinstance(node.op, MaxPool):
        return None if node.attrs["return_indices"] else node
    if node.op is ITEM and node.attrs["index"] == 0:
        (pool,) = node.inputs
        assert pool is not None
        if isinstance(pool.op, MaxPool) and uses[pool] == 1:
            return pool
    return None


def steps_before(pool: Node, uses: Counter[Node | None]) -> int:
    """How many nodes before a pool may as well come after it."""
    count, (y,) = 0, pool.inputs
    assert y is not None
    rank = len(y.type.shape)
    across = {d % rank for d in pool.attrs["dims"]}
    while uses[y] == 1 and y.type.dtype.category == FLOAT:
        if y.op is ADD:
            x, b = y.inputs
            assert x is not None
            assert b is not None
            shape = (1,) * (rank - len(b.type.shape)) + b.type.shape
            if x.type != y.type or any([shape[d] != 1 for d in across]):
                break
        elif y.op is not RELU:
            break
        (y, *_), count = y.inputs, count + 1
        assert y is not None
    return count


def lifted(node: Node, pool: Node, y: Node | None, count: int) -> Node:
    """The pool of what is before ``count`` nodes that end with ``y``, and these after it."""
    after: list[Node] = []
    for _ in range(count):
        assert y is not None
        after.append(y)
        y = y.inputs[0]
    y = Node(pool.op, (y,), {**pool.attrs, "return_indices": False}, node.type, pool.source)
    for each in reversed(after):
        y = Node(each.op, (y, *each.inputs[1:]), each.attrs, node.type, each.source)
    return y
