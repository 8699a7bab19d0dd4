"""Ops that in dynamic mode, too, run as one compiled program, if their operands are large.

A softmax or a norm is a chain of passes over memory if NumPy runs it; compiled, it is one. Whether
a call runs as a program depends on its dtypes, shapes and arguments alone, and each shape has a
program of its own: so equal calls give equal bits, whatever came before them. A program for all
sizes adds in another order than one for a single size, and in which one depends on the sizes that
it was made at; only where nothing is added, all shapes share one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numpy import ndarray

from rushlight.autograd.modes import local
from rushlight.config import config
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor

LARGE = 1 << 14  # elements from which on a program is quicker than NumPy
MANY = 512  # shapes of an op that have programs; who comes back later is compiled again


class Compiler:
    """Where this layer finds the compiler, which is made of later ones; set by the package."""

    load: Callable[[], Callable[..., Callable[..., Any]]] | None = None


def program(function: Callable[..., Any], dynamic: bool | None) -> Callable[..., Any]:
    """``function``, compiled for each size (False) or for all (None); an error if it cannot be."""
    assert Compiler.load is not None
    return Compiler.load()(function, fullgraph=True, dynamic=dynamic)


def compilable() -> bool:
    """Whether dynamic mode may run programs now."""
    state = local.state
    plain = state.trace is None and not state.anomaly and Compiler.load is not None
    return plain and config.fuse_eager


def is_large(x: Any) -> bool:
    """Whether ``x`` is a tensor of so many elements that a program pays; a symbol is none."""
    array = x._array if isinstance(x, Tensor) else None
    return type(array) is ndarray and array.size >= LARGE


class Programs:
    """The programs of an op, found by the shapes of its operands.

    Args:
        call: the op.
        sums: whether it or its gradient adds elements to each other; else all sizes share one.
    """

    def __init__(self, call: Callable[..., Any], sums: bool = True) -> None:
        self.call, self.sums = call, sums
        self.known: dict[Any, Callable[..., Any]] = {}

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The results of the op."""
        tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, Tensor)]
        sizes = [t._array.shape if self.sums else t._array.ndim for t in tensors]
        key = tensors[0]._array.dtype, *sizes
        found = self.known.get(key)
        if found is None:
            self.make_room()
            found = self.known[key] = program(self.call, False if self.sums else None)
        try:
            return found(*args, **kwargs)
        except TraceError:
            self.known[key] = self.call
            return self.call(*args, **kwargs)

    def make_room(self) -> None:
        """Forgets the programs that were made first, if there are many."""
        while len(self.known) >= MANY:
            self.known.pop(next(iter(self.known)), None)


def fused(call: Callable[..., Any], sums: bool = True) -> Callable[..., Any]:
    """``call``, whose first argument decides by its size whether a program is used."""
    programs = Programs(call, sums)

    @functools.wraps(call)
    def function(*args: Any, **kwargs: Any) -> Any:
        x = args[0] if args else kwargs.get("input")
        if not is_large(x) or not compilable():
            return call(*args, **kwargs)
        return programs.run(args, kwargs)

    return function
