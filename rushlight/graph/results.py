"""The results of a compiled call: the tensors in them, and how calls get objects of their own."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import AsyncGenerator, Callable, Container, Coroutine, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from rushlight.graph.arguments import fields_of, is_record, is_traced, with_entries, with_fields
from rushlight.graph.host import Host
from rushlight.graph.reads import is_ours
from rushlight.graph.scalars import Scalar
from rushlight.graph.watches import PLAIN
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
        if isinstance(x, FIXED):
            return lambda new: x
        check(x)
        return lambda new: copy.copy(x)

    return tensors, visit(result)


def maker(x: Any) -> Rule:
    """The function that makes a container like ``x`` of other elements."""
    if isinstance(x, deque):
        return lambda items: type(x)(items, x.maxlen)
    return getattr(type(x), "_make", type(x))


def check(x: Any) -> None:
    """An error for a result that calls would share, or that holds tensors in an unknown way."""
    if isinstance(x, Coroutine):
        x.close()  # or Python warns that nobody has waited for it
    if isinstance(x, NO_RESULTS):
        raise TraceError(f"the function returns a {type(x).__name__}, which no graph can hold")
    own = getattr(x, "__dict__", {})
    if isinstance(own, dict) and any([is_traced(value) for value in own.values()]):
        raise TraceError(
            f"the function returns an object of {type(x).__qualname__} with new tensors in it: "
            "return tensors, or tuples, lists, dicts or dataclasses of them"
        )
    try:
        copy.copy(x)
    except Exception as error:
        shared: Exception | None = error
    else:
        shared = RuntimeError() if own and is_ours(type(x)) else None
    if shared is not None:
        raise TraceError(
            f"the function makes and returns an object of {type(x).__qualname__}, of which each "
            "call needs one of its own: make it outside"
        )
