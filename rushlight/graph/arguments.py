"""The arguments of a compiled call: their leaves, and the key of the programs that fit them."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable, Container, Iterable, Iterator
from operator import is_
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.config import config
from rushlight.graph.host import LIFTED, Host
from rushlight.graph.watches import FIELDS, Attached, Fields, Items, Pairs, Watch
from rushlight.symbol import Symbol
from rushlight.tensor import LEAF, VIEW, Size, Tensor

SHOWN = (float, slice, complex, np.generic)  # told apart by their texts: 0.0 is not -0.0
PLAIN = (int, str, bytes, type(None), dtypes.dtype, type(...), np.dtype, range, *SHOWN)

BARE = frozenset([list, tuple, dict, Size, int, bool, str, bytes, type(None), *SHOWN])


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
    state = local.state
    parts: list[Any] = [state.grad, state.inference, config.default_dtype]
    for x in args:
        visit(x, found, parts, lifted)
    for name in kwargs:
        parts.append(name)
        visit(kwargs[name], found, parts, lifted)
    unique = dict.fromkeys(found.tensors)
    if len(unique) < len(found.tensors):  # one of them comes twice: the key says which
        places = {t: i for i, t in enumerate(unique)}
        parts.append(tuple([places[t] for t in found.tensors]))
        found.tensors = list(unique)
    found.key = tuple(parts)
    return found


def shorthand(args: tuple[Any, ...]) -> Any:
    """A key for nothing but bare tensors, each of them once: leaves without hooks; else None.

    Calls that agree in it agree in the key of :func:`flatten`, which takes longer to make.
    """
    state = local.state
    key: tuple[Any, ...] = (state.grad, state.inference, config.default_dtype)
    for x in args:
        if type(x) is not Tensor or (len(x.__dict__) > 1 and not is_bare(x)):
            return None
        a = x._array
        key += (x._history, a.dtype, a.shape, a.strides)
    return key if len(set(args)) == len(args) else None


def is_bare(t: Tensor) -> bool:
    """Whether a tensor is a leaf to which nothing is attached, not even a hook."""
    leaf = t._history is None or t._history is LEAF
    return leaf and not (has_attached(t) or t._hooks or t._accumulate_hooks)


def visit(x: Any, found: Arguments, parts: list[Any], lifted: set[int]) -> None:
    """Adds what is in one argument to ``found``, and to the ``parts`` of the key."""
    kind = type(x)
    if isinstance(x, Tensor):
        found.tensors.append(x)
        a, history = x._array, x._history
        wanted = x.requires_grad if history is VIEW else history is not None
        leaf = history is None or history is LEAF
        layout = a.flags.c_contiguous or a.strides
        parts.append((kind, a.shape, a.dtype, wanted, leaf, layout))
        if x._hooks or x._accumulate_hooks:
            parts.append((*(x._hooks or {}).values(), *(x._accumulate_hooks or {}).values()))
        if has_attached(x):
            attach(x, found, parts, FIELDS)
    elif kind in LIFTED:
        position = len(found.lifted) + len(found.floats)
        if position in lifted:
            found.lifted.append(x)
            parts.append(kind)
        else:
            found.floats[position] = x
            parts.append((kind, repr(x)))
    elif isinstance(x, (tuple, list)):
        parts.append((kind, len(x)))
        for item in x:
            visit(item, found, parts, lifted)
        if kind not in BARE:
            attach(x, found, parts)
    elif isinstance(x, dict):
        parts.append((kind, tuple(x)))
        for item in x.values():
            visit(item, found, parts, lifted)
        if kind not in BARE:
            attach(x, found, parts)
    elif isinstance(x, PLAIN):
        parts.append((kind, repr(x) if isinstance(x, SHOWN) else x))
        if kind not in BARE and not isinstance(x, dtypes.dtype):
            attach(x, found, parts)
    elif is_record(x):
        parts.append(kind)
        fields = fields_of(x)
        for _, item in fields:
            visit(item, found, parts, lifted)
        attach(x, found, parts, dict(fields))
    else:
        parts.append((kind, id(x)))
        found.objects.append(x)


def has_attached(t: Tensor) -> bool:
    """Whether the user has attached something to a tensor; most have but an array."""
    own = t.__dict__
    return len(own) > 1 and not FIELDS.issuperset(own)


def attach(x: Any, found: Arguments, parts: list[Any], known: Container[str] = ()) -> None:
    """Adds what an object of a class of the user's has beside its value: attributes, methods."""
    found.objects.append(type(x))
    for name, value in getattr(x, "__dict__", {}).items():
        if name not in known:
            plain = isinstance(value, (float, *PLAIN))
            parts.append((name, type(value), repr(value) if plain else id(value)))
            if not plain:
                found.objects.append(value)


