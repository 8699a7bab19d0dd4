"""Ops that in dynamic mode, too, run as one compiled program, once their operands are large.

A softmax or a norm is a chain of passes over memory if NumPy runs it; compiled, it is one. That
pays for large operands, and only if their shape comes again: a program is made for each shape.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.autograd.modes import local
from rushlight.config import config
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor

LARGE = 1 << 14  # elements from which on a program is quicker than NumPy
SEEN = 2  # calls of one shape after which there will be more
MOST = 1 << 12  # shapes that are remembered


class Compiler:
    """Where this layer finds the compiler, which is made of later ones; set by the package."""

    load: Callable[[], Callable[[Callable[..., Any]], Callable[..., Any]]] | None = None


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, compiled; an error if it cannot be."""
    assert Compiler.load is not None
    return Compiler.load()(function)


def compilable() -> bool:
    """Whether dynamic mode may run programs now."""
    state = local.state
    plain = state.trace is None and not state.anomaly and Compiler.load is not None
    return plain and config.fuse_eager


class Recurring:
    """Which kinds of calls have come often enough for a program."""

    def __init__(self) -> None:
        self.seen: dict[Any, int] = {}

    def __call__(self, key: Any) -> bool:
        """Whether the kind ``key`` has, counting this call."""
        seen = self.seen
        count = seen[key] = seen.get(key, 0) + 1
        if len(seen) > MOST:
            seen.clear()
        return count > SEEN

    def refuse(self, key: Any) -> None:
        """Calls of this kind cannot be programs."""
        self.seen[key] = -(1 << 62)


def fused(call: Callable[..., Any]) -> Callable[..., Any]:
    """``call``, whose first argument decides by its size whether the program is used."""
    often = Recurring()
    compiled: list[Callable[..., Any]] = []

    @functools.wraps(call)
    def function(*args: Any, **kwargs: Any) -> Any:
        x = args[0] if args else kwargs.get("input")
        if not isinstance(x, Tensor) or not compilable() or x._array.size < LARGE:
            return call(*args, **kwargs)
        key = (x._array.shape, x._array.dtype)
        if often(key):
            if not compiled:
                compiled.append(program(call))
            try:
                return compiled[0](*args, **kwargs)
            except TraceError:
                often.refuse(key)
        return call(*args, **kwargs)

    return function
