"""Ops that are neither loops nor products: calls of C functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight.c.file import File
from rushlight.graph.ir import Node, TensorType

REASONS = "there is no C function for it"


class Invocation(NamedTuple):
    """A call: ``name(operands, results, scratch, numbers)``.

    ``operands`` are numbers among those of the node; ``kinds`` the types of its results.
    """

    name: str
    operands: tuple[int, ...]
    kinds: tuple[TensorType, ...]
    numbers: tuple[str, ...] = ()
    scratch: int = 0  # bytes
    errors: tuple[Any, ...] = ()


CALLS: dict[str, Callable[[Node, File], Invocation | None]] = {}


def invocation(node: Node, file: File) -> Invocation:
    """How the results of a node are computed by a call."""
    rule = CALLS.get(node.op.full_name)
    found = rule(node, file) if rule is not None else None
    if found is None:
        raise file.refused(node, node.op.library or REASONS)
    return found
