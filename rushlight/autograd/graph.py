"""The recorded graph: its nodes, and the versions of the tensors it keeps."""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.autograd.tape import Node, counter
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
