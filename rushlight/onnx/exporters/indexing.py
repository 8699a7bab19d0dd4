"""Elements found by positions."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight.graph.ir import Node
from rushlight.onnx.exporters.reductions import reduced
from rushlight.onnx.writer import Writer, exports, operand


def at_least_vector(w: Writer, node: Any, x: str) -> str:
    return x if node.type.shape else w.reshape(x, 1)


@exports("gather")
def gather(w: Writer, node: Node, x: str, index: str) -> str:
    source, places = node.inputs
    if 0 in node.type.shape:
        return w.filled(0, node.type)
    x, rows = at_least_vector(w, source, x), at_least_vector(w, places, index)
    found = w("GatherElements", x, rows, axis=node.attrs["dim"])
    return found if node.type.shape else w.reshape(found)


@exports("index_select")
def index_select(w: Writer, node: Node, x: str, index: str) -> str:
    rows = at_least_vector(w, operand(node, 1), index)
    return w("Gather", x, rows, axis=node.attrs["dim"]) if operand(node).type.shape else x


@exports("embedding")
def embedding(w: Writer, node: Node, weight: str, index: str) -> str:
    return w("Gather", weight, index, axis=0)


@exports("take")
def take(w: Writer, node: Node, x: str, index: str) -> str:
    return w("Gather", w.reshape(x, -1), index, axis=0)


def indexed(node: Node, layout: tuple[bool, ...]) -> tuple[list[int], list[int]]:
    """The dimensions that tensors of positions stand for, and the others."""
    here = [d for d, given in enumerate(layout) if given]
    return here, [d for d in range(len(operand(node).type.shape)) if d not in here]


def tuples(w: Writer, indices: tuple[str, ...], nodes: Any, shape: Any) -> str:
    """Positions in several dimensions as one tensor, whose last dimension they are."""
    whole = [
        i if node.type.shape == shape else w("Expand", i, w.ints(*shape))
        for i, node in zip(indices, nodes, strict=True)
    ]
    return w("Concat", *[w("Unsqueeze", i, w.ints(-1)) for i in whole], axis=-1)


def common(nodes: Any) -> tuple[Any, ...]:
    """The shape that tensors of positions are broadcast to."""
    return tuple(np.broadcast_shapes(*[n.type.shape for n in nodes]))


def front(here: list[int]) -> int:
    """Where the dimensions of the positions go in the result."""
    return here[0] if here[-1] - here[0] == len(here) - 1 else 0


@exports("index", whole=False)
def index(w: Writer, node: Node, x: str, *indices: str) -> str:
    """x[:, i, j]: positions in leading dimensions are looked up, and then put where they belong."""
    here, others = indexed(node, node.attrs["layout"])
    if len(here) == 1:
        return w("Gather", x, indices[0], axis=here[0])
    shape = common(node.inputs[1:])
    order = [*here, *others]
    x = x if order == sorted(order) else w("Transpose", x, perm=order)
    found = w("GatherND", x, tuples(w, indices, node.inputs[1:], shape))
    place, rank = front(here), len(shape)
    if not place:
        return found
    moved = [*range(rank, rank + place), *range(rank), *range(rank + place, rank + len(others))]
    return w("Transpose", found, perm=moved)


@exports("plane_pick")
def plane_pick(w: Writer, node: Node, x: str, places: str) -> str:
    rank = node.attrs["rank"]
    lead = node.type.shape[: len(node.type.shape) - rank]
    kinds = [operand(node, i).type for i in range(2)]
    sizes = [prod(kind.shape[len(lead) :]) for kind in kinds]
    rows = [w.reshape(t, *lead, n) for t, n in zip((x, places), sizes, strict=True)]
    found = w("GatherElements", *rows, axis=len(lead))
    return w.reshape(found, *node.type.shape)


@exports("weighted_pick")
def weighted_pick(w: Writer, node: Node, x: str, weight: str, places: str) -> str:
    """Σ w[n,k,o] · x[n,c,index[n,k,o]], where an index beyond the end means zero."""
    (n, c, _), (_, k, o) = operand(node).type.shape, operand(node, 1).type.shape
    row = w("Pad", x, w.ints(0, 0, 0, 0, 0, 1), w.like(0, node), mode="constant")
    flat = w("Expand", w.reshape(places, n, 1, k * o), w.ints(n, c, k * o))
    found = w.reshape(w("GatherElements", row, flat, axis=2), n, c, k, o)
    terms = w("Mul", found, w("Unsqueeze", weight, w.ints(1)))
    return reduced(w, "ReduceSum", terms, (2,), False)
