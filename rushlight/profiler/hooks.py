"""How a profile sees what runs: for its time, functions that note it stand in the place of others.

Nothing asks whether a profile is running, so dynamic mode pays nothing for it. A function that
watches stands wherever the package has bound the one it watches: as a method, as a name of a
module, as an attribute of an op. Those that a program holds itself are the old ones, also for the
guards of compiled functions.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from rushlight.autograd import engine, modes
from rushlight.autograd.engine import Backward
from rushlight.autograd.function import Function
from rushlight.autograd.tape import Node, Pick, Plan
from rushlight.compile import Compiled
from rushlight.errors import PACKAGE
from rushlight.graph.ir import Source
from rushlight.nn import functional
from rushlight.ops.base import Op, ops, registry
from rushlight.ops.families import Elementwise
from rushlight.optim.lbfgs import LBFGS
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.sweep import Sweep
from rushlight.profiler.events import Event, Recorder, described
from rushlight.profiler.programs import watch_program
from rushlight.runtime.differentiable import Differentiable
from rushlight.runtime.executable import Binding
from rushlight.runtime.specialization import specialize
from rushlight.tensor import LEAF, VIEW, Tensor

FUNCTIONS = ("call", "binary", "reflected", "product", "batched")  # an op's, without ``out`` or so
Watch = Callable[..., Any]


def watch_op(function: Watch, op: Op, name: str) -> Watch:
    """A public function of an op."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        notes = Recorder.now()
        if notes is None:
            return function(*args, **kwargs)
        event = notes.begin(name, "op")
        event.op = op
        try:
            y = function(*args, **kwargs)
        finally:
            notes.finish(event)
        event.returned(y, (*args, *kwargs.values()))
        watch_history(y, event.source)
        return y

    return call


def watch_apply(function: Watch) -> Watch:
    """The method ``apply`` of ops: what their public functions run, and other ops directly."""

    @functools.wraps(function)
    def apply(self: Op, operands: Any, attrs: dict[str, Any]) -> Any:
        notes = Recorder.now()
        if notes is None:
            return function(self, operands, attrs)
        running = notes.thread.running
        if running is not None and running.op is self and not running.operands:
            running.given(operands, attrs)
            return function(self, operands, attrs)
        event = notes.begin(self.full_name, "op")
        event.op = self
        event.given(operands, attrs)
        try:
            y = function(self, operands, attrs)
        finally:
            notes.finish(event)
        event.returned(y, operands)
        watch_history(y, event.source)
        return y

    return apply


def watch_kernels(function: Watch) -> Watch:
    """What runs the kernels of elementwise ops: their functions may be held by a program."""
    known = {id(kernel): op for op in elementwise() for kernel in (op.eager, *op.kernels.values())}

    def run(kernel: Watch, *arrays: Any) -> Any:
        notes = Recorder.now()
        op = known.get(id(kernel))
        running = None if notes is None else notes.thread.running
        if notes is None or op is None or (running is not None and running.kind == "op"):
            return function(kernel, *arrays)
        event = notes.begin(op.full_name, "op")
        event.op, event.operands = op, tuple(map(described, arrays))
        try:
            y = function(kernel, *arrays)
        finally:
            notes.finish(event)
        event.results = (described(np.asarray(y)),)
        event.allocated = event.results[0].nbytes
        return y

    return run


def elementwise() -> Iterator[Elementwise]:
    yield from [op for op in registry.values() if isinstance(op, Elementwise)]


def watch_history(y: Any, source: Source | None) -> None:
    """The tape nodes of results get plans that note their times, and know this line."""
    for t in y if isinstance(y, (tuple, list)) else (y,):
        if isinstance(t, Tensor):
            node = t._history
            if node is VIEW:
                node = t._view_node
            if isinstance(node, Pick):
                node = node.edges[0]
            if node is not LEAF and isinstance(node, Node) and type(node.plan) is Plan:
                node.plan = watched_plan(node.plan, source)


