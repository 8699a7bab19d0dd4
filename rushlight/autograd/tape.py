"""The tape: one node per recorded op, and what it keeps for backward.

A tensor's history is its *edge*: the node that made it, the tensor itself if it is a leaf that
wants a gradient, or None. A node holds the edges of its operands, so the graph is found by walking
edges; a node's sequence number is larger than those of all nodes it depends on, so descending
sequence numbers are a topological order.
"""

from __future__ import annotations

import inspect
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.errors import user_line
from rushlight.symbol import Symbol, TraceError
from rushlight.tensor import LEAF, VIEW, Counter, Tensor, wrap

next_sequence = itertools.count(1).__next__
NO_ATTRS: dict[str, Any] = {}
FREED: tuple = ("freed",)
NOTHING: tuple = (None,)
ONE = (True,)


class Node:
    """One recorded op: ``grad_fn`` of its result.

    While recording and going backward all nodes are of this one class, which is quick; a node that
    a user looks at becomes a ``MulBackward0``, see :func:`named`.
    """

    # What every node has; the rest is in its dictionary, as far as it differs from these defaults.
    __slots__ = (
        "__dict__", "__weakref__", "array_dtype", "attrs", "edges", "outputs", "plan", "saved",
        "sequence", "shape", "unusual", "versions",
    )  # fmt: skip

    parts: tuple[Spec | None, ...] | None = None  # of an op with several differentiable results
    picks: weakref.WeakValueDictionary[int, Pick] | None = None  # the edges of its several results
    tensor_hooks: dict[int, Callable] | None = None  # those of the result, before the node's own
    pre_hooks: dict[int, Callable] | None = None
    post_hooks: dict[int, Callable] | None = None
    retained: weakref.ref | None = None  # the tensor that keeps its gradient
    where: str | None = None  # the user's line, in anomaly mode
    materialize: bool = True  # results that were not used get zeros, else None

    def __init__(
        self,
        plan: Plan,
        edges: tuple[Any, ...],
        saved: tuple[Any, ...],
        result: np.ndarray,
        attrs: dict[str, Any] = NO_ATTRS,
    ) -> None:
        self.plan = plan
        self.edges = edges
        self.saved = saved  # operands that backward needs; else None, or a Spec if edgeless
        self.versions: tuple[int, ...] | None = None  # of these when recorded; None: all zero
        self.outputs: Any = None  # the result that backward needs, as Kept; of several, a list
        self.attrs = attrs
        self.sequence = next_sequence()
        self.shape, self.array_dtype = result.shape, result.dtype
        self.unusual = False  # has hooks, a retained gradient or several results

    @property
    def op(self) -> Any:
        return self.plan.op

    @property
    def dtype(self) -> dtypes.dtype:
        return dtypes.from_numpy(self.array_dtype)

    def name(self) -> str:
        return type(named(self)).__name__

    def __repr__(self) -> str:
        return f"<{self.name()} object at {hex(id(self))}>"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes of the operands, as (node, which of its results)."""
        return tuple(public_edge(e) for e in self.edges)

    @property
    def is_watched(self) -> bool:
        """Whether somebody wants to see the gradients that come by."""
        hooks = self.tensor_hooks or self.pre_hooks or self.post_hooks
        return bool(hooks) or self.retained is not None

    @property
    def metadata(self) -> dict[str, Any]:
        return self.__dict__.setdefault("_metadata", {})

    def register_hook(self, hook: Callable) -> RemovableHandle:
        """Calls ``hook(grad_inputs, grad_outputs)`` after this node's backward."""
        if self.post_hooks is None:
            self.post_hooks = {}
        self.unusual = True
        return RemovableHandle(self.post_hooks, hook)

    def register_prehook(self, hook: Callable) -> RemovableHandle:
        """Calls ``hook(grad_outputs)`` before this node's backward."""
        if self.pre_hooks is None:
            self.pre_hooks = {}
        self.unusual = True
        return RemovableHandle(self.pre_hooks, hook)

    def register_tensor_hook(self, hook: Callable) -> RemovableHandle:
        """Calls ``hook(grad)`` with the gradient of this node's result."""
        if self.tensor_hooks is None:
            self.tensor_hooks = {}
        self.unusual = True
        return RemovableHandle(self.tensor_hooks, hook)


class Pick(Node):
    """One of several results of a node; its gradient goes into that node's slot ``index``."""

    def __init__(self, node: Node, index: int, array: np.ndarray) -> None:
        super().__init__(node.plan, (node,), (), array)
        self.index = index
        self.unusual = True

    def name(self) -> str:
        return self.edges[0].name()


