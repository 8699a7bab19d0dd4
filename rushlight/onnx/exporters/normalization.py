"""Softmax, and normalisation over some dimensions."""

from __future__ import annotations

import numpy as np

from rushlight import dtypes
from rushlight.graph.ir import Node
from rushlight.onnx.exporters.reductions import reduced
from rushlight.onnx.writer import Writer, exports, operand
from rushlight.ops.base import registry


@exports("softmax", "log_softmax")
def softmax(w: Writer, node: Node, x: str) -> str:
    name = "Softmax" if node.op.name == "softmax" else "LogSoftmax"
    if not node.attrs["dim"]:
        return w.filled(int(name == "Softmax"), node.type)
    (dim,) = node.attrs["dim"]
    return w(name, x, axis=dim)


@exports("standardize")
def standardize(w: Writer, node: Node, x: str, weight: str | None, bias: str | None) -> object:
    """(x − mean) / √(variance + eps) · weight + bias, the mean and the variance."""
    dims, eps, center = (node.attrs[k] for k in ("dims", "eps", "center"))
    source, scale = operand(node), node.inputs[1]
    rank = len(source.type.shape)
    dims = tuple([d % rank for d in dims])
    inner = source.type.shape[dims[0] :]
    trailing = dims == tuple(range(rank - len(dims), rank))
    fits = scale is None or scale.type.shape == inner
    if center and trailing and fits and w.opset >= 17 and w.uses(node) <= {0} and known(inner):
        ones = w.constant(np.ones(inner), source.type.dtype)
        given_bias = (bias,) if bias else ()
        y = w(
            "LayerNormalization", x, weight or ones, *given_bias, axis=dims[0], epsilon=float(eps)
        )
        return y, "", ""
    half = source.type.dtype.numpy in dtypes.HALF
    u = w.cast(x, dtypes.float32) if half else x
    kind = dtypes.float32 if half else source.type.dtype
    mean = reduced(w, "ReduceMean", u, dims, True) if center else w.filled(0, node.type[1])
    apart = w("Sub", u, mean) if center else u
    variance = reduced(w, "ReduceMean", w("Mul", apart, apart), dims, True)
    y = w("Div", apart, w("Sqrt", w("Add", variance, w.constant(eps, kind))))
    for factor, operator in ((weight, "Mul"), (bias, "Add")):
        if factor:
            factor = w.cast(factor, kind) if half else factor
            y = w(operator, y, factor)
    y = w.cast(y, source.type.dtype) if half else y
    return y, mean, variance


def batch_norm(w: Writer, node: Node) -> str | None:
    """A normalisation by running statistics, which a loaded model can learn; None if it is none.

    y = shift + x · scale with scale = weight / √(variance + eps), shift = bias − mean · scale
    """
    shift, x, scale = (operand(node, i) for i in range(3))
    (channels, *ones) = scale.type.shape or (0,)
    if ones != [1] * (len(node.type.shape) - 2) or node.type.shape[1:2] != (channels,):
        return None
    shift, scale = (n.inputs[0] if n.op is registry["view"] else n for n in (shift, scale))
    spread, bias = inputs_of(shift, "add") or (shift, None)
    root, weight = inputs_of(scale, "mul") or (scale, None)
    negative, factor = inputs_of(spread, "mul") or (None, None)
    (mean,) = inputs_of(negative, "neg") or (None,)
    (total,) = inputs_of(root, "rsqrt") or (None,)
    variance, eps = inputs_of(total, "add") or (None, None)
    given = [mean, variance, *[n for n in (weight, bias) if n is not None]]
    if factor is not scale or eps not in w.arrays or any([n not in w.titles for n in given]):
        return None
    one, zero = (w.constant(np.full(channels, n), node.type.dtype) for n in (1, 0))
    return w(
        "BatchNormalization", w.name(x), w.name(weight) or one, w.name(bias) or zero,
        w.name(mean), w.name(variance), epsilon=float(w.arrays[eps]),
    )  # fmt: skip


def inputs_of(node: Node | None, op: str) -> tuple[Node | None, ...] | None:
    """The operands of a node if it is of that op."""
    return node.inputs if node is not None and node.op is registry[op] else None


def known(sizes: tuple[object, ...]) -> bool:
    """Whether sizes are numbers, and there are elements."""
    return all([isinstance(n, int) and n > 0 for n in sizes])
