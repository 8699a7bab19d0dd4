"""Tensors made of nothing but sizes. (Small ones of known sizes are constants before this.)"""

from __future__ import annotations

from rushlight import dtypes
from rushlight.graph.ir import Node
from rushlight.onnx.writer import Writer, exports


@exports("zeros", "zeros_like", "empty", "empty_like", "empty_permuted", "empty_strided")
def zeros(w: Writer, node: Node, *_: str) -> str:
    return w.filled(0, node.type)


@exports("ones", "ones_like")
def ones(w: Writer, node: Node, *_: str) -> str:
    return w.filled(1, node.type)


@exports("full", "full_like", whole=False)  # of a size, they are taken apart
def full(w: Writer, node: Node, *_: str) -> str:
    return w.filled(node.attrs["fill_value"], node.type)


@exports("arange")
def arange(w: Writer, node: Node) -> str:
    """start + step · (0, 1, …)."""
    count = w.ints(node.type.shape[0], scalar=True)
    numbers = w("Range", w.ints(0, scalar=True), count, w.ints(1, scalar=True))
    start, step = node.attrs["start"], node.attrs["step"]
    whole = isinstance(start, int) and isinstance(step, int)
    kind = dtypes.int64 if whole else dtypes.float64
    numbers = numbers if whole else w.cast(numbers, kind)
    if step != 1:
        numbers = w("Mul", numbers, w.constant(step, kind))
    if start != 0:
        numbers = w("Add", numbers, w.constant(start, kind))
    same = node.type.dtype is kind
    return numbers if same else w.cast(numbers, node.type.dtype)


@exports("eye")
def eye(w: Writer, node: Node) -> str:
    return w("EyeLike", w.filled(0, node.type))