def note_line(node: Node, line: Any) -> None:
    """Remembers the user's line that a node comes from; a pick's is its node's, too."""
    node.where = line
    if isinstance(node, Pick):
        node.edges[0].where = line


def pick(node: Node, index: int, array: np.ndarray) -> Pick:
    """The edge of result ``index``: one and the same as long as anybody holds it."""
    if node.picks is None:
        node.picks = weakref.WeakValueDictionary()
    found = node.picks.get(index)
    if found is None:
        found = node.picks[index] = Pick(node, index, array)
    return found


class AccumulateGrad:
    """How a leaf appears in ``next_functions``: the place where its gradient is summed."""

    next_functions = ()

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable

    def name(self) -> str:
        return "AccumulateGrad"

    def register_hook(self, hook: Callable) -> RemovableHandle:
        """Calls ``hook(grad_inputs, grad_outputs)`` once the gradient has been added."""
        leaf = self.variable
        return leaf.register_post_accumulate_grad_hook(lambda t: hook((), (t.grad,)))


class RemovableHandle:
    """Takes a hook away again: ``handle.remove()``, or at the end of a ``with`` block."""

    _ids = itertools.count()

    def __init__(self, hooks: dict[int, Callable], hook: Callable) -> None:
        self.id = next(self._ids)
        self.hooks = hooks
        hooks[self.id] = hook

    def remove(self) -> None:
        self.hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


class Spec(NamedTuple):
    """What is known of an operand that was not kept."""

    shape: tuple[int, ...]
    array_dtype: np.dtype

    @property
    def dtype(self) -> dtypes.dtype:
        return dtypes.from_numpy(self.array_dtype)


Kept = tuple[np.ndarray, Counter, int]
"""A result kept for backward as (array, counter, version): the tensor would make a cycle."""


class Plan:
    """How one op goes backward when a given set of its operands wants gradients.

    The parameters of an op's ``vjp`` rule say what it needs: those whose names begin with an
    underscore are not kept, the rule gets their shape and dtype alone.
    """

    __slots__ = (
        "arithmetic",
        "count",
        "keep",
        "keep_output",
        "keeps",
        "kept",
        "lacks",
        "op",
        "rowwise",
        "rules",
        "steps",
        "whole",
    )

    def __init__(self, op: Any, needed: Sequence[bool]) -> None:
        self.op = op
        self.arithmetic = op.arithmetic
        self.count = len(needed)
        pairs = op.rowwise.items() if op.arithmetic else ()
        self.rowwise = {op.operands.index(a): op.operands.index(b) for a, b in pairs}
        self.whole = op.vjp
        self.lacks = self.whole is not None and not all(needed)  # edges, and needs their shapes
        self.rules: tuple[tuple[int, Callable], ...] = ()
        if self.whole is None:
            self.rules = tuple(
                (i, getattr(op, f"vjp_{name}"))
                for i, (name, need) in enumerate(zip(op.operands, needed, strict=True))
                if need
            )
        self.steps = self.rules or ((0, self.whole),)  # what to call when there is one result
        keeps = [
            _kept_parameters(rule, len(needed))
            for rule in ([self.whole] if self.whole else [rule for _, rule in self.rules])
        ]
        self.keep_output = any(k[0] for k in keeps)
        self.keep = tuple(any(k[1 + i] for k in keeps) for i in range(len(needed)))
        self.kept = tuple(i for i, kept in enumerate(self.keep) if kept)
        self.keeps = self.keep_output or any(self.keep)


def _kept_parameters(rule: Callable, count: int) -> list[bool]:
    """For (result, operand 1, …, operand count): whether ``rule(g, y, *operands)`` reads it."""
    keep: list[bool] = []
    for parameter in inspect.signature(rule).parameters.values():
        kept = not parameter.name.startswith("_")
        if parameter.kind is parameter.VAR_POSITIONAL:
            keep += [kept] * (count + 2 - len(keep))
        elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            keep.append(kept)
    if len(keep) != count + 2:
        raise TypeError(f"{rule.__qualname__} takes {len(keep) - 2} operands, its op has {count}")
    return keep[1:]


def named(node: Node) -> Node:
    """``node`` as an instance of the class called after its op, such as ``MulBackward0``."""
    if type(node) is Node:
        node.__class__ = node.op.node
    return node


