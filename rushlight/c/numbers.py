"""Floats among the arguments of an export: numbers that each run of the program is given."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from rushlight.compile import Compiled
from rushlight.errors import warn
from rushlight.graph.arguments import mapped, names_of
from rushlight.graph.host import LIFTED
from rushlight.graph.scalars import number_of
from rushlight.graph.script.calls import scripted
from rushlight.runtime.traced import Traced
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor, literal

Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]


class Numbered:
    """A function that is given tensors in the place of some floats, and sees numbers."""

    def __init__(self, function: Callable[..., Any], tensors: list[Tensor]) -> None:
        self.function, self.tensors = function, tensors

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = mapped((args, kwargs), self.seen)
        return self.function(*args, **kwargs)

    def seen(self, leaf: Any) -> Any:
        return number_of(leaf) if any([leaf is t for t in self.tensors]) else leaf


def traced(function: Callable[..., Any], given: Arguments) -> tuple[Traced, list[Tensor]]:
    """The trace of a call, and the tensors in it that stand for floats of its arguments.

    A float whose value the function needs while it is traced is a constant, with a warning.
    """
    names = names_of(LIFTED, function, *given)
    chosen = set(range(len(names)))
    try:
        return attempt(function, given, chosen)
    except Exception:
        if not names:
            raise
    chosen = set()
    found = attempt(function, given, chosen)
    for i, name in enumerate(names):
        try:
            found = attempt(function, given, {*chosen, i})
        except Exception:
            warn(
                f"export_c: {name} is a constant of the program, since its value is needed while "
                "the function is traced. Pass a tensor if it is to change."
            )
        else:
            chosen.add(i)
    return found


def attempt(
    function: Callable[..., Any], given: Arguments, chosen: Collection[int]
) -> tuple[Traced, list[Tensor]]:
    """The trace in which the ``chosen`` floats are numbers of the run."""
    tensors: list[Tensor] = []
    places = itertools.count()

    def stood_for(leaf: Any) -> Any:
        if type(leaf) not in LIFTED or next(places) not in chosen:
            return leaf
        tensors.append(literal(np.array(leaf, np.float64)))
        return tensors[-1]

    args, kwargs = mapped(given, stood_for)
    if not tensors:
        return Compiled(function).traced(*args, **kwargs), tensors
    try:
        return Compiled(Numbered(function, tensors)).traced(*args, **kwargs), tensors
    except TraceError:
        other = scripted(function)  # the number may decide a branch
        if other is None:
            raise
    return Compiled(Numbered(other, tensors)).traced(*args, **kwargs), tensors
