"""Which sizes of an exported program may change: ``Dim``, and the argument ``dynamic_shapes``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rushlight.graph.arguments import fields_of, is_record
from rushlight.tensor import Tensor


@dataclass(frozen=True)
class Hint:
    """A size without a name: AUTO may turn out to be a number, DYNAMIC must not, STATIC is one."""

    kind: str
    min: int | None = None
    max: int | None = None

    def __call__(self, *, min: int | None = None, max: int | None = None) -> Hint:
        """The same with bounds."""
        return Hint(self.kind, min, max)

    def __repr__(self) -> str:
        return f"DimHint({self.kind})"


class Dim:
    """A size that may change, with a name and bounds; sizes of one ``Dim`` are always equal.

    ``Dim.AUTO`` and ``Dim.DYNAMIC`` stand for sizes without names.

    >>> rl.export.Dim("batch", min=1, max=64)
    Dim('batch', min=1, max=64)
    """

    AUTO: ClassVar = Hint("AUTO")
    DYNAMIC: ClassVar = Hint("DYNAMIC")
    STATIC: ClassVar = Hint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"Dim name must be a str, got {name!r}")
        if min is not None and max is not None and min > max:
            raise ValueError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        self.__name__, self.min, self.max = name, min, max

    def __repr__(self) -> str:
        bounds = [f"{k}={v}" for k, v in (("min", self.min), ("max", self.max)) if v is not None]
        return f"Dim({', '.join([repr(self.__name__), *bounds])})"


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several sizes with the same bounds.

    >>> rl.export.dims("height", "width", min=8)
    (Dim('height', min=8), Dim('width', min=8))
    """
    return tuple([Dim(name, min=min, max=max) for name in names])


Change = Dim | Hint
"""A size that changes."""
Changes = dict[int, Change]
"""The sizes of a tensor that change, by dimension."""


def changes_in(given: Any, arguments: Mapping[str, Any]) -> list[tuple[Tensor, Changes]]:
    """The tensors among the arguments, with what ``dynamic_shapes`` says of their sizes.

    ``given`` has the structure of the arguments: a dict by their names, or a tuple.
    """
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in arguments]
        if unknown:
            raise ValueError(
                f"dynamic_shapes names {', '.join(map(repr, unknown))}, but the arguments are "
                f"called {', '.join(arguments)}"
            )
        given = [given.get(name) for name in arguments]
    given = [None] * len(arguments) if given is None else given
    if not isinstance(given, (tuple, list)) or len(given) != len(arguments):
        raise ValueError(
            f"dynamic_shapes must have an entry for each of the arguments {', '.join(arguments)}, "
            f"got {given!r}"
        )
    named = zip(given, arguments.items(), strict=True)
    return [pair for spec, (name, value) in named for pair in paired(spec, value, name)]


def paired(spec: Any, value: Any, name: str) -> Iterator[tuple[Tensor, Changes]]:
    """The tensors in an argument, each with what is said of its sizes."""
    if isinstance(value, Tensor):
        yield value, checked(spec, value, name)
        return
    parts: Any = ()
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, (tuple, list)):
        parts = enumerate(value)
    elif is_record(value):
        parts = fields_of(value)
        spec = dict(fields_of(spec)) if is_record(spec) else spec
    for key, part in parts:
        try:
            own = None if spec is None else spec[key]
        except (LookupError, TypeError):
            raise ValueError(f"dynamic_shapes says nothing of {name}[{key!r}]: {spec!r}") from None
        yield from paired(own, part, f"{name}[{key!r}]")


def checked(spec: Any, t: Tensor, name: str) -> Changes:
    """The sizes of one tensor that change, by dimensions from 0 on."""
    if spec is None:
        return {}
    if isinstance(spec, (tuple, list)):
        if len(spec) != t.ndim:
            raise ValueError(f"{name!r} has {t.ndim} dimensions, and dynamic_shapes {len(spec)}")
        spec = dict(enumerate(spec))
    if not isinstance(spec, Mapping):
        raise ValueError(f"dynamic_shapes of {name!r} must be a dict, list or None, got {spec!r}")
    found: Changes = {}
    for axis, change in spec.items():
        if not isinstance(axis, int) or not -t.ndim <= axis < t.ndim:
            raise ValueError(f"{name!r} has {t.ndim} dimensions, and no dimension {axis}")
        size = t.shape[axis]
        if isinstance(change, int) and change != size:
            raise ValueError(f"{name!r} has {size} for the size {axis}, not {change}")
        if change is None or isinstance(change, int) or change == Dim.STATIC:
            continue
        change = Dim(change) if isinstance(change, str) else change
        if not isinstance(change, (Dim, Hint)):
            raise ValueError(f"the size {axis} of {name!r} must be a Dim, got {change!r}")
        if size < (change.min or 0) or (change.max is not None and size > change.max):
            raise ValueError(f"the size {axis} of {name!r} is {size}, out of bounds: {change!r}")
        found[axis % t.ndim] = change
    return found
