"""Recording: a Python function becomes a program, which then needs no Python any more."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from rushlight.autograd.backward import grad_of_leaves
from rushlight.autograd.modes import enable_grad, local
from rushlight.autograd.tape import edge, leaves_below
from rushlight.dims import Settled, symbols_of
from rushlight.graph import ir
from rushlight.graph.arguments import Arguments, flatten
from rushlight.graph.effects import Capture
from rushlight.graph.extents import Condition
from rushlight.graph.ir import Graph
from rushlight.graph.listener import held_back
from rushlight.graph.script import scripted
from rushlight.graph.trace import Trace
from rushlight.jit.numbers import Formulas
from rushlight.jit.program import Border, Place, Program
from rushlight.jit.state import State
from rushlight.jit.structure import PLAIN, Leaves, filled
from rushlight.runtime.shapes import LETTERS, AnySize, Shapes, loosened
from rushlight.runtime.specialization import fitting, tracing
from rushlight.symbol import Symbol, TraceError, Undecided
from rushlight.tensor import Tensor, wrap

SEQUENCE = 3  # dimensions of a batch of sequences


def record(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    state: State,
    parameters: Sequence[Tensor] = (),
    any_size: AnySize | bool | None = None,
) -> Program:
    """The program of ``function(*args, **kwargs)``; nothing is changed.

    If the call itself computes no gradients, the program can give those of its results with respect
    to all tensors of floats among the arguments, and to the ``parameters``. ``any_size`` knows the
    sizes of earlier calls: those that change are symbols. True stands for sizes that may change.
    """
    arguments = Call(function, args, kwargs)
    program = arguments.traced(state)
    wanted = [t for t in (*arguments.tensors, *parameters) if may_want(t)]
    trains = bool(program.border.gradients or program.border.found)
    known = any_size if isinstance(any_size, AnySize) else None
    with (
        held_back(shown=False),
        nullcontext() if trains else wanting(wanted),
        nullcontext() if trains else enable_grad(),
    ):
        general = None
        with suppress(TraceError):  # then it is a program for these sizes
            general = arguments.traced_for_all(state, known) if any_size else None
        if general is not None or trains:
            return general or program
        try:
            return arguments.traced(state)
        except Exception as error:  # such as a write to an argument, which leaves forbid
            program.border.lost = f"{type(error).__name__}: {error}"
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

    def flat(self) -> Arguments:
        """The function, whose surroundings are looked at, then tensors and floats."""
        return flatten((self.function, *self.tensors, *self.floats), {}, self.lifted)

    @property
    def lifted(self) -> set[int]:
        return set(range(len(self.floats)))

    def traced(self, state: State, shapes: Shapes | None = None) -> Program:
        """Runs the function on symbols; with its own control flow, if that will not do."""
        with tracing:
            recorder = Recorder(self, self.function)
            try:
                graph = recorder.traced(shapes)
            except Undecided as error:
                other = scripted(self.function, error)
                recorder = Recorder(self, other or self.function)
                graph = recorder.traced(shapes, converted=True)
            except Settled as error:
                other = scripted(self.function) if error.asked else None
                if other is None:
                    raise
                recorder = Recorder(self, other)
                try:
                    graph = recorder.traced(shapes, converted=True)
                except Exception:
                    raise error from None
        return recorder.program(graph, state)

    def traced_for_all(self, state: State, any_size: AnySize | None) -> Program | None:
        """The program for all sizes, of which some have changed; None if none has.

        Without ``any_size``, those that often change are taken for changed ones: the sides of an
        image each by itself if the function allows that; else equal ones together, and of large
        tensors the first one alone.
        """
        if any_size is not None:
            return self.traced_with(state, any_size)
        for expected in (apart, together):
            any_size = AnySize(None)
            shapes = [expected(tuple(t.shape)) for t in self.tensors]
            any_size.met[loosened(self.flat().key)] = [shapes]
            program = self.traced_with(state, any_size)
            if program is not None and is_free(program):
                return program
        return program

    def traced_with(self, state: State, any_size: AnySize) -> Program | None:
        """The program whose symbols are the sizes that ``any_size`` knows to change."""

        def attempt(shapes: Shapes) -> Program:
            program = self.traced(state, shapes)
            for condition in program.conditions:
                if condition.is_number:  # it is no size that may change
                    raise Settled(condition.dims, "")
            return program

        with tracing:
            return any_size.make(self.flat(), attempt)


def apart(shape: tuple[int, ...]) -> tuple[int, ...]:
    """What sizes of a first call are compared with: all change but channels, each by itself.

    >>> apart((4, 7)), apart((1, 3, 8, 8))
    ((-1, -2), (-1, 3, -3, -4))
    """
    fixed = () if len(shape) <= SEQUENCE else (1,)
    return tuple([n if d in fixed else -d - 1 for d, n in enumerate(shape)])


def together(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The same, where equal sizes stay equal, and of large tensors the first one changes.

    >>> together((4, 7)), together((1, 3, 8, 8))
    ((-1, -1), (-1, 3, 8, 8))
    """
    changing = len(shape) if len(shape) <= SEQUENCE else 1
    return (-1,) * changing + shape[changing:]


