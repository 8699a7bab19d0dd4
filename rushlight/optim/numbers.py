"""The numbers in an optimizer's ``update``: Python's own, or inside a trace 0-d tensors.

Step counts and rates are part of a graph, where Python can neither compare nor read them. With
these in the place of ``if``, ``max``, ``min`` and ``item``, one formula serves both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.ops import ops
from rushlight.tensor import Tensor


def number(value: Any) -> Any:
    """A hyper-parameter as a Python number, tensors of one element included.

    >>> number((rl.tensor(0.5), 0.25))
    (0.5, 0.25)
    """
    if isinstance(value, Tensor):
        return value.item()
    return tuple([number(v) for v in value]) if isinstance(value, tuple) else value


def element(x: Tensor) -> Any:
    """The only element of ``x``; inside a trace, where it is not known yet, as a tensor."""
    return x.item() if local.state.trace is None else x.to(dtypes.float64)


def choose(condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """``then()`` if the condition holds, else ``otherwise()``; a graph computes both.

    >>> choose(2 > 1, lambda: "larger", lambda: "smaller")
    'larger'
    """
    if isinstance(condition, Tensor):
        return ops.where(condition, then(), otherwise())
    return then() if condition else otherwise()


def larger(a: Any, b: Any) -> Any:
    """``max(a, b)``."""
    return choose(b > a, lambda: b, lambda: a)


def smaller(a: Any, b: Any) -> Any:
    """``min(a, b)``."""
    return choose(b < a, lambda: b, lambda: a)


def between(a: Tensor, b: Tensor, weight: Any) -> Tensor:
    """``a + weight * (b - a)``: ``lerp`` with a weight of any type."""
    return a.lerp(b, weight.to(a.dtype) if isinstance(weight, Tensor) else weight)
