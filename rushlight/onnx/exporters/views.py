"""The same elements in another shape or order, and parts of them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight.graph.ir import Node
from rushlight.onnx.writer import Writer, exports, operand

FAR = np.iinfo(np.int64).max


@exports("view")
def view(w: Writer, node: Node, x: str) -> str:
    same = operand(node).type.shape == node.type.shape
    return x if same else w.reshape(x, *node.type.shape)


@exports("squeeze")
def squeeze(w: Writer, node: Node, x: str) -> str:
    dims, shape = node.attrs["dim"], operand(node).type.shape
    dims = [d for d, n in enumerate(shape) if n == 1] if dims is None else dims
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    return w("Squeeze", x, w.ints(*dims)) if dims else x


@exports("unsqueeze")
def unsqueeze(w: Writer, node: Node, x: str) -> str:
    return w("Unsqueeze", x, w.ints(node.attrs["dim"] % len(node.type.shape)))


@exports("permute")
def permute(w: Writer, node: Node, x: str) -> str:
    dims = [d % len(node.type.shape) for d in node.attrs["dims"]]
    return x if dims == sorted(dims) else w("Transpose", x, perm=dims)


@exports("transpose")
def transpose(w: Writer, node: Node, x: str) -> str:
    rank = len(node.type.shape)
    if not rank:
        return x
    order = list(range(rank))
    a, b = node.attrs["dim0"] % rank, node.attrs["dim1"] % rank
    order[a], order[b] = order[b], order[a]
    return x if a == b else w("Transpose", x, perm=order)


@exports("expand")
def expand(w: Writer, node: Node, x: str) -> str:
    if operand(node).type.shape == node.type.shape:
        return x
    return w("Expand", x, w.ints(*node.type.shape))


@exports("select")
def select(w: Writer, node: Node, x: str) -> str:
    return w("Gather", x, w.ints(node.attrs["index"], scalar=True), axis=node.attrs["dim"])


@exports("slice")
def slice_(w: Writer, node: Node, x: str) -> str:
    a = node.attrs
    start, end = 0 if a["start"] is None else a["start"], FAR if a["end"] is None else a["end"]
    if start == 0 and end == operand(node).type.shape[a["dim"]] and a["step"] == 1:
        return x
    return w("Slice", x, w.ints(start), w.ints(end), w.ints(a["dim"]), w.ints(a["step"]))


@exports("subscript")
def subscript(w: Writer, node: Node, x: str) -> str:
    """``x[index]`` of ints, slices, None and dots: slices first, then what has one element."""
    index, shape = node.attrs["index"], operand(node).type.shape
    index = index if isinstance(index, tuple) else (index,)
    used = sum([part is not None and part is not ... for part in index])
    dots = [slice(None)] * (len(shape) - used)
    whole: list[Any] = []
    for part in index if ... in index else (*index, ...):
        whole += dots if part is ... else [part]
    starts, ends, axes, steps, taken, added = [], [], [], [], [], []
    dim = place = 0
    for part in whole:
        if part is None:
            added.append(place)
            place += 1
            continue
        if isinstance(part, slice):
            if part != slice(None):
                starts.append(0 if part.start is None else part.start)
                ends.append(FAR if part.stop is None else part.stop)
                steps.append(1 if part.step is None else part.step)
                axes.append(dim)
            place += 1
        else:
            starts.append(part)
            ends.append(part + 1 if part != -1 else FAR)
            steps.append(1)
            axes.append(dim)
            taken.append(dim)
        dim += 1
    if axes:
        x = w("Slice", x, w.ints(*starts), w.ints(*ends), w.ints(*axes), w.ints(*steps))
    x = w("Squeeze", x, w.ints(*taken)) if taken else x
    return w("Unsqueeze", x, w.ints(*added)) if added else x


@exports("diagonal", "as_strided", "sliding")
def moved(w: Writer, node: Node, x: str) -> str:
    """Ops that take elements from elsewhere: run on their numbers, they say where from."""
    source = operand(node)
    w.need_numbers((*source.type.shape, *node.type.shape))
    numbers = np.arange(1, source.type.size + 1).reshape(source.type.shape)
    places = np.array(node.op.compute([numbers], node.attrs), order="C")
    row = w.reshape(x, -1)
    if (places == 0).any():  # what lies beyond the borders
        row = w("Concat", w.constant([0], source.type.dtype), row, axis=0)
        return w("Gather", row, w.constant(places), axis=0)
    return w("Gather", row, w.constant(places - 1), axis=0)


@exports("unfold")
def unfold(w: Writer, node: Node, x: str) -> str:
    """Windows of a dimension, whose elements become the last one."""
    dim, size, step = (node.attrs[k] for k in ("dimension", "size", "step"))
    if not operand(node).type.shape:
        return w.reshape(x, *node.type.shape)
    count, rank = node.type.shape[dim], len(node.type.shape)
    w.need_numbers((count,))
    places = np.arange(count)[:, None] * step + np.arange(size)
    found = w("Gather", x, w.constant(places), axis=dim)
    order = [*range(dim + 1), *range(dim + 2, rank), dim + 1]
    return found if dim + 2 == rank else w("Transpose", found, perm=order)


@exports("roll")
def roll(w: Writer, node: Node, x: str) -> str:
    shape, dims = node.type.shape, node.attrs["dims"]
    if not shape:
        return x
    if not dims:
        return w.reshape(
            rolled(w, w.reshape(x, -1), node.attrs["shifts"][0], 0, prod(shape)), *shape
        )
    for shift, dim in zip(node.attrs["shifts"], dims, strict=True):
        x = rolled(w, x, shift, dim, shape[dim])
    return x


def rolled(w: Writer, x: str, shift: int, dim: int, size: Any) -> str:
    """The last elements before the first ones."""
    if not shift or size == 0:
        return x
    if abs(shift) > 1 or isinstance(size, int):  # a step of one is right for all sizes
        shift %= size
    if shift == 0:
        return x
    axis, cut = w.ints(dim), w.ints(-shift)
    last, first = w("Slice", x, cut, w.ints(FAR), axis), w("Slice", x, w.ints(0), cut, axis)
    return w("Concat", last, first, axis=dim)


@exports("flip")
def flip(w: Writer, node: Node, x: str) -> str:
    if not node.type.shape or not node.attrs["dims"]:
        return x
    dims = [d % len(node.type.shape) for d in node.attrs["dims"]]
    ends = [-1] * len(dims), [-FAR] * len(dims), dims, [-1] * len(dims)
    return w("Slice", x, *[w.ints(*numbers) for numbers in ends])


@exports("tril", "triu")
def triangle(w: Writer, node: Node, x: str) -> str:
    upper, diagonal = node.op.name == "triu", w.ints(node.attrs["diagonal"], scalar=True)
    if w.opset >= 14:
        return w("Trilu", x, diagonal, upper=int(upper))
    rows, columns = [w.rows(n) for n in node.type.shape[-2:]]
    ahead = w("Sub", columns, w("Unsqueeze", rows, w.ints(1)))
    kept = w("GreaterOrEqual" if upper else "LessOrEqual", ahead, diagonal)
    return w("Where", kept, x, w.like(0, node))
