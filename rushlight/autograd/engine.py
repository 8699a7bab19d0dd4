"""Backward: one loop over the tape, from the newest node to the oldest.

Unless the gradient is itself recorded (``create_graph``), gradients travel between nodes as bare
arrays: rules that are plain arithmetic run on them directly, others get them wrapped.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush, heappushpop
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.autograd.rows import Collection
from rushlight.autograd.tape import (
    FREED,
    NO_ATTRS,
    Node,
    Pick,
    Spec,
    below,
    check_version,
    counter,
    edge,
    freed,
    itself,
    modified,
    unpack,
)
from rushlight.dims import is_extent, same_shape
from rushlight.tensor import Tensor, literal, wrap

SMALL = 4096  # elements up to which a gradient with odd strides is copied: arithmetic is quicker


class Backward:
    """One backward pass.

    ``targets`` are the edges whose gradients are wanted: only nodes on a way to one of them run.
    With ``targets=None`` all leaves are. What reaches a leaf is added to its ``.grad`` if
    ``accumulate``; what reaches a target is kept in ``found``. In a branch or loop of a graph,
    tensors of outside are leaves; gradients go ``through`` them to what made them there.
    """

    targets: set[Any] | None = None
    passing: set[Any] | None = None  # the edges on a way to a target
    asked: Iterable[Any] = ()  # the targets, as they were given
    collection: Collection | None = None  # of rows, once there are some

    def __init__(
        self,
        retain_graph: bool,
        create_graph: bool,
        targets: Iterable[Any] | None = None,
        accumulate: bool = True,
        through: bool = True,
    ) -> None:
        self.retain_graph = retain_graph
        self.create_graph = create_graph
        self.trace = local.state.trace
        self.beyond = self.trace.beyond if self.trace is not None and through else itself
        self.on_tensors = create_graph or self.trace is not None  # how gradients travel
        self.accumulate = accumulate
        self.waiting: list[tuple[int, Node]] = []  # the nodes of pending, newest first
        self.pending: dict[Any, Any] = {}  # edge → the gradient collected so far
        self.shared: set[Tensor] = set()  # leaves whose pending gradient others may hold too
        self.found: dict[Any, Tensor] = {}
        self.starts: list[Any] = []
        if targets is not None:
            self.asked = set(targets)
            self.targets = {self.beyond(e) for e in self.asked}

    def run(self, roots: Sequence[tuple[Any, Tensor]]) -> dict[Any, Tensor]:
        """Sends the gradients of ``roots``, (edge, gradient) pairs, through the graph."""
        roots = [(self.beyond(e), g) for e, g in roots]
        self.starts = [e for e, _ in roots]
        targets = self.targets
        if targets is not None:
            self.passing = ways(self.starts, targets, self.beyond)
            if self.trace is not None and self.beyond is not itself:
                self.trace.ask(self.starts, targets)
        state = local.state
        before, state.grad = state.grad, self.create_graph
        outer, state.backward = state.backward, self
        try:
            for e, g in roots:
                if isinstance(e, Tensor):
                    self.shared.add(e)
                self.send(e, g if self.on_tensors else g._array)
            self.walk(state)
            if self.collection is not None:
                state.run(self.collection.empty)
            for leaf, g in self.pending.items():
                if targets is None or leaf in targets:
                    self.arrive(leaf, g)
        finally:
            state.grad, state.backward = before, outer
            if self.trace is not None:
                self.trace.forward = None
        for e in self.asked:
            if self.beyond(e) in self.found:
                self.found[e] = self.found[self.beyond(e)]
        return self.found

    def walk(self, state: Any) -> None:
        """Turns the gradient of each node's result into those of its operands, newest node first.

        A node is newer than all nodes it depends on, so when it is the newest one waiting, its
        gradient is complete.
        """
        pending, waiting, targets, passing = self.pending, self.waiting, self.targets, self.passing
        gradients = recorded_gradients if self.on_tensors else plain_gradients
        if state.anomaly:
            gradients = explained(gradients)
        run, keep_graph, plain = state.run, self.retain_graph, not self.on_tensors
        while waiting:
            if plain and not state.anomaly:
                run(self.walk_on_arrays)
                if not waiting:
                    return
            node = heappop(waiting)[1]
            g = pending.pop(node)
            if node.unusual or targets is not None:
                g = self.visit(node, g)
                if g is None:
                    continue
            if self.trace is not None:
                self.trace.forward = node.where
                self.trace.go_through(node, keep_graph)
            grads = gradients(node, g, passing)
            if node.plan.keeps and not keep_graph:
                node.saved, node.outputs, node.attrs = FREED, None, NO_ATTRS
            if node.post_hooks:
                grads = self.call_post_hooks(node, grads, g)
            if state.anomaly:
                check_anomaly(node, grads, state.anomaly_check)
            if plain:
                run(self.deliver, node, g, grads)
            else:
                self.deliver_recorded(node, g, grads)

    def walk_on_arrays(self) -> None:
        """:meth:`walk` as far as rules run on bare arrays: the engine's hottest lines."""
        pending, waiting, passing = self.pending, self.waiting, self.passing
        shared, targets, keep_graph = self.shared, self.targets, self.retain_graph
        following: Node | None = None  # the newest node found, which mostly is the next one
        while following is not None or waiting:
            if following is None:
                node = heappop(waiting)[1]
            elif waiting and waiting[0][0] < -following.sequence:
                node = heappushpop(waiting, (-following.sequence, following))[1]
            else:
                node = following
            following = None
            if node.unusual or targets is not None:
                if node.is_watched or (targets is not None and node in targets):
                    heappush(waiting, (-node.sequence, node))
                    return
                if isinstance(node, Pick):
                    self.fill_slot(node.edges[0], node.index, pending.pop(node))
                    continue
            plan = node.plan
            # Half types are computed in float32, which the ops see to.
            if not plan.arithmetic or node.array_dtype.itemsize == 2:
                heappush(waiting, (-node.sequence, node))
                return
            g, edges, y = pending.pop(node), node.edges, None
            if type(g) is list:
                g = filled(g, node.parts or ())
            operands: Sequence[Any] = edges
            if plan.keeps:
                saved, versions, operands = node.saved, node.versions, list(edges)
                if saved is FREED:
                    raise freed(node)
                for i in plan.kept:
                    t = saved[i]
                    if isinstance(t, Tensor):
                        written = t._counter
                        if written is not None:
                            if written.value != (0 if versions is None else versions[i]):
                                check_version(node, i)
                        t = t._array
                    operands[i] = t
                if plan.keep_output:
                    y, written, expected = node.outputs
                    if written.value != expected:
                        raise modified(node, y, written, expected)
                if not keep_graph:
                    node.saved, node.outputs = FREED, None
            elif plan.lacks:
                operands = [s if e is None else e for e, s in zip(edges, node.saved, strict=True)]
            attrs, count = node.attrs, plan.count
            for i, rule in plan.steps:
                e = edges[i]
                if passing is not None and plan.whole is None and e not in passing:
                    continue
                before = pending.get(e)
                if before is not None and plan.rowwise and self.collects(node, i, g, operands):
                    continue
                if attrs is not NO_ATTRS:
                    r = rule(g, y, *operands, **attrs)
                elif count == 2:
                    r = rule(g, y, operands[0], operands[1])
                elif count == 1:
                    r = rule(g, y, operands[0])
                else:
                    r = rule(g, y, *operands)
                if type(r) is tuple:
                    self.deliver(node, g, [*enumerate(r)])
                elif isinstance(e, Node):
                    if r.shape != e.shape or r.dtype is not e.array_dtype:
                        r = fit_array(r, e.shape, e.array_dtype, node)
                    if before is not None:
                        pending[e] = before + r
                        continue
                    pending[e] = r
                    if following is None:
                        following = e
                    elif e.sequence > following.sequence:
                        heappush(waiting, (-following.sequence, following))
                        following = e
                    else:
                        heappush(waiting, (-e.sequence, e))
                else:
                    target = e._array
                    if r.shape != target.shape or r.dtype is not target.dtype:
                        r = fit_array(r, target.shape, target.dtype, node)
                    if before is not None:
                        if e in shared:
                            before = before + r
                            shared.discard(e)
                        else:
                            before += r
                        pending[e] = before
                    else:
                        pending[e] = r
                        if r is g or r.base is not None:
                            shared.add(e)

    def collects(self, node: Node, i: int, g: np.ndarray, operands: Sequence[Any]) -> bool:
        """Whether the rows of a node are collected, and its gradient comes of all at once."""
        if self.collection is None:
            self.collection = Collection(self.pending, self.shared)
        return self.collection.takes(node, i, g, operands)

    def send(self, e: Any, r: Any) -> None:
        """Adds ``r`` to what is pending for the edge ``e``."""
        before = self.pending.get(e)
        if before is not None:
            self.pending[e] = before + r
            return
        self.pending[e] = r
        if isinstance(e, Node):
            heappush(self.waiting, (-e.sequence, e))

    def visit(self, node: Node, g: Any) -> Any:
        """The gradient of a node that is watched or has several results; None ends here."""
        if node.parts is not None:
            parts = zip(g, node.parts, strict=True)
            fill = node.materialize
            g = tuple([self.lower(zeros(p)) if s is None and p and fill else s for s, p in parts])
        if node.tensor_hooks:
            g = self.call_tensor_hooks(node.tensor_hooks, g)
        if node.retained is not None:
            retain(node.retained(), self.lift(g))
        if self.targets is not None and node in self.targets:
            self.found[node] = self.lift(g)
            if not any([e in (self.passing or ()) for e in node.edges]):
                return None
        if node.pre_hooks:
            g = self.call_pre_hooks(node, g)
        if isinstance(node, Pick):
            self.fill_slot(node.edges[0], node.index, g)
            return None
        return g

    def deliver(self, node: Node, g: Any, grads: list[tuple[int, Any]]) -> None:
        """Adds the gradients (arrays) of a node's operands to what is pending for their edges."""
        pending, edges, passing = self.pending, node.edges, self.passing
        for i, r in grads:
            e = edges[i]
            if e is None or r is None:
                continue
            if r.size <= SMALL and not r.flags.c_contiguous:
                r = r.copy()
            if isinstance(e, Node):
                if passing is not None and e not in passing:
                    continue
                if r.shape != e.shape or r.dtype is not e.array_dtype:
                    r = fit_array(r, e.shape, e.array_dtype, node)
                before = pending.get(e)
                if before is None:
                    pending[e] = r
                    heappush(self.waiting, (-e.sequence, e))
                else:
                    pending[e] = before + r
                continue
            target = e._array
            if r.shape != target.shape or r.dtype is not target.dtype:
                r = fit_array(r, target.shape, target.dtype, node)
            before = pending.get(e)
            if before is None:
                pending[e] = r
                if r is g or r.base is not None or not sole(r, grads, node):
                    self.shared.add(e)
            else:
                pending[e] = before + r
                self.shared.discard(e)

    def deliver_recorded(self, node: Node, g: Any, grads: list[tuple[int, Any]]) -> None:
        """:meth:`deliver` for gradients that are tensors with a history of their own."""
        for i, r in grads:
            e = self.beyond(node.edges[i])
            if e is None or r is None:
                continue
            if isinstance(e, Node):
                if self.passing is not None and e not in self.passing:
                    continue
                shape, kind = e.shape, e.array_dtype
            else:
                shape, kind = e._array.shape, e._array.dtype
            if not same_shape(r._array.shape, shape) or r._array.dtype is not kind:
                r = fit(r, shape, kind, node)
            self.send(e, r)

    def fill_slot(self, parent: Node, index: int, g: Any) -> None:
        slots = self.pending.get(parent)
        if slots is None:
            slots = self.pending[parent] = [None] * len(parent.parts or ())
            heappush(self.waiting, (-parent.sequence, parent))
        slots[index] = g if slots[index] is None else slots[index] + g

    def arrive(self, leaf: Tensor, g: Any) -> None:
        """A leaf's gradient is complete."""
        if leaf._hooks:
            g = self.call_tensor_hooks(leaf._hooks, g)
            self.shared.add(leaf)
        if self.targets is not None:
            self.found[leaf] = self.lift(g)
        if not self.accumulate:
            return
        if self.trace is not None and not self.trace.arrive(leaf):
            return
        grad = leaf._grad
        if self.trace is not None and not self.create_graph:
            if grad is None:
                leaf._grad = g.clone()
            else:
                grad.add_(g)
        elif self.create_graph:
            leaf._grad = g if grad is None else grad + g
        elif grad is None:
            g = np.asarray(g)
            if leaf in self.shared or not g.flags.c_contiguous or not g.flags.owndata:
                g = g.copy(order="C")
            leaf._grad = wrap(g)
        elif g.itemsize == 2 or grad._history is not None or not grad._array.flags.writeable:
            grad.add_(wrap(g))
        else:
            total = grad._array
            local.state.run(np.add, total, g, total)
            counter(grad).value += 1
        if leaf._accumulate_hooks:
            for hook in tuple(leaf._accumulate_hooks.values()):
                hook(leaf)

    def lift(self, g: Any) -> Any:
        """A pending gradient as a tensor (or a tuple of tensors)."""
        if self.on_tensors:
            return g
        return lifted(g)

    def lower(self, t: Any) -> Any:
        """A tensor (or a tuple of tensors) as a pending gradient."""
        if self.on_tensors:
            return t
        if isinstance(t, tuple):
            return tuple([None if part is None else part._array for part in t])
        return t._array

    def call_tensor_hooks(self, hooks: dict[int, Callable], g: Any) -> Any:
        t = self.lift(g)
        for hook in tuple(hooks.values()):
            t = replaced(hook(t), t)
        return self.lower(t)

    def call_pre_hooks(self, node: Node, g: Any) -> Any:
        grads = self.lift(g) if isinstance(g, tuple) else (self.lift(g),)
        for hook in tuple((node.pre_hooks or {}).values()):
            answer = hook(grads)
            if answer is not None:
                several = answer if isinstance(answer, tuple) else (answer,)
                grads = tuple([replaced(a, b) for a, b in zip(several, grads, strict=True)])
        return self.lower(grads if isinstance(g, tuple) else grads[0])

    def call_post_hooks(
        self, node: Node, grads: list[tuple[int, Any]], g: Any
    ) -> list[tuple[int, Any]]:
        by_operand = {i: None if r is None else self.lift(r) for i, r in grads}
        inputs = tuple([by_operand.get(i) for i in range(len(node.edges))])
        outputs = self.lift(g) if isinstance(g, tuple) else (self.lift(g),)
        for hook in tuple((node.post_hooks or {}).values()):
            answer = hook(inputs, outputs)
            if answer is not None:
                inputs = answer if isinstance(answer, tuple) else (answer,)
        return [(i, None if r is None else self.lower(r)) for i, r in enumerate(inputs)]


