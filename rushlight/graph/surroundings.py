"""Python's state around a branch or loop of a graph: the function inside must leave it as it is.

Python runs the function once, while it is traced; whether and how often the graph does, tensors
decide. So whatever it changes, in objects, containers or variables of other functions, is put back
and refused.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, MethodType
from typing import Any

from rushlight.errors import user_line
from rushlight.graph.guards import Reach
from rushlight.graph.reads import Whose, line_of_change, names_of, reads, whose_file
from rushlight.graph.watches import Change, Fields, Items, Members, Namespace, Pairs, attribute
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor


class Surroundings:
    """While it is entered, ``functions`` may run; then all that they can reach is as before.

    Args:
        strict: whether a change is an error.
        codes: what runs beside them, of generators that are on their way.

    >>> seen = []
    >>> with Surroundings([lambda: seen.append(1)]):
    ...     seen.append(1)
    Traceback (most recent call last):
    rushlight.symbol.TraceError: the branch or loop at ... changes a list (seen[0] was missing, ...
    >>> seen
    []
    """

    def __init__(
        self,
        functions: Sequence[Callable[..., Any]],
        strict: bool = True,
        codes: Sequence[CodeType] = (),
    ) -> None:
        reach = Reach(leaves=sys.maxsize, elements=sys.maxsize)
        for value in of_users(tuple(functions)):
            reach.see(value, getattr(value, "__name__", f"{type(value).__name__}()"))
        for code in codes:
            reach.names |= reads(code).attributes
        reach.explore()
        self.tensors = [t for _, t in reach.tensors]
        wishes = [Fields(t, path, ("requires_grad",)) for path, t in reach.tensors]
        self.watches = [*reach.modules, *reach.others, *wishes]
        self.codes = [*codes, *reach.codes]
        self.shifting, self.strict = reach.shifting, strict

    def __enter__(self) -> None:
        for path, value in self.shifting if self.strict else ():
            raise TraceError(
                f"the branch or loop at {user_line()} uses {path}, a {type(value).__name__} that "
                "gives another value each time, but whether or how often it runs depends on "
                "tensors: make it inside, or take the values before"
            )

    def __exit__(self, kind: type | None, *error: object) -> None:
        found = [change for watch in self.watches for change in watch.changes()]
        # A tensor that is no leaf now wants a gradient since it was written to, as it may be.
        changes = [c for c in found if not isinstance(c.container, Tensor) or c.container.is_leaf]
        for change in changes:
            change.put(change.before)
        if kind is None and self.strict and changes:
            raise self.refusal(changes[0])

    def refusal(self, change: Change) -> TraceError:
        watch = change.watch
        contains = isinstance(watch, (Items, Members, Pairs)) and not isinstance(watch, Namespace)
        what = f"a {type(change.container).__name__}" if contains else "Python state"
        line = line_of_change(self.codes, [change.key, *reversed(names_of(watch.path))])
        where = f" at {line}" if line else ""
        return TraceError(
            f"the branch or loop at {user_line()} changes {what} ({change}){where}, but whether or "
            "how often it runs depends on tensors: a graph holds no such state. Assign to a local "
            "variable (n = n + 1), write to a tensor in place (y[i] = x), or use rl.scan for "
            "stacked results"
        )


def of_users(value: Any) -> Iterator[Any]:
    """The functions and objects that functions of this package are to call, and their arguments."""
    match value:
        case FunctionType() if whose_file(value.__code__.co_filename) is Whose.FOUNDATION:
            for cell in value.__closure__ or ():
                inner = attribute(cell, "cell_contents")
                if callable(inner) or isinstance(inner, tuple):
                    yield from of_users(inner)
        case functools.partial():
            yield from of_users((value.func, *value.args, *value.keywords.values()))
        case MethodType():
            yield from of_users((value.__self__, value.__func__))
        case tuple():
            for part in value:
                yield from of_users(part)
        case _:
            yield value
