"""Custom functions: a forward and a backward written by the user."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.modes import local
from rushlight.autograd.tape import (
    Kept,
    Node,
    Pick,
    Plan,
    Spec,
    counter,
    edge,
    keep,
    link,
    modified,
    version,
)
from rushlight.errors import kind, user_line
from rushlight.tensor import VIEW, Tensor, wrap


class FunctionCtx:
    """What a custom function's forward leaves for its backward.

    Any attribute may be set on it; tensors are better given to :meth:`save_for_backward`, which
    notices when they are changed in between and lets them go after backward.
    """

    needs_input_grad: tuple[bool, ...] = ()
    _saved: tuple[Any, ...] = ()
    _dirty: tuple[Tensor, ...] = ()
    _constant: tuple[Tensor, ...] = ()
    _materialize: bool = True
    _node: Any = None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors for backward, where they are ``ctx.saved_tensors``."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but got {kind(t)}. "
                    "Keep other values as attributes: ctx.value = value"
                )
        self._saved = tensors

    save_for_forward = save_for_backward

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to :meth:`save_for_backward`."""
        node = self._node
        if node is None:
            return self._saved
        return tuple([_restore(entry, node) for entry in self._saved])

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Says which inputs forward changed in place (it must return them)."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Says which results have no gradient."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (True) or None for results that were not used."""
        self._materialize = value


def _restore(entry: Any, node: Node) -> Any:
    if isinstance(entry, tuple):
        t, expected = entry
        if version(t) != expected:
            raise modified(node, t._array, t._counter, expected)
        return t
    if isinstance(entry, _KeptResult):
        kept = entry.kept
        if kept.counter.value != kept.version:
            raise modified(node, kept.array, kept.counter, kept.version)
        y = wrap(kept.array)
        y._history = entry.history
        return y
    return entry


class _KeptResult:
    """A saved tensor that is a result: kept without the tensor, which would be a cycle."""

    __slots__ = ("history", "kept")

    def __init__(self, kept: Kept, history: Any) -> None:
        self.kept, self.history = kept, history


class Rule:
    """What the tape sees as the op of a custom function."""

    arithmetic = False
    differentiable = True

    def __init__(self, function: type[Function]) -> None:
        self.function = function
        self.name = function.__name__
        self.plans: dict[tuple[bool, ...], Plan] = {}
        self.node = type(f"{function.__name__}Backward", (Node,), {})

    def vjp(self, g: Any, _y: Any, *_operands: Any, ctx: FunctionCtx) -> tuple:
        grads = self.function.backward(ctx, *(g if isinstance(g, tuple) else (g,)))
        grads = grads if isinstance(grads, tuple) else (grads,)
        expected = len(ctx.needs_input_grad)
        surplus = grads[expected:]
        if len(grads) < expected or any(r is not None for r in surplus):
            raise RuntimeError(
                f"function {self.name}Backward returned an incorrect number of gradients "
                f"(expected {expected}, got {len(grads)})"
            )
        for i, (r, need) in enumerate(zip(grads, ctx.needs_input_grad, strict=False)):
            if r is not None and need and not isinstance(r, Tensor):
                raise TypeError(
                    f"function {self.name}Backward returned {kind(r)} as gradient {i}, "
                    "expected a Tensor or None"
                )
        return grads[:expected]


class Function:
    """A function with a derivative of its own.

    Subclass it, write ``forward`` and ``backward`` as static methods, and call ``apply``.

    >>> class Exp(rl.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         y = x.exp()
    ...         ctx.save_for_backward(y)
    ...         return y
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (y,) = ctx.saved_tensors
    ...         return g * y
    >>> x = rl.tensor(0.0, requires_grad=True)
    >>> Exp.apply(x).backward()
    >>> x.grad
    tensor(1.)
    """

    _rule: Rule

    def __init_subclass__(cls) -> None:
        cls._rule = Rule(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"{type(self).__name__} is used through its static methods: "
            f"write {type(self).__name__}.apply(...) instead of {type(self).__name__}(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the result: ``forward(ctx, *inputs)``, or ``forward(*inputs)`` if the class
        has ``setup_context(ctx, inputs, output)``."""
        raise NotImplementedError("You must implement the forward function of a custom Function.")

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple, output: Any) -> None:
        """Fills ``ctx`` after a forward that does not take it."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: FunctionCtx, *grad_outputs: Any) -> Any:
        """The gradient of each input of forward, given those of its results."""
        raise NotImplementedError(
            "You must implement the backward function of a custom Function to differentiate it."
        )

    vjp = backward

    @classmethod
    def apply(cls, *inputs: Any) -> Any:
        """Calls forward and records backward for the gradients."""
        ctx = FunctionCtx()
        state = local.state
        edges = tuple([edge(t) if isinstance(t, Tensor) else None for t in inputs])
        ctx.needs_input_grad = tuple([state.grad and e is not None for e in edges])
        before, state.grad = state.grad, False
        try:
            if cls.setup_context is Function.setup_context:
                result = cls.forward(ctx, *inputs)
            else:
                result = cls.forward(*inputs)
                cls.setup_context(ctx, inputs, result)
        finally:
            state.grad = before
        several = isinstance(result, (tuple, list))
        results = list(result) if several else [result]
        finished = _attach(cls._rule, ctx, inputs, edges, results)
        return tuple(finished) if several else finished[0]


def _attach(
    rule: Rule, ctx: FunctionCtx, inputs: Sequence[Any], edges: tuple, results: list[Any]
) -> list[Any]:
    """Gives the results of a custom forward their history."""
    dirty = {id(t) for t in ctx._dirty}
    if not any(ctx.needs_input_grad):
        ctx._saved = ()
        return results
    given = {id(t) for t in inputs if isinstance(t, Tensor)}
    constant = {id(t) for t in ctx._constant}
    originals = list(results)
    for i, y in enumerate(results):
        if isinstance(y, Tensor) and id(y) in given and id(y) not in dirty:
            results[i] = y.detach()
            if id(y) in constant:
                constant.add(id(results[i]))
    chosen = [
        i
        for i, y in enumerate(results)
        if isinstance(y, Tensor) and id(y) not in constant and y._array.dtype.kind in "fcV"
    ]
    if not chosen:
        ctx._saved = ()
        return results
    node = link(rule, edges, inputs, {"ctx": ctx}, results[chosen[0]]._array)
    node.materialize = ctx._materialize
    if local.state.anomaly:
        node.where = user_line()
    ctx._node = node
    histories: dict[int, Any] = {}
    if len(results) == 1:
        histories[0] = node
    else:
        node.unusual = True
        node.parts = tuple(
            [Spec(y._array.shape, y._array.dtype) if isinstance(y, Tensor) else Spec((), None)
             for y in results]
        )
        histories = {i: Pick(node, i, results[i]._array) for i in chosen}
    for i in chosen:
        y = results[i]
        if id(y) in dirty:
            counter(y).value += 1
            if y._history is VIEW:
                y._view_node, y._view_version = histories[i], y._counter.value
            else:
                y._history = histories[i]
        else:
            y._history = histories[i]
    kept = []
    for t in ctx._saved:
        where = next((i for i, y in enumerate(originals) if y is t), None)
        if where is not None and where in histories:
            kept.append(_KeptResult(keep(results[where]), histories[where]))
        else:
            kept.append(None if t is None else (t, version(t)))
    ctx._saved = tuple(kept)
    if kept:
        node.plan = _keeping(rule, node.plan)
    return results


def _keeping(rule: Rule, plan: Plan) -> Plan:
    """The plan with ``keeps`` set: after backward the context's tensors are let go."""
    twin = object.__new__(Plan)
    for name in Plan.__slots__:
        setattr(twin, name, getattr(plan, name))
    twin.keeps = True
    return twin


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A backward that cannot itself be differentiated: doing so is an error, not a wrong result."""

    @functools.wraps(backward)
    def call(ctx: FunctionCtx, *grads: Any) -> Any:
        recording = local.state.grad and any(
            isinstance(g, Tensor) and edge(g) is not None for g in grads
        )
        state = local.state
        before, state.grad = state.grad, False
        try:
            result = backward(ctx, *grads)
        finally:
            state.grad = before
        if not recording:
            return result
        several = isinstance(result, tuple)
        marked = [
            _Once.apply(r, *grads) if isinstance(r, Tensor) else r
            for r in (result if several else (result,))
        ]
        return tuple(marked) if several else marked[0]

    return call


class _Once(Function):
    @staticmethod
    def forward(ctx: FunctionCtx, result: Tensor, *grads: Any) -> Tensor:
        return result.detach()

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Any) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )
