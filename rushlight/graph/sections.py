"""The graphs inside a node of control flow, with names for all that goes in and out."""

from __future__ import annotations

from typing import NamedTuple

from rushlight.graph.ir import Graph, Node


class Section(NamedTuple):
    """A graph inside a node: when it runs, and what its inputs and outputs are called."""

    label: str
    number: int  # among the graphs of the node
    graph: Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    captured: tuple[Node | None, ...]  # the operands of the node that are its captured values
    again: bool = False  # whether its outputs are its next inputs


def title_of(node: Node) -> str:
    """What a node of control flow is."""
    match node.op.name:
        case "cond":
            return "if" if decides(node) else "switch"
        case "scan":
            order = ", last first" if node.attrs["reverse"] else ""
            return f"scan of {node.attrs['length']} rows{order}"
        case "while_vjp":
            return "gradient of while"
    return "while"


def sections(node: Node) -> list[Section]:
    """The graphs inside a node of control flow, in the order in which they are read."""
    attrs, operands = node.attrs, node.inputs
    if node.op.name == "cond":
        graphs = attrs["branches"]
        labels = ["if false", "if true"] if decides(node) else []
        labels = labels or [f"case {i}" for i in range(len(graphs))]
        given, made = len(graphs[0].inputs), len(graphs[0].outputs)
        rest = operands[1 + given :]
        names = counted("operand", given), counted("result", made)
        found = [
            Section(label, i, graph, *names, rest)
            for i, (label, graph) in enumerate(zip(labels, graphs, strict=True))
        ]
        return found[::-1] if decides(node) else found
    body: Graph = attrs["body"]
    count = len(body.inputs)
    if node.op.name == "scan":
        carried = named(body, attrs["carried"])
        rows = counted("row", count - len(carried))
        results = counted("result row", len(body.outputs) - len(carried))
        inner = (*carried, *rows), (*carried, *results), operands[count:]
        return [Section("each row", 0, body, *inner, again=bool(carried))]
    carried = named(body, count)
    back: Graph = attrs.get("backward", body)
    rest = operands[len(back.inputs) :]
    found = [
        Section("as long as", 0, attrs["condition"], carried, ("go on",), rest),
        Section("do", 1, body, carried, carried, rest, again=True),
    ]
    if back is not body:
        gradients = counted("gradient", len(back.outputs))
        inner = (*carried, *gradients), gradients, rest
        found.append(Section("then back", 2, back, *inner, again=True))
    return found


def named(body: Graph, count: int) -> tuple[str, ...]:
    """What a loop carries, by the names of the user's variables where they are known."""
    pairs = zip(body.inputs, counted("carried", count), strict=False)
    return tuple([body.names.get(n, name) for n, name in pairs])


def counted(name: str, count: int) -> tuple[str, ...]:
    """A number behind each name, unless there is one.

    >>> counted("row", 1), counted("row", 2)
    (('row',), ('row 0', 'row 1'))
    """
    return (name,) if count == 1 else tuple([f"{name} {i}" for i in range(count)])


def decides(node: Node) -> bool:
    """Whether a node chooses one of two branches by a truth value."""
    selector = node.inputs[0]
    assert selector is not None
    if selector.op.name != "cast" or len(node.attrs["branches"]) != 2:
        return False
    truth = selector.inputs[0]
    return truth is not None and truth.type.dtype.name == "bool"