class WatchedPlan(Plan):
    """A plan whose rules note their times."""

    __slots__ = ("source",)

    def __init__(self, plan: Plan, source: Source | None) -> None:
        for name in Plan.__slots__:
            setattr(self, name, getattr(plan, name))
        self.source = source
        self.rules = tuple([(i, watch_rule(rule, plan, source)) for i, rule in plan.rules])
        if plan.whole is not None:
            self.whole = watch_rule(plan.whole, plan, source)
        self.steps = self.rules or ((0, self.whole),)


@functools.lru_cache(maxsize=1 << 12)
def watched_plan(plan: Plan, source: Source | None) -> Plan:
    return WatchedPlan(plan, source)


def watch_rule(rule: Watch, plan: Plan, source: Source | None) -> Watch:
    """A derivative rule, on bare arrays or on tensors."""
    name = f"backward of {plan.op.name}"

    def call(g: Any, y: Any, *operands: Any, **attrs: Any) -> Any:
        notes = Recorder.now()
        if notes is None:
            return rule(g, y, *operands, **attrs)
        event = notes.begin(name, "backward", source)
        try:
            r = rule(g, y, *operands, **attrs)
        finally:
            notes.finish(event)
        if isinstance(g, np.ndarray):
            of_rule(event, rule, plan, (g, y, *operands), attrs)
            made = [np.asarray(x) for x in (r if isinstance(r, tuple) else (r,))]
            event.results = tuple([described(x) for x in made])
            event.allocated = sum([x.nbytes for x in made if x.base is None and x is not g])
        return r

    return call


def of_rule(
    event: Event, rule: Watch, plan: Plan, given: tuple[Any, ...], attrs: dict[str, Any]
) -> None:
    """Notes what a rule on bare arrays has read; operands that it does not read have shapes.

    An operand may also be a number of Python's.
    """
    event.op, event.rule = plan.op, rule
    g, y, *operands = given
    event.attrs, event.shapes = attrs, [None if x is None else np.shape(x) for x in operands]
    read = [g, y, *[operands[i] for i in plan.kept]]
    event.operands = tuple([described(x) for x in read if isinstance(x, np.ndarray)])


def watch_fit(function: Watch) -> Watch:
    """What sums a gradient over broadcast dimensions: it belongs to the op that broadcast."""

    def fit(r: Any, shape: Any, kind: Any, node: Node) -> Any:
        notes = Recorder.now()
        if notes is None:
            return function(r, shape, kind, node)
        source = node.plan.source if isinstance(node.plan, WatchedPlan) else None
        event = notes.begin(f"backward of {node.op.name}", "backward", source)
        try:
            summed = function(r, shape, kind, node)
        finally:
            notes.finish(event)
        event.operands, event.results = (described(r),), (described(summed),)
        event.allocated = summed.nbytes * (summed is not r)
        return summed

    return fit


def watch_work(function: Watch, name: Callable[[Any], str], kind: str = "work") -> Watch:
    """A function with many events in it."""

    @functools.wraps(function)
    def call(first: Any, *args: Any, **kwargs: Any) -> Any:
        notes = Recorder.now()
        if notes is None:
            return function(first, *args, **kwargs)
        event = notes.begin(name(first), kind)
        try:
            return function(first, *args, **kwargs)
        finally:
            notes.finish(event)

    return call


def watch_function(apply: classmethod) -> classmethod:
    """``apply`` of custom functions."""

    @functools.wraps(apply.__func__)
    def call(cls: type[Function], *inputs: Any) -> Any:
        notes = Recorder.now()
        if notes is None or issubclass(cls, Differentiable):
            y = apply.__func__(cls, *inputs)
        else:
            event = notes.begin(cls.__name__, "work")
            try:
                y = apply.__func__(cls, *inputs)
            finally:
                notes.finish(event)
        if notes is not None:
            watch_history(y, notes.place()[0])
        return y

    return classmethod(call)


