"""Running sums, products and extremes along a dimension: loops over its rows, but for sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rushlight import dtypes
from rushlight.graph.ir import Node, TensorType
from rushlight.onnx.exporters.formulas import log1p
from rushlight.onnx.exporters.reductions import as_result
from rushlight.onnx.writer import Writer, exports, operand

Step = Callable[[Sequence[str], Sequence[str]], list[str]]
"""What is carried and the next rows → what is carried on, which are the results, too."""


@exports("cumsum")
def cumsum(w: Writer, node: Node, x: str) -> str:
    if not node.type.shape:
        return x
    return w("CumSum", as_result(w, node, x), w.constant(node.attrs["dim"], dtypes.int64))


def running(
    w: Writer, dim: int, first: list[tuple[str, TensorType]], rows: list[Any], step: Step
) -> tuple[str, ...]:
    """All that a loop carries, stacked: it begins with ``first``, and gets ``rows`` one by one.

    Rows are (name, type of one, dimension that they are along).
    """
    with w.inside() as body:
        carried = [(w.fresh("carried"), kind) for _, kind in first]
        given = [(w.fresh("row"), kind) for _, kind, _ in rows]
        body.inputs = [*carried, *given]
        after = step([name for name, _ in carried], [name for name, _ in given])
        kinds = [kind for _, kind in first]
        w.end(body, [*zip(after, kinds, strict=True), *zip(after, kinds, strict=True)])
    names = [name for name, _ in first] + [name for name, _, _ in rows]
    return w(
        "Scan", *names, outputs=2 * len(first), num_scan_inputs=len(rows), body=body,
        scan_input_axes=[axis for _, _, axis in rows], scan_output_axes=[dim] * len(first),
    )[len(first) :]  # fmt: skip


def row_of(node: Any, dim: int) -> TensorType:
    """The type of what lies across a dimension."""
    kept = [n for d, n in enumerate(node.type.shape) if d != dim]
    return TensorType(tuple(kept), node.type.dtype)


@exports("cumprod")
def cumprod(w: Writer, node: Node, x: str) -> str:
    dim = node.attrs["dim"]
    if not node.type.shape:
        return x
    row = row_of(node, dim)
    given = (as_result(w, node, x), row, dim)
    return running(w, dim, [(w.filled(1, row), row)], [given], lambda a, b: [w("Mul", a[0], b[0])])[
        0
    ]


@exports("logcumsumexp")
def logcumsumexp(w: Writer, node: Node, x: str) -> str:
    """log(exp(a) + exp(b)) again and again: the larger one plus log(1 + exp(−distance))."""
    dim = node.attrs["dim"]
    if not node.type.shape:
        return x
    row, zero = row_of(node, dim), w.like(0, node)

    def step(carried: Sequence[str], rows: Sequence[str]) -> list[str]:
        (a,), (b,) = carried, rows
        apart = w("Where", w("Equal", a, b), zero, w("Abs", w("Sub", a, b)))
        return [w("Add", w("Max", a, b), log1p(w, node.type.kind, w("Exp", w("Neg", apart))))]

    return running(w, dim, [(w.filled(-math.inf, row), row)], [(x, row, dim)], step)[0]


@exports("cummax", "cummin")
def record(w: Writer, node: Node, x: str) -> tuple[str, ...]:
    """The extreme so far, and where it was met last."""
    dim, source = node.attrs["dim"], operand(node)
    if not source.type.shape:
        return x, w.ints(0, scalar=True)
    kind = row_of(source, dim)
    places = TensorType(kind.shape, dtypes.int64)
    beyond = "GreaterOrEqual" if node.op.name == "cummax" else "LessOrEqual"

    def step(carried: Sequence[str], rows: Sequence[str]) -> list[str]:
        here = w(beyond, rows[0], carried[0])
        return [w("Where", here, new, old) for old, new in zip(carried, rows, strict=True)]

    start = w("Gather", x, w.ints(0, scalar=True), axis=dim)
    first = [(start, kind), (w.filled(0, places), places)]
    number = TensorType((), dtypes.int64)
    rows = [(x, kind, dim), (w.rows(source.type.shape[dim]), number, 0)]
    return running(w, dim, first, rows, step)