def ways(
    starts: Sequence[Any], targets: set[Any], beyond: Callable[[Any], Any] = itself
) -> set[Any]:
    """The nodes below ``starts`` that lie on a way to ``targets``, and the targets.

    An edge may stand for another one that lies ``beyond`` it.
    """
    passing = set(targets)
    for node in sorted(below(starts, beyond)[0], key=_sequence):
        on = [e for e in node.edges if beyond(e) in passing]
        if on:
            passing.add(node)
            passing.update(on)
    return passing


def _sequence(node: Node) -> int:
    return node.sequence


def plain_gradients(node: Node, g: Any, passing: set[Any] | None) -> list[tuple[int, Any]]:
    """:func:`recorded_gradients` for arrays, which have no history."""
    return [(i, lowered(r)) for i, r in recorded_gradients(node, lifted(g), passing)]


def lifted(g: Any) -> Any:
    """An array (or a tuple of arrays, None where there is none) as a tensor."""
    if isinstance(g, tuple):
        return tuple([None if part is None else wrap(part) for part in g])
    return wrap(g)


def lowered(t: Tensor | None) -> np.ndarray | None:
    return None if t is None else t._array


def recorded_gradients(node: Node, g: Any, passing: set[Any] | None) -> list[tuple[int, Any]]:
    """(operand number, gradient) for the operands of ``node`` that lie on a way to a target."""
    plan, attrs, edges = node.plan, node.attrs, node.edges
    y, operands = unpack(node)
    if plan.whole is None:
        return [
            (i, rule(g, y, *operands, **attrs))
            for i, rule in plan.rules
            if passing is None or edges[i] in passing
        ]
    grads = plan.whole(g, y, *operands, **attrs)
    if isinstance(grads, Tensor) or grads is None:
        return [(0, grads)]
    return list(enumerate(grads))


