"""Tracing with the sizes that change as symbols, and deciding about those that cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.dims import LETTERS, Settled
from rushlight.export.dynamic_shapes import Change, Hint
from rushlight.graph.inference import Irregular
from rushlight.runtime.shapes import Shapes, Sides
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor


class SizeError(TraceError):
    """A size that should change cannot."""


class Changing:
    """The sizes that change.

    Attributes:
        changes: what changes and an example, by names; by places, where it has none.
        same: sizes without names that turned out to be equal to others.
    """

    def __init__(self, tensors: Sequence[Tensor], changes: Sequence[Mapping[int, Change]]) -> None:
        self.changes: dict[Any, tuple[Change, int]] = {}
        self.same: dict[Any, Any] = {}
        self.now = [tuple(t.shape) for t in tensors]
        self.keys: list[dict[int, Any]] = []
        for number, own in enumerate(changes):
            self.keys.append({})
            for axis, change in own.items():
                key = (number, axis) if isinstance(change, Hint) else change.__name__
                size = self.now[number][axis]
                _, other = self.changes.setdefault(key, (change, size))
                if other != size:
                    raise ValueError(
                        f"{key!r} is {other} and {size} in the example arguments: sizes that may "
                        "differ need two Dims"
                    )
                self.keys[number][axis] = self.same[key] = key
        if len(self.changes) > len(LETTERS):  # then equal ones without names are one
            self.joined(list(self.changes))
        count = len(set(self.same.values()))
        if count > len(LETTERS):
            raise ValueError(f"{count} sizes change, at most {len(LETTERS)} can")

    def shapes(self, settled: set[Sides], steps: Mapping[Sides, int]) -> Shapes:
        """The shapes with symbols; a size that changes was another number below 0 before."""
        places, first = list(self.changes), []
        for sides, keys in zip(self.now, self.keys, strict=True):
            own = enumerate(sides)
            first.append(
                tuple([-1 - places.index(self.same[keys[d]]) if d in keys else n for d, n in own])
            )
        return Shapes([first, self.now], settled, steps)

    def key(self, past: tuple[int, ...]) -> Any:
        return list(self.changes)[-1 - past[0]]

    def traced(self, make: Callable[[Shapes | None], Any]) -> tuple[Any, dict[str, Any]]:
        """What ``make`` gives for the shapes with symbols, and which sizes the symbols stand for.

        It raises ``Settled`` if it needs a size as a number, or a remainder of it.
        """
        settled: set[Sides] = set()
        steps: dict[Sides, int] = {}
        while (shapes := self.shapes(settled, steps)).past:
            try:
                made = make(shapes)
            except Settled as error:
                pasts = [shapes.past[symbol.name] for symbol in error.symbols]
                if error.steps:
                    steps = shapes.finer(error)
                elif not self.joined([self.key(past) for past in pasts]):
                    settled |= {self.released(past, error.line) for past in pasts}
            except Irregular as error:
                raise SizeError(
                    f"how sizes depend on those that change cannot be found out: {error}"
                ) from None
            else:
                return made, {symbol: self.key(past) for symbol, past in shapes.past.items()}
        return make(None), {}

    def joined(self, keys: Sequence[Any]) -> bool:
        """Whether some of the sizes that a function compares can be one.

        They are equal in the example, and all but one of them have no names.
        """
        before = self.same
        for size in {self.changes[key][1] for key in keys}:
            equal = [key for key in self.changes if key in keys and self.changes[key][1] == size]
            first, *others = sorted(equal, key=lambda key: isinstance(key, tuple))
            if all([isinstance(key, tuple) for key in others]):
                pairs = self.same.items()
                self.same = {key: first if own in others else own for key, own in pairs}
        return self.same != before

    def like(self, key: Any) -> list[Change]:
        """What is said of a size, and of those that turned out to be equal to it."""
        return [self.changes[other][0] for other, own in self.same.items() if own == key]

    def released(self, past: tuple[int, ...], line: str) -> tuple[int, ...]:
        """A size that is a number after all; an error if it must not be one."""
        key = self.key(past)
        change, size = self.changes[key]
        if isinstance(change, Hint) and change.kind == "AUTO":
            return past
        name = f"of dimension {key[1]}, {size}," if isinstance(key, tuple) else key
        raise SizeError(
            f"the size {name} cannot change: a number is needed at {line}. Leave it out, or say "
            "Dim.AUTO; sizes that must be equal need one name"
        ) from None