def edge(t: Tensor) -> Any:
    """Where the gradient of ``t`` goes: a Node, the leaf ``t`` itself, or None."""
    history = t._history
    if history is LEAF:
        return t
    if history is not VIEW:
        return history
    if t._view_version != t._counter.value:
        refresh(t)
    return t._view_node


def itself(e: Any) -> Any:
    return e


def below(
    edges: Sequence[Any], beyond: Callable[[Any], Any] = itself
) -> tuple[dict[Node, None], dict[Tensor, None]]:
    """The nodes and the leaves that gradients come by from ``edges``, as they are met.

    An edge may stand for another one that lies ``beyond`` it.
    """
    nodes: dict[Node, None] = {}
    leaves: dict[Tensor, None] = {}
    stack = [*edges]
    while stack:
        e = beyond(stack.pop())
        if isinstance(e, Tensor):
            leaves[e] = None
        elif e is not None and e not in nodes:
            nodes[e] = None
            stack += e.edges
    return nodes, leaves


def leaves_below(*edges: Any) -> tuple[list[Tensor], bool]:
    """The leaves that gradients go to from edges, and whether a backward has used up a part."""
    nodes, leaves = below(edges)
    return [*leaves], any([node.saved is FREED for node in nodes])


def refresh(view: Tensor) -> None:
    """Rebuilds the history of a view whose base, or another view of it, was written to."""
    base = base_of(view)
    history, array = edge(base), base._array
    if type(array) is Symbol:
        array = array.template
    if history is None:
        view._view_node = None  # for now: the base may yet be made to want a gradient
        return
    view._view_version = view._counter.value
    if view._view is None:
        return
    for op, attrs in steps(view._view):
        array = op.eager(array, **attrs)
        history = link(op, (history,), (None,), attrs, array)
    hand_over(view, view._view_node, history)
    view._view_node = history


