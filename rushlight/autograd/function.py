"""Custom functions: a forward and a backward written by the user."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.modes import local
from rushlight.autograd.tape import (
    FREED,
    Node,
    Pick,
    Plan,
    Spec,
    counter,
    edge,
    freed,
    keep,
    modified,
    pick,
    restore,
    version,
)
from rushlight.errors import kind, user_line
from rushlight.tensor import LEAF, Tensor, wrap


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
    _node: weakref.ref[Node] | None = None  # once forward is done

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
        node = None if self._node is None else self._node()
        return self._saved if node is None else node.saved_tensors  # type: ignore[attr-defined]

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Says which inputs forward changed in place (it must return them)."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Says which results have no gradient."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (True) or None for results that were not used."""
        self._materialize = value


class CustomNode(Node):
    """The node of a custom function; ``saved`` holds what its context saved."""

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to ``ctx.save_for_backward``, checked to be as they were then."""
        if self.saved is FREED:
            raise freed(self)
        return tuple([entry.restore(self) for entry in self.saved])


class SavedTensor:
    """A saved input or intermediate value, or None."""

    def __init__(self, t: Tensor | None) -> None:
        self.tensor, self.version = t, version(t)

    def restore(self, node: Node) -> Tensor | None:
        t = self.tensor
        if t is not None and version(t) != self.version:
            raise modified(node, t._array, t._counter, self.version)
        return t


class SavedResult:
    """A saved result: kept without the tensor and its history, which would be a cycle."""

    def __init__(self, t: Tensor, index: int) -> None:
        self.kept, self.index = keep(t), index

    def restore(self, node: Node) -> Tensor:
        history = node if node.parts is None else pick(node, self.index, self.kept[0])
        return restore(node, self.kept, history)


class Rule:
    """What the tape sees as the op of a custom function."""

    arithmetic = False
    differentiable = True

    def __init__(self, function: type[Function]) -> None:
        self.function = function
        self.name = function.__name__
        self.node = type(f"{self.name}Backward", (CustomNode,), {})
        self.plan, self.keeping_plan = Plan(self, ()), Plan(self, ())
        self.keeping_plan.keeps = True

    def vjp(self, g: Any, _y: Any, *_saved: Any, ctx: FunctionCtx, tensors: list[bool]) -> tuple:
        """The user's gradients: one for each input, a tensor or None."""
        grads = self.chosen()(ctx, *(g if isinstance(g, tuple) else (g,)))
        grads = grads if isinstance(grads, tuple) else (grads,)
        expected = len(tensors)
        if len(grads) < expected or any([r is not None for r in grads[expected:]]):
            raise RuntimeError(
                f"function {self.name}Backward returned an incorrect number of gradients "
                f"(expected {expected}, got {len(grads)})"
            )
        for i, (r, is_tensor) in enumerate(zip(grads, tensors, strict=False)):
            if r is not None and not is_tensor:
                raise RuntimeError(
                    f"function {self.name}Backward returned a gradient different than None at "
                    f"position {i + 1}, but the corresponding forward input was not a Variable"
                )
            if r is not None and not isinstance(r, Tensor):
                raise RuntimeError(
                    f"expected Variable or None (got {kind(r)}) as gradient {i + 1} of function "
                    f"{self.name}Backward"
                )
        return grads[:expected]

    def chosen(self) -> Callable[..., Any]:
        """The user's backward, which may be called ``vjp``."""
        function = self.function
        if function.vjp is Function.vjp:
            return function.backward
        if function.backward is not Function.backward:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. "
                f"You should only implement one of them. [{self.name}]"
            )
        return function.vjp


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
        if state.trace is not None:  # inside a branch or loop, tensors of outside become leaves
            for t in inputs:
                if isinstance(t, Tensor):
                    state.trace.symbol(t)
        edges = tuple([edge(t) if isinstance(t, Tensor) else None for t in inputs])
        ctx.needs_input_grad = tuple([e is not None for e in edges])
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
        _check_dirty(ctx, results)
        if before and any(ctx.needs_input_grad):
            results = _attach(cls._rule, ctx, inputs, edges, results)
        else:
            ctx._saved = ()
        if not several:
            return results[0]
        return results if isinstance(result, list) else tuple(results)


def _check_dirty(ctx: FunctionCtx, results: Sequence[Any]) -> None:
    for t in ctx._dirty:
        if not any([t is y for y in results]):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as "
                "output. The inputs that are modified inplace must all be outputs of the Function."
            )


def _attach(
    rule: Rule, ctx: FunctionCtx, inputs: Sequence[Any], edges: tuple, results: list[Any]
) -> list[Any]:
    """The results of a custom forward with their history."""
    constant = {id(t) for t in ctx._constant}
    chosen = [
        i
        for i, y in enumerate(results)
        if isinstance(y, Tensor) and id(y) not in constant and y._array.dtype.kind in "fcV"
    ]
    if not chosen:
        ctx._saved = ()
        return results
    first = results[chosen[0]]._array
    plan = rule.keeping_plan if ctx._saved else rule.plan
    attrs = {"ctx": ctx, "tensors": [isinstance(t, Tensor) for t in inputs]}
    node = rule.node(plan, edges, (), first, attrs)
    node.materialize = ctx._materialize
    if local.state.anomaly:
        node.where = user_line()
    if len(results) > 1:
        node.unusual = True
        node.parts = tuple([_spec(y) for y in results])
    finished = list(results)
    for i in chosen:
        history = node if node.parts is None else pick(node, i, results[i]._array)
        finished[i] = _with_history(results[i], history, ctx, inputs)
    places = {id(y): i for i, y in enumerate(results) if i in chosen}
    node.saved = tuple(
        [
            SavedResult(finished[places[id(t)]], places[id(t)])
            if id(t) in places
            else SavedTensor(t)
            for t in ctx._saved
        ]
    )
    ctx._saved, ctx._dirty, ctx._constant = (), (), ()
    ctx._node = weakref.ref(node)
    return finished


def _spec(y: Any) -> Spec | None:
    return Spec(y._array.shape, y._array.dtype) if isinstance(y, Tensor) else None


def _with_history(y: Tensor, history: Node, ctx: FunctionCtx, inputs: Sequence[Any]) -> Tensor:
    """A result that has ``history``: itself, or another look at it if it is an unchanged input."""
    if any([y is t for t in ctx._dirty]):
        _check_writable(y, history)
        counter(y).value += 1
        y._rebase(history)
        return y
    if any([y is t for t in inputs]):
        twin = wrap(y._array)
        twin._counter = counter(y)
        twin._base = y if y._base is None else y._base
        y = twin
    y._history = history
    return y


def _check_writable(y: Tensor, history: Node) -> None:
    if y._history is LEAF or (y._base is not None and y._base._history is LEAF):
        view = "a view of " if y._base is not None else ""
        raise RuntimeError(
            f"{view}a leaf Variable that requires grad is being used in an in-place operation. "
            f"[{history.name()}]"
        )
    if y._base is not None and isinstance(history, Pick):
        raise RuntimeError(
            "If your Function modifies inplace an input that is a view of another Tensor, your "
            "Function cannot return more than one Tensor. Pass it a clone(), or split it in two."
        )


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A backward that cannot itself be differentiated: doing so is an error, not a wrong result."""

    @functools.wraps(backward)
    def call(ctx: FunctionCtx, *grads: Any) -> Any:
        state = local.state
        before, state.grad = state.grad, False
        try:
            result = backward(ctx, *grads)
        finally:
            state.grad = before
        if not before:
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
