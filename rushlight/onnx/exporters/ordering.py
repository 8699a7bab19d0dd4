"""Sorting, order statistics, searches."""

from __future__ import annotations

from math import prod
from typing import Any

from rushlight import dtypes
from rushlight.graph.ir import Node
from rushlight.onnx.exporters.reductions import reduced
from rushlight.onnx.writer import Writer, exports, operand


def top(w: Writer, node: Node, x: str, count: Any, dim: int, largest: bool) -> tuple[str, str]:
    if not operand(node).type.shape:
        return x, w.ints(0, scalar=True)
    return w("TopK", x, w.ints(count), outputs=2, axis=dim, largest=int(largest), sorted=1)


@exports("sort")
def sort(w: Writer, node: Node, x: str) -> tuple[str, str]:
    shape, dim = operand(node).type.shape, node.attrs["dim"]
    return top(w, node, x, shape[dim] if shape else 1, dim, node.attrs["descending"])


@exports("topk")
def topk(w: Writer, node: Node, x: str) -> tuple[str, str]:
    return top(w, node, x, node.attrs["k"], node.attrs["dim"], node.attrs["largest"])


@exports("kthvalue", "median_dim")
def kth(w: Writer, node: Node, x: str) -> tuple[str, ...]:
    """The last of so many smallest elements."""
    shape, dim, keepdim = operand(node).type.shape, node.attrs["dim"], node.attrs["keepdim"]
    if not shape:
        return x, w.ints(0, scalar=True)
    rank = node.attrs["rank"] if node.op.name == "kthvalue" else (shape[dim] - 1) // 2
    found = top(w, node, x, rank + 1, dim, largest=False)
    last = w.ints(-1) if keepdim else w.ints(-1, scalar=True)
    return tuple([w("Gather", part, last, axis=dim) for part in found])


@exports("median_all")
def median(w: Writer, node: Node, x: str) -> str:
    row = w.reshape(x, -1)
    rank = (prod(operand(node).type.shape) - 1) // 2
    smallest, _ = w("TopK", row, w.ints(rank + 1), outputs=2, axis=0, largest=0, sorted=1)
    return w("Gather", smallest, w.ints(-1, scalar=True), axis=0)


@exports("searchsorted")
def searchsorted(w: Writer, node: Node, sequence: str, values: str) -> str:
    """How many elements of the sequence come before each value."""
    rank = len(operand(node).type.shape)
    row = sequence if rank == 1 else w("Unsqueeze", sequence, w.ints(-2))
    value = w("Unsqueeze", values, w.ints(-1))
    before = w("LessOrEqual" if node.attrs["right"] else "Less", row, value)
    number = w.cast(before, dtypes.int64)
    count = reduced(w, "ReduceSum", number, (len(node.type.shape),), False)
    same = node.type.dtype is dtypes.int64
    return count if same else w.cast(count, node.type.dtype)


@exports("isin")
def isin(w: Writer, node: Node, elements: str, others: str) -> str:
    kind = dtypes.promote_types(operand(node).type.dtype, operand(node, 1).type.dtype)
    row = w.reshape(w.cast(others, kind), -1)
    same = w("Equal", w("Unsqueeze", w.cast(elements, kind), w.ints(-1)), row)
    number = w.cast(same, dtypes.int32)
    count = reduced(w, "ReduceSum", number, (len(node.type.shape),), False)
    found = w.cast(count, dtypes.bool_)
    return w("Not", found) if node.attrs["invert"] else found
