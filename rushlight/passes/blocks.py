"""Variances over the leading dimensions of large tensors are taken block by block.

The variance of batch norm goes over all images and places, with channels last. It needs the mean
first, so that every element is read twice. Those of a block that fits into a cache come from memory
only once; and with n blocks of equal size, which have means mᵢ and variances vᵢ,

    mean = Σ mᵢ / n        variance = Σ vᵢ / n + variance of the mᵢ

This is as exact as before. Blocks depend on the shape alone, and threads share them.
"""

from __future__ import annotations

from typing import Any

from rushlight.dims import is_known
from rushlight.graph.ir import ITEM, Graph, Node, TensorType, copy, item, rebuild
from rushlight.ops.base import registry

ADD, MEAN, VAR_MEAN, VIEW = map(registry.__getitem__, ("add", "mean", "var_mean", "view"))
MOST_BLOCKS = 256
NEAR = 1 << 14  # elements of a block: it is read from the first or second cache the second time
MORE = 4  # times as many, if fewer do not divide what is summed
WORTH = 1 << 16  # elements of which blocks are made


def by_blocks(graph: Graph) -> Graph:
    """The graph with variances over leading dimensions taken in two steps."""
    nodes = graph.nodes()
    if not any([node.op is VAR_MEAN for node in nodes]):
        return graph
    made: dict[Node, tuple[Node, Node]] = {}

    def change(node: Node, inputs: tuple[Any, ...]) -> Node:
        if node.op is not ITEM or inputs[0].op is not VAR_MEAN:
            return copy(node, inputs)
        (whole,) = inputs
        count = blocks_of(whole)
        if count == 1:
            return copy(node, inputs)
        if whole not in made:
            made[whole] = moments(whole, count)
        return seen(made[whole][node.attrs["index"]], node.type.shape)

    return rebuild(graph, change)


def blocks_of(node: Node) -> int:
    """How many blocks a variance is taken in; 1 if it goes over other dimensions, or few elements.

    They divide what is summed evenly.
    """
    (x,) = node.inputs
    assert x is not None
    shape, dims = x.type.shape, node.attrs["dim"]
    if dims is None or node.attrs["correction"] != 0 or x.type.dtype.itemsize < 4:
        return 1
    folded = sorted([d % len(shape) for d in ((dims,) if isinstance(dims, int) else dims)])
    if folded != [*range(len(shape) - 1)] or not is_known(shape) or x.type.size < WORTH:
        return 1
    rows, channels = x.type.size // shape[-1], shape[-1]
    least = max(1, -(-rows // MOST_BLOCKS), NEAR // channels)
    return next((rows // n for n in range(least, MORE * least) if rows % n == 0), 1)


def moments(node: Node, count: int) -> tuple[Node, Node]:
    """(variance, mean) of the variances and means of so many blocks."""
    (x,) = node.inputs
    assert x is not None
    channels = x.type.shape[-1]
    blocks = seen(x, (count, x.type.size // (count * channels), channels))
    variances, means = folded(blocks, 1, node)
    spread, mean = folded(means, 0, node)
    attrs = {"dim": (0,), "keepdim": False}
    within = Node(MEAN, (variances,), attrs, mean.type, node.source)
    return Node(ADD, (within, spread), {}, mean.type, node.source), mean


def folded(x: Node, dim: int, like: Node) -> tuple[Node, Node]:
    """(variance, mean) of ``x`` over one dimension."""
    shape = tuple([n for d, n in enumerate(x.type.shape) if d != dim])
    kind = TensorType(shape, x.type.dtype)
    attrs = {**like.attrs, "dim": (dim,), "keepdim": False}
    both = Node(VAR_MEAN, (x,), attrs, (kind, kind), like.source)
    return item(both, 0), item(both, 1)


def seen(x: Node, shape: tuple[int, ...]) -> Node:
    """``x`` in another shape."""
    if x.type.shape == shape:
        return x
    return Node(VIEW, (x,), {"shape": shape}, TensorType(shape, x.type.dtype), x.source)
