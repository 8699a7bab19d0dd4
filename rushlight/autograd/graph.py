"""The recorded graph: its nodes and leaves, and the versions of the tensors it keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rushlight.autograd.tape import Node, counter, edge
from rushlight.tensor import Tensor

__all__ = ["Node", "increment_version"]


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