def is_record(x: Any) -> bool:
    """Whether ``x`` is an object of a dataclass."""
    return dataclasses.is_dataclass(x) and not isinstance(x, (type, Tensor))


def fields_of(record: Any) -> list[tuple[str, Any]]:
    return [(f.name, getattr(record, f.name)) for f in dataclasses.fields(record)]


def with_fields(record: Any, fields: dict[str, Any]) -> Any:
    """A copy of an object of a dataclass with other fields; its own ``__init__`` does not run."""
    twin = copy.copy(record)
    for name, value in fields.items():
        object.__setattr__(twin, name, value)
    return twin


def with_entries(mapping: Any, entries: dict[Any, Any]) -> Any:
    """A copy of a dict, of whatever class, with other values."""
    twin = copy.copy(mapping)
    twin.update(entries)
    return twin


def replaced(x: Any, floats: Iterator[Any], lifted: set[int], counter: list[int]) -> Any:
    """``x`` with the floats at the positions ``lifted`` replaced by those of ``floats``."""

    def change(leaf: Any) -> Any:
        if type(leaf) not in LIFTED:
            return leaf
        position = counter[0]
        counter[0] += 1
        return next(floats) if position in lifted else leaf

    return mapped(x, change)


def mapped(x: Any, change: Callable[[Any], Any], anew: bool = False) -> Any:
    """``x`` with ``change`` of each leaf in its place.

    A container in which none changes stays itself, unless all are made ``anew``.

    >>> mapped({"a": (1, 2), "b": [3]}, lambda n: n * 10)
    {'a': (10, 20), 'b': [30]}
    """
    if isinstance(x, (tuple, list)):
        items = [mapped(item, change, anew) for item in x]
        same = not anew and all(map(is_, items, x))
        return x if same else getattr(type(x), "_make", type(x))(items)
    if isinstance(x, dict):
        entries = {k: mapped(v, change, anew) for k, v in x.items()}
        same = not anew and all(map(is_, entries.values(), x.values()))
        return x if same else with_entries(x, entries)
    if is_record(x):
        old = dict(fields_of(x))
        new = {name: mapped(v, change, anew) for name, v in old.items()}
        same = not anew and all(map(is_, new.values(), old.values()))
        return x if same else with_fields(x, new)
    return change(x)


def names_of(
    kinds: Container[type], function: Callable[..., Any], args: Any, kwargs: Any
) -> list[str]:
    """What arguments are called in which there are values of some types: a name for each value.

    >>> names_of([int], lambda x, sizes: x, (1.0, [2, 3]), {})
    ['sizes', 'sizes']
    """
    names = [f"argument {i}" for i in range(len(args))]
    try:
        own = inspect.signature(getattr(function, "forward", function)).parameters
        names[: len(own)] = list(own)[: len(args)]
    except (TypeError, ValueError):
        pass
    found: list[str] = []

    def note(name: str, leaf: Any) -> Any:
        if type(leaf) in kinds:
            found.append(name)
        return leaf

    for name, value in (*zip(names, args, strict=False), *kwargs.items()):
        mapped(value, functools.partial(note, name))
    return found


def ints_of(key: tuple[Any, ...]) -> list[tuple[int, int]]:
    """The ints among arguments of this key, each with its place there."""
    pairs = enumerate(key)
    return [(i, x[1]) for i, x in pairs if type(x) is tuple and len(x) == 2 and x[0] is int]


def containers(x: Any, path: str) -> Iterator[Watch]:
    """Watches over all in an argument that a function could change."""
    if isinstance(x, Tensor):
        yield Attached(vars(x), path)
    elif isinstance(x, list):
        yield Items(x, path)
    elif isinstance(x, dict):
        yield Pairs(x, path)
    elif is_record(x):
        yield Fields(x, path, [name for name, _ in fields_of(x)])
    inner: Iterable[tuple[str, Any]] = ()
    if isinstance(x, (tuple, list)):
        inner = [(f"{path}[{i}]", item) for i, item in enumerate(x)]
    elif isinstance(x, dict):
        inner = [(f"{path}[{k!r}]", item) for k, item in x.items()]
    elif is_record(x):
        inner = [(f"{path}.{name}", item) for name, item in fields_of(x)]
    for name, item in inner:
        yield from containers(item, name)


def is_traced(x: Any) -> bool:
    return isinstance(x, Host) or (isinstance(x, Tensor) and isinstance(x._array, Symbol))
