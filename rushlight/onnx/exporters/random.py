"""Random numbers, which the runtime of a file draws by itself: others at each run."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.graph.ir import ITEM, Node, TensorType
from rushlight.onnx.elements import NUMBERS
from rushlight.onnx.exporters.normalization import inputs_of
from rushlight.onnx.writer import Writer, exports, operand

DRAWN = (dtypes.float16, dtypes.float32, dtypes.float64)  # what ONNX has random numbers of


def drawn(w: Writer, kind: str, result: TensorType, **options: Any) -> str:
    """Random floats in the shape and dtype of a result."""
    dtype = result.dtype if result.dtype in DRAWN else dtypes.float32
    like = w.filled(0, TensorType(result.shape, dtype))
    x = w(f"Random{kind}Like", like, dtype=NUMBERS[dtype.numpy], **options)
    return x if dtype is result.dtype else w.cast(x, result.dtype)


@exports("rand", "uniform_")
def uniform(w: Writer, node: Node, *_: Any) -> tuple[str, str]:
    low, high = float(node.attrs.get("low", 0)), float(node.attrs.get("high", 1))
    return drawn(w, "Uniform", node.type[0], low=low, high=high), ""


@exports("randn", "normal_")
def normal(w: Writer, node: Node, *_: Any) -> tuple[str, str]:
    mean, scale = float(node.attrs.get("mean", 0)), float(node.attrs.get("std", 1))
    return drawn(w, "Normal", node.type[0], mean=mean, scale=scale), ""


@exports("randint")
def randint(w: Writer, node: Node, *_: Any) -> tuple[str, str]:
    """Whole numbers from ``low`` on, below ``high``."""
    low, high, result = float(node.attrs["low"]), float(node.attrs["high"]), node.type[0]
    x = drawn(w, "Uniform", TensorType(result.shape, dtypes.float64), low=low, high=high)
    below = w("Min", w("Floor", x), w.constant(high - 1, dtypes.float64))
    return w.cast(below, result.dtype), ""


@exports("bernoulli")
def bernoulli(w: Writer, node: Node, _: str, chances: str) -> tuple[str, str]:
    p = node.attrs["p"]
    return chosen(w, node, chances if p is None else w.constant(p, dtypes.float32)), ""


@exports("bernoulli_")
def bernoulli_in_place(w: Writer, node: Node, _: str, __: str, chances: Any) -> tuple[str, str]:
    p = node.attrs["chance"]
    return chosen(w, node, chances if p is None else w.constant(p, dtypes.float32)), ""


def chosen(w: Writer, node: Node, chances: str) -> str:
    """Ones with some probability, or with one for each element; else zeros."""
    result = node.type[0]
    last = node.inputs[-1]
    kind = dtypes.float32 if last is None or last.type.dtype not in DRAWN else last.type.dtype
    x = drawn(w, "Uniform", TensorType(result.shape, kind), low=0.0, high=1.0)
    below = w("Less", x, chances)
    return below if result.dtype is dtypes.bool_ else w.cast(below, result.dtype)


def dropout(w: Writer, node: Node) -> str | None:
    """x · mask / (1 − p), of which nothing else is used, as one node; None if it is none."""
    for x, other in (node.inputs, node.inputs[::-1]):
        mask, rest = inputs_of(other, "div") or (None, None)
        (kept,) = inputs_of(mask, "cast") or (mask,)
        if kept is None or kept.op is not ITEM or not {other, mask, kept}.isdisjoint(w.shared):
            continue
        draw = operand(kept)
        chance = draw.attrs.get("chance")
        alone = draw.op.name == "bernoulli_" and kept.type.shape == node.type.shape
        if alone and rest in w.arrays and np.isclose(float(w.arrays[rest]), chance or 0):
            ratio = w.constant(1 - chance, dtypes.float32)
            return w("Dropout", w.name(x), ratio, w.constant(True, dtypes.bool_))
    return None
