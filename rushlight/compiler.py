"""What a program says to the compiler, and asks it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.autograd.modes import local
from rushlight.compile import Compiled, compile
from rushlight.symbol import TraceError

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "is_compiling", "is_dynamo_compiling", "list_backends", "reset",
]  # fmt: skip


def is_compiling() -> bool:
    """Whether the caller runs to have its graph written down.

    >>> rl.compiler.is_compiling()
    False
    """
    return local.state.trace is not None


is_dynamo_compiling = is_compiling


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """``fn`` as a function that stays out of graphs: who calls it runs in dynamic mode.

    A compiled function is one graph as a whole, so that it either holds all it calls, or is run
    line by line (an error with ``fullgraph=True``).

    Args:
        fn: what to keep out; without it, a decorator.
        recursive: has no effect: what ``fn`` calls is not compiled, either.
        reason: is told to who asks why.

    >>> @rl.compiler.disable
    ... def log(x):
    ...     print(x.item())
    >>> log(rl.ones(()))
    1.0
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    inner = fn.function if isinstance(fn, Compiled) else fn
    name = getattr(inner, "__qualname__", type(inner).__name__)
    because = f" ({reason})" if reason else ""

    @functools.wraps(inner, updated=())
    def outside(*args: Any, **kwargs: Any) -> Any:
        trace = local.state.trace
        if trace is not None:
            raise TraceError(
                f"{name}, which compiler.disable keeps out of graphs{because}, is called at "
                f"{trace.place()}: call it outside the compiled function."
            )
        return inner(*args, **kwargs)

    return outside


def allow_in_graph(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` as it is: every function may be part of a graph."""
    return fn


assume_constant_result = allow_in_graph


def reset() -> None:
    """Drops the programs of all compiled functions, and why some run in dynamic mode.

    >>> double = rl.compile(lambda x: x * 2)
    >>> double(rl.ones(2))
    tensor([2., 2.])
    >>> rl.compiler.reset()
    >>> len(double.known)
    0
    """
    for compiled in list(Compiled.alive):
        compiled.reset()


def list_backends() -> list[str]:
    """The compilers there are: one.

    >>> rl.compiler.list_backends()
    ['rushlight']
    """
    return ["rushlight"]


def cudagraph_mark_step_begin() -> None:
    """Has no effect: it concerns other devices."""
