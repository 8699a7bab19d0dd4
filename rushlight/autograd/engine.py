"""Backward: one loop over the tape, newest node first."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.autograd.tape import FREED, Node, Pick, RemovableHandle, Spec, edge, unpack
from rushlight.tensor import Tensor, wrap


class Backward:
    """One backward pass.

    ``targets`` are the edges whose gradients are wanted: only nodes on a way to one of them run.
    With ``targets=None`` all leaves are. What reaches a leaf is added to its ``.grad`` if
    ``accumulate``; what reaches a target is kept in ``found``.
    """

    def __init__(
        self,
        retain_graph: bool,
        create_graph: bool,
        targets: Iterable[Any] | None = None,
        accumulate: bool = True,
    ) -> None:
        self.retain_graph = retain_graph
        self.create_graph = create_graph
        self.targets = None if targets is None else set(targets)
        self.accumulate = accumulate
        self.pending: dict[Any, Any] = {}  # edge → the gradient collected so far
        self.shared: set[Tensor] = set()  # leaves whose pending gradient others may hold too
        self.found: dict[Any, Tensor] = {}

    def run(self, roots: Sequence[tuple[Any, Tensor]]) -> dict[Any, Tensor]:
        """Sends the gradients of ``roots``, (edge, gradient) pairs, through the graph."""
        pending = self.pending
        order, self.passing = reachable([e for e, _ in roots], self.targets)
        state = local.state
        before, state.grad = state.grad, self.create_graph
        try:
            for e, g in roots:
                if isinstance(e, Tensor):
                    self.shared.add(e)
                pending[e] = g if e not in pending else pending[e] + g
            for node in order:
                g = pending.pop(node, None)
                if g is not None:
                    self.step(node, g)
            for e, g in pending.items():
                if isinstance(e, Tensor) and (self.targets is None or e in self.targets):
                    self.arrive(e, g)
        finally:
            state.grad = before
        return self.found

    def step(self, node: Node, g: Any) -> None:
        """Turns the gradient of a node's result into those of its operands."""
        if node.parts is not None:
            g = tuple([zeros(p) if s is None else s for s, p in zip(g, node.parts, strict=True)])
        if node.pre_hooks:
            g = call_pre_hooks(node, g)
        if node.retained is not None:
            retain(node.retained(), g)
        if self.targets is not None and node in self.targets:
            self.found[node] = g
            if node not in self.passing:
                return
        if isinstance(node, Pick):
            self.fill_slot(node.edges[0], node.index, g)
            return
        grads = gradients(node, g)
        if not self.retain_graph and node.saved is not FREED:
            if node.outputs is not None or node.saved.count(None) != len(node.saved):
                node.saved, node.outputs = FREED, None
        if node.post_hooks:
            grads = call_post_hooks(node, grads, g)
        state = local.state
        if state.anomaly:
            check_anomaly(node, grads, state.anomaly_check)
        for i, r in grads:
            e = node.edges[i]
            if e is not None and r is not None:
                self.deliver(e, r, node, g, grads)

    def deliver(self, e: Any, r: Tensor, node: Node, g: Any, grads: list) -> None:
        """Adds ``r`` to what is pending for the edge ``e``."""
        array, pending = r._array, self.pending
        if isinstance(e, Node):
            if array.shape != e.shape or array.dtype is not e.array_dtype:
                r = fit(r, e.shape, e.array_dtype, node)
            pending[e] = r if e not in pending else pending[e] + r
            return
        target = e._array
        if array.shape != target.shape or array.dtype is not target.dtype:
            r = fit(r, target.shape, target.dtype, node)
        if e in pending:
            pending[e] = pending[e] + r
            self.shared.discard(e)
            return
        pending[e] = r
        if r is g or r._base is not None or node.op is None or not sole(r, grads, node):
            self.shared.add(e)

    def fill_slot(self, parent: Node, index: int, g: Tensor) -> None:
        slots = self.pending.get(parent)
        if slots is None:
            slots = self.pending[parent] = [None] * len(parent.parts or ())
        slots[index] = g if slots[index] is None else slots[index] + g

    def arrive(self, leaf: Tensor, g: Tensor) -> None:
        """A leaf's gradient is complete."""
        if leaf._hooks:
            for hook in tuple(leaf._hooks.values()):
                g = replaced(hook(g), g)
        if self.targets is not None:
            self.found[leaf] = g
        if not self.accumulate:
            return
        grad = leaf._grad
        if self.create_graph:
            leaf._grad = g if grad is None else grad + g
        elif grad is None:
            array = g._array
            if leaf in self.shared or not array.flags.c_contiguous or not array.flags.owndata:
                array = array.copy(order="C")
            leaf._grad = wrap(array)
        else:
            grad.add_(g)
        if leaf._accumulate_hooks:
            for hook in tuple(leaf._accumulate_hooks.values()):
                hook(leaf)


def reachable(
    starts: Sequence[Any], targets: set[Any] | None
) -> tuple[list[Node], set[Any]]:
    """The nodes from ``starts`` down, newest first, and those on a way to ``targets``, if given."""
    seen: set[Any] = set()
    stack = [e for e in starts if isinstance(e, Node)]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += [e for e in node.edges if isinstance(e, Node) and e not in seen]
    nodes = sorted(seen, key=_sequence, reverse=True)
    if targets is None:
        return nodes, seen
    passing: set[Any] = set()
    for node in reversed(nodes):
        if any([e in passing or e in targets for e in node.edges]):
            passing.add(node)
    return [node for node in nodes if node in passing or node in targets], passing


