"""The native code of a program: of the graph, or of it and some of the gradients of its results."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.graph import ir
from rushlight.graph.extents import Sizes
from rushlight.graph.ir import Graph
from rushlight.graph.sizes import sized
from rushlight.passes import pipeline
from rushlight.passes.recompute import split
from rushlight.runtime.executable import Executable
from rushlight.runtime.general import General
from rushlight.settings import get_num_threads
from rushlight.tensor import Tensor, wrap

if TYPE_CHECKING:
    from rushlight.jit.program import Border, Place, Program


class Made:
    """The native code of a program for some tensors that want gradients, or for none.

    It is what ``runtime/differentiable.py`` asks about a program.
    """

    def __init__(self, program: Program, mask: tuple[bool, ...], state: Sequence[Tensor]) -> None:
        border = program.border
        self.program, self.state, self.threads = program, state, 0
        self.count, self.axes = border.count, [None] * border.count
        self.shapes = program if border.symbols else None
        self.backward: Any = None
        self.graph, gradients = restricted(program.graph, border, mask)
        self.holders = [state[what] if kind == "tensor" else None for kind, what in border.captured]
        if not mask:
            self.forward = self.executable(self.graph, self.holders)
        else:
            self.differentiate(border, mask, gradients)
        for made in (self.forward, self.backward):
            if isinstance(made, Executable):
                self.threads = self.threads or made.program.threads

    def executable(self, graph: Graph, holders: Sequence[Any] = ()) -> Any:
        """The native code of a graph, for the sizes that it says or for all."""
        sizes = self.program.sizes
        if self.shapes is None:
            return Executable(graph, holders)
        try:
            return General(sizes, self.program.conditions, graph, holders)
        except Exception:  # an op that has no code for all sizes
            return EachSize(sizes, graph)

    def differentiate(self, border: Border, mask: tuple[bool, ...], gradients: int) -> None:
        """Cuts the graph in two."""
        chosen = [i for i, wanted in enumerate(mask) if wanted]
        self.roots, self.unused = border.roots, [False] * len(chosen)
        self.wanted = [self.index(border.wanted[i]) for i in chosen]
        graph = pipeline.run(self.graph)
        tangents, end = graph.inputs[border.tensors :], self.count + gradients
        ahead = (*graph.outputs[: self.count], *graph.outputs[end:])
        parts = split(graph, ahead, tangents, graph.outputs[self.count : end])
        places = {node: i for i, node in enumerate(graph.inputs)}
        self.kept = [places.get(node) for node in parts.saved]
        used = set(ir.walk(parts.backward.roots))
        pairs = zip(graph.captured, border.captured, strict=True)
        held = [what for node, (kind, what) in pairs if kind == "tensor" and node in used]
        self.needed = [self.index(("tensor", number)) for number in held]
        self.needed += [place for place in self.kept if place is not None]
        self.forward = self.executable(parts.forward)
        self.backward = self.executable(parts.backward)

    def index(self, place: Place) -> int:
        """Where a tensor is among those of a call."""
        kind, number = place
        return number if kind == "input" else self.program.border.tensors + number

    def find(self, place: int, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[place]

    def wrapped(self, arrays: Sequence[np.ndarray]) -> list[Tensor]:
        return [wrap(a) for a in arrays]

    def node_of(self, place: int) -> ir.Node:
        """The leaf of the graph that is a tensor of a call."""
        border = self.program.border
        if place < border.tensors:
            return self.graph.inputs[place]
        number = ("tensor", place - border.tensors)
        return self.graph.captured[border.captured.index(number)]

    def serves(self, state: Sequence[Tensor]) -> bool:
        """Whether tensors, and the number of threads, are those that the code was made for."""
        if self.threads and self.threads != get_num_threads():
            return False
        if state is self.state:
            return True
        self.state = state
        pairs = zip(self.holders, self.program.border.captured, strict=True)
        return all([t is None or is_(t, state[what]) for t, (_, what) in pairs])


def restricted(graph: Graph, border: Border, mask: tuple[bool, ...]) -> tuple[Graph, int]:
    """The graph with only those gradients that ``mask`` chooses, and how many they are."""
    begin, end = border.count, border.count + len(border.wanted)
    pairs = zip(graph.outputs[begin:end], mask or [False] * len(border.wanted), strict=True)
    kept = [node for node, wanted in pairs if wanted]
    inputs = graph.inputs if mask else graph.inputs[: border.tensors]
    outputs = (*graph.outputs[:begin], *kept, *graph.outputs[end:])
    return Graph(inputs, graph.captured, outputs, graph.writes, graph.names), len(kept)


class EachSize:
    """A graph that is compiled anew for each size, where one program cannot serve all."""

    def __init__(self, sizes: Sizes, graph: Graph) -> None:
        self.sizes, self.graph = sizes, graph
        self.known: dict[tuple[int, ...], Executable] = {}

    def run(self, inputs: Sequence[np.ndarray], captured: Sequence[Any]) -> Any:
        key = tuple(self.sizes.now.values())
        if key not in self.known:
            self.known[key] = Executable(sized(self.graph, self.sizes.now)[0])
        return self.known[key].run(inputs, captured)
