"""Sizes of which a remainder is known: where a function halves one, it is twice a symbol.

f32[B] cut at B//2:  B//2 and B-B//2 elements, which may not be equal
f32[2*B] cut at B:   B and B elements, of all even sizes
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import gcd, lcm
from typing import Any, NamedTuple

from rushlight.dims import Dim, Operation, Settled, Size, Symbol, made, partly, parts_of, terms_of

ROUNDS = 6  # of quotients of quotients


class Line(NamedTuple):
    """A size that is step · symbol + rest."""

    name: str
    step: int
    rest: int


@functools.lru_cache(maxsize=1024)
def line_of(size: Size) -> Line | None:
    """The line that a size is on, if it goes up with a single symbol.

    >>> B = Dim.symbol("B", 3)
    >>> line_of(2 * B + 1), line_of(B * B), line_of(7)
    (Line(name='B', step=2, rest=1), None, None)
    """
    terms = dict(terms_of(size))
    rest = terms.pop((), 0)
    if len(terms) != 1:
        return None
    ((atoms, step),) = terms.items()
    (first, *others) = atoms
    return None if others or isinstance(first, Operation) else Line(first.name, step, rest)


def lines_of(shapes: Iterable[Sequence[Size]]) -> list[Line]:
    """The lines that sizes of arguments are on, one for each symbol."""
    found = [line for shape in shapes for line in map(line_of, shape) if line is not None]
    return list({line.name: line for line in reversed(found)}.values())[::-1]


def solve(size: Size, n: int, sizes: dict[str, int]) -> bool:
    """Whether a size of an argument can be ``n``; what its symbol is then goes to ``sizes``.

    >>> sizes = {}
    >>> B = Dim.symbol("B", 3)
    >>> solve(2 * B, 8, sizes), solve(2 * B, 7, {}), solve(B + 1, 5, sizes), sizes
    (True, False, True, {'B': 4})
    """
    if type(size) is int:
        return size == n
    line = line_of(size)
    if line is None or line.step < 1 or n < line.rest or (n - line.rest) % line.step:
        return False
    found = (n - line.rest) // line.step
    return sizes.setdefault(line.name, found) == found


def need_remainders(values: Any, works: Callable[[Mapping[str, Dim]], bool], line: str) -> None:
    """An end to a trace if it ``works`` where quotients in ``values`` come out even."""
    for steps in steps_for(values):
        places = {s.name: multiple(s.name, step, s.example) for s, step in steps.items()}
        if works(places):
            by_name = {s.name: step for s, step in steps.items()}
            raise Settled([*steps], line, steps=by_name)


def steps_for(values: Any) -> Iterator[dict[Symbol, int]]:
    """Of which multiples symbols must be so that quotients of them in ``values`` come out even.

    First one symbol at a time, then all.

    >>> B, T = Dim.symbol("B", 7), Dim.symbol("T", 9)
    >>> for steps in steps_for([(B // 2) // 2, (B + T) // 3]):
    ...     print({symbol.name: step for symbol, step in steps.items()})
    {'B': 12}
    {'T': 3}
    {'B': 12, 'T': 3}
    """
    found = sorted(steps_in(values), key=lambda s: s.name)
    for symbols in [*[[symbol] for symbol in found], *([found] if len(found) > 1 else [])]:
        steps = dict.fromkeys(symbols, 1)
        for _ in range(ROUNDS):
            places = {s.name: multiple(s.name, step, s.example) for s, step in steps.items()}
            more = steps_in(partly(values, places))
            if more.keys().isdisjoint(symbols):
                yield steps
                break
            steps = {s: step * more.get(s, 1) for s, step in steps.items()}


def multiple(name: str, step: int, n: int) -> Dim:
    """The sizes that have the same remainder as ``n``."""
    size: Dim = made({(Symbol(name, n // step),): step, (): n % step})
    return size


def steps_in(values: Any) -> dict[Symbol, int]:
    """The numbers that symbols are divided by, where nothing is divided before."""
    found: dict[Symbol, int] = {}
    for operation in operations(values):
        for symbol in operation.symbols:
            terms = terms_of(operation.left).items()
            factors = [factor for atoms, factor in terms if symbol in atoms]
            step = operation.right // gcd(operation.right, *factors)
            found[symbol] = lcm(found.get(symbol, 1), step)
    return {symbol: step for symbol, step in found.items() if step > 1}


def operations(values: Any) -> Iterable[Operation]:
    """The quotients and remainders by numbers in some values that have none inside them."""
    if not isinstance(values, Dim):
        for part in parts_of(values):
            yield from operations(part)
        return
    for atom in [atom for atoms in values.terms for atom in atoms if isinstance(atom, Operation)]:
        inner = [*operations(atom.left), *operations(atom.right)]
        yield from inner
        if not inner and atom.sign in ("//", "%") and isinstance(atom.right, int):
            yield atom
