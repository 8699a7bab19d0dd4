"""Products of vectors, matrices and tensors."""

from __future__ import annotations

from rushlight import dtypes
from rushlight.codegen.values import FLOATS
from rushlight.graph.ir import Node
from rushlight.onnx.exporters.reductions import reduced
from rushlight.onnx.writer import Writer, exports, operand


@exports("mm", "bmm", "mv", "dot")
def product(w: Writer, node: Node, a: str, b: str) -> str:
    return w("MatMul", a, b)


@exports("nn.functional.linear")
def linear(w: Writer, node: Node, x: str, weight: str, bias: str | None) -> str:
    """x · weightᵀ + bias."""
    if len(operand(node).type.shape) == 2 and node.type.kind in FLOATS:
        return w("Gemm", x, weight, bias, transB=1) if bias else w("Gemm", x, weight, transB=1)
    y = w("MatMul", x, w.transposed(operand(node, 1)))
    return w("Add", y, bias) if bias else y


@exports("plus_mm")
def plus_mm(w: Writer, node: Node, shift: str, a: str, b: str) -> str:
    if node.type.kind in FLOATS:
        return w("Gemm", a, b, shift)
    return w("Add", w("MatMul", a, b), shift)


@exports("contract")
def contract(w: Writer, node: Node, a: str, b: str) -> str:
    left, right, result = node.attrs["letters"]
    return w("Einsum", a, b, equation=f"{left},{right}->{result}")


@exports("cdist")
def cdist(w: Writer, node: Node, x1: str, x2: str) -> str:
    """The norms of all differences."""
    apart = w("Abs", w("Sub", w("Unsqueeze", x1, w.ints(-2)), w("Unsqueeze", x2, w.ints(-3))))
    p = node.attrs["p"]
    direct = {1.0: "ReduceL1", 2.0: "ReduceL2", float("inf"): "ReduceMax"}
    last = (len(node.type.shape),)
    if p in direct:
        return reduced(w, direct[p], apart, last, False)
    if p == 0:
        some = w.cast(w.cast(apart, dtypes.bool_), node.type.dtype)
        return reduced(w, "ReduceSum", some, last, False)
    total = reduced(w, "ReduceSum", w("Pow", apart, w.like(p, node)), last, False)
    return w("Pow", total, w.like(1 / p, node))


@exports("linalg.cross")
def cross(w: Writer, node: Node, a: str, b: str) -> str:
    """aⱼ·bₖ − aₖ·bⱼ, in turn."""
    dim = node.attrs["dim"]
    after, before = w.constant([1, 2, 0]), w.constant([2, 0, 1])
    terms = [
        w("Mul", w("Gather", a, i, axis=dim), w("Gather", b, j, axis=dim))
        for i, j in ((after, before), (before, after))
    ]
    return w("Sub", *terms)


@exports("linalg.det")
def det(w: Writer, node: Node, a: str) -> str:
    return w("Det", a)
