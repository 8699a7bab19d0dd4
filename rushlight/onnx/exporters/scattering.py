"""Elements written, or added, at positions."""

from __future__ import annotations

from math import prod
from typing import Any

from rushlight import dtypes
from rushlight.graph.ir import Node
from rushlight.onnx.exporters.indexing import at_least_vector, common, indexed, tuples
from rushlight.onnx.writer import Writer, exports, operand

SINCE = {"none": 13, "add": 16, "mul": 16, "max": 18, "min": 18}
FOLDS = {"prod": "mul", "amax": "max", "amin": "min"}


def how(w: Writer, reduction: str) -> dict[str, Any]:
    """The attribute that says how elements meet."""
    if SINCE[reduction] > w.opset:
        raise w.refusal(f"it needs opset_version={SINCE[reduction]} or later")
    return {} if reduction == "none" else {"reduction": reduction}


def scattered(w: Writer, node: Node, x: str, src: str, index: str, reduction: str) -> str:
    """``src``, as far as there are positions, written along one dimension."""
    target, source, places = [operand(node, i) for i in range(3)]
    if 0 in places.type.shape:
        return x
    if source.type.shape != places.type.shape:
        if not source.type.shape:
            src = w("Expand", src, w.ints(*places.type.shape))
        else:
            dims, ends = range(len(places.type.shape)), w.ints(*places.type.shape)
            src = w("Slice", src, w.ints(*[0] * len(dims)), ends, w.ints(*dims))
    x, src = at_least_vector(w, target, x), at_least_vector(w, places, src)
    index = at_least_vector(w, places, index)
    options = how(w, reduction)
    found = w("ScatterElements", x, index, src, axis=node.attrs["dim"], **options)
    return found if node.type.shape else w.reshape(found)


@exports("scatter")
def scatter(w: Writer, node: Node, x: str, src: str, index: str) -> str:
    return scattered(w, node, x, src, index, "none")


@exports("scatter_add")
def scatter_add(w: Writer, node: Node, x: str, src: str, index: str) -> str:
    return scattered(w, node, x, src, index, "add")


@exports("scatter_fold")
def scatter_fold(w: Writer, node: Node, x: str, src: str, index: str) -> str:
    return scattered(w, node, x, src, index, FOLDS[node.attrs["reduce"]])


def along(w: Writer, node: Node, x: str, source: str, index: str, reduction: str) -> str:
    """Whole rows of ``source`` written to the rows of ``x`` that ``index`` names."""
    places = operand(node, 2)
    dim = node.attrs["dim"]
    count = places.type.shape[0] if places.type.shape else 1
    shape = list(node.type.shape) or [1]
    shape[dim] = count
    column = [1] * len(shape)
    column[dim] = count
    whole = w("Expand", w.reshape(index, *column), w.ints(*shape))
    source = w("Expand", source, w.ints(*shape))
    x = at_least_vector(w, operand(node), x)
    found = w("ScatterElements", x, whole, source, axis=dim, **how(w, reduction))
    return found if node.type.shape else w.reshape(found)


@exports("index_add")
def index_add(w: Writer, node: Node, x: str, source: str, index: str) -> str:
    if node.attrs["alpha"] != 1:
        source = w("Mul", source, w.like(node.attrs["alpha"], node))
    return along(w, node, x, source, index, "add")


@exports("index_copy", "index_fill")
def index_copy(w: Writer, node: Node, x: str, source: str, index: str) -> str:
    return along(w, node, x, source, index, "none")


@exports("index_put", whole=False)
def index_put(w: Writer, node: Node, x: str, values: str, *indices: str) -> str:
    here, others = indexed(node, node.attrs["layout"])
    shape, sizes = common(node.inputs[2:]), node.type.shape
    order = [*here, *others]
    turned = order != sorted(order)
    if turned and len(here) > 1:
        raise w.refusal("positions in other than the leading dimensions cannot be written to")
    x = w("Transpose", x, perm=order) if turned else x
    places = tuples(w, indices, node.inputs[2:], shape)
    full = (*shape, *[sizes[d] for d in others])
    if turned:  # values have the positions where the dimension is
        inner = [*sizes[: here[0]], *shape, *sizes[here[0] + 1 :]]
        rank, first = len(shape), here[0]
        back = [*range(first, first + rank), *range(first), *range(first + rank, len(inner))]
        values = w("Transpose", w("Expand", values, w.ints(*inner)), perm=back)
    else:
        values = w("Expand", values, w.ints(*full))
    options = how(w, "add" if node.attrs["accumulate"] else "none")
    found = w("ScatterND", x, places, values, **options)
    return (
        w("Transpose", found, perm=[order.index(d) for d in range(len(order))]) if turned else found
    )


@exports("put")
def put(w: Writer, node: Node, x: str, source: str, index: str) -> str:
    rows = [w.reshape(t, -1) for t in (x, index, source)]
    options = how(w, "add" if node.attrs["accumulate"] else "none")
    found = w("ScatterElements", *rows, axis=0, **options)
    return w.reshape(found, *node.type.shape)


@exports("plane_put")
def plane_put(w: Writer, node: Node, y: str, index: str) -> str:
    """Values at their places in planes of zeros."""
    lead = node.type.shape[: len(node.type.shape) - len(node.attrs["plane"])]
    whole: Any = [*lead, prod(node.attrs["plane"])]
    zeros = w.reshape(w.filled(0, node.type), *whole)
    each = prod(operand(node).type.shape[len(lead) :])
    places, values = [w.reshape(t, *lead, each) for t in (index, y)]
    options = how(w, "none" if node.attrs["once"] else "add")
    found = w("ScatterElements", zeros, places, values, axis=len(lead), **options)
    return w.reshape(found, *node.type.shape)


@exports("masked_scatter")
def masked_scatter(w: Writer, node: Node, x: str, source: str, mask: str) -> str:
    """The next element of ``source`` for each place where the mask holds."""
    whole = w("Expand", mask, w.ints(*node.type.shape))
    count = w.cast(w.reshape(whole, -1), dtypes.int64)
    running = w("CumSum", count, w.ints(0, scalar=True))
    place = w("Max", w("Sub", running, w.ints(1, scalar=True)), w.ints(0, scalar=True))
    found = w("Gather", w.reshape(source, -1), place, axis=0)
    return w("Where", whole, w.reshape(found, *node.type.shape), x)
