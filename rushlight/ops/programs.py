"""Ops that in dynamic mode, too, run as one compiled program, once their operands are large.

A softmax or a norm is a chain of passes over memory if NumPy runs it; compiled, it is one. That
pays for large operands, and only if their shape comes again, or where NumPy takes as long as
compiling does. The first shapes that meet the same parameters get a program each, further ones
share a program for all sizes. That one needs tables for each, so it takes many, but not any number:
where each call has a shape of its own, NumPy is the quickest. Shapes that have not come for long
make room for others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from numpy import ndarray

from rushlight.autograd.modes import local
from rushlight.config import config
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor

LARGE = 1 << 14  # elements from which on a program is quicker than NumPy
SEEN = 2  # calls of one shape after which there will be more
MOST = 1 << 12  # shapes that are remembered
EXACT = 32  # shapes with the same parameters that have programs of their own
MANY = 256  # shapes of an op that have programs
HEAVY = 1 << 26  # multiply-adds that NumPy needs as long for as they take to compile
HUGE = 1 << 22  # elements of which that is true
LONG = 512  # calls of an op, after which a shape that did not come makes room for another

Work = Callable[..., int]


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


class Programs:
    """The programs of an op, found by the shapes of its operands."""

    def __init__(self, call: Callable[..., Any], work: Work | None = None) -> None:
        self.call, self.work, self.often = call, work, Recurring()
        self.known: dict[Any, Callable[..., Any]] = {}
        self.calls, self.used = 0, dict[Any, int]()  # which call was the last of a shape
        self.counts: dict[Any, int] = {}  # of the shapes that met the same parameters
        self.compiled: dict[Any, Callable[..., Any]] = {}

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The results of the op: those of a program, or of NumPy."""
        tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, Tensor)]
        key = tensors[0]._array.dtype, *[t._array.shape for t in tensors]
        found = self.known.get(key)
        if found is None:
            if not (self.often(key) or self.is_heavy(tensors)) or not self.has_room():
                return self.call(*args, **kwargs)
            found = self.known[key] = self.made(tensors)
        self.calls = self.used[key] = self.calls + 1
        try:
            return found(*args, **kwargs)
        except TraceError:
            self.known[key] = self.call
            return self.call(*args, **kwargs)

    def is_heavy(self, tensors: Sequence[Tensor]) -> bool:
        """Whether one call is worth a program."""
        if tensors[0]._array.size >= HUGE:
            return True
        return self.work is not None and self.work(*[t._array.shape for t in tensors]) >= HEAVY

    def has_room(self) -> bool:
        """Whether one more shape can have a program; those that came no more go for it."""
        if len(self.known) < MANY:
            return True
        self.calls += 1
        used = [*self.used.items()]  # at once: other threads go on
        if self.calls - min([n for _, n in used]) <= LONG:
            return False
        self.used = {key: n for key, n in used if self.calls - n <= LONG}
        self.known = {key: self.known[key] for key in self.used}
        left = {id(found) for found in self.known.values()}
        self.compiled = {kind: c for kind, c in self.compiled.items() if id(c) in left}
        self.counts = {kind: self.counts[kind] for kind, _ in self.compiled}
        return True

    def made(self, tensors: Sequence[Tensor]) -> Callable[..., Any]:
        """The programs that one more shape is given to."""
        kind = tuple([steady(t) for t in tensors[1:]])
        count = self.counts[kind] = self.counts.get(kind, 0) + 1
        exact = count <= EXACT
        if (kind, exact) not in self.compiled:
            self.compiled[kind, exact] = program(self.call, False if exact else None)
        return self.compiled[kind, exact]


def steady(t: Tensor) -> Any:
    """What programs for all sizes rely on: those of parameters, which do not change."""
    parameter = (t.requires_grad and t.is_leaf) or type(t) is not Tensor
    return tuple(t._array.shape) if parameter else t._array.ndim


def fused(call: Callable[..., Any], work: Work | None = None) -> Callable[..., Any]:
    """``call``, whose first argument decides by its size whether a program is used.

    ``work`` tells how many multiply-adds operands of some shapes take.
    """
    programs = Programs(call, work)

    @functools.wraps(call)
    def function(*args: Any, **kwargs: Any) -> Any:
        x = args[0] if args else kwargs.get("input")
        if not is_large(x) or not compilable():
            return call(*args, **kwargs)
        return programs.run(args, kwargs)

    return function