def is_free(program: Program) -> bool:
    """Whether batches may change, and no size must be equal to another one."""
    first = [node.type.shape[:1] for node in program.graph.inputs[: program.border.tensors]]
    equal = [
        c
        for c in program.conditions
        if c.relation is operator.eq and c.answer and len(c.symbols) > 1
    ]
    return not equal and bool(symbols_of(first))


class Recorder:
    """Called in the place of the function: notes its trace, and adds gradients of its results."""

    def __init__(self, call: Call, follow: Callable[..., Any]) -> None:
        self.call, self.follow = call, follow
        self.trace: Any = None

    def traced(self, shapes: Shapes | None, converted: bool = False) -> Graph:
        """The graph of the call, of which the rest is in this object."""
        given, lifted = self.call.flat(), self.call.lifted
        follow = self if converted else None
        return fitting(self, given, lifted, True, shapes, follow).graph

    def __call__(self, _: Any, *flat: Any) -> list[Tensor]:
        self.trace, leaves = local.state.trace, Leaves()
        count, positional = len(self.call.tensors), len(self.call.positional)
        tensors, self.floats = flat[:count], flat[count:]
        shapes = self.call.shapes
        values = [filled(shape, tensors, self.floats.__getitem__) for _, shape in shapes]
        named = zip([name for name, _ in shapes], values, strict=True)
        result = self.follow(*values[:positional], **dict([*named][positional:]))
        self.result = leaves.shape(result, "the result")
        self.results, self.returned = leaves.tensors, leaves.floats
        self.roots, self.wanted, gradients = self.differentiate() if local.state.grad else ([],) * 3
        return [t.detach().clone() for t in (*self.results, *gradients)]

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
        gradients = grad_of_leaves(results, found, tangents)
        pairs = [(t, g) for t, g in zip(found, gradients, strict=True) if g is not None]
        return roots, [t for t, _ in pairs], [g for _, g in pairs]

    def tangent(self, result: Tensor) -> Tensor:
        """One more input of the graph: the gradient of a result."""
        symbol = self.trace.symbol(result)
        like = np.ones(symbol.template.shape, symbol.dtype)
        node = ir.Node(ir.INPUT, (), {}, self.trace.current(symbol).type)
        self.trace.inputs.append(node)
        return wrap(Symbol(self.trace, node, like))

    def program(self, graph: Graph, state: State) -> Program:
        """The program of what was traced."""
        trace, formulas = self.trace, Formulas(self.floats)
        tensors, extents = self.call.tensors, self.trace.extents
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
            arguments=self.call.shapes,
            defaults=self.call.defaults,
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
            symbols=symbols_of_inputs(graph),
            conditions=[] if extents is None else [*map(written_down, extents.conditions)],
        )
        state.follow(formulas.readers)
        names = dict(graph.names)
        for node, (kind, what) in zip(graph.captured, border.captured, strict=True):
            if kind in ("tensor", "gradient"):
                names[node] = state.name_of(what) + ".grad" * (kind == "gradient")
        return Program(replace(graph, names=names), border, state)

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
    try:
        given = signature.bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise TypeError(f"{name}({', '.join(signature.parameters)}): {error}") from None
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


def symbols_of_inputs(graph: Graph) -> list[tuple[str, int]]:
    """The sizes of arguments that may change, each with an example, in their order."""
    found = symbols_of([node.type.shape for node in graph.inputs])
    return [(symbol.name, symbol.example) for symbol in sorted(found, key=order_of_symbol)]


def order_of_symbol(symbol: Any) -> int:
    return LETTERS.index(symbol.name)


def written_down(condition: Condition) -> tuple[str, str, str, bool]:
    """What must hold for sizes, as plain data."""
    relation, left, right, answer = condition
    return relation.__name__, str(left), str(right), answer


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
