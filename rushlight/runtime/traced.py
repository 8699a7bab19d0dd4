"""A function on its way to a program: what was traced, its results, and their gradients."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rushlight.autograd.backward import grad_of_leaves
from rushlight.autograd.tape import edge, leaves_below
from rushlight.graph import ir
from rushlight.graph.arguments import Arguments, containers, replaced
from rushlight.graph.guards import Guards
from rushlight.graph.ir import INPUT, Graph
from rushlight.graph.reads import line_of_change, names_of
from rushlight.graph.results import leaves
from rushlight.graph.trace import Trace
from rushlight.graph.watches import MISSING, Change, Items, Watch
from rushlight.layouts import order_of, preserve_format
from rushlight.runtime.shapes import Shapes
from rushlight.symbol import Symbol, TraceError, chain, root
from rushlight.tensor import VIEW, Tensor, wrap


class Cell(threading.local):
    """The floats among the arguments of the call that this thread makes."""

    values: Sequence[float] = ()

    def read(self, i: int) -> float:
        return self.values[i]


class Traced:
    """A trace on its way to a program: the result of the function, and its gradients."""

    def __init__(self, trace: Trace, arguments: Arguments) -> None:
        self.trace = trace
        self.arguments = arguments
        self.results: list[Tensor] = []
        self.rebuild: Callable[[Any], Any] = lambda new: None
        self.returned: list[Any] = []  # for each tensor of the result: a number, or the tensor
        self.roots: list[int] = []  # which outputs have gradients
        self.wanted: list[Tensor] = []  # of which tensors
        self.gradients: list[Tensor] = []
        self.unused: list[bool] = []
        self.changes: list[Change] = []  # entries of Python's that become new tensors
        self.hidden: list[int] = []  # which of the results they are
        self.known: frozenset[int] = frozenset()  # identities of what was there before
        self.given: list[Watch] = []  # containers among the arguments
        self.orders: list[tuple[int, ...] | None] = []  # of dimensions of the results in memory
        self.outputs: list[Tensor] = []  # the results, with their dimensions in that order
        self.graph: Graph  # if that is all that is wanted

    def follow(
        self,
        function: Callable[..., Any],
        cell: Cell,
        lifted: set[int],
        guards: Guards,
        fixed: bool,
        shapes: Shapes | None = None,
    ) -> None:
        """Runs the function on symbols; then, if its result has a history, backward."""
        trace = self.trace
        count = len(cell.values)
        if guards.asks_types is not None:  # which sees that they are no true floats
            trace.numbers.settled, fixed = guards.asks_types, True
        numbers = [trace.host(functools.partial(cell.read, i)) for i in range(count)]
        hosts = iter([n.kind(float(n)) for n in numbers] if fixed else numbers)
        for i, t in enumerate(self.arguments.tensors):
            trace.input(t, None if shapes is None else shapes.list[i])
        seen = [0]
        args = replaced(self.arguments.args, hosts, lifted, seen)
        kwargs = replaced(self.arguments.kwargs, hosts, lifted, seen)
        self.given = [*containers(args, "args"), *containers(kwargs, "kwargs")]
        result = function(*args, **kwargs)
        self.known = frozenset(guards.known)
        tensors, self.rebuild = leaves(result, self.known)
        self.collect(tensors)
        changes = [(change, each) for each in (guards, *trace.guards) for change in each.changes()]
        for change, owner in changes:
            self.take(change, owner)
        if trace.refusal is not None:
            raise trace.refusal
        self.differentiate()
        self.orders = [order_in_memory(t._array.template) for t in self.results]
        pairs = zip(self.results, self.orders, strict=True)
        self.outputs = [t if order is None else t.detach().permute(order) for t, order in pairs]

    def collect(self, tensors: Sequence[Tensor]) -> None:
        """Which tensors of the result are new, and which are those of outside."""
        wholes = self.shared(tensors)
        inputs = {id(t): i for i, t in enumerate(self.arguments.tensors)}
        gradients = {id(t._grad): t for t in self.trace.with_gradients()}
        for t in tensors:
            if id(t) in inputs:
                self.returned.append(("argument", inputs[id(t)]))
            elif id(t) in gradients:
                self.returned.append(("gradient", gradients[id(t)]))
            elif not isinstance(t._array, Symbol):
                self.returned.append(("captured", t))
                self.trace.symbol(t)
            elif (owner := self.trace.owner(t)) is not None:
                self.returned.append(("view", (owner, chain(t._array), edge(t) is not None)))
            elif (whole := wholes.get(root(t._array), t)) is t:
                self.returned.append(("output", self.number(t)))
            else:
                part = (self.number(whole), chain(t._array), edge(t) is not None)
                self.returned.append(("part", part))

    def number(self, t: Tensor) -> int:
        """The place of a tensor among the results."""
        for i, result in enumerate(self.results):
            if result is t:
                return i
        self.results.append(t)
        return len(self.results) - 1

    def shared(self, tensors: Sequence[Tensor]) -> dict[Symbol, Tensor]:
        """Where several results share memory, the tensor that all of them are views of."""
        groups: dict[Symbol, list[Tensor]] = {}
        for t in {id(t): t for t in tensors if isinstance(t._array, Symbol)}.values():
            groups.setdefault(root(t._array), []).append(t)
        found = {}
        for symbol, group in groups.items():
            if len(group) > 1 and symbol.flags.c_contiguous:
                bases = [t if t._array is symbol else t._base for t in group]
                tracked = [t for t in bases if t is not None and edge(t) is not None]
                whole = (tracked or [t for t in bases if t is not None] or [wrap(symbol)])[0]
                views = all([t is whole or t._history in (None, VIEW) for t in group])
                if whole._array is symbol and views:
                    found[symbol] = whole
        return found

    def differentiate(self) -> None:
        """Adds the gradients of the result for tangents that a later backward brings."""
        trace = self.trace
        edges = {i: e for i, t in enumerate(self.results) if (e := edge(t)) is not None}
        roots = [i for i, e in edges.items() if not leaves_below(e)[1]]
        found, _ = leaves_below(*[edges[i] for i in roots])
        if not roots or not found:
            return
        self.check_leaves(found)
        self.roots, self.wanted = roots, found
        tangents = []
        for i in roots:
            symbol = self.results[i]._array
            example = np.ones(symbol.template.shape, symbol.dtype)
            node = ir.Node(INPUT, (), {}, trace.current(symbol).type)
            trace.inputs.append(node)
            tangents.append(wrap(Symbol(trace, node, example)))
        outputs, trace.returned = [self.results[i] for i in roots], True
        with hooks_outside(found):
            grads = grad_of_leaves(outputs, found, tangents)
        self.unused = [g is None for g in grads]
        self.gradients = [g for g in grads if g is not None]

    def check_leaves(self, found: Sequence[Tensor]) -> None:
        """Gradients of the result can go to tensors that each call finds outside."""
        moved = {id(change.before) for change in self.changes}
        for t in found:
            if id(t) in moved:
                raise TraceError(
                    "gradients of the result would go on into an earlier call, through a tensor "
                    "that the function keeps: keep it detached"
                )
            if self.trace.made(t):
                raise TraceError(
                    "the result depends on a leaf (requires_grad_) that is made inside, whose "
                    "gradient nobody outside would see: make it outside and pass it in"
                )

    def take(self, change: Change, guards: Guards) -> None:
        """The function changed something in Python: new tensors become entries at each call."""
        after, before = change.after, change.before
        appended = before is MISSING and isinstance(change.watch, Items)
        if isinstance(after, Tensor) and isinstance(after._array, Symbol) and not appended:
            self.changes.append(change)
            self.hidden.append(len(self.results))
            self.results.append(after)
            if not isinstance(before, Tensor) or self.trace.move(before, change):
                self.trace.decide(lambda: wants(change.watch.read().get(change.key)), wants(before))
                return
        raise changed_state(change, guards)

    def changed_arguments(self) -> list[Change]:
        """What the function has done to lists, dicts and the like that it was given."""
        return [change for watch in self.given for change in watch.changes()]

    def finish(self, in_memory_order: bool) -> Graph:
        results = self.outputs if in_memory_order else self.results
        return self.trace.finish([*results, *self.gradients])


@contextlib.contextmanager
def hooks_outside(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Hooks of these tensors are not called: they will be, when a call's gradients arrive there."""
    hooks = [(t, t._hooks) for t in tensors if t._hooks]
    for t, _ in hooks:
        t._hooks = None
    try:
        yield
    finally:
        for t, before in hooks:
            t._hooks = before


def order_in_memory(like: np.ndarray) -> tuple[int, ...] | None:
    """The dimensions of an array without gaps from the slowest on; None if that is their order."""
    order = order_of(preserve_format, like.shape, like)
    return order if order and like.transpose(order).flags.c_contiguous else None


def wants(entry: Any) -> bool | None:
    """Whether an entry that a function writes wants a gradient; None if it is no tensor."""
    return entry.requires_grad if isinstance(entry, Tensor) else None


def changed_state(change: Change, guards: Guards) -> TraceError:
    line = line_of_change(guards.codes, [change.key, *reversed(names_of(change.watch.path))])
    return TraceError(
        f"the function changes Python state ({change}){f' at {line}' if line else ''}, which a "
        "graph cannot do: change it outside (the numbers of an optimizer are read at each call), "
        "return the new value, or keep it in a tensor that is written in place"
    )
