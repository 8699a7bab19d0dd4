"""``backward`` and ``grad``: what users call to run the engine, and a tensor's hooks."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rushlight.autograd.engine import Backward, meet_gradient, root_of, roots_of
from rushlight.autograd.modes import local
from rushlight.autograd.stack import stack
from rushlight.autograd.tape import Node, Pick, RemovableHandle, edge, named
from rushlight.tensor import Tensor, install


def as_tuple(value: Any) -> tuple:
    """A tensor alone, or all that a list, a generator of parameters or the like holds."""
    single = isinstance(value, Tensor) or not isinstance(value, Iterable)
    return (value,) if single else tuple(value)


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Adds to the ``.grad`` of each leaf the gradient of the sum of ``tensors``.

    >>> x = rl.ones(2, requires_grad=True)
    >>> rl.autograd.backward([x.sum(), (2 * x).sum()])
    >>> x.grad
    tensor([3., 3.])
    """
    if grad_variables is not None:
        grad_tensors = grad_variables
    outputs = as_tuple(tensors)
    grads = (None,) * len(outputs) if grad_tensors is None else as_tuple(grad_tensors)
    if len(grads) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    targets: list[Any] | None = None
    chosen = () if inputs is None else as_tuple(inputs)
    if inputs is not None:
        if not chosen:
            raise RuntimeError("'inputs' argument to 'backward' cannot be empty.")
        targets = [edge(t) for t in chosen]
        if None in targets:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    keep_graph = create_graph if retain_graph is None else retain_graph
    roots = roots_of(outputs, grads, create_graph)
    engine = Backward(keep_graph, create_graph, targets)
    found = engine.run(roots)
    for t, e in zip(chosen, targets or (), strict=True):
        if isinstance(engine.beyond(e), Node) and e in found:
            meet_gradient(t)
            t._grad = found[e] if t._grad is None else t._grad + found[e]


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of the sum of ``outputs`` with respect to ``inputs``; ``.grad`` is untouched.

    >>> x = rl.tensor(3.0, requires_grad=True)
    >>> (g,) = rl.autograd.grad(x**3, x, create_graph=True)
    >>> rl.autograd.grad(g, x)
    (tensor(18.),)
    """
    results, wanted = as_tuple(outputs), as_tuple(inputs)
    if allow_unused is None:
        allow_unused = materialize_grads
    elif materialize_grads and not allow_unused:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, "
            "but got: allow_unused=False."
        )
    grads = (None,) * len(results) if grad_outputs is None else as_tuple(grad_outputs)
    if len(grads) != len(results):
        raise RuntimeError(f"got {len(results)} outputs and {len(grads)} gradients")
    keep_graph = create_graph if retain_graph is None else retain_graph
    if not wanted:
        raise RuntimeError("grad requires non-empty inputs.")
    targets = [edge(t) for t in wanted]
    if None in targets:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    if is_grads_batched:
        unused = {"allow_unused": allow_unused, "materialize_grads": materialize_grads}
        return batched_grad(results, wanted, grads, keep_graph, create_graph, **unused)
    roots = roots_of(results, grads, create_graph)
    found = Backward(keep_graph, create_graph, targets, accumulate=False).run(roots)
    answer = []
    for i, (t, e) in enumerate(zip(wanted, targets, strict=True)):
        g = found.get(e)
        if g is None and not allow_unused:
            if local.state.trace is not None:
                local.state.trace.refuse_unused()
            raise RuntimeError(
                f"One of the differentiated Tensors (index {i}) appears to not have been used in "
                "the graph. "
                "Set allow_unused=True if this is the desired behavior."
            )
        if g is None and materialize_grads:
            g = t.new_zeros(t.shape)
        answer.append(g)
    return tuple(answer)


def grad_of_leaves(
    outputs: Sequence[Tensor],
    leaves: Sequence[Tensor],
    tangents: Sequence[Tensor],
    create_graph: bool = False,
) -> tuple[Tensor | None, ...]:
    """:func:`grad` of what was traced, which ends at tensors of outside, whatever made them."""
    targets = [edge(t) for t in leaves]
    engine = Backward(create_graph, create_graph, targets, accumulate=False, through=False)
    found = engine.run(roots_of(outputs, tangents, create_graph))
    return tuple([found.get(e) for e in targets])


def batched_grad(
    outputs: tuple,
    inputs: tuple,
    grads: tuple,
    keep_graph: bool,
    create_graph: bool,
    **unused: bool,
) -> tuple:
    """One :func:`grad` per leading index of the gradients, stacked."""
    columns = [g.unbind(0) for g in grads if g is not None]
    if not columns:
        raise RuntimeError("is_grads_batched=True needs at least one tensor in grad_outputs")
    given = [y for y, g in zip(outputs, grads, strict=True) if g is not None]
    count = len(columns[0])
    rows: list[Any] = [
        grad(given, inputs, row, keep_graph or i + 1 < count, create_graph, **unused)
        for i, row in enumerate(zip(*columns, strict=True))
    ]
    return tuple(
        [
            None if rows and rows[0][i] is None else stack([row[i] for row in rows], x)
            for i, x in enumerate(inputs)
        ]
    )


def tensor_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Sequence[Tensor] | None = None,
) -> None:
    """Adds to the ``.grad`` of each leaf the gradient of this tensor with respect to it."""
    if inputs is not None:
        backward(self, gradient, retain_graph, create_graph, inputs=inputs)
        return
    keep_graph = create_graph if retain_graph is None else retain_graph
    Backward(keep_graph, create_graph).run([root_of(self, gradient, create_graph)])


def grad_fn(self: Tensor) -> Any:
    """The tape node that made this tensor; None for a leaf."""
    e = edge(self)
    if isinstance(e, Pick):
        return named(e.edges[0])
    return named(e) if isinstance(e, Node) else None


def output_nr(self: Tensor) -> int:
    """Which of its node's results this tensor is."""
    e = edge(self)
    return e.index if isinstance(e, Pick) else 0


def register_hook(self: Tensor, hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(grad)`` when this tensor's gradient is known; what it returns replaces it."""
    e = edge(self)
    if e is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if isinstance(e, Node):
        return e.register_tensor_hook(hook)
    if self._hooks is None:
        self._hooks = {}
    return RemovableHandle(self._hooks, hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[..., Any]) -> RemovableHandle:
    """Calls ``hook(tensor)`` each time this leaf's ``.grad`` has been added to."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not self.is_leaf:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if self._accumulate_hooks is None:
        self._accumulate_hooks = {}
    return RemovableHandle(self._accumulate_hooks, hook)


def retain_grad(self: Tensor) -> None:
    """Keeps this tensor's gradient in ``.grad`` although it is not a leaf."""
    e = edge(self)
    if e is None:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if isinstance(e, Node):
        e.retained, e.unusual = weakref.ref(self), True


def retains_grad(self: Tensor) -> bool:
    """Whether :meth:`retain_grad` was asked for on this tensor."""
    e = edge(self)
    return isinstance(e, Node) and e.retained is not None


def detach_(self: Tensor) -> Tensor:
    """Forgets the history of this tensor, in place."""
    if self._base is not None:
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    self._history = None
    return self


install(
    backward=tensor_backward,
    grad_fn=property(grad_fn),
    output_nr=property(output_nr),
    register_hook=register_hook,
    register_post_accumulate_grad_hook=register_post_accumulate_grad_hook,
    retain_grad=retain_grad,
    retains_grad=property(retains_grad),
    detach_=detach_,
)
