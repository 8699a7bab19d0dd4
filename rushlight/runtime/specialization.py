"""One traced function for one kind of arguments: its graph, its program, when it is valid.

A function whose result is differentiated outside becomes two programs: the graph of the result and
of its gradients is made as one and then split (``passes/recompute.py``).
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.autograd.modes import enable_grad
from rushlight.autograd.tape import counter
from rushlight.dims import Settled, known
from rushlight.graph import ir
from rushlight.graph.arguments import Arguments
from rushlight.graph.draws import Draws
from rushlight.graph.effects import Capture
from rushlight.graph.guards import Guards
from rushlight.graph.hooks import hooks_among
from rushlight.graph.inference import Irregular
from rushlight.graph.ir import Graph
from rushlight.graph.listener import held_back, listening
from rushlight.graph.reads import line_of_use
from rushlight.graph.script import scripted
from rushlight.graph.trace import Trace
from rushlight.graph.world import World
from rushlight.passes import pipeline
from rushlight.passes.recompute import split
from rushlight.runtime.ahead import Ahead
from rushlight.runtime.derivative import Derivative
from rushlight.runtime.differentiable import Call, differentiable
from rushlight.runtime.executable import Executable
from rushlight.runtime.general import General
from rushlight.runtime.overlap import Memory
from rushlight.runtime.shapes import Shapes
from rushlight.runtime.traced import Cell, Traced, changed_state, order_in_memory
from rushlight.settings import get_num_threads
from rushlight.symbol import Branching, Symbol, TraceError, Undecided
from rushlight.tensor import Tensor, wrap

ndarray = np.ndarray
NOBODY = wrap(np.empty(0))
tracing = threading.RLock()
"""Held while a function is traced: its arguments and gradients are symbols for that time."""
if sys.platform != "win32":  # a process is forked between two traces, not in the middle of one
    os.register_at_fork(
        before=tracing.acquire, after_in_parent=tracing.release, after_in_child=tracing.release
    )


def specialize(
    function: Callable[..., Any],
    arguments: Arguments,
    lifted: set[int],
    only_graph: bool = False,
    shapes: Shapes | None = None,
) -> Any:
    """Traces ``function`` for these arguments; with ``only_graph``, the trace is the result.

    Where a value of a tensor, or a number that changes, decides what Python does, or Python counts
    to a size that changes, the function is converted and traced again. With ``shapes``, in which
    sizes that change are symbols, the program is one for all sizes.
    """
    make = functools.partial(fitting, function, arguments, lifted, only_graph, shapes)
    try:
        return make()
    except Undecided as error:
        other, optional = scripted(function, error), error.optional
    except Settled as error:
        other = scripted(function) if error.asked else None
        if other is None:
            raise
        try:
            return make(other)
        except Exception:
            raise error from None
    if other is not None:
        try:
            return make(other)
        except Exception:
            if not optional:
                raise
    return make(function)


def fitting(
    function: Callable[..., Any],
    arguments: Arguments,
    lifted: set[int],
    only_graph: bool,
    shapes: Shapes | None,
    follow: Callable[..., Any] | None = None,
) -> Any:
    """:func:`specialize`, by calling ``follow`` in the place of the function.

    What fails with numbers that change is tried with those of this call: it may want true floats.
    """

    def make(**options: Any) -> Any:
        with held_back() if only_graph else contextlib.nullcontext():
            return attempt(function, arguments, lifted, only_graph, follow=follow, **options)

    if shapes is not None:
        return make(shapes=shapes)
    if arguments.lifted:
        try:
            return make()
        except TraceError:
            raise
        except Exception:
            pass
    return make(fixed=True)


def attempt(
    function: Callable[..., Any],
    arguments: Arguments,
    lifted: set[int],
    only_graph: bool,
    fixed: bool = False,
    shapes: Shapes | None = None,
    follow: Callable[..., Any] | None = None,
) -> Any:
    """:func:`fitting`, with changing numbers or (``fixed``) with those of this call."""
    ahead = None if only_graph else Ahead(function)
    guards = Guards(function, arguments.objects)
    trace = Trace(None if shapes is None else shapes.sizes)
    trace.names = guards.names
    cell = Cell()
    cell.values = arguments.lifted
    begin = time.perf_counter()
    traced, draws = Traced(trace, arguments), Draws()
    try:
        listens = follow is None and not only_graph
        with (
            World() if guards.asks_world else contextlib.nullcontext() as world,
            listening() if listens else contextlib.nullcontext(),
        ):
            trace.call(traced.follow, follow or function, cell, lifted, guards, fixed, shapes)
        if follow is None and trace.numbers.branch is not None and not fixed:
            raise Branching(f"a number that changes decides at {trace.numbers.branch}")
        for change in traced.changed_arguments():
            raise changed_state(change, guards)
        if world is not None and world.seen is not None:
            raise TraceError(
                f"the function reads {world.seen}, which would be the same at each call: read it "
                "outside and pass it in (random numbers: draw with rl.rand and the like)"
            )
        if draws.happened():
            line = line_of_use(guards.codes, "random") or "an unknown line"
            raise TraceError(
                f"the function draws random numbers from Python or NumPy at {line}, which would be "
                "the same ones at each call: draw them with rl.rand and the like, or pass them in"
            )
        if only_graph and trace.postponed:
            raise TraceError(
                "scheduler.step() changes Python objects, which a graph cannot do by itself: call "
                "it outside the function"
            )
        made = traced.finish(in_memory_order=not only_graph)
        if shapes is not None and trace.numbers.settled is not None:
            raise Irregular(f"a number of sizes is needed at {trace.numbers.settled}")
    except TraceError as error:
        error.ran = True
        raise
    finally:
        for each in (guards, *trace.guards):
            each.restore(each.changes())
        for change in traced.changed_arguments():
            change.put(change.before)
        draws.undo()
        trace.restore()
    guards.release([change for change in traced.changes if isinstance(change.before, Tensor)])
    if only_graph:
        traced.graph = made
        return traced
    seconds = time.perf_counter() - begin
    source = (follow or function, lifted)
    return Specialization(traced, made, guards, cell, seconds, ahead, source, shapes)


class Specialization:
    """The programs of a traced function, and the conditions under which they are right."""

    def __init__(
        self,
        traced: Traced,
        graph: Graph,
        guards: Guards,
        cell: Cell,
        seconds: float,
        ahead: Ahead | None,
        source: tuple[Callable[..., Any], set[int]],
        shapes: Shapes | None = None,
    ) -> None:
        trace = traced.trace
        self.shapes = shapes
        if shapes is not None and trace.extents is not None:
            shapes.conditions = trace.extents.conditions
        executable: Any = Executable
        if shapes is not None:
            executable = functools.partial(General, shapes.sizes, [*shapes.conditions])
        self.seconds = seconds  # that the trace took
        self.graph, self.guards, self.cell = graph, guards, cell
        self.objects = traced.arguments.objects  # kept, since their identities are in the key
        self.returned, self.rebuild = traced.returned, traced.rebuild
        self.captures = trace.captures
        self.decided = trace.decided
        self.places = {id(t): i for i, t in enumerate(traced.arguments.tensors)}
        hooked = [t for t in trace.hooked if id(t) not in self.places]  # keys know those of others
        if hooked:
            hooks = [(t, own) for t, own in trace.hooks if t not in self.places]
            self.decided.append((functools.partial(hooks_among, hooked), hooks))
        self.hooks = trace.guards
        self.settled = trace.numbers.settled
        self.grads_read = [(self.place(t), g is None) for t, g in trace.grads_read.values()]
        reached = trace.reached | guards.tensors()
        self.same = [(i, t) for i, t in enumerate(traced.arguments.tensors) if id(t) in reached]
        self.gradients = [(self.place(t), node is None) for t, node in trace.effects.gradients]
        kept = {id(c.tensor) for c in self.captures if c.grad}
        dropped = {id(t) for t in trace.grads_dropped} - kept
        changed = [t for t, _ in trace.effects.gradients]
        self.dropped = [self.place(t) for t in changed if id(t) in dropped]
        self.assigned = [functools.partial(operator.setitem, e, k) for e, k, _ in trace.assigned]
        self.changes = [
            (change.put, place) for change, place in zip(traced.changes, traced.hidden, strict=True)
        ]
        written = [self.owner(c) for c, _ in trace.effects.written if c.generator is None]
        self.written = [(t, grad) for t, grad in written if grad or isinstance(t, int)]
        self.counted = [t for t, grad in written if not grad and isinstance(t, Tensor)]
        self.count = len(traced.results)
        self.axes = [o and tuple(np.argsort(o).tolist()) for o in traced.orders]
        self.turned = any(self.axes)
        self.roots, self.unused = traced.roots, traced.unused
        self.wanted = [self.place(t) for t in traced.wanted]
        self.sources = [(c, self.place(c.tensor)) for c in self.captures]
        moves = [not self.is_still(*source) for source in self.sources]
        self.holders = [NOBODY if m else t for m, (_, t) in zip(moves, self.sources, strict=True)]
        self.moving = [(i, *self.sources[i]) for i, m in enumerate(moves) if m]
        self.numbers: dict[Any, tuple[float, ndarray]] = {}  # as they were last seen
        self.memory = self.memory_of(trace)
        self.alone = not self.sources and not self.memory.own  # it knows its arguments only
        self.joint = bool(traced.gradients)
        self.postponed = [action for _, action in trace.postponed]
        effects = self.changes or written or self.gradients or self.assigned or self.postponed
        whole = self.returned == [("output", i) for i in range(self.count)]
        self.pure = whole and not effects and not self.joint  # results are all there is
        self.backward: Executable | None = None
        self.forward: Executable
        self.derivative: Derivative | None = None
        if self.joint:
            self.differentiable = differentiable(source[0])
            if not (self.changes or self.gradients or self.assigned):
                self.derivative = Derivative(*source, graph, traced, self.wanted)
            graph = pipeline.run(graph)
            tangents = graph.inputs[len(traced.arguments.tensors) :]
            end = self.count + len(traced.gradients)
            first = (*graph.outputs[: self.count], *graph.outputs[end:])
            parts = split(graph, first, tangents, graph.outputs[self.count : end])
            places = {node: i for i, node in enumerate(graph.inputs)}
            self.kept = [places.get(node) for node in parts.saved]
            used = set(ir.walk(parts.backward.roots))
            self.needed = [
                place
                for capture, place in self.sources
                if capture.node in used and isinstance(capture.tensor, Tensor) and not capture.grad
            ] + [place for place in self.kept if place is not None]
            orders = self.orders_in_memory(trace)
            twins = zip(parts.backward.inputs, parts.saved, strict=False)
            known = orders | {new: orders[old] for new, old in twins if old in orders}
            self.forward = executable(parts.forward, ahead=ahead, orders=orders)
            self.backward = executable(parts.backward, orders=known)
        else:
            still = [None if t is NOBODY else t for t in self.holders]
            orders = self.orders_in_memory(trace)
            self.forward = executable(graph, still, ahead, orders)
        for made in (self.forward, self.backward):
            if isinstance(made, Executable) and made.program.threads:
                self.decided.append((get_num_threads, made.program.threads))

    def orders_in_memory(self, trace: Trace) -> dict[ir.Node, tuple[int, ...]]:
        """How leaves lie in memory; those of tangents are not known."""
        leaves = [*trace.inputs, *[c.node for c in self.captures if c.tensor is not None]]
        seen = {node: trace.values[node] for node in leaves if node in trace.values}
        found = {node: order_in_memory(array) for node, array in seen.items()}
        return {node: order for node, order in found.items() if order is not None}

    def is_still(self, capture: Capture, place: Any) -> bool:
        """Whether a captured value is always that of one tensor."""
        return isinstance(place, Tensor) and not capture.grad and capture.entry is None

    def memory_of(self, trace: Trace) -> Memory:
        """What tensors of outside must be like: which of them are written to decides."""
        written = {capture.node for capture, _ in trace.effects.written}
        changed = [isinstance(self.place(t), int) for t, _ in trace.effects.gradients]
        own = any(changed) or not written.isdisjoint(trace.inputs)
        watched = [own or c.node in written for c in self.captures]
        steady = [c.tensor is not None and not c.grad and c.entry is None for c in self.captures]
        return Memory([c.node.type for c in self.captures], steady, watched, own)

    def place(self, t: Any) -> Any:
        """How a call finds a tensor: by the number of its argument, or itself."""
        return self.places.get(id(t), t)

    def node_of(self, place: Any) -> ir.Node:
        """The leaf of the graph that a place stands for."""
        if isinstance(place, int):
            return self.graph.inputs[place]
        return next(c.node for c in self.captures if c.tensor is place and not c.grad)

    def owner(self, capture: Capture) -> Any:
        return (self.place(capture.tensor), capture.grad)

    def bind(self, tensors: Sequence[Tensor], lifted: Sequence[float] = ()) -> list[Any] | None:
        """What is captured, as it is now; None if the program is not right for this call."""
        if lifted:
            self.cell.values = lifted
        for i, t in self.same:
            if tensors[i] is not t:
                return None
        for place, empty in self.grads_read:
            if (self.find(place, tensors)._grad is None) is not empty:
                return None
        if not self.guards.hold():
            return None
        for guards in self.hooks:
            if not guards.hold():
                return None
        for question, answer in self.decided:
            if question() != answer:
                return None
        if self.alone:
            return []
        captured = self.captured(tensors)
        return captured if self.memory.fits(tensors, captured) else None

    def what_changes(self) -> str | None:
        """Why another program was needed, if the program can tell."""
        change = self.guards.explain()
        if change is None and self.settled is not None:
            return f"a float that changes is needed as a number of Python's at {self.settled}"
        return change

    def captured(self, tensors: Sequence[Tensor]) -> list[Any]:
        """All that is captured, as it is now."""
        found = [t._array for t in self.holders]
        for i, capture, place in self.moving:
            found[i] = self.read(capture, place, tensors)
        return found

    def run(self, tensors: Sequence[Tensor], captured: list[Any]) -> Any:
        """Calls the program, and does what the function would have done to the outside."""
        inputs = []
        for t in tensors:
            array = t._array
            if type(array) is Symbol:  # another thread traces with it
                with tracing:
                    array = t._array
            inputs.append(array)
        if self.pure:
            return self.rebuild(self.wrapped(self.forward.run(inputs, captured)))
        for place in self.dropped:  # as the function does first of all: their memory is free then
            self.find(place, tensors)._grad = None
        if self.joint:
            floats = self.cell.values
            call = Call(self, tensors, inputs, captured, self.derivative, floats)
            with enable_grad():  # the function may have turned it on itself
                found = self.differentiable.apply(call, *call.wanted)
            outputs: list[Any] = list(found) if isinstance(found, tuple) else [found]
            arrays = call.rest
        else:
            arrays = self.forward.run(inputs, captured)
            outputs = self.wrapped(arrays[: self.count])
            arrays = arrays[self.count :]
        for put, place in self.changes:
            put(outputs[place])
        self.leave(arrays, tensors)
        if self.joint:
            call.remember()
        for action in self.postponed:
            action()
        return self.rebuild([self.result(r, outputs, tensors) for r in self.returned])

    def wrapped(self, arrays: Sequence[ndarray]) -> list[Tensor]:
        """The results, with the strides that they have in dynamic mode."""
        if not self.turned:
            return [wrap(a) for a in arrays]
        pairs = zip(arrays, self.axes, strict=True)
        return [wrap(a if axes is None else a.transpose(axes)) for a, axes in pairs]

    def result(self, how: Any, outputs: Sequence[Tensor], tensors: Sequence[Tensor]) -> Tensor:
        kind, what = how
        if kind == "output":
            return outputs[what]
        if kind == "argument":
            return tensors[what]
        if kind == "gradient":
            return self.find(self.place(what), tensors)._grad  # type: ignore[return-value]
        if kind == "captured":
            return what
        whole, views, tracked = what
        base = outputs[whole] if kind == "part" else self.find(self.place(whole), tensors)
        seen = viewed(base, views, {} if self.shapes is None else self.shapes.sizes.now)
        own = views is not None and tracked is seen.requires_grad
        return seen if own else seen.detach()

    def read(self, capture: Capture, place: Any, tensors: Sequence[Tensor]) -> Any:
        """One captured value."""
        if capture.entry is not None:
            return capture.entry()._array  # which `decided` knows to be a tensor
        if capture.tensor is not None:
            t: Any = self.find(place, tensors)
            return t._grad._array if capture.grad else t._array
        if capture.number is not None:
            return self.number(capture.number)
        return capture.generator

    def number(self, read: Callable[[], float]) -> ndarray:
        """A number of the host program; as long as it is the same one, so is the array."""
        value, seen = read(), self.numbers.get(read)
        if seen is None or seen[0] != value or not value:  # zeros have signs
            seen = self.numbers[read] = (value, np.array(value, np.float64))
        return seen[1]

    def find(self, place: Any, tensors: Sequence[Tensor]) -> Tensor:
        return tensors[place] if isinstance(place, int) else place

    def leave(self, arrays: Sequence[ndarray], tensors: Sequence[Tensor]) -> None:
        """Counts what was written; gradients and new entries of an optimizer's state."""
        for t in self.counted:
            shared = t._counter
            if shared is None:
                shared = counter(t)
            shared.value += 1
        for place, of_gradient in self.written:
            written: Any = self.find(place, tensors)
            counter(written._grad if of_gradient else written).value += 1
        rest = iter(arrays)
        for place, empty in self.gradients:
            self.find(place, tensors)._grad = None if empty else wrap(next(rest))
        for put in self.assigned:
            put(wrap(next(rest)))


def viewed(t: Tensor, views: Any, sizes: Mapping[str, int]) -> Tensor:
    """The view of ``t`` that a chain of view ops makes."""
    if views is None:
        return t
    before, op, attrs = views
    here = {name: known(value, sizes) for name, value in attrs.items()}
    return op.apply((viewed(t, before, sizes),), here)
