"""Types of results where sizes are symbols: found by trying some sizes, and fitting polynomials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.dims import (
    MORE_STEPS,
    Dim,
    Size,
    World,
    fitted,
    known,
    strange_worlds,
    symbols_of,
    worlds,
)
from rushlight.graph.ir import TensorType, Type

ENOUGH = 3  # of other sizes, to tell how a result's depends on them
Rule = Callable[[Sequence[Any], Mapping[str, Any]], Type]


class Irregular(Exception):
    """A size of a result is no simple function of those of the operands."""


class TooLarge(Exception):
    """An op would have to be tried on more elements than that is worth."""


def inferred(
    rule: Rule,
    types: Sequence[TensorType | None],
    attrs: Mapping[str, Any],
    holds: Callable[[World], bool] | None = None,
) -> Any:
    """The type that ``rule(types, attrs)`` gives, or would give for all sizes.

    Args:
        rule: the type for known sizes.
        types: of the operands.
        attrs: of the op.
        holds: whether there may be such sizes: then the rule must not fail.
    """
    sizes = [t.shape for t in types if t is not None]
    symbols = sorted(symbols_of([*sizes, *attrs.values()]), key=lambda s: s.name)
    if not symbols:
        return rule(types, attrs)

    def at(world: World) -> Type:
        kinds = [t and TensorType(known(t.shape, world), t.dtype) for t in types]
        return rule(kinds, {name: known(value, world) for name, value in attrs.items()})

    def tried(wanted: Sequence[World], possible: bool) -> list[tuple[World, Type]]:
        """What the rule gives in those worlds that are, or are not, possible: it must not fail."""
        made = []
        for world in wanted:
            if (holds is None or holds(world)) is possible:
                try:
                    made.append((world, at(world)))
                except TooLarge:
                    continue
                except Exception:
                    if possible and holds is not None:
                        raise
        return made

    here = World({symbol.name: symbol.example for symbol in symbols})
    usual, strange = (here, *worlds(symbols)), strange_worlds(symbols)
    first, others = tried(usual, possible=True), tried(strange, possible=True)
    # Impossible sizes tell less than possible ones, and more than none.
    if len(first) + len(others) < ENOUGH:
        first += tried(usual, possible=False)
    if len(others) < ENOUGH and len(symbols) > 1:
        others += tried(strange, possible=False)
    if len(first) + len(others) < ENOUGH or (len(symbols) > 1 and len(others) < ENOUGH):
        raise Irregular("there are too few sizes for which it can be found out")
    alone = [Dim({(symbol,): 1}) for symbol in symbols]  # what a difference may come to
    likely = [*slice_of(attrs), *likely_of(sizes), *likely_of(attrs.values()), *alone]
    try:
        return fitting([*first, *others], likely)
    except Irregular:
        more = tried(worlds(symbols, MORE_STEPS), possible=True)
        return fitting([*first, *others, *more], likely)


def fitting(pairs: Sequence[tuple[World, Any]], likely: Sequence[Size]) -> Any:
    """The type that is, in each of some worlds, the one found there."""
    places, found = zip(*pairs, strict=True)
    several = [t if isinstance(t, tuple) else (t,) for t in found]
    made = []
    for columns in zip(*several, strict=True):
        shapes = [t.shape for t in columns]
        if len(set(map(len, shapes))) != 1:
            raise Irregular
        shape = [fitted(each, likely, places) for each in zip(*shapes, strict=True)]
        if None in shape:
            raise Irregular(f"shapes {shapes}")
        made.append(TensorType(tuple(shape), columns[0].dtype))
    return tuple(made) if isinstance(found[0], tuple) else made[0]


def slice_of(attrs: Mapping[str, Any]) -> list[Size]:
    """How long the part is of which attributes say where it begins and ends."""
    start: Any = attrs.get("start")
    end: Any = attrs.get("end")
    return [end - start] if type(start) in (int, Dim) and type(end) in (int, Dim) else []


def likely_of(values: Any) -> list[Size]:
    """All sizes in some values, and the products of neighbours."""
    found: list[Size] = []
    for value in values:
        if isinstance(value, (tuple, list)):
            found += likely_of(value)
            whole: Any = 1
            for size in value:
                if type(size) in (int, Dim):
                    whole = whole * size
                    found.append(whole)
        elif symbols_of(value):
            found += likely_of([value.start, value.stop]) if isinstance(value, slice) else [value]
    return found
