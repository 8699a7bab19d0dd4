"""Elementwise ops for which ONNX has an operator of its own; formulas serve all others."""

from __future__ import annotations

import itertools
import math
from typing import Any

from rushlight.codegen.values import FLOATS
from rushlight.graph.ir import Node
from rushlight.onnx.exporters.formulas import formula
from rushlight.onnx.exporters.normalization import batch_norm
from rushlight.onnx.exporters.random import dropout
from rushlight.onnx.writer import Writer, exports, operand


@exports("clone", "stored", "tie", "verified", "contiguous")
def same(w: Writer, node: Node, x: str, *_: Any) -> str:
    """What leaves values as they are. (A file cannot raise errors about values.)"""
    return x


@exports("relu")
def relu(w: Writer, node: Node, x: str) -> str:
    return w("Relu", x) if node.type.kind in FLOATS else w("Max", x, w.like(0, node))


@exports("nn.functional.leaky_relu")
def leaky_relu(w: Writer, node: Node, x: str) -> str:
    return w("LeakyRelu", x, alpha=float(node.attrs["slope"]))


@exports("nn.functional.elu")
def elu(w: Writer, node: Node, x: str) -> str:
    return w("Elu", x, alpha=float(node.attrs["alpha"]))


@exports("nn.functional.hardsigmoid")
def hardsigmoid(w: Writer, node: Node, x: str) -> str:
    return w("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@exports("nn.functional.hardswish")
def hardswish(w: Writer, node: Node, x: str) -> str:
    return w("HardSwish", x) if w.opset >= 14 else w("Mul", x, hardsigmoid(w, node, x))


@exports("nn.functional.hardtanh")
def hardtanh(w: Writer, node: Node, x: str) -> str:
    return w("Clip", x, w.like(node.attrs["low"], node), w.like(node.attrs["high"], node))


@exports("cast")
def cast(w: Writer, node: Node, x: str) -> str:
    if operand(node).type.dtype is node.type.dtype:
        return x
    return w.cast(x, node.type.dtype)


@exports("isnan")
def isnan(w: Writer, node: Node, x: str) -> str:
    kind = operand(node).type.kind
    return w("IsNaN", x) if kind in FLOATS else formula(w, node, x)


@exports("isinf")
def isinf(w: Writer, node: Node, x: str) -> str:
    kind = operand(node).type.kind
    return w("IsInf", x) if kind == "f32" or kind == "f64" else formula(w, node, x)


@exports("sign", "sgn")
def sign(w: Writer, node: Node, x: str) -> str:
    return w("Sign", x)


@exports("signbit")
def signbit(w: Writer, node: Node, x: str) -> str:
    """Whether a number is negative; 1/x tells that of zeros."""
    zero = w.like(0, operand(node))
    negative = w("Less", x, zero)
    if operand(node).type.kind not in FLOATS:
        return negative
    return w("Or", negative, w("Less", w("Reciprocal", x), zero))


@exports("pow")
def power(w: Writer, node: Node, x: str, y: str) -> str:
    return w("Pow", x, y)


@exports("fill_", "copy_")
def overwritten(w: Writer, node: Node, x: str, value: str) -> str:
    """Another value in the place of ``x``."""
    source = operand(node, 1).type
    value = value if source.dtype is node.type.dtype else w.cast(value, node.type.dtype)
    same = source.shape == node.type.shape
    return value if same else w("Expand", value, w.ints(*node.type.shape))


@exports("mul")
def product(w: Writer, node: Node, x: str, y: str) -> str:
    """A product; x · Φ(x) is written as runtimes know GELU."""
    for (a, of_a), (b, _) in itertools.permutations(zip(node.inputs, (x, y), strict=True)):
        if b is not None and b.op.name == "normal_cdf" and b.inputs[0] is a:
            return w("Mul", w("Mul", of_a, twice_normal_cdf(w, node, of_a)), w.like(0.5, node))
    return dropout(w, node) or formula(w, node, x, y)


@exports("addcmul")
def addcmul(w: Writer, node: Node, x: str, a: str, b: str) -> str:
    """x + a · b · value, in the order in which runtimes join it with a convolution before."""
    if node.attrs["value"] != 1:
        return formula(w, node, x, a, b)
    return batch_norm(w, node) or w("Add", w("Mul", a, b), x)


@exports("normal_cdf")
def normal_cdf(w: Writer, node: Node, x: str) -> str:
    return w("Mul", twice_normal_cdf(w, node, x), w.like(0.5, node))


def twice_normal_cdf(w: Writer, node: Node, x: str) -> str:
    """1 + erf(x / √2)."""
    return w("Add", w("Erf", w("Div", x, w.like(math.sqrt(2), node))), w.like(1, node))


@exports("masked_fill")
def masked_fill(w: Writer, node: Node, x: str, value: str, mask: str) -> str:
    return w("Where", mask, value, x)


@exports("checked_labels")
def checked_labels(w: Writer, node: Node, labels: str) -> str:
    ignored = w("Equal", labels, w.like(node.attrs["ignore_index"], node))
    return w("Where", ignored, w.like(0, node), labels)
