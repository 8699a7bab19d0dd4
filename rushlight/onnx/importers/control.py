"""Branches, loops and scans: graphs inside nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import control, dtypes
from rushlight.autograd.modes import local
from rushlight.onnx.errors import NodeError, OnnxError, Unholdable
from rushlight.onnx.importers.registry import integer, known, op, tensor_of
from rushlight.ops import ops
from rushlight.tensor import Tensor


def decides_later(value: Any) -> bool:
    """Whether a value is known only when the graph that is being traced runs."""
    return isinstance(value, Tensor) and local.state.trace is not None


@op("If", raw=True)
def branch(cond: Any, *, then_branch: Any, else_branch: Any) -> Any:
    """A graph holds both branches, unless one of them makes no sense for these inputs."""

    def tensors(body: Any) -> Any:
        return lambda: tuple([tensor_of(v) for v in body()])

    if decides_later(cond):
        try:
            return control.cond(cond, tensors(then_branch), tensors(else_branch))
        except NodeError:
            pass
        except TypeError as error:  # results of two types
            raise Unholdable(str(error)) from None
    return then_branch() if bool(known(cond)) else else_branch()


@op("Loop", raw=True)
def loop(trip_count: Any, cond: Any, *carried: Any, body: Any, outputs: int) -> Any:
    """In dynamic mode plain Python; in a graph a scan, or a loop of unknown length."""
    scans = outputs - len(carried)
    tracing = local.state.trace is not None
    if not tracing or any([isinstance(v, list) for v in carried]):
        return unrolled(trip_count, cond, carried, body, scans)
    values = [tensor_of(v) for v in carried]
    given = cond is None or (isinstance(cond, np.ndarray) and bool(cond))
    if given and body.endless() and isinstance(trip_count, np.ndarray):
        try:
            return swept(integer(trip_count), values, body)
        except TypeError:  # a carried value changes its shape
            return unrolled(trip_count, None, carried, body, scans)
    if scans:
        raise Unholdable(
            "how many rows its results have depends on values, so a graph cannot hold it: run the "
            "model outside the compiled function"
        )

    def test(i: Tensor, go: Tensor, *rest: Tensor) -> Tensor:
        return go if trip_count is None else ops.logical_and(go, i < tensor_of(trip_count))

    def step(i: Tensor, go: Tensor, *rest: Tensor) -> tuple[Any, ...]:
        after = [tensor_of(v) for v in body(i, go, *rest)]
        return i + 1, after[0].reshape(()), *after[1:]

    go = ops.full((), True) if cond is None else tensor_of(cond).reshape(())
    first = ops.zeros((), dtype=dtypes.int64)
    try:
        return tuple(control.while_loop(test, step, (first, go, *values))[2:])
    except TypeError as error:  # a carried value changes its shape
        raise Unholdable(str(error)) from None


def unrolled(trip_count: Any, cond: Any, carried: Sequence[Any], body: Any, scans: int) -> Any:
    """One run of the body after the other; carried values may change their shapes."""
    count = None if trip_count is None else integer(known(trip_count))
    go, i, values = cond is None or bool(known(cond)), 0, list(carried)
    rows: list[list[Any]] = [[] for _ in range(scans)]
    while go and (count is None or i < count):
        more, *after = body(np.array(i, np.int64), np.array(True), *values)
        values = after[: len(values)]
        for column, value in zip(rows, after[len(values) :], strict=True):
            column.append(tensor_of(value))
        go, i = bool(known(more)), i + 1
    if scans and not i:
        return (*values, *none_of(values, body, scans))
    return (*values, *map(ops.stack, rows))


def none_of(values: Sequence[Any], body: Any, scans: int) -> Sequence[Tensor]:
    """The stacked results of no step: of the types that a step would give, or else are stated."""
    try:
        return swept(0, [tensor_of(v) for v in values], body)[len(values) :]
    except Exception:  # sequences are carried, or only values tell a shape
        return [ops.zeros((0, *shape), dtype=kind) for kind, shape in body.stated()[-scans:]]


def swept(count: int, values: list[Tensor], body: Any) -> tuple[Tensor, ...]:
    """A loop over a range, in a graph."""

    def step(carry: Any, i: Tensor) -> Any:
        after = [tensor_of(v) for v in body(i, np.array(True), *carry)[1:]]
        return tuple(after[: len(values)]), tuple(after[len(values) :])

    carry, rows = control.scan(step, tuple(values), ops.arange(count))
    return (*carry, *rows)


@op("Scan", raw=True, since=9)
def scan(
    *inputs: Any,
    body: Any,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None,
    scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None,
    outputs: int,
) -> tuple[Any, ...]:
    """Rows of the last inputs, one after the other; a direction of 1 is backwards."""
    values = [tensor_of(v) for v in inputs]
    states, rows = values[: len(values) - num_scan_inputs], values[len(values) - num_scan_inputs :]
    count = outputs - len(states)
    axes = scan_input_axes or [0] * len(rows)
    back = scan_input_directions or [0] * len(rows)
    xs = [x.movedim(axis, 0) for x, axis in zip(rows, axes, strict=True)]
    xs = [x.flip(0) if b else x for x, b in zip(xs, back, strict=True)]

    def step(carry: Any, row: Any) -> Any:
        after = [tensor_of(v) for v in body(*carry, *row)]
        return tuple(after[: len(states)]), tuple(after[len(states) :])

    carry, ys = control.scan(step, tuple(states), tuple(xs))
    axes = scan_output_axes or [0] * count
    back = scan_output_directions or [0] * count
    ys = [y.flip(0) if b else y for y, b in zip(ys, back, strict=True)]
    return (*carry, *[y.movedim(0, axis) for y, axis in zip(ys, axes, strict=True)])


@op("Scan", raw=True)
def scan_8(
    sequence_lens: Any,
    *inputs: Any,
    body: Any,
    num_scan_inputs: int,
    directions: Sequence[int] | None = None,
    outputs: int,
) -> tuple[Any, ...]:
    """Version 8 has a batch: one scan for each of its elements."""
    if sequence_lens is not None:
        raise OnnxError("sequences of several lengths are not supported")
    values = [tensor_of(v) for v in inputs]
    results = [
        scan(
            *[v[i] for v in values],
            body=body,
            num_scan_inputs=num_scan_inputs,
            scan_input_directions=directions,
            outputs=outputs,
        )
        for i in range(values[0].shape[0])
    ]
    return tuple([ops.stack(column) for column in zip(*results, strict=True)])


@op("SequenceMap", raw=True)
def sequence_map(xs: Any, *others: Any, body: Any) -> Any:
    """The body of each element, and of the elements at the same place of other sequences."""
    columns: list[list[Any]] = []
    for i, x in enumerate(xs):
        results = body(x, *[v[i] if isinstance(v, list) else v for v in others])
        columns = columns or [[] for _ in results]
        for column, result in zip(columns, results, strict=True):
            column.append(result)
    return tuple(columns) or ([],)
