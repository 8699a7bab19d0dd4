"""A step of an optimizer as part of a graph.

The graph holds the ``update`` of every parameter. Rates that are floats are read anew at each call,
so that schedules go on working; step counts are tensors, so that no step needs a graph of its own.
Everything else that a step looks at becomes a condition of the graph.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.graph.ir import Node, TensorType, walk
from rushlight.graph.templates import hollow
from rushlight.memory import make_room
from rushlight.ops.base import check_writable, overwrite
from rushlight.optim.apply import Group, State, as_complex, as_real, state_of
from rushlight.symbol import Symbol, TraceError
from rushlight.tensor import Tensor, wrap

if TYPE_CHECKING:
    from rushlight.graph.trace import Trace
    from rushlight.optim.optimizer import Optimizer

Same = dict[Any, list[State]]
"""The states of parameters by their scalars: those that agree share their arithmetic."""


def trace_step(optimizer: Optimizer) -> None:
    """One step of all groups."""
    trace = local.state.trace
    trace.refuse_postponed(optimizer, f"{type(optimizer).__name__}.step()")
    condition(lambda: [list(map(id, g["params"])) for g in optimizer.param_groups])
    for i, group in enumerate(optimizer.param_groups):
        parameters = [p for p in group["params"] if p.grad is not None]
        trace.reached.update(map(id, parameters))
        trace_group(trace, optimizer, i, parameters)
    condition(lambda: census(optimizer.state.values()))


def trace_group(
    trace: Trace, optimizer: Optimizer, number: int, parameters: Sequence[Tensor]
) -> None:
    """One step of those parameters of a group that have a gradient."""
    group = optimizer.param_groups[number]
    if group.get("differentiable"):
        raise TraceError(
            f"{type(optimizer).__name__}(differentiable=True).step() at {trace.place()} records "
            "its own history, which a graph cannot hold: step outside the compiled function"
        )
    with trace.outside():
        if not optimizer.state:
            make_room(2 * sum([p._array.nbytes for p in parameters]))
        states = [state_of(optimizer, p, group) for p in parameters]
    name_states(trace.modules.names, parameters, states)
    hyper = {
        k: hosted(trace, lambda: optimizer.param_groups, number, k) for k in group if k != "params"
    }
    same: Same = defaultdict(list)
    updates: dict[Any, Update] = {}
    for p, state in zip(parameters, states, strict=True):
        check_writable(p, "step")
        scalars = [k for k in state if k in optimizer.scalars]
        with trace.outside():
            values = tuple([(k, state[k].item()) for k in scalars])
        if values not in same:
            shared = {k: state[k].to(dtypes.float64, copy=True) for k in scalars}
            updates[values] = Update(trace, optimizer, shared, hyper)
        same[values].append(state)
        updates[values].run(p, state)
    condition(lambda: [agree(states, optimizer.scalars) for states in same.values()])


def name_states(
    names: dict[int, str], parameters: Sequence[Tensor], states: Sequence[State]
) -> None:
    """Calls what is remembered of a parameter after it: ``optimizer.exp_avg.net.0.weight``."""
    for p, state in zip(parameters, states, strict=True):
        for k, value in state.items():
            if id(p) in names and isinstance(value, Tensor):
                names.setdefault(id(value), f"optimizer.{k}.{names[id(p)]}")


class Update:
    """An optimizer's ``update`` of parameters that have their scalars in common.

    One that treats each element alone is traced once for a kind of parameters, on tensors that
    stand for them; its nodes are then repeated for each.
    """

    def __init__(self, trace: Trace, optimizer: Optimizer, shared: State, hyper: State) -> None:
        self.trace, self.optimizer, self.shared, self.hyper = trace, optimizer, shared, hyper
        self.known: dict[Any, Formula | None] = {}

    def run(self, p: Tensor, state: State) -> None:
        """The new values of a parameter and its state, written over the old ones."""
        for k, value in self.repeated(p, state).items():
            if k == "":
                overwrite(p, value)
            elif k in state:
                overwrite(state[k], value)
            else:
                self.trace.assign(self.optimizer.state[p], k, value)

    def repeated(self, p: Tensor, state: State) -> State:
        g: Any = p.grad
        own = {k: v for k, v in state.items() if k not in self.shared}
        tensors = [p, g, *own.values()]
        alike = all([isinstance(t, Tensor) and t.shape == p.shape for t in tensors])
        if not (self.optimizer.elementwise and alike):
            return self.traced(p, g, state)
        types = [(k, v.dtype) for k, v in state.items()]
        kind = (p.dtype, g.dtype, p.dim() == 0, *types)  # a tensor of no dimension is a number
        if kind not in self.known:
            stand_ins = [self.trace.stand_in(t) for t in tensors]
            first, second, *rest = stand_ins
            made = self.traced(first, second, {**state, **dict(zip(own, rest, strict=True))})
            found = Formula(self.trace, stand_ins, made)
            self.known[kind] = found if found.of_elements(p.shape) else None
        formula = self.known[kind]
        return self.traced(p, g, state) if formula is None else formula.of(tensors)

    def traced(self, p: Tensor, g: Any, state: State) -> State:
        """What shall be written, by the names of the state; the parameter itself has none."""
        wide = widened if self.optimizer.elementwise else as_real
        before = {k: self.shared[k] if k in self.shared else wide(v) for k, v in state.items()}
        gradient = wide(-g if self.hyper.get("maximize") else g)
        new, after = self.optimizer.update(wide(p), gradient, before, self.hyper)
        found = {}
        for k, value in after.items():
            if k in self.shared:
                found[k] = value.to(state[k].dtype)
            elif k not in state:
                found[k] = as_complex(value, p).to(p.dtype)
            elif value is not before[k]:
                found[k] = as_complex(value, p)
        return {**found, "": as_complex(new, p)}


class Formula:
    """Nodes that are made of stand-ins, to be made of others."""

    def __init__(self, trace: Trace, stand_ins: Sequence[Tensor], results: State) -> None:
        self.trace = trace
        self.leaves = [t._array.node for t in stand_ins]
        self.results = {k: trace.symbol(t) for k, t in results.items()}
        depends, self.body = set(self.leaves), []
        for node in walk([trace.current(s) for s in self.results.values()], self.leaves):
            if not depends.isdisjoint(node.inputs):
                depends.add(node)
                self.body.append(node)

    def of_elements(self, shape: tuple[int, ...]) -> bool:
        """Whether all values have the shape of the stand-ins."""
        return all([isinstance(n.type, TensorType) and n.type.shape == shape for n in self.body])

    def of(self, tensors: Sequence[Tensor]) -> State:
        """The results for these tensors, all of one shape."""
        symbols = [self.trace.symbol(t) for t in tensors]
        nodes = [self.trace.current(symbol) for symbol in symbols]
        new: dict[Any, Node] = dict(zip(self.leaves, nodes, strict=True))
        template = symbols[0].template
        types = {n.type: TensorType(nodes[0].type.shape, n.type.dtype) for n in self.body}
        for node in self.body:
            inputs = tuple([new.get(n, n) for n in node.inputs])
            new[node] = Node(node.op, inputs, node.attrs, types[node.type], node.source)
        found = {}
        for k, symbol in self.results.items():
            if symbol.node in new:
                like = template
                if symbol.dtype != template.dtype:
                    like = hollow(np.empty_like(template, symbol.dtype))
                symbol = Symbol(self.trace, new[symbol.node], like)
            found[k] = wrap(symbol)
        return found


def widened(value: Any) -> Any:
    """What elements are computed in: half types in float32, complex ones as pairs."""
    real = as_real(value)
    half = isinstance(real, Tensor) and real.dtype.itemsize < 4
    return real.to(dtypes.float32) if half else real


def agree(states: Sequence[State], scalars: Sequence[str]) -> bool:
    """Whether the scalars of these states are the same numbers."""
    names = [k for k in scalars if k in states[0]]
    return all([len({float(s[k]._array) for s in states}) == 1 for k in names])


def census(entries: Iterable[State]) -> list[int]:
    """Which objects are in these dicts."""
    return list(map(id, chain.from_iterable(map(dict.values, entries))))


def condition(question: Callable[[], Any]) -> None:
    """The graph is right as long as the question is answered as it is now."""
    local.state.trace.decide(question, question())


def hosted(trace: Trace, groups: Callable[[], list[Group]], number: int, name: str) -> Any:
    """A hyper-parameter inside a trace: a float is a number that may change between calls."""

    def read(*place: int) -> Any:
        value = groups()[number][name]
        return value[place[0]] if place else value

    def host(label: str, read: Callable[[], Any]) -> Any:
        number = trace.host(read)
        number.formula = label
        return number

    value, label = read(), f"{name}.{number}" if number else name
    if isinstance(value, float):
        return host(label, read)
    if isinstance(value, tuple) and value and all([isinstance(v, float) for v in value]):
        reads = [functools.partial(read, i) for i in range(len(value))]
        return tuple([host(f"{label}[{i}]", each) for i, each in enumerate(reads)])
    condition((lambda: id(read())) if isinstance(value, Tensor) else read)
    return value


def trace_foreign(optimizer: Optimizer, step: Callable[..., Any]) -> Callable[..., Any]:
    """A ``step`` that a subclass defines, inside a trace: an error if it keeps things in Python.

    Meanwhile the floats of the groups are numbers that may change between calls.
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        trace, groups, state = local.state.trace, optimizer.param_groups, optimizer.state
        trace.refuse_postponed(optimizer, f"{type(optimizer).__name__}.step()")
        kept = {key: dict(entry) for key, entry in state.items()}
        condition(lambda: (id(optimizer.param_groups), id(optimizer.state)))
        condition(lambda: [list(map(id, group["params"])) for group in groups])
        condition(lambda: census(state.values()))
        optimizer.param_groups = [
            {k: v if k == "params" else hosted(trace, lambda: groups, i, k) for k, v in g.items()}
            for i, g in enumerate(groups)
        ]
        shown = census(optimizer.param_groups)
        try:
            result = step(*args, **kwargs)
            changed = census(state.values()) != census(kept.values())
            changed = changed or census(optimizer.param_groups) != shown
        finally:
            optimizer.param_groups = groups
            state.clear()
            state.update(kept)
        if changed:
            raise TraceError(
                f"{type(optimizer).__name__}.step() at {trace.place()} keeps its state in Python, "
                "which a graph cannot do: define `init` and `update`, or step outside"
            )
        return result

    return run
