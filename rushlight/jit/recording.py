"""Recording: a Python function becomes a program, which then needs no Python any more."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from rushlight.autograd.backward import grad
from rushlight.autograd.modes import enable_grad, local
from rushlight.autograd.tape import edge, leaves_below
from rushlight.graph import ir
from rushlight.graph.arguments import flatten
from rushlight.graph.effects import Capture
from rushlight.graph.ir import Graph
from rushlight.graph.trace import Trace
from rushlight.jit.numbers import Formulas
from rushlight.jit.program import Border, Place, Program
from rushlight.jit.state import State
from rushlight.jit.structure import PLAIN, Leaves, Shape, filled
from rushlight.runtime.specialization import specialize, tracing
from rushlight.symbol import Symbol, TraceError
from rushlight.tensor import Tensor, wrap


def record(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    state: State,
    parameters: Sequence[Tensor] = (),
) -> Program:
    """The program of ``function(*args, **kwargs)``; nothing is changed.

    If the call itself computes no gradients, the program can give those of its results with respect
    to all tensors of floats among the arguments, and to the ``parameters``.
    """
    arguments = Call(function, args, kwargs)
    program = arguments.traced(state)
    if program.border.gradients or program.border.found:
        return program
    wanted = [t for t in (*arguments.tensors, *parameters) if may_want(t)]
    try:
        with wanting(wanted), enable_grad():
            return arguments.traced(state)
    except Exception:  # it may write to them in place, which leaves that want gradients forbid
        return program


class Call:
    """A call to be recorded: its arguments as tensors and floats, each of them once."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self.function = function
        self.leaves = Leaves()
        self.positional, self.named, self.defaults = bound(function, args, kwargs)
        pairs = [*self.positional, *self.named.items()]
        self.shapes = [(name, self.leaves.shape(value, name)) for name, value in pairs]
        self.tensors, self.floats = self.leaves.tensors, self.leaves.floats

    def traced(self, state: State) -> Program:
        """Runs the function on symbols."""
        recorder = Recorder(self.shapes, len(self.positional), len(self.tensors))
        floats = set(range(len(self.floats)))
        with tracing:
            flat = flatten((self.function, *self.tensors, *self.floats), {}, floats)
            graph = specialize(recorder, flat, floats, only_graph=True).graph
        program = recorder.program(graph, self.tensors, state)
        program.border.defaults = self.defaults
        return program


