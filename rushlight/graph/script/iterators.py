"""Iterators of Python's from which more is taken than a loop may need, since tensors end it.

That is harmless if nobody else has the iterator, and if what it calls leaves all as it is.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from itertools import chain
from types import GeneratorType
from typing import Any

from rushlight.autograd.modes import local
from rushlight.errors import user_line
from rushlight.graph.script.sharing import variables
from rushlight.graph.surroundings import Surroundings
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor

END = object()


def rest_of(iterator: Iterator[Any]) -> Iterator[Any]:
    """What is left of ``iterator``, where tensors decide how much of it is taken.

    >>> rl.graph(lambda x: x * sum(rest_of(iter([1, 2]))), rl.ones(3)).outputs[0].type.shape
    (3,)
    """
    moved, used = [iterator], []
    for part in moved:
        known = {*map(id, moved)}
        held = [x for x in holdings(part) if id(x) not in known]
        moved += [x for x in held if isinstance(x, Iterator)]
        used += [x for x in held if not isinstance(x, Iterator)]
    owned = {*map(id, variables())}
    for part in moved:
        if id(part) in owned:
            raise TraceError(
                f"the loop at {user_line()} takes from a {type(part).__name__} that a variable or "
                "an object has, too, but how much depends on tensors: go through a list instead"
            )
    codes = [part.gi_code for part in moved if isinstance(part, GeneratorType)]
    around = Surroundings(used, codes=codes)
    random = local.state.trace.random
    while True:
        before = versions(around.tensors), random.ends()
        with around:
            row = next(iterator, END)
        if before != (versions(around.tensors), random.ends()):
            raise TraceError(
                f"the loop at {user_line()} takes from a {type(iterator).__name__} that writes to "
                "a tensor or draws random numbers, but how often depends on tensors: go through a "
                "list instead"
            )
        if row is END:
            return
        yield row


def versions(tensors: Iterable[Tensor]) -> list[int]:
    """How often each was written to."""
    return [t._version for t in tensors]


def holdings(iterator: Any) -> list[Any]:
    """The iterators that are moved with this one, and the functions and objects that it uses."""
    if isinstance(iterator, GeneratorType):
        code, frame = iterator.gi_code, iterator.gi_frame
        found = {} if frame is None else frame.f_locals
        names = (*code.co_varnames[: code.co_argcount], *code.co_freevars)
        return [found[name] for name in names if name in found]
    several = gc.get_referents(iterator)
    several += chain(*[x for x in several if isinstance(x, tuple)])  # of a zip
    active = [x for x in several if isinstance(x, Iterator) or callable(x)]
    fields: dict[str, Any] = getattr(iterator, "__dict__", {})
    return [*fields.values(), *[x for x in active if not isinstance(x, type)]]
