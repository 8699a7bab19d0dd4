"""Tensors put together, repeated, surrounded, and written into each other."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.dims import is_known, symbols_of
from rushlight.graph.extents import blank
from rushlight.graph.inference import Irregular, inferred
from rushlight.graph.ir import INPUT, Node, TensorType, type_of
from rushlight.onnx.writer import EXPORTERS, Writer, exports, operand


def alike(w: Writer, node: Node, xs: tuple[str, ...]) -> list[str]:
    """The operands in the dtype of the result."""
    kinds = [operand(node, i).type.dtype for i in range(len(xs))]
    wanted = node.type.dtype
    return [x if k is wanted else w.cast(x, wanted) for x, k in zip(xs, kinds, strict=True)]


@exports("cat")
def cat(w: Writer, node: Node, *xs: str) -> str:
    rank = len(node.type.shape)
    kept = [
        x
        for i, x in enumerate(alike(w, node, xs))
        if len(operand(node, i).type.shape) == rank  # an empty vector joins anything
    ]
    return w("Concat", *kept, axis=node.attrs["dim"])


@exports("stack")
def stack(w: Writer, node: Node, *xs: str) -> str:
    dim = w.ints(node.attrs["dim"] % len(node.type.shape))
    parts = [w("Unsqueeze", x, dim) for x in alike(w, node, xs)]
    return w("Concat", *parts, axis=node.attrs["dim"])


@exports("repeat")
def repeat(w: Writer, node: Node, x: str) -> str:
    repeats = node.attrs["repeats"]
    shape = operand(node).type.shape
    lead = len(repeats) - len(shape)
    x = w("Unsqueeze", x, w.ints(*range(lead))) if lead else x
    return w("Tile", x, w.ints(*repeats))


def padded(w: Writer, x: str, pads: Any, mode: str, value: str | None = None) -> str:
    """``x`` with borders; where they are negative, less of it."""
    if not all([is_known(pair) for pair in pads]):  # Pad takes off what is negative, too
        return w("Pad", x, w.ints(*[p[side] for side in (0, 1) for p in pads]), value, mode=mode)
    cut = [(d, max(-a, 0), max(-b, 0)) for d, (a, b) in enumerate(pads) if min(a, b) < 0]
    if cut:
        ends = [-b if b else np.iinfo(np.int64).max for _, _, b in cut]
        starts, dims = [a for _, a, _ in cut], [d for d, _, _ in cut]
        x = w("Slice", x, w.ints(*starts), w.ints(*ends), w.ints(*dims))
    grown = [max(p[side], 0) for side in (0, 1) for p in pads]
    return w("Pad", x, w.ints(*grown), value, mode=mode) if any(grown) else x


@exports("constant_pad_nd")
def constant_pad(w: Writer, node: Node, x: str) -> str:
    value = w.like(node.attrs["value"], node)
    return padded(w, x, node.attrs["pads"], "constant", value)


@exports("pad_borders")
def pad_borders(w: Writer, node: Node, x: str) -> str:
    mode, pads = node.attrs["mode"], node.attrs["pads"]
    if mode in ("reflect", "replicate"):
        return padded(w, x, pads, "edge" if mode == "replicate" else "reflect")
    for d, (before, after) in enumerate(pads):  # from the other end
        parts = [x]
        if before:
            last = (w.ints(-before), w.ints(np.iinfo(np.int64).max), w.ints(d))
            parts.insert(0, w("Slice", x, *last))
        if after:
            parts.append(w("Slice", x, w.ints(0), w.ints(after), w.ints(d)))
        x = w("Concat", *parts, axis=d) if len(parts) > 1 else x
    return x


def put_at(w: Writer, node: Node, base: str, part: str, chain: Any) -> str:
    """``base`` with ``part`` where the views of ``chain`` lead to, one after the other."""
    shape = node.type.shape
    if not symbols_of((shape, chain)):
        numbers = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)
        places = w.constant(seen(numbers, chain).reshape(-1))
    else:  # the numbers of elements go the same way in the file
        places, _ = viewed(w, w.reshape(w.rows(prod(shape)), *shape), node.type, chain)
        places = w.reshape(places, -1)
    found = w("ScatterElements", w.reshape(base, -1), places, w.reshape(part, -1), axis=0)
    return w.reshape(found, *shape)


def seen(array: np.ndarray, chain: Any) -> np.ndarray:
    """A view of an array, by the ops that lead to it."""
    if chain is None:
        return array
    before, op, attrs = chain
    return np.asarray(op.compute([seen(array, before)], attrs))


def viewed(w: Writer, x: str, kind: TensorType, chain: Any) -> tuple[str, TensorType]:
    """The same of a value in the file."""
    if chain is None:
        return x, kind
    before, op, attrs = chain
    x, kind = viewed(w, x, kind, before)

    def rule(types: Any, attrs: Any) -> Any:
        return type_of(op.compute([blank(types[0])], attrs))

    try:
        made = inferred(rule, [kind], attrs, w.possible)
    except Irregular as error:
        raise w.refusal(f"how its sizes depend on those that change is unclear: {error}") from None
    node = Node(op, (Node(INPUT, (), {}, kind),), attrs, made)
    return EXPORTERS[op.full_name].write(w, node, x), node.type


@exports("view_scatter")
def view_scatter(w: Writer, node: Node, base: str, part: str) -> str:
    """What was written to a view, in what it is a view of."""
    return put_at(w, node, base, part, node.attrs["chain"])


@exports("embed")
def embed(w: Writer, node: Node, part: str) -> str:
    """A part among zeros."""
    zeros = w.filled(0, node.type)
    return put_at(w, node, zeros, part, (None, node.attrs["view"], node.attrs["where"]))


@exports("one_hot")
def one_hot(w: Writer, node: Node, x: str) -> str:
    classes = w.constant(np.arange(node.attrs["num_classes"]))
    same = w("Equal", w("Unsqueeze", x, w.ints(-1)), classes)
    return w.cast(same, dtypes.int64)
