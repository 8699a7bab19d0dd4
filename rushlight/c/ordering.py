"""Sorting, searching and running extremes as calls."""

from __future__ import annotations

import math

from rushlight.c.file import File
from rushlight.c.invocations import Invocation, Rules
from rushlight.graph.ir import Node
from rushlight.passes.clusters import types

RULES = Rules()
SMALL = ("f16", "bf16")


def lines(node: Node) -> tuple[int, int, int]:
    """The lines of a node's first operand along ``dim``: their number, their length, their step."""
    shape = node.inputs[0].type.shape or (1,)  # type: ignore[union-attr]
    dim = node.attrs["dim"]
    return (
        math.prod(shape[:dim]) * math.prod(shape[dim + 1 :]),
        shape[dim],
        math.prod(shape[dim + 1 :]),
    )


def called(
    node: Node, file: File, *numbers: int, scratch: int = 0, name: str = ""
) -> Invocation | None:
    """A call that is given all operands, and makes all results."""
    operands = [n for n in node.inputs if n is not None]
    kind = operands[0].type.kind
    if kind in SMALL:
        return None
    function = f"{name or node.op.name}_{kind}"
    file.snippets.need(function)
    texts = tuple([str(n) for n in numbers])
    return Invocation(function, tuple(range(len(operands))), tuple(types(node)), texts, scratch)


@RULES.add("sort")
def sort(node: Node, file: File) -> Invocation | None:
    count, size, step = lines(node)
    down, room = int(node.attrs["descending"]), 16 * max(1, size)
    return called(node, file, count, size, step, down, scratch=room)


@RULES.add("cummax", "cummin", "logcumsumexp")
def running(node: Node, file: File) -> Invocation | None:
    return called(node, file, *lines(node))


@RULES.add("searchsorted")
def search(node: Node, file: File) -> Invocation | None:
    sequence, values = [n for n in node.inputs if n is not None]
    if sequence.type.dtype != values.type.dtype or node.attrs["out_int32"]:
        return None
    size = sequence.type.shape[-1]
    per_line = 0 if len(sequence.type.shape) == 1 else values.type.shape[-1]
    right = int(node.attrs["right"])
    return called(node, file, values.type.size, size, per_line, right, name="search")


@RULES.add("gcd", "lcm")
def divisor(node: Node, file: File) -> Invocation | None:
    if any([n is None or n.type != node.type for n in node.inputs]):
        return None
    return called(node, file, node.type.size)
