"""Windows that slide over planes, and the largest or the average of what they see."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from rushlight.codegen.values import FLOATS
from rushlight.dtypes import int64
from rushlight.graph.ir import Node
from rushlight.kernels.pooling import Window
from rushlight.onnx.exporters.reductions import reduced
from rushlight.onnx.writer import Writer, exports, operand
from rushlight.ops.adaptive_pooling import apart


def batched(w: Writer, node: Node, x: str, pool: Callable[[str], tuple[str, ...]]) -> list[str]:
    """The results of a pool, which ONNX has for batches alone."""
    rank = len(node.attrs["windows"])
    missing = w.ints(*range(rank + 2 - len(operand(node).type.shape)))
    if len(operand(node).type.shape) == rank + 2:
        return list(pool(x))
    return [w("Squeeze", y, missing) for y in pool(w("Unsqueeze", x, missing))]


def overhang(w: Writer, window: Window) -> int | None:
    """How far windows reach over the end, None if ONNX has to find that out."""
    w.need_numbers((window.size, window.stride, window.padding, window.dilation))
    span = (window.size - 1) * window.dilation + 1
    extra: Any = (window.outputs - 1) * window.stride + span - window.length - window.padding
    if isinstance(extra, int):
        return max(extra, 0)
    floor = (window.length + 2 * window.padding - span) // window.stride + 1
    return window.padding if floor == window.outputs else None


def sliding(windows: tuple[Window, ...], ends: list[int | None]) -> dict[str, Any]:
    """The attributes that all pools have."""
    last = [v.padding if end is None else end for v, end in zip(windows, ends, strict=True)]
    return {
        "kernel_shape": [v.size for v in windows],
        "strides": [v.stride for v in windows],
        "pads": [*[v.padding for v in windows], *last],
        **({"ceil_mode": 1} if None in ends else {}),
    }


@exports(*[f"nn.functional.max_pool{rank}d" for rank in (1, 2, 3)])
def max_pool(w: Writer, node: Node, x: str) -> Any:
    windows, indices = node.attrs["windows"], node.attrs["return_indices"]
    attrs = sliding(windows, [overhang(w, v) for v in windows])
    attrs["dilations"] = [v.dilation for v in windows]
    if any([e.kind == "Pad" and x in e.outputs for e in w.body.nodes]):
        # ONNX Runtime 1.31 joins the two, and takes what was padded with for −∞.
        x = w("Max", x, w.constant(-np.inf, operand(node).type.dtype))

    def pool(x: str) -> tuple[str, ...]:
        if not indices:
            return (w("MaxPool", x, **attrs),)
        y, places = w("MaxPool", x, outputs=2, **attrs)
        plane = w.product([v.length for v in windows])
        return y, w("Mod", places, plane)  # ONNX counts through all planes

    found = batched(w, node, x, pool)
    return tuple(found) if indices else found[0]


@exports(*[f"nn.functional.avg_pool{rank}d" for rank in (1, 2, 3)])
def avg_pool(w: Writer, node: Node, x: str) -> str:
    windows, padded, divisor = (node.attrs[k] for k in ("windows", "padded", "divisor"))
    ends = [overhang(w, v) for v in windows]
    if node.type.kind not in FLOATS:
        raise w.refusal("ONNX has averages of floats alone")
    if None in ends:
        raise w.refusal("ceil_mode needs sizes that are numbers: leave them out of dynamic_axes")
    even = all([(end or 0) <= v.padding for end, v in zip(ends, windows, strict=True)])
    attrs = sliding(windows, ends)

    def pool(x: str) -> tuple[str, ...]:
        if even and divisor is None:
            ends_too = {**attrs, "pads": [v.padding for v in windows] * 2}
            return (w("AveragePool", x, count_include_pad=int(padded), **ends_too),)
        shares = w("AveragePool", x, count_include_pad=1, **attrs)
        size = prod([v.size for v in windows])
        if divisor is not None:
            return (w("Mul", shares, w.like(size / divisor, node)),)
        return (w("Mul", shares, w.like(size / counts(windows, padded), node)),)

    return batched(w, node, x, pool)[0]


def counts(windows: tuple[Window, ...], padded: bool) -> Any:
    """How many elements each window has."""
    total: Any = 1
    for v in windows:
        start = np.arange(v.outputs) * v.stride - v.padding
        least, most = (-v.padding, v.length + v.padding) if padded else (0, v.length)
        along = np.minimum(start + v.size, most) - np.maximum(start, least)
        total = np.multiply.outer(total, along)
    return total


@exports("largest_apart")
def largest_apart(w: Writer, node: Node, x: str) -> Any:
    """The largest element of windows of several lengths: the shorter ones repeat their last."""
    sizes, shape = node.attrs["sizes"], operand(node).type.shape
    rank = len(shape) - len(sizes)
    w.need_numbers(shape[rank:])
    tables = [apart(n, count) for n, count in zip(shape[rank:], sizes, strict=True)]
    if not node.attrs["return_indices"]:
        for dim, table in enumerate(tables, rank):
            x = reduced(
                w, "ReduceMax", w("Gather", x, w.constant(table), axis=dim), (dim + 1,), False
            )
        return x
    places = np.zeros((1, 1), np.int64)
    for table, n in zip(tables, shape[rank:], strict=True):
        within = places[:, None, :, None] * n + table[None, :, None, :]
        places = within.reshape(len(places) * len(table), places.shape[1] * table.shape[1])
    planes = w.reshape(x, *shape[:rank], prod(shape[rank:]))
    seen = w("Gather", planes, w.constant(places), axis=rank)
    first = w("ArgMax", seen, axis=rank + 1, keepdims=0)
    rows = w.constant(np.arange(len(places)) * places.shape[1], int64)
    index = w("Gather", w.constant(places.reshape(-1)), w("Add", first, rows), axis=0)
    y = reduced(w, "ReduceMax", seen, (rank + 1,), False)
    return tuple([w.reshape(t, *shape[:rank], *sizes) for t in (y, index)])
