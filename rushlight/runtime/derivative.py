"""The gradients of a compiled function as a function, for those who differentiate them again.

A graph does not say what autograd must not see: what was detached, computed without recording, or
has a derivative of the user's own. So the function itself is traced once more, now with its
gradients as results; like any compiled function they have a derivative, and that has one in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.backward import grad_of_leaves
from rushlight.autograd.modes import local
from rushlight.graph import ir
from rushlight.graph.arguments import Arguments, mapped, replaced
from rushlight.graph.ir import Graph, Node
from rushlight.graph.results import leaves
from rushlight.graph.trace import Trace
from rushlight.ops.programs import program
from rushlight.runtime.differentiable import not_twice
from rushlight.runtime.traced import Traced, hooks_outside
from rushlight.tensor import Tensor


class Slot:
    """The place of a tensor among the arguments."""

    def __init__(self, number: int) -> None:
        self.number = number


class Derivative:
    """The gradients of a function for arguments of one kind, compiled when they are first wanted.

    Args:
        function: the function, with Python's control flow converted if that was needed.
        graph: what was traced of it.
        wanted: what its results ``roots`` are differentiated by: numbers of arguments, or tensors.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        lifted: set[int],
        graph: Graph,
        traced: Traced,
        wanted: Sequence[Any],
    ) -> None:
        slots = {id(t): Slot(i) for i, t in enumerate(traced.arguments.tensors)}
        given = (traced.arguments.args, traced.arguments.kwargs)
        self.given = mapped(given, lambda leaf: slots.get(id(leaf), leaf), anew=True)
        self.function, self.graph, self.lifted = function, graph, lifted
        self.wanted, self.roots, self.known = wanted, traced.roots, traced.known
        outputs = graph.outputs
        end = len(traced.results) + len(traced.gradients)
        self.outputs = [*[outputs[i] for i in traced.roots], *outputs[len(traced.results) : end]]
        self.compiled: Callable[..., Any] | None = None

    def __call__(
        self, tensors: Sequence[Tensor], floats: Sequence[float], tangents: Sequence[Tensor]
    ) -> Sequence[Tensor | None]:
        """The gradients for ``tangents``, which can be differentiated again."""
        if self.compiled is None:
            check(self.graph, self.outputs)
            self.compiled = program(self.gradients, None)
        return self.compiled(tuple(tensors), tuple(floats), tuple(tangents))

    def gradients(
        self,
        tensors: tuple[Tensor, ...],
        floats: tuple[float, ...],
        tangents: tuple[Tensor, ...],
    ) -> tuple[Tensor | None, ...]:
        """What is compiled."""
        trace = local.state.trace
        given = replaced(self.given, iter(floats), self.lifted, [0])
        args, kwargs = mapped(
            given, lambda leaf: tensors[leaf.number] if isinstance(leaf, Slot) else leaf, anew=True
        )
        arguments = Arguments(args, kwargs)
        arguments.tensors = list(tensors)
        traced = Traced(trace, arguments)
        traced.collect(leaves(self.function(*args, **kwargs), self.known)[0])
        results = [traced.results[i] for i in self.roots]
        wanted = [tensors[place] if isinstance(place, int) else place for place in self.wanted]
        with hooks_outside(wanted):
            found = grad_of_leaves(results, wanted, tangents, create_graph=True)
        undo(trace)
        return found


def check(graph: Graph, outputs: Sequence[Node]) -> None:
    """An error if the function gives other results when it runs once more."""
    nodes = list(ir.walk(outputs))
    if any(["generator" in node.attrs or node.attrs.get("states") for node in nodes]):
        raise not_twice("that draws random numbers")
    if not {target for target, _ in graph.writes}.isdisjoint(nodes):
        raise not_twice("that depends on a tensor and writes to it")


def undo(trace: Trace) -> None:
    """Takes back what was written to tensors of outside: the call itself has done so."""
    for symbol, capture in trace.by_symbol.items():
        symbol.node = capture.node
    for stream in trace.random.known.values():
        stream.node = stream.latest = stream.captured
