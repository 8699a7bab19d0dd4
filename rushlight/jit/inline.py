"""A program that is called inside a trace: its nodes become part of the graph that is traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.autograd.function import Function
from rushlight.autograd.modes import local
from rushlight.graph import ir
from rushlight.graph.ir import Node
from rushlight.graph.sizes import sized
from rushlight.graph.templates import hollow
from rushlight.jit.numbers import Values, evaluated
from rushlight.jit.structure import filled
from rushlight.symbol import Symbol, TraceError
from rushlight.tensor import Tensor, wrap

if TYPE_CHECKING:
    from rushlight.jit.program import Given, Program


def inlined(program: Program, given: Given) -> Any:
    """The result of a program as symbols of the running trace."""
    border, state = program.border, program.state.current()
    if border.gradients or border.found:
        raise TraceError(
            "a program that sets gradients is called inside a compiled function: call it outside"
        )
    tensors = [*given.tensors, *state]
    copy = Copy(program, given, tensors)
    wanted = [program.tensor(place, tensors) for place in border.wanted]
    if local.state.grad and any([t.requires_grad for t in wanted]):
        found = Inlined.apply(copy, *wanted)
        outputs = list(found) if isinstance(found, tuple) else [found]
    else:
        outputs = copy.results()
    copy.write()
    return filled(border.result, outputs, lambda i: evaluated(program.returned[i], copy.values))


class Copy:
    """The nodes of a program's graph in another graph."""

    def __init__(self, program: Program, given: Given, tensors: Sequence[Tensor]) -> None:
        self.program, self.trace = program, local.state.trace
        self.graph = sized(program.graph, given.sizes)[0] if given.sizes else program.graph
        self.tensors = tensors
        self.values = Values(program.state.numbers, given.floats, given.sizes)
        self.new: dict[Node | None, Node | None] = {None: None}
        self.streams: dict[Node, Any] = {}  # generators by their captured states
        for node, t in zip(self.graph.inputs, given.tensors, strict=False):
            self.new[node] = self.node(t)
        for node, (kind, what) in zip(self.graph.captured, program.sources, strict=True):
            if kind == "tensor":
                self.new[node] = self.node(program.tensor((kind, what), tensors))
            elif kind == "generator":
                generator = program.state.generators[what]
                self.streams[node] = generator
                self.new[node] = self.trace.random.of(generator).node
            else:
                value = evaluated(what, self.values)
                self.new[node] = ir.constant(np.array(value, np.float64))

    def node(self, t: Tensor) -> Node:
        return self.trace.current(self.trace.symbol(t))

    def of(self, nodes: Sequence[Node]) -> list[Tensor]:
        """The values of some nodes."""
        known = [node for node in self.new if node is not None]
        for node in ir.walk(nodes, known):
            inputs = tuple([self.new[n] for n in node.inputs])
            attrs = node.attrs
            if "generator" in attrs:
                order = list(self.trace.random.known)
                attrs = {**attrs, "generator": order.index(self.generator(node))}
            source = self.trace.source()
            self.new[node] = Node(node.op, inputs, attrs, node.type, source or node.source)
        return [self.wrapped(self.new[node]) for node in nodes]

    def generator(self, node: Node) -> Any:
        """The generator that a random node draws from."""
        while node not in self.streams:
            first = node.inputs[0]
            assert first is not None
            node = first
        return self.streams[node]

    def wrapped(self, node: Any) -> Tensor:
        like = np.broadcast_to(np.empty((), node.type.dtype.numpy), node.type.shape)
        template = hollow(np.empty_like(like, order="C", subok=False))
        return wrap(Symbol(self.trace, node, template))

    def results(self) -> list[Tensor]:
        return self.of(self.graph.outputs[: self.program.border.count])

    def gradients(self, tangents: Sequence[Tensor]) -> list[Tensor]:
        border = self.program.border
        for node, t in zip(self.graph.inputs[border.tensors :], tangents, strict=True):
            self.new[node] = self.node(t)
        end = border.count + len(border.wanted)
        return self.of(self.graph.outputs[border.count : end])

    def write(self) -> None:
        """What the program writes to tensors and to the states of generators."""
        owners: dict[Node, Any] = dict(zip(self.graph.inputs, self.tensors, strict=False))
        for node, (kind, what) in zip(
            self.graph.captured, self.program.border.captured, strict=True
        ):
            if kind == "tensor":
                owners[node] = self.program.tensor((kind, what), self.tensors)
        for target, value in self.graph.writes:
            (new,) = self.of([value])
            if target in self.streams:
                stream = self.trace.random.of(self.streams[target])
                stream.node = stream.latest = self.trace.current(new._array)
            else:
                self.trace.store(owners[target], new._array)


class Inlined(Function):
    """The results of a program inside a trace; their gradients are those of its graph."""

    @staticmethod
    def forward(ctx: Any, copy: Copy, *wanted: Tensor) -> Any:
        ctx.copy = copy
        outputs = copy.results()
        roots = copy.program.border.roots
        ctx.mark_non_differentiable(*[t for i, t in enumerate(outputs) if i not in roots])
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        copy: Copy = ctx.copy
        return (None, *copy.gradients([grads[i] for i in copy.program.border.roots]))
