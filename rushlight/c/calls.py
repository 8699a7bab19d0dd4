"""Ops that are neither loops nor products: which C functions are called for them."""

from __future__ import annotations

from rushlight.c import checks, ordering, random
from rushlight.c.file import File
from rushlight.c.invocations import Invocation
from rushlight.graph.ir import Node

CALLS = {**ordering.RULES, **random.RULES, **checks.RULES}


def invocation(node: Node, file: File) -> Invocation:
    """How the results of a node are computed by a call."""
    rule = CALLS.get(node.op.full_name)
    found = rule(node, file) if rule is not None else None
    if found is None:
        raise file.refused(node, node.op.library or "there is no C function for it")
    return found