def watch_sweep(function: Watch) -> Watch:
    """The formula of an optimizer, run over all parameters of a group."""

    @functools.wraps(function)
    def run(self: Sweep, sets: Any, dtype: np.dtype) -> None:
        notes = Recorder.now()
        if notes is None:
            return function(self, sets, dtype)
        event = notes.begin("update of parameters", "update")
        try:
            function(self, sets, dtype)
        finally:
            notes.finish(event)
        calls, lanes, _ = self.formula
        event.attrs = {"calls": len(calls)}
        event.operands = tuple([described(a) for arrays in sets for a in arrays[:lanes]])
        written = sorted(self.plan.written)
        event.results = tuple([described(arrays[i]) for arrays in sets for i in written])

    return run


def named(value: Any) -> str:
    return getattr(value, "__qualname__", type(value).__name__)


@functools.cache
def watches() -> dict[int, tuple[Any, Any]]:
    """(what is watched, what watches it), by the identity of the first."""
    found: list[tuple[Any, Any]] = []
    for op in registry.values():
        functions = [vars(op)[name] for name in FUNCTIONS if name in vars(op)]
        found += [(f, watch_op(f, op, op.full_name)) for f in functions]
        written = vars(Tensor).get(f"{op.name}_")
        if isinstance(written, FunctionType) and getattr(written, "__wrapped__", None) is op.call:
            found.append((written, watch_op(written, op, f"{op.full_name}_")))
    for cls in classes():
        if "apply" in vars(cls):
            found.append((vars(cls)["apply"], watch_apply(vars(cls)["apply"])))
    run = vars(Backward)["run"]
    found.append((run, watch_work(run, lambda _: "backward()", "pass")))
    for step in (vars(Optimizer)["step"], vars(LBFGS)["step"]):
        found.append((step, watch_work(step, lambda self: f"{type(self).__name__}.step()")))
    call = vars(Compiled)["__call__"]
    found.append((call, watch_work(call, lambda self: f"compiled {self.name}")))
    found.append((specialize, watch_work(specialize, lambda f: f"compile {named(f)}")))
    rest: list[tuple[Any, Callable[[Any], Any]]] = [
        (modes.run_quietly, watch_kernels),
        (engine.fit_array, watch_fit),
        (vars(Function)["apply"], watch_function),
        (vars(Binding)["execute"], watch_program),
        (vars(Sweep)["run"], watch_sweep),
    ]
    found += [(function, watch(function)) for function, watch in rest]
    return {id(function): (function, watch) for function, watch in found}


def classes() -> Iterator[type[Op]]:
    """Op and all classes made of it."""
    left: list[type[Op]] = [Op]
    while left:
        cls = left.pop()
        yield cls
        left += cls.__subclasses__()


def owners() -> Iterator[Any]:
    """What of this package holds functions: classes, ops, namespaces, modules."""
    yield from (Tensor, Binding, Compiled, Function, LBFGS, Optimizer, Sweep, Backward)
    yield from classes()
    yield from registry.values()
    yield from (ops, *[space for space in vars(ops).values() if type(space) is SimpleNamespace])
    for module in {id(module): module for module in list(sys.modules.values())}.values():
        if (getattr(module, "__file__", None) or "").startswith(PACKAGE):
            yield module


def replace(new: dict[int, Any]) -> None:
    """Puts others in the place of functions, wherever they are bound; keys are identities."""
    for owner in owners():
        for name, value in list(vars(owner).items()):
            if id(value) in new and not isinstance(value, type):
                if isinstance(owner, type):
                    setattr(owner, name, new[id(value)])
                else:
                    vars(owner)[name] = new[id(value)]


def install() -> None:
    """From now on, what happens is noted."""
    replace({key: watch for key, (_, watch) in watches().items()})


def remove() -> None:
    """Everything is as it was before :func:`install`."""
    replace({id(watch): function for function, watch in watches().values()})


assert functional  # whose ops are registered when it is loaded
