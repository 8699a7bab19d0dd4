"""Places: results that are made where an operand of theirs lies, instead of beside it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rushlight.codegen import chains
from rushlight.graph.ir import Node
from rushlight.ops.base import registry
from rushlight.passes.fuse import Call, Group
from rushlight.passes.order import Plan
from rushlight.runtime.parts import Parts

VIEW = registry["view"]


def readers_of(plan: Plan) -> dict[Node, list[int]]:
    """The steps that read each value."""
    found: dict[Node, list[int]] = {}
    for number, step in enumerate(plan.steps):
        for node in step.inputs:
            found.setdefault(node, []).append(number)
    return found


def reshaped(plan: Plan, needed: Collection[Node]) -> dict[int, tuple[Node, Node]]:
    """Steps that only copy a product to a result of another shape: it can be made there at once.

    ``needed`` are values that must have memory of their own.
    """
    readers = readers_of(plan)
    products = {s.node for s in plan.steps if isinstance(s, Call) and s.node.op.subscripts}
    found = {}
    for number, step in enumerate(plan.steps):
        if not isinstance(step, Group) or number < plan.early:
            continue
        if len(step.outputs) != 1 or any([node.op is not VIEW for node in step.nodes]):
            continue
        (node,), (result,) = step.inputs, step.outputs
        further = [plan.steps[n] for n in readers.get(result, [])]
        alone = readers[node] == [number] and node not in needed and result not in plan.stores
        if node in products and alone and not any([isinstance(s, Group) for s in further]):
            found[number] = node, result
    return found


def overwritten(
    plan: Plan, links: Mapping[int, Sequence[int]], parts: Parts, needed: Collection[Node]
) -> dict[Node, Node]:
    """Products that only a kernel of their chain reads, and what it makes in their place."""
    found: dict[Node, Node] = {}
    readers = readers_of(plan)
    for number, chained in links.items():
        (node,) = plan.steps[number].nodes
        users = readers.get(node, [])
        if node in needed or len(users) != 1 or users[0] not in chained:
            continue
        ((kernel,), meant) = parts.loops(users[0])
        for buffer in [b for b in kernel.inputs if b.node and meant[b.node] is node]:
            for result in [meant[b.node] for b in chains.replaced(kernel, buffer) if b.node]:
                if result not in plan.stores and result.type.nbytes == node.type.nbytes:
                    found.setdefault(node, result)
    return found
