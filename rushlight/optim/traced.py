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

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.ops.base import check_writable, overwrite
from rushlight.optim.apply import Group, State, as_complex, as_real, state_of
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.graph.trace import Trace
    from rushlight.optim.optimizer import Optimizer

Same = dict[Any, list[State]]
"""The states of parameters by their scalars: those that agree share their arithmetic."""


def trace_step(optimizer: Optimizer) -> None:
    """One step of all groups."""
    trace = local.state.trace
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
        states = [state_of(optimizer, p, group) for p in parameters]
    hyper = {
        k: hosted(trace, lambda: optimizer.param_groups, number, k) for k in group if k != "params"
    }
    same: Same = defaultdict(list)
    shared: dict[Any, State] = {}
    for p, state in zip(parameters, states, strict=True):
        check_writable(p, "step")
        scalars = [k for k in state if k in optimizer.scalars]
        with trace.outside():
            values = tuple([(k, state[k].item()) for k in scalars])
        if values not in same:
            shared[values] = {k: state[k].to(dtypes.float64, copy=True) for k in scalars}
        same[values].append(state)
        trace_update(trace, optimizer, p, state, shared[values], hyper)
    condition(lambda: [agree(states, optimizer.scalars) for states in same.values()])


def trace_update(
    trace: Trace, optimizer: Optimizer, p: Tensor, state: State, shared: State, hyper: State
) -> None:
    """The new values of a parameter and its state, written over the old ones."""
    wide = widened if optimizer.elementwise else as_real
    before = {k: shared[k] if k in shared else wide(v) for k, v in state.items()}
    g: Any = p.grad
    new, after = optimizer.update(wide(p), wide(-g if hyper.get("maximize") else g), before, hyper)
    for k, value in after.items():
        if k in shared:
            overwrite(state[k], value.to(state[k].dtype))
        elif k not in state:
            trace.assign(optimizer.state[p], k, as_complex(value, p).to(p.dtype))
        elif value is not before[k]:
            overwrite(state[k], as_complex(value, p))
    overwrite(p, as_complex(new, p))


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

    value = read()
    if isinstance(value, float):
        return trace.host(read)
    if isinstance(value, tuple) and value and all([isinstance(v, float) for v in value]):
        return tuple([trace.host(functools.partial(read, i)) for i in range(len(value))])
    condition((lambda: id(read())) if isinstance(value, Tensor) else read)
    return value


def trace_foreign(optimizer: Optimizer, step: Callable[..., Any]) -> Callable[..., Any]:
    """A ``step`` that a subclass defines, inside a trace: an error if it keeps things in Python.

    Meanwhile the floats of the groups are numbers that may change between calls.
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        trace, groups, state = local.state.trace, optimizer.param_groups, optimizer.state
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
