"""Arguments and results of a program as plain data: what is around the tensors in them.

A *shape* is a nested list that a file can hold: ``["tensor", 0]``, ``["number", 0]``, ``["plain",
value]``, ``["scalar", 0]`` (a number that the graph computes), or a container of shapes, such as
``["tuple", [shape, shape]]``.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.device import device as Device
from rushlight.graph.host import Host
from rushlight.graph.scalars import Scalar, number_of
from rushlight.tensor import Size, Tensor

Shape = list[Any]
PLAIN = (type(None), bool, int, str, complex, dtypes.dtype, Device, slice, range)
CONTAINERS: dict[str, type] = {"tuple": tuple, "list": list, "size": Size}


class Unstorable(TypeError):
    """A value that no file can hold."""


class Leaves:
    """The tensors and floats of a value, each once, while its shape is written down.

    >>> found = Leaves()
    >>> x = rl.ones(2)
    >>> found.shape({"x": x, "twice": (x, 0.5)})
    ['dict', [['x', ['tensor', 0]], ['twice', ['tuple', [['tensor', 0], ['number', 0]]]]]]
    >>> len(found.tensors), found.floats
    (1, [0.5])
    """

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.floats: list[Any] = []

    def shape(self, value: Any, path: str = "") -> Shape:
        if isinstance(value, Tensor):
            known = [i for i, t in enumerate(self.tensors) if t is value]
            if not known:
                self.tensors.append(value)
            return ["tensor", known[0] if known else len(self.tensors) - 1]
        if isinstance(value, Scalar):
            return ["scalar", self.shape(value.tensor)[1]]
        if isinstance(value, (Host, float)):
            self.floats.append(value)
            return ["number", len(self.floats) - 1]
        if isinstance(value, PLAIN):
            if isinstance(value, int) and not isinstance(value, bool):
                value = int(value)  # a size passes for one
            return ["plain", value]
        if isinstance(value, np.generic):
            return self.shape(value.item(), path)
        if isinstance(value, dict):
            pairs = [[key, self.shape(v, f"{path}[{key!r}]")] for key, v in value.items()]
            if all([isinstance(key, (str, int)) for key, _ in pairs]):
                return ["dict", pairs]
        if isinstance(value, (tuple, list)):
            inner = [self.shape(v, f"{path}[{i}]") for i, v in enumerate(value)]
            fields = getattr(value, "_fields", None)
            if fields is not None:
                return ["named", type(value).__name__, list(fields), inner]
            kinds = [name for name, kind in CONTAINERS.items() if isinstance(value, kind)]
            return [kinds[-1], inner]
        raise Unstorable(
            f"{path or 'it'} is of type {type(value).__qualname__}: a program takes and returns "
            "tensors, numbers, strings, and tuples, lists and dicts of them"
        )


def filled(shape: Shape, tensors: Sequence[Any], floats: Callable[[Any], Any]) -> Any:
    """The value of a shape with these tensors; ``floats`` gives what stands at a number.

    >>> filled(["list", [["tensor", 1], ["plain", 3]]], ["a", "b"], float)
    ['b', 3]
    """
    kind, *content = shape
    if kind == "tensor":
        return tensors[content[0]]
    if kind == "scalar":
        found = tensors[content[0]]
        return found.item() if local.state.trace is None else number_of(found)
    if kind == "number":
        return floats(content[0])
    if kind == "plain":
        return content[0]
    if kind == "dict":
        return {key: filled(inner, tensors, floats) for key, inner in content[0]}
    items = [filled(inner, tensors, floats) for inner in content[-1]]
    if kind == "named":
        return namedtuple(content[0], content[1])(*items)
    return CONTAINERS[kind](items)


def collect(shape: Shape, value: Any, tensors: dict[int, Any], floats: dict[int, float]) -> bool:
    """Whether a value has this shape; its tensors and floats go to where the shape says."""
    kind, *content = shape
    if kind == "tensor":
        return isinstance(value, Tensor) and tensors.setdefault(content[0], value) is value
    if kind == "number":
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
            return False
        floats[content[0]] = float(value)
        return True
    if kind == "plain":
        return type(value) is type(content[0]) and bool(value == content[0])
    if kind == "dict":
        if not isinstance(value, dict) or [*value] != [key for key, _ in content[0]]:
            return False
        pairs = [(inner, value[key]) for key, inner in content[0]]
    else:
        if not isinstance(value, (tuple, list)) or len(value) != len(content[-1]):
            return False
        pairs = list(zip(content[-1], value, strict=True))
    return all([collect(inner, v, tensors, floats) for inner, v in pairs])


def tensors_in(shape: Shape) -> set[int]:
    """The tensors that a shape names."""
    kind, *content = shape
    if kind in ("tensor", "scalar"):
        return {content[0]}
    if kind in ("number", "plain"):
        return set()
    inner = [each for _, each in content[0]] if kind == "dict" else content[-1]
    return set().union(*map(tensors_in, inner))


def checked(shape: Any, tensors: int, number: Callable[[Any], None]) -> Shape:
    """A shape of a file: an error unless it is one, and names but ``tensors`` tensors."""
    kind, *content = shape
    if kind in ("tensor", "scalar"):
        (place,) = content
        if type(place) is not int or not 0 <= place < tensors:
            raise ValueError(f"there is no tensor {place!r}")
    elif kind == "number":
        (what,) = content
        number(what)
    elif kind == "plain":
        (value,) = content
        if not isinstance(value, PLAIN):
            raise ValueError(f"{value!r:.40} is no plain value")
    elif kind == "dict":
        (pairs,) = content
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("a dict has one key twice")
        for key, inner in pairs:
            if not isinstance(key, (str, int)):
                raise ValueError(f"a dict has the key {key!r:.40}")
            checked(inner, tensors, number)
    elif kind in CONTAINERS or kind == "named":
        if kind == "named":
            name, fields, _ = content
            namedtuple(name, fields)
            if len(fields) != len(content[-1]):
                raise ValueError(f"{name} has {len(fields)} fields")
        for inner in content[-1]:
            checked(inner, tensors, number)
    else:
        raise ValueError(f"{kind!r:.40} is no container of a program")
    return shape