class Recorder:
    """Called in the place of the function: notes its trace, and adds gradients of its results."""

    def __init__(self, shapes: list[tuple[str, Shape]], positional: int, tensors: int) -> None:
        self.shapes, self.positional, self.tensors = shapes, positional, tensors
        self.trace: Any = None

    def __call__(self, function: Callable[..., Any], *flat: Any) -> list[Tensor]:
        self.trace, leaves = local.state.trace, Leaves()
        tensors, self.floats = flat[: self.tensors], flat[self.tensors :]
        values = [filled(shape, tensors, self.floats.__getitem__) for _, shape in self.shapes]
        named = zip([name for name, _ in self.shapes], values, strict=True)
        kwargs = dict(list(named)[self.positional :])
        result = function(*values[: self.positional], **kwargs)
        self.result = leaves.shape(result, "the result")
        self.results, self.returned = leaves.tensors, leaves.floats
        self.roots, self.wanted, gradients = self.differentiate() if local.state.grad else ([],) * 3
        return [*[t.detach().clone() for t in self.results], *gradients]

    def differentiate(self) -> tuple[list[int], list[Tensor], list[Tensor]]:
        """The results that have gradients, of which tensors, and these gradients.

        They are those for gradients of the results that a later backward brings.
        """
        edges = {i: e for i, t in enumerate(self.results) if (e := edge(t)) is not None}
        roots = [i for i, e in edges.items() if not leaves_below(e)[1]]
        leaves, _ = leaves_below(*[edges[i] for i in roots])
        found = [t for t in leaves if not self.trace.made(t)]
        if not found:
            return [], [], []
        tangents = [self.tangent(self.results[i]) for i in roots]
        results = [self.results[i] for i in roots]
        gradients = grad(results, found, tangents, allow_unused=True)
        pairs = [(t, g) for t, g in zip(found, gradients, strict=True) if g is not None]
        return roots, [t for t, _ in pairs], [g for _, g in pairs]

    def tangent(self, result: Tensor) -> Tensor:
        """One more input of the graph: the gradient of a result."""
        symbol = self.trace.symbol(result)
        like = np.ones(symbol.template.shape, symbol.dtype)
        node = ir.Node(ir.INPUT, (), {}, self.trace.current(symbol).type)
        self.trace.inputs.append(node)
        return wrap(Symbol(self.trace, node, like))

    def program(self, graph: Graph, tensors: Sequence[Tensor], state: State) -> Program:
        """The program of what was traced."""
        trace, formulas = self.trace, Formulas(self.floats)
        effects = trace.effects
        kept = [node for _, node in effects.gradients if node is not None]
        count = len(self.results)
        self.refuse(trace, len(graph.outputs) - count - len(self.wanted) - len(kept))
        numbers = {symbol.node: host for host, symbol in trace.numbers.symbols.values()}
        inputs = {id(t): i for i, t in enumerate(tensors)}

        def source(capture: Capture) -> tuple[str, Any]:
            if capture.generator is not None:
                return "generator", state.generator(capture.generator)
            if capture.number is not None:
                return "number", formulas.of(numbers[capture.node])
            name = graph.names[capture.node]
            number = state.captured(capture.tensor, name.removesuffix(".grad"))
            return "gradient" if capture.grad else "tensor", number

        def place(t: Tensor) -> Place:
            if id(t) in inputs:
                return "input", inputs[id(t)]
            return "tensor", state.captured(t, trace.modules.names.get(id(t), "tensor"))

        fixed = set().union(*map(formulas.arguments_in, trace.numbers.asked))
        border = Border(
            arguments=self.shapes,
            defaults={},
            tensors=len(tensors),
            floats=len(self.floats),
            fixed={i: float(self.floats[i].read()) for i in sorted(fixed)},
            result=self.result,
            returned=[formulas.of(x) for x in self.returned],
            count=count,
            captured=[source(capture) for capture in trace.captures],
            roots=self.roots,
            wanted=[place(t) for t in self.wanted],
            gradients=[(place(t), node is None) for t, node in effects.gradients],
            found=[(place(t), g is None) for t, g in trace.grads_read.values()],
        )
        state.numbers.update(formulas.named)
        return Program(graph, border, state)

    def refuse(self, trace: Trace, more: int) -> None:
        """An error for what a program by itself cannot do."""
        if trace.assigned:
            raise TraceError(
                "the optimizer's state begins in this call, so that the next one is another "
                "program: call the function once before it is recorded"
            )
        if more or any([capture.entry is not None for capture in trace.captures]):
            raise TraceError(
                "the function keeps new tensors in Python's attributes or lists, which a program "
                "cannot do: write them in place (copy_), or return them"
            )


def bound(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[list[tuple[str, Any]], dict[str, Any], dict[str, Any]]:
    """The arguments by name: those given by position, then the others; and their defaults.

    >>> bound(lambda x, flag=True: x, (1,), {})
    ([('x', 1)], {'flag': True}, {'flag': True})
    """
    try:
        signature = inspect.signature(getattr(function, "forward", function))
    except ValueError:  # it has none
        return [(f"[{i}]", value) for i, value in enumerate(args)], dict(kwargs), {}
    given = signature.bind(*args, **kwargs)
    given.apply_defaults()
    positional: list[tuple[str, Any]] = []
    named: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for name, value in given.arguments.items():
        parameter = signature.parameters[name]
        if isinstance(parameter.default, (float, *PLAIN)):
            defaults[name] = parameter.default
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            positional += [(f"{name}[{i}]", each) for i, each in enumerate(value)]
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            named |= value
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY or len(positional) >= len(args):
            named[name] = value
        else:
            positional.append((name, value))
    return positional, named, defaults


def may_want(t: Tensor) -> bool:
    return not t.requires_grad and t.is_leaf and (t.is_floating_point() or t.is_complex())


@contextmanager
def wanting(tensors: Iterable[Tensor]) -> Iterator[None]:
    """A block in which these tensors want gradients."""
    changed = list(tensors)
    for t in changed:
        t.requires_grad_(True)
    try:
        yield
    finally:
        for t in changed:
            t.requires_grad_(False)