def _sequence(node: Node) -> int:
    return node.sequence


def gradients(node: Node, g: Any) -> list[tuple[int, Any]]:
    """(operand number, gradient) for the operands of ``node``."""
    y, operands = unpack(node)
    plan, attrs = node.plan, node.attrs
    if plan.whole is None:
        return [(i, rule(g, y, *operands, **attrs)) for i, rule in plan.rules]
    grads = plan.whole(g, y, *operands, **attrs)
    if isinstance(grads, Tensor) or grads is None:
        return [(0, grads)]
    return list(enumerate(grads))


def sole(r: Tensor, grads: list[tuple[int, Any]], node: Node) -> bool:
    """Whether ``r`` was made by this step for one operand alone."""
    return [x is r for _, x in grads].count(True) == 1 and not any([s is r for s in node.saved])


def fit(r: Tensor, shape: tuple[int, ...], kind: np.dtype, node: Node) -> Tensor:
    """``r`` summed over broadcast dimensions and cast to an operand's dtype."""
    if r._array.shape != shape:
        if not is_expandable(shape, r._array.shape):
            raise RuntimeError(
                f"Function {node.name()} returned an invalid gradient - got {list(r.shape)} but "
                f"expected shape compatible with {list(shape)}"
            )
        r = r.sum_to_size(shape)
    if r._array.dtype is not kind:
        if r._array.dtype.kind == "c" and kind.kind != "c":
            r = r.real
        r = r.to(dtypes.from_numpy(kind))
    return r


def is_expandable(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    if len(shape) > len(target):
        return False
    tail = target[len(target) - len(shape) :]
    return all([a in (1, b) for a, b in zip(shape, tail, strict=True)])


def zeros(spec: Spec) -> Tensor:
    return wrap(np.zeros(spec.shape, spec.array_dtype))


def retain(t: Tensor | None, g: Tensor) -> None:
    if t is not None:
        t._grad = g.clone() if t._grad is None else t._grad + g


def replaced(answer: Any, g: Any) -> Any:
    """What a hook returned, if it returned a tensor that can stand for ``g``."""
    if answer is None:
        return g
    if not isinstance(answer, Tensor):
        raise TypeError(f"expected hook to return a Tensor or None, got {type(answer).__name__}")
    if answer._array.shape != g._array.shape:
        raise RuntimeError(
            f"hook has changed the size of value: expected {list(g.shape)}, got {list(answer.shape)}"
        )
    return answer


def call_pre_hooks(node: Node, g: Any) -> Any:
    grads = g if isinstance(g, tuple) else (g,)
    for hook in tuple((node.pre_hooks or {}).values()):
        answer = hook(grads)
        if answer is not None:
            grads = answer if isinstance(answer, tuple) else (answer,)
            grads = tuple([replaced(a, b) for a, b in zip(grads, grads, strict=True)])
    return grads if isinstance(g, tuple) else grads[0]


def call_post_hooks(node: Node, grads: list[tuple[int, Any]], g: Any) -> list[tuple[int, Any]]:
    by_operand = dict(grads)
    inputs = tuple([by_operand.get(i) for i in range(len(node.edges))])
    outputs = g if isinstance(g, tuple) else (g,)
    for hook in tuple((node.post_hooks or {}).values()):
        answer = hook(inputs, outputs)
        if answer is not None:
            inputs = answer if isinstance(answer, tuple) else (answer,)
    return list(enumerate(inputs))


def check_anomaly(node: Node, grads: list[tuple[int, Any]], check_nan: bool) -> None:
    """In anomaly mode: an error that names the forward line whose gradient is NaN."""
    for i, r in grads:
        if check_nan and r is not None and node.edges[i] is not None:
            if r._array.dtype.kind in "fcV" and np.isnan(r._array).any():
                line = f" The forward call was at {node.where}." if node.where else ""
                raise RuntimeError(
                    f"Function '{node.name()}' returned nan values in its {i}th output.{line}"
                )


def root_gradient(t: Tensor, g: Tensor | None, create_graph: bool) -> Tensor:
    """The gradient to start from: given, or one for a scalar."""
    if g is None:
        if t._array.size != 1:
            raise RuntimeError(
                f"grad can be implicitly created only for scalar outputs, got shape {list(t.shape)}"
            )
        if t._array.dtype.kind == "c":
            raise RuntimeError(
                "grad can be implicitly created only for real scalar outputs but got "
                f"{t.dtype}"
            )
        return wrap(np.ones(t._array.shape, t._array.dtype))
    if not isinstance(g, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    if g._array.shape != t._array.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output has a shape of {list(g.shape)} and output has a "
            f"shape of {list(t.shape)}."
        )
    return g if create_graph else g.detach()


def roots_of(tensors: Sequence[Tensor], grads: Sequence[Tensor | None], create_graph: bool) -> list:
    roots = []
    for i, (t, g) in enumerate(zip(tensors, grads, strict=True)):
        e = edge(t)
        if e is None:
            raise RuntimeError(
                f"element {i} of tensors does not require grad and does not have a grad_fn"
            )
        roots.append((e, root_gradient(t, g, create_graph)))
    return roots
