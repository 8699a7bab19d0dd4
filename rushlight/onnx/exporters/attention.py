"""Attention, written out: ONNX has it as one operator since version 23 alone."""

from __future__ import annotations

import math
from typing import Any

from rushlight.graph.ir import Node
from rushlight.onnx.exporters.reductions import reduced
from rushlight.onnx.writer import Writer, exports, operand


@exports("attention")
def attention(
    w: Writer, node: Node, q: str, k: str, v: str, bias: str | None, noise: str | None
) -> Any:
    """softmax(scale·q·kᵀ + bias)·v; zeros where all weights are −∞."""
    if w.uses(node) - {0}:
        raise w.refusal("what it keeps for its gradient cannot be exported")
    query, keys = operand(node).type, operand(node, 1).type
    rank, kind = len(keys.shape), query.dtype
    order = [*range(rank - 2), rank - 1, rank - 2]
    scaled = w("Mul", q, w.constant(node.attrs["scale"], kind))
    scores = w("MatMul", scaled, w("Transpose", k, perm=order))
    masked = bias is not None  # perhaps whole rows: causality leaves each one element at least
    if node.attrs["causal"]:
        rows = w("Unsqueeze", w.rows(query.shape[-2]), w.ints(1))
        ends = [w.constant(number, kind) for number in (-math.inf, 0)]
        future = w("Where", w("Less", rows, w.rows(keys.shape[-2])), *ends)
        bias = future if bias is None else w("Add", bias, future)
    scores = w("Add", scores, bias) if bias else scores
    if masked:
        best = reduced(w, "ReduceMax", scores, (len(query.shape) - 1,), True)
        nothing, zero = w("Equal", best, w.constant(-math.inf, kind)), w.constant(0, kind)
        weights = w("Softmax", w("Where", nothing, zero, scores), axis=-1)
        weights = w("Where", nothing, zero, weights)
    else:
        weights = w("Softmax", scores, axis=-1)
    weights = w("Mul", weights, noise) if noise else weights
    return (w("MatMul", weights, v), *[""] * (len(node.type) - 1))
