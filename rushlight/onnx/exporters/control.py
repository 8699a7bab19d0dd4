"""Branches and loops: operators of ONNX that hold graphs."""

from __future__ import annotations

from typing import Any

from rushlight import dtypes
from rushlight.graph.ir import Graph, Node, TensorType
from rushlight.onnx.writer import Writer, exports, operand

TRUTH = TensorType((), dtypes.bool_)
COUNT = TensorType((), dtypes.int64)


def bound(w: Writer, graph: Graph, names: Any) -> None:
    """The inputs and captured values of a graph inside are these values of outside."""
    w.values.update(zip((*graph.inputs, *graph.captured), names, strict=True))


def types(nodes: Any) -> list[TensorType]:
    return [n.type for n in nodes]


def several(node: Node) -> int:
    return len(node.type) if isinstance(node.type, tuple) else 1


def results(found: Any) -> tuple[str, ...]:
    return found if isinstance(found, tuple) else (found,)


def refuse_draws(w: Writer, node: Node) -> None:
    if node.attrs["states"]:
        raise w.refusal("it draws random numbers, which an ONNX file cannot repeat")


@exports("script.check", "script.show")
def said(w: Writer, node: Node, count: str, *values: str) -> str:
    """Nothing: a file neither prints nor raises exceptions."""
    return count


@exports("control.cond")
def cond(w: Writer, node: Node, selector: str, *operands: str) -> tuple[str, ...]:
    refuse_draws(w, node)
    kind = operand(node).type.dtype
    return chosen(w, node, selector, kind, list(enumerate(node.attrs["branches"])), operands)


def chosen(
    w: Writer, node: Node, selector: str, kind: Any, branches: Any, operands: Any
) -> tuple[str, ...]:
    """The results of one of the numbered branches; each If tells one from the others."""
    (number, first), *others = branches
    outer = w.now
    if not others:
        bound(w, first, operands)
        names = w.write(first)
        w.now = outer
        return tuple(names)
    if kind is dtypes.bool_ and number == 0:
        here = w("Not", selector)
    else:
        here = w("Equal", selector, w.constant(number, kind))
    bodies = []
    for part in ([branches[0]], others):
        with w.inside() as body:
            found = chosen(w, node, selector, kind, part, operands)
            w.end(body, list(zip(found, types(first.outputs), strict=True)))
        w.now = outer
        bodies.append(body)
    count = len(first.outputs)
    return results(w("If", here, outputs=count, then_branch=bodies[0], else_branch=bodies[1]))


@exports("control.while_loop")
def while_loop(w: Writer, node: Node, *operands: str) -> tuple[str, ...]:
    refuse_draws(w, node)
    condition, step = node.attrs["condition"], node.attrs["body"]
    count, outer = len(step.inputs), w.now
    carried, captured = operands[:count], operands[count:]
    bound(w, condition, (*carried, *captured))
    first = going_on(w, condition)
    forget(w, condition)
    with w.inside() as body:
        body.inputs = [(w.fresh("turn"), COUNT), (w.fresh("going"), TRUTH)]
        inner = [w.fresh("carried") for _ in carried]
        body.inputs += list(zip(inner, types(step.inputs), strict=True))
        bound(w, step, (*inner, *captured))
        after = w.write(step)
        bound(w, condition, (*after, *captured))
        w.end(
            body, [(going_on(w, condition), TRUTH), *zip(after, types(step.outputs), strict=True)]
        )
    w.now = outer
    return results(w("Loop", "", first, *carried, outputs=count, body=body))


def going_on(w: Writer, condition: Graph) -> str:
    """Whether there is another step."""
    (found,), (node,) = w.write(condition), condition.outputs
    return found if node.type.dtype is dtypes.bool_ else w.cast(found, dtypes.bool_)


def forget(w: Writer, graph: Graph) -> None:
    """Nodes of a graph are written again, for other values."""
    for n in graph.nodes():
        if n not in w.arrays:
            w.values.pop(n, None)


@exports("control.scan")
def scan(w: Writer, node: Node, *operands: str) -> tuple[str, ...]:
    refuse_draws(w, node)
    step, count, outer = node.attrs["body"], node.attrs["carried"], w.now
    whole = len(step.inputs)
    carried, rows, captured = operands[:count], operands[count:whole], operands[whole:]
    stacked = len(step.outputs) - count
    given = list(rows) or [w.rows(node.attrs["length"])]  # ONNX counts turns by what it is given
    with w.inside() as body:
        names = [w.fresh("carried") for _ in carried]
        parts = [w.fresh("row") for _ in given]
        kinds = types(step.inputs) if rows else [*types(step.inputs), COUNT]
        body.inputs = list(zip([*names, *parts], kinds, strict=True))
        bound(w, step, (*names, *parts[: len(rows)], *captured))
        w.end(body, list(zip(w.write(step), types(step.outputs), strict=True)))
    w.now = outer
    options: dict[str, Any] = {}
    if node.attrs["reverse"]:
        options = {
            "scan_input_directions": [1] * len(given),
            "scan_output_directions": [1] * stacked,
        }
    found = w(
        "Scan", *carried, *given, outputs=several(node), num_scan_inputs=len(given), body=body,
        **options,
    )  # fmt: skip
    return results(found)