def sole(r: Any, grads: list[tuple[int, Any]], node: Node) -> bool:
    """Whether the array ``r`` was made by this step for one operand alone."""
    if len(grads) > 1 and [x is r for _, x in grads].count(True) > 1:
        return False
    return not any([isinstance(s, Tensor) and s._array is r for s in node.saved])


def fit_array(r: Any, shape: tuple[int, ...], kind: np.dtype, node: Node) -> np.ndarray:
    """``r`` summed over broadcast dimensions and cast to an operand's dtype."""
    if r.shape != shape:
        lead = checked_lead(r.shape, shape, node)
        dims = [i for i, n in enumerate(r.shape) if i < lead or (n != 1 and shape[i - lead] == 1)]
        wide = np.float32 if r.dtype in dtypes.HALF else None  # half types round once
        r = np.add.reduce(r, tuple(dims), wide, keepdims=True).reshape(shape)
    if r.dtype is not kind:
        if r.dtype.kind == "c" and kind.kind != "c":
            r = r.real
        r = r.astype(kind, copy=False)
    return r


def fit(r: Tensor, shape: tuple[int, ...], kind: np.dtype, node: Node) -> Tensor:
    """:func:`fit_array` for a gradient that is recorded."""
    if not same_shape(r._array.shape, shape):
        checked_lead(r._array.shape, shape, node)
        r = r.sum_to_size(shape)
    if r._array.dtype is not kind:
        if r._array.dtype.kind == "c" and kind.kind != "c":
            r = r.real
        r = r.to(dtypes.from_numpy(kind))
    return r


