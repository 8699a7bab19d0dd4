"""The recorded graph: its nodes and leaves, and the versions of the tensors it keeps."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rushlight.autograd.modes import local
from rushlight.autograd.tape import Node, RemovableHandle, counter, edge
from rushlight.tensor import Tensor

__all__ = ["Node", "increment_version", "register_multi_grad_hook"]


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Counts a write to ``tensor`` that autograd could not see, such as one through NumPy.

    >>> x = rl.ones(2)
    >>> x.numpy()[0] = 5
    >>> rl.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        counter(t).value += 1


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all"
) -> MultiHandle:
    """Calls ``fn`` once in each backward pass, when gradients of ``tensors`` are known.

    Args:
        fn: gets the list of their gradients, None for those that this pass does not compute; in
            mode "any" the first gradient alone.
        mode: "all" waits until every gradient that the pass computes is there, "any" for one.

    >>> x, w = rl.ones(2, requires_grad=True), rl.zeros(2, requires_grad=True)
    >>> handle = rl.autograd.graph.register_multi_grad_hook([x, w], print)
    >>> (x * w).sum().backward()
    [tensor([0., 0.]), tensor([1., 1.])]
    """
    if mode not in ("all", "any"):
        raise ValueError(f'Expected mode to be one of ("all", "any") but got {mode}')
    edges = [edge(t) for t in tensors]
    passes: weakref.WeakKeyDictionary[Any, Gathered] = weakref.WeakKeyDictionary()

    def arrived(i: int, g: Tensor) -> None:
        current = local.state.backward
        if current not in passes:
            passes[current] = Gathered(current, edges)
        gathered = passes[current]
        first = not gathered.grads
        gathered.grads[i] = g
        if mode == "any":
            if first:
                fn(g)
        elif len(gathered.grads) == gathered.expected:
            fn([gathered.grads.get(j) for j in range(len(edges))])
            gathered.grads = {}

    def hook(i: int) -> Callable[[Tensor], None]:
        return lambda g: arrived(i, g)

    return MultiHandle([t.register_hook(hook(i)) for i, t in enumerate(tensors)])


class Gathered:
    """The gradients of some edges that one backward pass has computed so far."""

    def __init__(self, current: Any, edges: Sequence[Any]) -> None:
        reached = set(walk(current.starts))
        if current.passing is not None:
            reached &= current.passing
        self.expected = len([e for e in edges if e in reached])
        self.grads: dict[int, Tensor] = {}


class MultiHandle:
    """Takes several hooks away again."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> MultiHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def walk(edges: Iterable[Any]) -> Iterator[Any]:
    """The nodes and leaves below ``edges``, each once."""
    seen: set[Any] = set()
    waiting = [e for e in edges if e is not None]
    while waiting:
        e = waiting.pop()
        if e in seen:
            continue
        seen.add(e)
        yield e
        if isinstance(e, Node):
            waiting += [below for below in e.edges if below is not None]


def leaves(tensors: Iterable[Tensor]) -> set[Tensor]:
    """The leaves that ``tensors`` depend on and that require gradients."""
    return {e for e in walk([edge(t) for t in tensors]) if isinstance(e, Tensor)}
