"""The results of a compiled call: the tensors in them, and how calls get objects of their own."""

from __future__ import annotations

import copy
import functools
from collections import deque
from collections.abc import AsyncGenerator, Callable, Container, Coroutine, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from rushlight.dims import at, parts_of, remade
from rushlight.graph.arguments import fields_of, is_record, is_traced, with_entries, with_fields
from rushlight.graph.extents import Extent
from rushlight.graph.host import Host
from rushlight.graph.reads import is_ours
from rushlight.graph.scalars import Scalar
from rushlight.graph.watches import PLAIN, attribute
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor

Rule = Callable[[Any], Any]  # makes a part of the result of the tensors of a call
FIXED = (*PLAIN, type, FunctionType, BuiltinFunctionType, MethodType, ModuleType)
NO_RESULTS = (Iterator, Coroutine, AsyncGenerator)


def leaves(result: Any, known: Container[int]) -> tuple[list[Tensor], Rule]:
    """The tensors of a result, and the function that makes it anew with others in their places.

    What was there before the call, whose identities are ``known``, is not made anew.

    >>> tensors, make = leaves({"loss": rl.ones(1), "seen": {1, 2}}, ())
    >>> make(["a"])
    {'loss': 'a', 'seen': {1, 2}}
    """
    tensors: list[Tensor] = []

    def place(t: Tensor) -> Rule:
        number = len(tensors)
        tensors.append(t)
        return lambda new: new[number]

    def visit(x: Any) -> Rule:
        if isinstance(x, Tensor):
            return place(x)
        if isinstance(x, Scalar):
            number = place(x.tensor)
            return lambda new: number(new).item()
        if isinstance(x, Host):
            return lambda new: x.read()
        if type(x) is Extent:
            size, sizes = x.dim, x.extents.sizes
            return lambda new: at(size, sizes.now)
        if id(x) in known or (isinstance(x, np.ndarray) and id(x.base) in known):
            return lambda new: x
        if isinstance(x, (tuple, list, set, frozenset, deque)):
            inner = [visit(item) for item in x]
            make = maker(x)
            return lambda new: make([rule(new) for rule in inner])
        if isinstance(x, dict):
            entries = {k: visit(v) for k, v in x.items()}
            return lambda new: with_entries(x, {k: rule(new) for k, rule in entries.items()})
        if is_record(x):
            fields = {name: visit(value) for name, value in fields_of(x)}
            return lambda new: with_fields(x, {k: rule(new) for k, rule in fields.items()})
        if isinstance(x, slice):
            ends = [visit(part) for part in parts_of(x)]
            return lambda new: remade(x, [rule(new) for rule in ends])
        check(x)
        if isinstance(x, FIXED):
            return lambda new: x
        return lambda new: copy.copy(x)

    return tensors, visit(result)


def maker(x: Any) -> Rule:
    """The function that makes a container like ``x`` of other elements."""
    if isinstance(x, deque):
        return lambda items: type(x)(items, x.maxlen)
    return getattr(type(x), "_make", type(x))


def check(x: Any) -> None:
    """An error for a result that calls would share, or that holds tensors in an unknown way.

    Sizes in it are those of this call alone.
    """
    if isinstance(x, Coroutine):
        x.close()  # or Python warns that nobody has waited for it
    if isinstance(x, NO_RESULTS):
        raise TraceError(f"the function returns a {type(x).__name__}, which no graph can hold")
    held = held_by(x)
    if any(map(is_traced, held)):
        raise TraceError(
            f"the function returns {named(x)} with new tensors in it: "
            "return tensors, or tuples, lists, dicts or dataclasses of them"
        )
    for part in held:
        if type(part) is Extent:
            part.extents.settle(part.dim)
    if isinstance(x, FIXED):
        return
    try:
        copy.copy(x)
    except Exception as error:
        shared: Exception | None = error
    else:
        shared = RuntimeError() if getattr(x, "__dict__", {}) and is_ours(type(x)) else None
    if shared is not None:
        raise TraceError(
            f"the function makes and returns {named(x)}, of which each "
            "call needs one of its own: make it outside"
        )


def named(x: Any) -> str:
    if isinstance(x, FunctionType):
        return f"the function {x.__qualname__}"
    return f"an object of {type(x).__qualname__}"


def held_by(x: Any) -> list[Any]:
    """What an object, or a function made inside, holds: itself, and in lists and the like."""
    own = {} if isinstance(x, ModuleType) else getattr(x, "__dict__", {})
    found = list(own.values()) if isinstance(own, dict) else []
    if isinstance(x, FunctionType):
        cells = [attribute(cell, "cell_contents") for cell in x.__closure__ or ()]
        found += [*cells, *(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
    elif isinstance(x, MethodType):
        found += [x.__self__, *held_by(x.__func__)]
    elif isinstance(x, functools.partial):
        found += [*x.args, *x.keywords.values()]
    elif isinstance(x, np.ndarray) and x.dtype == object:
        found += x.ravel().tolist()
    return [*found, *[inner for part in found for inner in parts_of(part)]]
