"""The arguments of a compiled call: their leaves, and the key of the programs that fit them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.symbol import TraceError
from rushlight.tensor import LEAF, Tensor

PLAIN = (int, str, bytes, complex, type(None), dtypes.dtype, type(...), np.dtype, slice, range)


class Arguments:
    """The tensors, changing floats and other objects among (args, kwargs).

    ``key`` is equal for calls that one program can serve: the structure, the types of tensors, the
    values of Python's numbers and strings, the identity of other objects.
    """

    __slots__ = ("args", "floats", "key", "kwargs", "lifted", "objects", "tensors")

    def __init__(self, args: Any, kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs
        self.tensors: list[Tensor] = []
        self.lifted: list[float] = []  # floats that are numbers of the run
        self.floats: dict[int, float] = {}  # the others, by position
        self.objects: list[Any] = []
        self.key: Any = None


def flatten(args: tuple[Any, ...], kwargs: dict[str, Any], lifted: set[int]) -> Arguments:
    """The arguments with their key; floats at the positions ``lifted`` are not part of it."""
    found = Arguments(args, kwargs)
    parts: list[Any] = []
    seen: dict[int, int] = {}
    counter = [0]

    def visit(x: Any) -> None:
        kind = type(x)
        if isinstance(x, Tensor):
            place = seen.setdefault(id(x), len(found.tensors))
            if place < len(found.tensors):
                parts.append((Tensor, place))
                return
            found.tensors.append(x)
            a = x._array
            leaf = x._history is None or x._history is LEAF
            contiguous = a.flags.c_contiguous
            parts.append((kind, a.shape, a.dtype, x.requires_grad, leaf, contiguous))
        elif kind is float:
            position = counter[0]
            counter[0] += 1
            if position in lifted:
                found.lifted.append(x)
                parts.append(float)
            else:
                found.floats[position] = x
                parts.append((float, repr(x)))
        elif kind is tuple or kind is list:
            parts.append((kind, len(x)))
            for item in x:
                visit(item)
        elif kind is dict:
            parts.append((dict, tuple(x)))
            for item in x.values():
                visit(item)
        elif isinstance(x, (tuple, list)):  # named tuples and other kinds
            parts.append((kind, len(x)))
            for item in x:
                visit(item)
        elif isinstance(x, PLAIN):
            parts.append((kind, repr(x) if isinstance(x, (slice, complex)) else x))
        elif dataclasses.is_dataclass(x) and not isinstance(x, type):
            parts.append(kind)
            for item in dataclasses.fields(x):
                visit(getattr(x, item.name))
        else:
            parts.append((kind, id(x)))
            found.objects.append(x)

    visit(args)
    for name in kwargs:
        parts.append(name)
        visit(kwargs[name])
    state = local.state
    modes = (state.grad, state.inference, dtypes.get_default_dtype())
    found.key = (modes, tuple(parts))
    return found


def replaced(x: Any, floats: Iterator[Any], lifted: set[int], counter: list[int]) -> Any:
    """``x`` with the floats at the positions ``lifted`` replaced by those of ``floats``."""
    kind = type(x)
    if kind is float:
        position = counter[0]
        counter[0] += 1
        return next(floats) if position in lifted else x
    if kind is tuple or kind is list:
        return kind([replaced(item, floats, lifted, counter) for item in x])
    if kind is dict:
        return {k: replaced(v, floats, lifted, counter) for k, v in x.items()}
    if isinstance(x, (tuple, list)):
        items = [replaced(item, floats, lifted, counter) for item in x]
        return getattr(kind, "_make", kind)(items)
    if dataclasses.is_dataclass(x) and not isinstance(x, (type, Tensor)):
        names = [f.name for f in dataclasses.fields(x)]
        fields = {n: replaced(getattr(x, n), floats, lifted, counter) for n in names}
        return dataclasses.replace(x, **fields)
    return x


def leaves(x: Any) -> tuple[list[Any], Any]:
    """The tensors of a result, and the function that puts others in their places."""
    tensors: list[Any] = []

    def visit(x: Any) -> Any:
        kind = type(x)
        if isinstance(x, Tensor):
            tensors.append(x)
            place = len(tensors) - 1
            return lambda new: new[place]
        if kind is tuple or kind is list or isinstance(x, (tuple, list)):
            inner = [visit(item) for item in x]
            make = getattr(kind, "_make", kind)
            return lambda new: make([f(new) for f in inner])
        if isinstance(x, dict):
            rules = {k: visit(v) for k, v in x.items()}
            if kind is dict:
                return lambda new: {k: f(new) for k, f in rules.items()}
            return lambda new: kind((k, f(new)) for k, f in rules.items())
        if dataclasses.is_dataclass(x) and not isinstance(x, type):
            fields = {f.name: visit(getattr(x, f.name)) for f in dataclasses.fields(x)}
            return lambda new: dataclasses.replace(x, **{k: f(new) for k, f in fields.items()})
        if type(x).__name__ in ("generator", "coroutine", "async_generator"):
            raise TraceError(f"the function returns a {type(x).__name__}, which no graph can hold")
        return lambda new: x

    return tensors, visit(x)
