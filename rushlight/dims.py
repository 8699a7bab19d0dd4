"""Sizes that only a run knows: polynomials of symbols, with whole quotients and remainders in them.

    f32[B, T+1] → a loop of B·(T+1) turns, an element (b, t) at the place (T+1)·b + t

A symbol is a whole number from 0 on. Two sizes are equal if they are the same polynomial: then
they are equal whatever the symbols are. Nothing is ever concluded from two that merely may be
equal. Each symbol has an *example*, by which what makes no difference to results may be decided:
which loop to vectorise, how to cut it.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from types import MappingProxyType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

LETTERS = "BTSNMKLH"  # the symbols of a graph
APART = 11  # samples of different symbols differ in their remainders by it
STEPS = (0, 1, 2, 3, 7)  # so that quotients by 2, 3 and 4 come out in all ways
MIXED = range(1, 7)
NEAR = (1, -1, 2, -2, 3, -3, 5)  # a prime number of them
MORE_STEPS = range(8, 72)  # those of quotients by 2, of quotients by 2, five times

Size = Any
"""An int, or a :class:`Dim`."""

Monomial = tuple["Atom", ...]
NONE: frozenset[Any] = frozenset()


@dataclass(frozen=True, slots=True)
class Symbol:
    """A size of an argument, by its name."""

    name: str
    example: int = field(compare=False)

    @property
    def text(self) -> str:
        return self.name

    @property
    def symbols(self) -> frozenset[Symbol]:
        return frozenset((self,))

    @property
    def samples(self) -> tuple[int, ...]:
        """Other sizes, somewhat larger, by which shapes of results are found out."""
        return tuple([self.sample(k) for k in STEPS])

    def sample(self, k: int) -> int:
        first = self.example + APART
        return first + (LETTERS.index(self.name) - first) % APART + APART * k

    def at(self, sizes: Mapping[str, Size]) -> Size:
        return sizes[self.name]


class Operation:
    """A quotient, remainder, minimum or maximum (// % min max) that does not come out even."""

    __slots__ = ("example", "left", "right", "sign", "symbols", "text")

    def __init__(self, sign: str, left: Size, right: Size) -> None:
        self.sign, self.left, self.right = sign, left, right
        self.symbols = symbols_of((left, right))
        self.example: int = COMPUTE[sign](example(left), example(right))
        self.text = f"{sign}({left},{right})"
        if sign in ("//", "%"):
            self.text = f"({enclosed(left)}{sign}{enclosed(right)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operation) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def at(self, sizes: Mapping[str, Size]) -> Size:
        return COMPUTE[self.sign](at(self.left, sizes), at(self.right, sizes))


def enclosed(size: Size) -> str:
    """A size as an operand: in parentheses, if it is a sum or product."""
    text = str(size)
    return text if text.isalnum() else f"({text})"


Atom = Symbol | Operation

COMPUTE: dict[str, Callable[[Size, Size], Size]] = {
    "//": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
    "min": lambda a, b: least(a, b),
    "max": lambda a, b: greatest(a, b),
}


class Dim:
    """A size as a polynomial: whole multiples of products of atoms, and a whole number.

    >>> B, T = Dim.symbol("B", 8), Dim.symbol("T", 5)
    >>> (B + 1) * T * 2
    2*B*T+2*T
    >>> (4 * B * T) // (2 * T), (6 * B + 3) % 3, (B * T) // 2
    (2*B, 0, ((B*T)//2))
    >>> B * T == T * B, B == T
    (True, False)
    """

    __slots__ = ("example", "symbols", "terms", "text")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = dict(sorted(terms.items(), key=lambda item: [a.text for a in item[0]]))
        factors = [c * prod([a.example for a in atoms]) for atoms, c in self.terms.items()]
        self.example: int = sum(factors)
        self.symbols: frozenset[Symbol] = frozenset().union(
            *[a.symbols for atoms in self.terms for a in atoms]
        )
        self.text = self.written()

    @staticmethod
    def symbol(name: str, example: int) -> Dim:
        """A size of its own."""
        return Dim({(Symbol(name, example),): 1})

    def __repr__(self) -> str:
        return self.text

    def written(self) -> str:
        """The size as graphs show it, which says all."""
        parts = []
        for atoms, factor in sorted(self.terms.items(), key=lambda item: -len(item[0])):
            names = [atom.text for atom in atoms]
            if not atoms or abs(factor) != 1:
                names.insert(0, str(abs(factor)))
            parts.append(("-" if factor < 0 else "+") + "*".join(names))
        return "".join(parts).removeprefix("+")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __index__(self) -> int:
        raise TypeError(f"the size {self} is known at a run only")

    def __bool__(self) -> bool:
        """A size that is not known to be 0 is treated as one that is not."""
        return True

    def __neg__(self) -> Size:
        return multiplied(self, -1)

    def __pos__(self) -> Dim:
        return self


def operator_of(compute: Callable[[Size, Size], Size], swapped: bool = False) -> Callable[..., Any]:
    """The method of an operator."""

    def method(self: Dim, other: Any) -> Any:
        if not isinstance(other, (int, Dim)):
            return NotImplemented
        return compute(other, self) if swapped else compute(self, other)

    return method


def terms_of(size: Size) -> dict[Monomial, int]:
    return size.terms if isinstance(size, Dim) else {(): size} if size else {}


def made(terms: Mapping[Monomial, int]) -> Size:
    """The size of these terms: an int if it is known now."""
    kept = {atoms: factor for atoms, factor in terms.items() if factor}
    return kept.get((), 0) if set(kept) <= {()} else Dim(kept)


def added(a: Size, b: Size) -> Size:
    total = dict(terms_of(a))
    for atoms, factor in terms_of(b).items():
        total[atoms] = total.get(atoms, 0) + factor
    return made(total)


def multiplied(a: Size, b: Size) -> Size:
    total: dict[Monomial, int] = {}
    for left, m in terms_of(a).items():
        for right, n in terms_of(b).items():
            atoms = tuple(sorted((*left, *right), key=lambda atom: atom.text))
            total[atoms] = total.get(atoms, 0) + m * n
    return made(total)


def divided(a: Size, b: Size) -> tuple[Size, Size]:
    """(q, r) with a = q · b + r: q of the terms that a single term divides evenly.

    A sum divides all of ``a``, or nothing.
    """
    terms = terms_of(b)
    if len(terms) != 1:
        found = ratio(a, b)
        return (0, a) if found is None else (found, 0)
    ((below, divisor),) = terms.items()
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for atoms, factor in terms_of(a).items():
        left = without(atoms, below)
        if left is None or (factor % divisor and below):
            rest[atoms] = factor
        else:  # of an int, multiples come out, and 0 … divisor − 1 stays: one form for one size
            whole[left] = factor // divisor
            rest[atoms] = factor % divisor
    return made(whole), made(rest)


def ratio(a: Size, b: Size) -> Size | None:
    """The polynomial q with a = q · b, if there is one: long division by the leading terms.

    >>> T = Dim.symbol("T", 5)
    >>> ratio(T * T + 4 * T + 4, T + 2), ratio(T, T + 2)
    (T+2, None)
    """
    if b == 0:
        return None
    whole: Size = 0
    below, divisor = leading(terms_of(b))
    while a != 0:
        atoms, factor = leading(terms_of(a))
        left = without(atoms, below)
        if left is None or factor % divisor:
            return None
        part = made({left: factor // divisor})
        whole, a = added(whole, part), added(a, multiplied(part, multiplied(b, -1)))
    return whole


def leading(terms: Mapping[Monomial, int]) -> tuple[Monomial, int]:
    """The term of the highest degree, of several the one that comes first by its names."""
    return min(terms.items(), key=lambda item: (-len(item[0]), [atom.text for atom in item[0]]))


def without(atoms: Monomial, others: Monomial) -> Monomial | None:
    """A product without some of its factors; None if it lacks one of them."""
    left = list(atoms)
    for atom in others:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def quotient(a: Size, b: Size) -> Size:
    whole, rest = divided(a, b)
    if isinstance(rest, int) and isinstance(b, int):
        return whole + rest // b
    return whole if rest == 0 else whole + Dim({(Operation("//", rest, b),): 1})


def remainder(a: Size, b: Size) -> Size:
    _, rest = divided(a, b)
    if isinstance(rest, int) and isinstance(b, int):
        return rest % b
    return 0 if rest == 0 else Dim({(Operation("%", rest, b),): 1})


def least(a: Size, b: Size) -> Size:
    """The smaller one of two sizes."""
    if not isinstance(a, Dim) and not isinstance(b, Dim):
        return min(a, b)
    return a if a == b else Dim({(Operation("min", a, b),): 1})


def greatest(a: Size, b: Size) -> Size:
    """The larger one of two sizes."""
    if not isinstance(a, Dim) and not isinstance(b, Dim):
        return max(a, b)
    return a if a == b else Dim({(Operation("max", a, b),): 1})


def example(size: Size) -> int:
    """A size as it was seen once: for decisions that make no difference to results."""
    return size.example if isinstance(size, Dim) else size


def at(size: Size, sizes: Mapping[str, Size]) -> Any:
    """A size, with the symbols known."""
    if isinstance(size, int):
        return size
    memo = sizes.memo if type(sizes) is World else {}
    if size.text not in memo:
        memo[size.text] = sum(
            [c * prod([a.at(sizes) for a in atoms]) for atoms, c in size.terms.items()]
        )
    return memo[size.text]


def partly(value: Any, sizes: Mapping[str, Size]) -> Any:
    """A value with numbers, or other sizes, in the places of some symbols."""
    return known(value, {**{s.name: Dim({(s,): 1}) for s in symbols_of(value)}, **sizes})


def is_known(sizes: Iterable[Any]) -> bool:
    """Whether there is no symbol in any of some sizes."""
    return not any([isinstance(size, Dim) for size in sizes])


def divisor(size: Size) -> int:
    """A number that divides a size whatever its symbols are."""
    return gcd(*terms_of(size).values()) if isinstance(size, Dim) else size


def at_least(a: Size, b: Size) -> bool:
    """Whether ``a ≥ b`` whatever the symbols are, as far as can be seen.

    >>> T = Dim.symbol("T", 5)
    >>> at_least(T + 2, 1), at_least(T, 2), at_least(T, 2 * (T // 2))
    (True, False, True)
    >>> at_least(least(T - 1, -1), 0), at_least(greatest(T - 1, 0), 0)
    (False, True)
    """
    difference = a - b
    tried = [difference, rounded(difference, down=False), rounded(difference)]
    return any([all(map(is_natural, terms_of(size).items())) for size in tried])


def is_natural(term: tuple[Monomial, int]) -> bool:
    """Whether a term is 0 or more whatever its symbols are; quotients are, where they are sizes."""
    atoms, factor = term
    return factor >= 0 and not any([may_be_negative(atom) for atom in atoms])


def may_be_negative(atom: Atom) -> bool:
    """Whether an atom is a minimum or maximum that can be below 0."""
    if not isinstance(atom, Operation) or atom.sign not in ("min", "max"):
        return False
    known = [at_least(atom.left, 0), at_least(atom.right, 0)]
    return not (all(known) if atom.sign == "min" else any(known))


def rounded(size: Size, down: bool = True) -> Size:
    """A size that is not greater, without quotients that are taken away, or (down) with any.

    x − n + 1 ≤ n · (x // n) ≤ x
    """
    total: Size = 0
    for atoms, factor in terms_of(size).items():
        part = made({atoms: factor})
        atom = atoms[0] if len(atoms) == 1 else None
        if isinstance(atom, Operation) and atom.sign == "//" and (down or factor < 0):
            n = atom.right
            if isinstance(n, int) and n > 0 and factor % n == 0:
                part = (atom.left - (n - 1 if factor > 0 else 0)) * (factor // n)
        total = total + part
    return total


def positive(size: Size, others: Iterable[Size]) -> bool:
    """Whether a size is at least 1 wherever others are, as far as single atoms say it.

    >>> T = Dim.symbol("T", 5)
    >>> positive(2 * T - 2, [T - 1]), positive(T - 4, [T // 2 - 2]), positive(2 * T - 2, [T])
    (True, True, False)
    """
    least = floors(others)
    raised: Size = 0
    for atoms, factor in terms_of(size).items():
        part: Size = factor
        for atom in atoms:
            part = multiplied(part, added(made({(atom,): 1}), least.get(atom, 0)))
        raised = added(raised, part)
    return at_least(raised, 1)


def floors(sizes: Iterable[Size]) -> dict[Atom, int]:
    """The least that atoms are where all of some sizes are at least 1."""
    found: dict[Atom, int] = {}
    told = [size for size in sizes if isinstance(size, Dim)]
    for size in told:
        (atoms, factor), constant = leading(size.terms), size.terms.get((), 0)
        if len(atoms) != 1 or factor < 0 or size != made({atoms: factor, (): constant}):
            continue
        (atom,), least = atoms, max(0, -((constant - 1) // factor))
        found[atom] = max(least, found.get(atom, 0))
        if isinstance(atom, Operation) and atom.sign == "//" and isinstance(atom.right, int):
            told.append(atom.left - least * atom.right + 1)
    return found


def symbols_of(value: Any) -> frozenset[Symbol]:
    """The symbols in a size, or in the sizes that a tuple, slice or the like holds."""
    if isinstance(value, Dim):
        return value.symbols
    return NONE.union(*map(symbols_of, parts_of(value)))


def parts_of(value: Any) -> Iterable[Any]:
    if isinstance(value, (tuple, list)):
        return value
    if isinstance(value, slice):
        return value.start, value.stop, value.step
    return value.values() if isinstance(value, dict) else ()


def remade(value: Any, parts: Sequence[Any]) -> Any:
    """A tuple, slice or the like with other :func:`parts_of`."""
    if isinstance(value, slice):
        return slice(*parts)
    if isinstance(value, dict):
        return dict(zip(value, parts, strict=True))
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def known(value: Any, sizes: Mapping[str, Size]) -> Any:
    """A value with numbers in the places of symbols."""
    if isinstance(value, Dim):
        return at(value, sizes)
    if not symbols_of(value):
        return value
    parts = [known(part, sizes) for part in parts_of(value)]
    return remade(value, parts)


class World(dict[str, int]):
    """What symbols might be, by their names; sizes are worked out once in each."""

    __slots__ = ("memo",)

    def __init__(self, sizes: Mapping[str, int]) -> None:
        super().__init__(sizes)
        self.memo: dict[str, Any] = {}


def once_for_each(function: Callable[..., Sequence[World]]) -> Callable[..., Sequence[World]]:
    """Worlds of symbols, the same for symbols of the same names and examples."""

    @functools.lru_cache(maxsize=256)
    def made_once(names: tuple[tuple[str, int], ...], *others: Any) -> Sequence[World]:
        return tuple(function([Symbol(*pair) for pair in names], *others))

    @functools.wraps(function)
    def call(symbols: Sequence[Symbol], *others: Any) -> Sequence[World]:
        return made_once(tuple([(s.name, s.example) for s in symbols]), *others)

    return call


@once_for_each
def worlds(symbols: Sequence[Symbol], steps: Iterable[int] = STEPS) -> Sequence[World]:
    """Sizes that symbols might have together."""
    return [World({s.name: s.sample(k) for s in symbols}) for k in steps]


@once_for_each
def strange_worlds(symbols: Sequence[Symbol]) -> Sequence[World]:
    """Sizes that do not go up together, those of each other, those nearby, and small ones.

    Not all may make sense, but which one is smaller changes, and so do all differences.
    """
    place = {s: LETTERS.index(s.name) for s in symbols}
    mixed = [
        {s.name: s.sample((k * k * (i + 1) + k) % 13) for s, i in place.items()} for k in MIXED
    ]
    turns = [1, len(symbols) - 1] if len(symbols) > 1 else []
    swapped = [
        {s.name: symbols[i - turn].samples[k] for i, s in enumerate(symbols)}
        for k, turn in enumerate(turns)
    ]
    small = [{s.name: (k * (i + 1) + i) % 5 for s, i in place.items()} for k in range(5)]
    near = [
        {s.name: max(0, s.example + NEAR[k * (i + 1) % len(NEAR)]) for s, i in place.items()}
        for k in range(len(NEAR))
    ]
    return [*map(World, [*(mixed if len(symbols) > 1 else ()), *swapped, *near, *small])]


def fitted(found: Sequence[int], likely: Iterable[Size], places: Sequence[World]) -> Size | None:
    """The size that is ``found[k]`` in the k-th of ``places``; None if there is no simple one.

    Args:
        found: numbers, one in each world.
        likely: sizes that it may well be, or be the product of.
    """
    if len(set(found)) == 1:
        return found[0]
    dims = list(dict.fromkeys([d for d in likely if isinstance(d, Dim)]))
    values = {d: [at(d, w) for w in places] for d in dims}
    for d in dims:
        if values[d] == [*found]:
            return d
    pairs = [*itertools.combinations_with_replacement(dims, 2)]
    tried: list[tuple[Callable[..., Size], tuple[Dim, ...]]] = [(operator.pos, (d,)) for d in dims]
    tried += [(how, pair) for how in (operator.mul, operator.add) for pair in pairs]
    tried += [(operator.sub, pair) for pair in itertools.permutations(dims, 2)]
    for how, some in tried:
        line = on_line(found, [*map(how, *[values[d] for d in some])])
        if line is not None:
            whole = added(multiplied(how(*some), line[0]), line[1])
            return whole if line[2] == 1 else whole // line[2]
    return None


def on_line(y: Sequence[int], x: Sequence[int]) -> tuple[int, int, int] | None:
    """The only (a, b, c) with y = ⌊(a·x + b) / c⌋ for all pairs and the smallest c."""
    for c in range(1, 9):
        for a in range(1, 9):
            # Each pair allows b from c·y − a·x up to c − 1 more.
            least = max([c * n - a * m for n, m in zip(y, x, strict=True)])
            most = min([c * n - a * m for n, m in zip(y, x, strict=True)]) + c - 1
            if least <= most and gcd(a, c) == 1:
                return (a, least, c) if least == most else None
    return None


def broadcast(*shapes: Sequence[Size]) -> tuple[Size, ...]:
    """The shape of what is computed element by element from operands of these shapes."""
    result: list[Any] = []
    for column in itertools.zip_longest(*[shape[::-1] for shape in shapes], fillvalue=1):
        wide = [n for n in column if type(n) is not int or n != 1] or [1]
        if any([n != wide[0] for n in wide]):
            raise ValueError(f"sizes {wide[0]} and {wide[1]} do not match")
        result.append(wide[0])
    return tuple(result[::-1])


def index(n: Any) -> Any:
    """``operator.index`` of an int; a size that may change stays what it is."""
    return operator.index(n) if type(n) is int or not isinstance(n, int) else as_size(n)


def as_size(n: Any) -> Any:
    """A size of a trace for all sizes as it is; another kind of int as an int."""
    return n if is_extent(n) else operator.index(n)


def is_extent(n: Any) -> bool:
    """Whether an int is a size that may change (``graph/extents.py``)."""
    return type(n).__name__ == "Extent"


def is_of_run(n: Any) -> bool:
    """Whether a number may be another one at the next call: a size, or a float of the host's."""
    return type(n).__name__ in ("Extent", "Host")


def is_one(n: Any) -> bool:
    """Whether a size is 1 at every call."""
    return not is_extent(n) and n == 1


def is_zero(n: Any) -> bool:
    """Whether a size is 0 at every call: for a short way that none of the others depends on."""
    return not is_extent(n) and n == 0


def inverse(n: Any) -> Any:
    """1 / n, and infinity of none: a sum of nothing by the number of its terms is NaN.

    >>> inverse(4), inverse(0)
    (0.25, inf)
    """
    return 1 / (n + LEAST)


LEAST = 5e-324  # adds nothing to a whole number but 0


def same_shape(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two shapes of a trace are equal at all sizes; nothing is asked of those of a call."""
    return [n.dim if is_extent(n) else n for n in a] == [n.dim if is_extent(n) else n for n in b]


def usual(n: Any) -> int:
    """A size of a trace as it is in this call: for decisions that make no difference to results."""
    return n.dim.example if is_extent(n) else n


class Settled(BaseException):
    """A function needs the number that a size is: its symbols are known in the next trace.

    ``chosen`` if it has asked for just this number, and may do without another one. If there are
    ``steps``, then the remainders by these are enough. If it was ``asked`` for by code of the
    user's, by ``range`` or ``len``, then that may do without it once it is converted.
    """

    def __init__(
        self,
        symbols: Collection[Symbol],
        line: str,
        chosen: bool = False,
        steps: Mapping[str, int] = MappingProxyType({}),
        asked: bool = False,
    ) -> None:
        super().__init__(f"{', '.join([s.name for s in symbols])} at {line}")
        self.symbols, self.line, self.chosen, self.steps = symbols, line, chosen, steps
        self.asked = asked


def by_sizes(function: F) -> F:
    """``function`` with its results remembered, but for sizes that may change."""
    inner = functools.lru_cache(maxsize=1024)(function)

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        try:
            return inner(*args)
        except Settled:
            return function(*args)

    return call  # type: ignore[return-value]


OPERATORS: dict[str, Callable[[Size, Size], Size]] = {
    "add": added,
    "sub": lambda a, b: added(a, multiplied(b, -1)),
    "mul": multiplied,
    "floordiv": quotient,
    "mod": remainder,
}
for _name, _compute in OPERATORS.items():
    setattr(Dim, f"__{_name}__", operator_of(_compute))
    setattr(Dim, f"__r{_name}__", operator_of(_compute, swapped=True))