def steps(chain: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The view ops of a chain (chain before, op, attributes) from the base on."""
    found = []
    while chain is not None:
        chain, op, attrs = chain
        found.append((op, attrs))
    return reversed(found)


def base_of(view: Tensor) -> Tensor:
    """The tensor that a view's chain starts from.

    A base whose own shape was changed in place (``t_``) has become a view of what it was before.
    """
    base = view._base
    while base._base is not None and base._history is not LEAF:
        base = base._base
    return base


def hand_over(t: Tensor, old: Any, new: Any) -> None:
    """``t``, whose history was ``old`` and becomes ``new``, goes on retaining its gradient."""
    if isinstance(old, Node) and isinstance(new, Node) and old.retained is not None:
        if old.retained() is t:
            new.retained, old.retained = old.retained, None
            new.unusual = True


def link(
    op: Any, edges: tuple[Any, ...], operands: Sequence[Any], attrs: dict[str, Any], array: Any
) -> Node:
    """A new node over ``edges``, keeping of ``operands`` what the op's rules read."""
    needed = tuple([e is not None for e in edges])
    try:
        plan = op.plans[needed]
    except KeyError:
        plan = op.plans[needed] = Plan(op, needed)
    saved = tuple(
        [
            t if keep else (Spec(t._array.shape, t._array.dtype) if e is None and _is(t) else None)
            for t, keep, e in zip(operands, plan.keep, edges, strict=True)
        ]
    )
    node = Node(plan, edges, saved, array, attrs)
    for t in saved:
        if isinstance(t, Tensor) and t._counter is not None and t._counter.value:
            node.versions = tuple([version(s) for s in saved])
            break
    if local.state.anomaly:
        node.where = user_line()
    return node


def _is(t: Any) -> bool:
    return isinstance(t, Tensor)


def version(t: Any) -> int:
    return t._counter.value if isinstance(t, Tensor) and t._counter is not None else 0


def counter(t: Tensor) -> Counter:
    """The version counter of ``t``, shared with all views of its storage."""
    if t._counter is None:
        t._counter = Counter()
    return t._counter


def keep(t: Tensor) -> Kept:
    shared = counter(t)
    return t._array, shared, shared.value


def record(op: Any, y: Tensor, operands: Sequence[Any], attrs: dict[str, Any]) -> None:
    """Makes ``y`` remember that it is ``op`` of ``operands``, if one of them wants a gradient."""
    edges = tuple(
        [edge(t) if isinstance(t, Tensor) and t._history is not None else None for t in operands]
    )
    if all([e is None for e in edges]):
        return
    node = link(op, edges, operands, attrs, y._array)
    y._history = node
    if node.plan.keep_output:
        node.outputs = keep(y)


def record_one(op: Any, y: Tensor, x: Tensor, attrs: dict[str, Any]) -> None:
    """:func:`record` for the common op of one operand, without loops."""
    history = edge(x)
    if history is None:
        return
    try:
        plan = op.plans[ONE]
    except KeyError:
        plan = op.plans[ONE] = Plan(op, ONE)
    kept = plan.kept
    node = y._history = Node(plan, (history,), (x,) if kept else NOTHING, y._array, attrs)
    if kept and x._counter is not None:
        node.versions = (x._counter.value,)
    if plan.keep_output:
        node.outputs = keep(y)
    if local.state.anomaly:
        node.where = user_line()


def record_several(
    op: Any, ys: Sequence[Tensor], operands: Sequence[Any], attrs: dict[str, Any]
) -> None:
    """:func:`record` for several results, of which ``op.differentiable`` have gradients."""
    edges = tuple(
        [edge(t) if isinstance(t, Tensor) and t._history is not None else None for t in operands]
    )
    if all([e is None for e in edges]):
        return
    node = link(op, edges, operands, attrs, ys[0]._array)
    if node.plan.keep_output:
        node.outputs = [keep(y) for y in ys]
    chosen = ys if op.differentiable is True else [ys[i] for i in op.differentiable]
    if len(chosen) == 1:
        chosen[0]._history = node
        return
    node.unusual = True
    node.parts = tuple([Spec(y._array.shape, y._array.dtype) for y in chosen])
    for i, y in enumerate(chosen):
        if y._array.dtype.kind in "fcV":
            y._history = pick(node, i, y._array)


def unpack(node: Node) -> tuple[Any, list[Any]]:
    """The results and operands a node kept, checked to be as they were when it was recorded."""
    saved = node.saved
    if saved is FREED:
        raise freed(node)
    operands = [node.edges[i] if t is None else t for i, t in enumerate(saved)]
    for i in node.plan.kept:
        check_version(node, i)
    kept = node.outputs
    if kept is None:
        return None, operands
    if type(kept) is tuple:
        return restore(node, kept, node), operands
    chosen = range(len(kept)) if node.op.differentiable is True else node.op.differentiable
    several = len(chosen) > 1
    results = []
    for i, k in enumerate(kept):
        history = None if i not in chosen else node
        if history is not None and several:
            history = pick(node, list(chosen).index(i), k[0])
        results.append(restore(node, k, history))
    return tuple(results), operands


def check_version(node: Node, i: int) -> None:
    """An error if the kept operand ``i`` was written to since it was recorded."""
    t = node.saved[i]
    if isinstance(t, Tensor) and t._counter is not None:
        expected = 0 if node.versions is None else node.versions[i]
        if t._counter.value != expected:
            raise modified(node, t._array, t._counter, expected)


def freed(node: Node) -> RuntimeError:
    trace = local.state.trace
    if trace is not None and node in trace.spent:
        return trace.refuse_spent(node)
    return RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors "
        "after they have already been freed). Saved intermediate values of the graph are freed "
        "when you call .backward() or autograd.grad(). Specify retain_graph=True if you need "
        f"to backward through the graph a second time. [{node.name()}]"
    )


def restore(node: Node, kept: Kept, history: Node | None) -> Tensor:
    array, shared, expected = kept
    if shared.value != expected:
        raise modified(node, array, shared, expected)
    y = wrap(array)
    y._history = history
    return y


def modified(node: Node, array: np.ndarray, c: Counter, expected: int) -> RuntimeError:
    kind = dtypes.from_numpy(array.dtype).name
    line = "" if c.site is None else f" It was changed at {c.site[0]}:{c.site[1]}."
    trace = local.state.trace
    # Whether a branch has run and written to it, only dynamic mode knows.
    error = RuntimeError if trace is None or c not in trace.rewritten else TraceError
    return error(
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [{kind} {list(array.shape)}], needed by {node.name()}, is at version "
        f"{c.value}; expected version {expected} instead.{line} Use the out-of-place operation, "
        "or clone() the tensor before changing it."
    )


def public_edge(e: Any) -> tuple[Any, int]:
    if e is None:
        return None, 0
    if isinstance(e, Tensor):
        return AccumulateGrad(e), 0
    return (named(e.edges[0]), e.index) if isinstance(e, Pick) else (named(e), 0)