def checked_lead(got: tuple[int, ...], shape: tuple[int, ...], node: Node) -> int:
    """How many leading dimensions broadcasting ``shape`` to ``got`` adds; an error if it cannot."""
    if not is_expandable(shape, got):
        raise RuntimeError(
            f"Function {node.name()} returned an invalid gradient - got {list(got)} but "
            f"expected shape compatible with {list(shape)}"
        )
    return len(got) - len(shape)


def is_expandable(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    if len(shape) > len(target):
        return False
    tail = target[len(target) - len(shape) :]
    pairs = zip(shape, tail, strict=True)
    return all([(type(a) is int and a == 1) or a == b or a == 1 for a, b in pairs])


def filled(g: Sequence[Any], parts: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """The gradients of several results: zeros for those that were not used."""
    pairs = zip(g, parts, strict=True)
    return tuple([np.zeros(p.shape, p.array_dtype) if x is None else x for x, p in pairs])


def zeros(spec: Spec) -> Tensor:
    if any([is_extent(n) for n in spec.shape]):
        return literal(np.zeros((), spec.array_dtype)).expand(spec.shape)
    return literal(np.zeros(spec.shape, spec.array_dtype))


def meet_gradient(t: Tensor) -> None:
    """The gradient of a tensor that is no leaf is about to change, which a trace has to know."""
    trace = local.state.trace
    if trace is not None:
        trace.meet_gradient(t)
        trace.set_gradient(t)


def retain(t: Tensor | None, g: Tensor) -> None:
    if t is not None:
        meet_gradient(t)
        t._grad = g.clone() if t._grad is None else t._grad + g


def replaced(answer: Any, g: Any) -> Any:
    """What a hook returned, if it returned a tensor that can stand for ``g``."""
    if answer is None:
        return g
    if not isinstance(answer, Tensor):
        raise TypeError(f"expected hook to return a Tensor or None, got {type(answer).__name__}")
    if answer._array.dtype != g._array.dtype:
        raise RuntimeError(f"hook has changed the type of value (was {g.dtype} got {answer.dtype})")
    if answer._array.shape != g._array.shape:
        raise RuntimeError(
            f"hook has changed the size of value: expected {list(g.shape)}, "
            f"got {list(answer.shape)}"
        )
    return answer


def explained(gradients: Callable[..., Any]) -> Callable[..., Any]:
    """In anomaly mode: an error in backward comes with a warning that names the forward line."""

    def call(node: Node, g: Any, passing: set[Any] | None) -> Any:
        try:
            return gradients(node, g, passing)
        except Exception:
            warnings.warn(
                f"Error detected in {node.name()}. The forward call was at {node.where}.",
                stacklevel=2,
            )
            raise

    return call


def check_anomaly(node: Node, grads: list[tuple[int, Any]], check_nan: bool) -> None:
    """In anomaly mode: an error that names the forward line whose gradient is NaN."""
    for i, r in grads:
        if check_nan and r is not None and node.edges[i] is not None:
            array = r._array if isinstance(r, Tensor) else np.asarray(r)
            if array.dtype.kind in "fcV" and np.isnan(array).any():
                line = f" The forward call was at {node.where}." if node.where else ""
                raise RuntimeError(
                    f"Function '{node.name()}' returned nan values in its {i}th output.{line}"
                )


def root_gradient(t: Tensor, g: Tensor | None, create_graph: bool) -> Tensor:
    """The gradient to start from: given, or one for a scalar."""
    if g is None:
        if t._array.size != 1:
            raise RuntimeError(
                f"grad can be implicitly created only for scalar outputs, got shape "
                f"{list(t.shape)}. Reduce it first, e.g. .sum().backward(), or pass gradient=."
            )
        if t._array.dtype.kind == "c":
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {t.dtype}"
            )
        return literal(one(t._array.shape, t._array.dtype))
    if not isinstance(g, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    if g._array.shape != t._array.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output has a shape of {list(g.shape)} and output has a "
            f"shape of {list(t.shape)}."
        )
    return g if create_graph else g.detach()


@functools.cache
def one(shape: tuple[int, ...], kind: np.dtype) -> np.ndarray:
    """The gradient of a scalar with respect to itself; shared, so not to be written to."""
    array = np.ones(shape, kind)
    array.flags.writeable = False
    return array


def root_of(t: Tensor, g: Tensor | None, create_graph: bool, number: int = 0) -> tuple[Any, Tensor]:
    """Where backward starts: the edge of ``t``, the ``number``-th result, and its gradient."""
    e = edge(t)
    if e is None:
        raise RuntimeError(
            f"element {number} of tensors does not require grad and does not have a grad_fn. Make "
            "a leaf it depends on with requires_grad=True, and compute it outside no_grad."
        )
    return e, root_gradient(t, g, create_graph)


def roots_of(tensors: Sequence[Tensor], grads: Sequence[Tensor | None], create_graph: bool) -> list:
    pairs = zip(tensors, grads, strict=True)
    return [root_of(t, g, create_graph, i) for i, (t, g) in enumerate(pairs)]
