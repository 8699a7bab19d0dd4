"""Which tensors may share memory after a branch or loop: on one way only.

    z = y
    if a:           # afterwards z is y itself, or a tensor of its own
        z = z + 1
    z.add_(1)       # writes to y, or does not

A graph has one value for ``z``, so such a write is refused. What nobody else can see is free.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from rushlight.autograd.modes import local
from rushlight.errors import PACKAGE
from rushlight.func.trees import flatten
from rushlight.graph.inner import Inner
from rushlight.symbol import Symbol, root
from rushlight.tensor import Tensor


def symbols(value: Any) -> list[Symbol]:
    """The memory of the tensors in a value, and what that may be shared with."""
    trace = local.state.trace
    tensors = [leaf for leaf in flatten(value)[0] if isinstance(leaf, Tensor)]
    roots = [root(trace.symbol(t)) for t in tensors]
    return [symbol for found in roots for symbol in (found, *found.shared)]


def tie(value: Any, others: Iterable[Symbol], name: str, place: str) -> None:
    """Remembers that ``value`` may share memory with ``others``, if anyone sees those."""
    what = repr(name) if name else "the value"
    message = (
        f"{what} shares memory with another one on one way through the {place} only, which depends "
        "on tensors: clone() it, or compute new values instead of writing in place"
    )
    visible = [symbol for symbol in others if is_seen(symbol)]
    for symbol in symbols(value):
        for other in visible:
            if symbol is not other:
                symbol.shared[other] = other.shared[symbol] = message


def is_seen(symbol: Symbol) -> bool:
    """Whether someone else may hold the memory: the caller, a variable, a joined value."""
    same, trace = {symbol: None}, local.state.trace
    while isinstance(trace, Inner):
        outer = {inside: outside for outside, inside in trace.known.items()}
        symbol, trace = outer.get(symbol, symbol), trace.outer
        same[symbol] = None
    if any([s.shared or s in trace.by_symbol for s in same]):
        return True
    arrays = [t._array for t in variables() if isinstance(t, Tensor)]
    return any([isinstance(array, Symbol) and root(array) in same for array in arrays])


def variables() -> Iterator[Any]:
    """The values of the variables of the user's functions that are running, and what is in them."""
    frame = sys._getframe()
    while frame is not None:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            for value in list(frame.f_locals.values()):
                yield value
                if type(value) in (tuple, list):
                    yield from value
                elif not isinstance(value, Tensor):
                    inside = value if type(value) is dict else getattr(value, "__dict__", {})
                    yield from list(inside.values())
        frame = frame.f_back  # type: ignore[assignment]
