"""Sums, means, extremes and what is made of them."""

from __future__ import annotations

import math
from typing import Any

from rushlight import dtypes
from rushlight.graph.ir import Node
from rushlight.onnx.writer import Writer, exports, operand


def reduced(w: Writer, kind: str, x: str, dims: Any, keepdim: bool) -> str:
    """A Reduce operator; ``dims`` None means all. Axes became an operand in version 18."""
    options: dict[str, Any] = {"keepdims": int(keepdim)}
    if dims is None:
        return w(kind, x, **options)
    if not dims:
        return x
    if kind == "ReduceSum" or w.opset >= 18:
        return w(kind, x, w.ints(*dims), **options)
    return w(kind, x, axes=list(dims), **options)


def over(node: Node) -> tuple[Any, bool]:
    return node.attrs["dim"], node.attrs["keepdim"]


def as_result(w: Writer, node: Node, x: str) -> str:
    """The operand in the dtype of the result."""
    same = operand(node).type.dtype is node.type.dtype
    return x if same else w.cast(x, node.type.dtype)


@exports("sum")
def sum_(w: Writer, node: Node, x: str) -> str:
    return reduced(w, "ReduceSum", as_result(w, node, x), *over(node))


@exports("mean")
def mean(w: Writer, node: Node, x: str) -> str:
    return reduced(w, "ReduceMean", as_result(w, node, x), *over(node))


@exports("prod")
def prod(w: Writer, node: Node, x: str) -> str:
    return reduced(w, "ReduceProd", as_result(w, node, x), *over(node))


@exports("amax", "amin")
def extremum(w: Writer, node: Node, x: str) -> str:
    kind = "ReduceMax" if node.op.name == "amax" else "ReduceMin"
    if node.type.dtype is dtypes.bool_ and w.opset < 20:
        number = w.cast(x, dtypes.uint8)
        found = reduced(w, kind, number, *over(node))
        return w.cast(found, dtypes.bool_)
    return reduced(w, kind, x, *over(node))


@exports("all", "any")
def truth(w: Writer, node: Node, x: str) -> str:
    """Whether some are true; all are, if none is false."""
    every = node.op.name == "all"
    truths = w.cast(x, dtypes.bool_)
    number = w.cast(w("Not", truths) if every else truths, dtypes.int32)
    some = w.cast(reduced(w, "ReduceSum", number, *over(node)), dtypes.bool_)
    found = w("Not", some) if every else some
    return found if node.type.dtype is dtypes.bool_ else w.cast(found, node.type.dtype)


@exports("count_nonzero")
def count_nonzero(w: Writer, node: Node, x: str) -> str:
    truths = w.cast(x, dtypes.bool_)
    number = w.cast(truths, dtypes.int64)
    return reduced(w, "ReduceSum", number, node.attrs["dim"], False)


@exports("argmax", "argmin")
def position(w: Writer, node: Node, x: str) -> str:
    kind = "ArgMax" if node.op.name == "argmax" else "ArgMin"
    dim, keepdim = over(node)
    if dim is not None:
        return w(kind, x, axis=dim, keepdims=int(keepdim))
    place = w(kind, w.reshape(x, -1), axis=0, keepdims=0)
    return w.reshape(place, *node.type.shape)


@exports("max_dim", "min_dim")
def choice(w: Writer, node: Node, x: str) -> tuple[str, str]:
    largest = node.op.name == "max_dim"
    dim, keepdim = over(node)
    if not operand(node).type.shape:
        return x, w.constant(0, dtypes.int64)
    value = reduced(w, "ReduceMax" if largest else "ReduceMin", x, (dim,), keepdim)
    place = w("ArgMax" if largest else "ArgMin", x, axis=dim, keepdims=int(keepdim))
    return value, place


@exports("logsumexp")
def logsumexp(w: Writer, node: Node, x: str) -> str:
    return reduced(w, "ReduceLogSumExp", as_result(w, node, x), *over(node))


@exports("linalg.vector_norm")
def vector_norm(w: Writer, node: Node, x: str) -> str:
    order, (dim, keepdim) = node.attrs["ord"], over(node)
    x = as_result(w, node, x)
    direct = {1.0: "ReduceL1", 2.0: "ReduceL2"}
    if order in direct:
        return reduced(w, direct[order], x, dim, keepdim)
    size = w("Abs", x)
    if math.isinf(order):
        return reduced(w, "ReduceMax" if order > 0 else "ReduceMin", size, dim, keepdim)
    if order == 0:
        some = w.cast(w.cast(x, dtypes.bool_), node.type.dtype)
        return reduced(w, "ReduceSum", some, dim, keepdim)
    powers = reduced(w, "ReduceSum", w("Pow", size, w.like(order, node)), dim, keepdim)
    return w("Pow", powers, w.like(1 / order, node))


def moments(w: Writer, node: Node, x: str) -> tuple[str, str]:
    """The variance and the mean."""
    dim, keepdim = over(node)
    source = operand(node)
    rank = len(source.type.shape)
    dims = tuple(range(rank)) if dim is None else dim
    center = reduced(w, "ReduceMean", x, dims, True)
    apart = w("Sub", x, center)
    total = reduced(w, "ReduceSum", w("Mul", apart, apart), dims, keepdim)
    count = w.cast(w.product([source.type.shape[d] for d in dims]), source.type.dtype)
    freedom = w("Sub", count, w.like(node.attrs["correction"], source))
    divisor = w("Max", freedom, w.like(0, source))
    mean = center if keepdim else reduced(w, "ReduceMean", x, dims, False)
    return w("Div", total, divisor), mean


@exports("var", "std", "var_mean", "std_mean")
def spread(w: Writer, node: Node, x: str) -> Any:
    variance, mean = moments(w, node, x)
    found = w("Sqrt", variance) if node.op.name.startswith("std") else variance
    return (found, mean) if node.op.name.endswith("mean") else found


@exports("squared_error")
def squared_error(w: Writer, node: Node, x: str, t: str) -> str:
    apart = w("Sub", x, t)
    return reduced(
        w, "ReduceMean" if node.attrs["mean"] else "ReduceSum", w("Mul", apart, apart), None, False
    )
