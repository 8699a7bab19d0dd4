"""Early steps: what a program computes of captured tensors alone, the same at every call.

A weight that is scaled, transposed or cast needs that once, as long as nobody writes to it. Such
steps are put first; their results stay in memory, and are made again only if a tensor has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rushlight.config import config
from rushlight.graph.ir import CONSTANT, ITEM, Graph, Node
from rushlight.passes.fuse import Call, Group, Step
from rushlight.passes.order import Plan, nbytes


def still_leaves(graph: Graph, still: Sequence[int]) -> set[Node]:
    """The captured tensors that are the same at every call, unless somebody else writes to them.

    Args:
        still: the numbers of those of which a call can tell whether they have changed.
    """
    return {graph.captured[i] for i in still} - {target for target, _ in graph.writes}


def still_nodes(graph: Graph, leaves: Collection[Node]) -> set[Node]:
    """The nodes that are computed of these leaves alone, and are not much larger than they are."""
    found = set(leaves)
    if not found:
        return found
    for node in graph.nodes():
        inputs = [n for n in node.inputs if n is not None and n.op is not CONSTANT]
        if inputs and node.op is not ITEM and all([n in found for n in inputs]):
            if nbytes([node]) <= 2 * max([nbytes([n]) for n in inputs]):
                found.add(node)
    return found


def early_first(graph: Graph, plan: Plan, leaves: Collection[Node]) -> Plan:
    """The plan with those steps first that read nothing but these leaves."""
    known = set(leaves)
    outside = {*graph.roots, *plan.stores}
    early: list[Step] = []
    late: list[Step] = []
    left = config.keep_packed
    for step in plan.steps:
        made = step.outputs if isinstance(step, Group) else step.nodes
        if left >= nbytes(made) and outside.isdisjoint(made) and is_early(step, known):
            left -= nbytes(made)
            known.update(made)
            early.append(step)
        else:
            late.append(step)
    return Plan((*early, *late), plan.stores, len(early))


def is_early(step: Step, known: Collection[Node]) -> bool:
    """Whether a group, or a view that nobody copies, is of what is ``known`` alone."""
    if isinstance(step, Call) and not step.alias:
        return False
    inputs = [n for n in step.inputs if n.op is not CONSTANT]
    return bool(inputs) and all([n in known for n in inputs])
