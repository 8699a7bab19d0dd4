"""Control flow in graphs: nodes that hold graphs, and run one of them, or one again and again.

    control.cond(selector, *inputs, *captured) one of ``branches``, as the selector says
    control.while_loop(*carried, *captured)    ``body`` as long as ``condition`` holds
    control.scan(*carried, *xs, *captured)     ``body`` for each row of xs
    control.while_vjp(*carried, *gradients, *captured)   a loop again, then its gradient backwards

A graph inside is pure: it has inputs (what is carried, rows) and captured values (the same at each
step), which are operands of the node. What a branch writes to outside, and the state of a random
generator that it draws from, are results of the node; ``states`` says which result is the state
that was which operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.graph.ir import ITEM, Graph, Node, interpret
from rushlight.ops.base import Op


class Control(Op, abstract=True):
    """A node of a graph that holds graphs."""

    namespace = "control"
    function = method = differentiable = False
    once = True  # it is differentiated while it is traced
    library = "it is made of branches and loops"


class Cond(Control):
    """The results of the branch whose number the first operand is."""

    def eager(self, selector: Any, *operands: Any, branches: Any, states: Any) -> Any:
        count = len(branches[0].inputs)
        return ran(branches[int(selector)], operands[:count], operands[count:])


class WhileLoop(Control):
    """What is carried, once the condition does not hold any more."""

    def eager(self, *operands: Any, condition: Any, body: Any, states: Any) -> Any:
        count = len(body.inputs)
        carried, captured = operands[:count], operands[count:]
        while ran(condition, carried, captured)[0]:
            carried = ran(body, carried, captured)
        return carried


class Scan(Control):
    """What is carried in the end, and the other results of all steps, stacked.

    Results are in the order of rows, from whichever end the loop begins.
    """

    def eager(
        self, *operands: Any, body: Any, carried: int, length: int, reverse: bool, states: Any
    ) -> Any:
        count = len(body.inputs)
        now, xs, captured = operands[:carried], operands[carried:count], operands[count:]
        stacks = [
            np.empty((length, *n.type.shape), n.type.dtype.numpy) for n in body.outputs[carried:]
        ]
        for i in reversed(range(length)) if reverse else range(length):
            results = ran(body, (*now, *[x[i, ...] for x in xs]), captured)
            now = results[:carried]
            for stack, y in zip(stacks, results[carried:], strict=True):
                stack[i] = y
        return (*now, *stacks)


class WhileVjp(Control):
    """The gradients of a loop: it is run again with all that it carried kept, then backwards.

    The inputs of ``backward`` are what a step was given and the gradients after it, its outputs
    are the gradients before it.
    """

    def eager(self, *operands: Any, condition: Any, body: Any, backward: Any, states: Any) -> Any:
        count, whole = len(body.inputs), len(backward.inputs)
        carried, gradients, captured = operands[:count], operands[count:whole], operands[whole:]
        kept = []
        while ran(condition, carried, captured)[0]:
            kept.append(carried)
            carried = ran(body, carried, captured)
        for given in reversed(kept):
            gradients = ran(backward, (*given, *gradients), captured)
        return gradients


def ran(graph: Graph, inputs: Sequence[Any], captured: Sequence[Any]) -> tuple[Any, ...]:
    """The results of a graph inside."""
    return tuple(interpret(graph, inputs, captured)[0])


def origin_of(node: Node) -> Node | None:
    """The state of a generator before the draws that led to ``node``; None if it is no state."""
    if node.op is not ITEM:
        return None
    (maker,) = node.inputs
    assert maker is not None
    index = node.attrs["index"]
    if "generator" in maker.attrs:
        return maker.inputs[0] if index == len(maker.type) - 1 else None
    if isinstance(maker.op, Control):
        return next((maker.inputs[j] for i, j in maker.attrs["states"] if i == index), None)
    return None
