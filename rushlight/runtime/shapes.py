"""Which sizes of arguments change from call to call, and the programs that serve them all."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from rushlight.dims import LETTERS, Dim, Settled, Size
from rushlight.graph.arguments import Arguments
from rushlight.graph.extents import Condition, Sizes
from rushlight.graph.multiples import multiple, solve
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor

REMEMBERED = 1 << 16  # sizes that are known to be right
SEEN = 2  # sizes, of which one may well be an exception
MOST = 8  # programs for one kind of arguments, and sizes that decide what changes

Sides = tuple[int, ...]


class Shapes:
    """The shapes of all tensors among the arguments, symbols where they change.

    Args:
        met: all shapes, of several calls, of which the last is the present one. Sizes that were
            equal to each other at all of them have one symbol.
        settled: sizes, as they were at these calls, that are numbers all the same.
        steps: those of which the remainder by a number is known: these are multiples of a symbol.
    """

    def __init__(
        self,
        met: Sequence[Sequence[Sides]],
        settled: Iterable[Sides] = (),
        steps: Mapping[Sides, int] = MappingProxyType({}),
    ) -> None:
        self.sizes, self.steps = Sizes(), steps
        self.conditions: Mapping[Condition, str] = {}  # and the lines where they were decided
        self.line = ""  # where a size was needed as a number
        self.list: list[tuple[Size, ...]] = []
        self.right: set[Sides] = set()
        symbols: dict[Sides, Dim] = {}
        for tensors in zip(*met, strict=True):
            shape: list[Size] = []
            for past in zip(*tensors, strict=True):
                steady = len(set(past)) == 1 or past in settled
                if not steady and past not in symbols and len(symbols) < len(LETTERS):
                    letter = LETTERS[len(symbols)]
                    symbols[past] = multiple(letter, steps.get(past, 1), past[-1])
                shape.append(past[-1] if steady else symbols.get(past, past[-1]))
            self.list.append(tuple(shape))
        self.past = dict(zip(LETTERS, symbols, strict=False))
        self.sizes.now = {n: past[-1] // steps.get(past, 1) for n, past in self.past.items()}

    def match(self, shapes: Sequence[Sides]) -> Mapping[str, int] | None:
        """What the symbols are for tensors of these shapes; None if the program is not for them."""
        found = self.solved(shapes)
        if found is None:
            return None
        key = tuple(found.values())
        if key not in self.right:
            if not all([condition.holds(found) for condition in self.conditions]):
                return None
            if len(self.right) < REMEMBERED:
                self.right.add(key)
        return found

    def solved(self, shapes: Sequence[Sides]) -> dict[str, int] | None:
        """What the symbols are, whatever was decided."""
        found: dict[str, int] = {}
        for own, shape in zip(self.list, shapes, strict=True):
            for size, n in zip(own, shape, strict=True):
                if not solve(size, n, found):
                    return None
        return found

    def objection(self, shapes: Sequence[Sides]) -> str:
        """Why the program is not for tensors of these shapes."""
        found = self.solved(shapes)
        if found is not None:
            for condition, line in self.conditions.items():
                if not condition.holds(found):
                    return f"they decide what it does at {line}"
        where = f" at {self.line}" if self.line else ""
        return f"they are needed as numbers of Python's{where}"

    def finer(self, error: Settled) -> dict[Sides, int]:
        """The steps with which a function can be traced that needs remainders."""
        steps = dict(self.steps)
        for name, step in error.steps.items():
            steps[self.past[name]] = steps.get(self.past[name], 1) * step
        return steps


class AtSizes(NamedTuple):
    """A program for all sizes at some of them."""

    made: Any
    sizes: Mapping[str, int]

    def bind(self, tensors: Sequence[Tensor]) -> list[Any] | None:
        self.made.shapes.sizes.now = self.sizes
        return self.made.bind(tensors)

    def run(self, tensors: Sequence[Tensor], captured: list[Any]) -> Any:
        return self.made.run(tensors, captured)


class AnySize:
    """The programs for all sizes of one compiled function.

    The first sizes get a program of their own; the second make one in which what has changed is a
    symbol. ``dynamic`` asks for that at the first call, or (False) never.
    """

    def __init__(self, dynamic: bool | None) -> None:
        self.dynamic = dynamic
        self.known: dict[Any, list[Any]] = {}
        self.met: dict[Any, list[list[Sides]]] = {}  # the sizes that made programs, by kinds
        self.refused: dict[Any, str] = {}  # kinds with a program for each size, and why
        self.doubts: dict[Any, str] = {}  # kinds that failed, and why

    def find(self, arguments: Arguments) -> tuple[AtSizes, list[Any]] | None:
        """The program that serves a call, and what it captures."""
        if not self.known:
            return None
        shapes = shapes_of(arguments.tensors)
        for made in self.known.get(loosened(arguments.key), ()):
            sizes = made.shapes.match(shapes)
            if sizes is not None:
                made.shapes.sizes.now = sizes
                captured = made.bind(arguments.tensors, arguments.lifted)
                if captured is not None:
                    return AtSizes(made, sizes), captured
        return None

    def make(self, arguments: Arguments, specialize: Callable[..., Any]) -> Any:
        """A program for all sizes; None where there is none, or none is wanted yet."""
        kind = loosened(arguments.key)
        if self.dynamic is False or kind in self.refused:
            return None
        self.doubts.pop(kind, None)  # of a call before that failed itself
        met = self.met.setdefault(kind, first_sizes(arguments.tensors, self.dynamic))
        met.append(shapes_of(arguments.tensors))
        del met[1:-MOST]
        why = self.crowd(kind, met[-1])
        if why is not None:
            self.doubts[kind] = why
            return None
        calls, settled = met, set[Sides]()
        steps: dict[Sides, int] = {}
        line, chosen = "", False
        while (shapes := Shapes(calls, settled, steps)).past:
            try:
                made = specialize(shapes=shapes)
            except Settled as error:
                room = len(self.known.get(kind, ())) < MOST
                if error.steps:
                    steps = shapes.finer(error)
                elif calls is met and len(error.symbols) > 1 and room:  # equal ones may have to be
                    calls, settled, steps = as_now(met), set(), {}
                elif error.symbols:
                    settled |= {shapes.past[symbol.name] for symbol in error.symbols}
                else:
                    return None  # sizes that do not change are in the way
                line, chosen = error.line, chosen or error.chosen
            except TraceError:
                raise
            except Exception as error:  # the function itself may raise it: then it will again
                self.doubts[kind] = f"no program serves them all ({error})"
                return None
            else:
                shapes.line = line
                return made
        if settled and not chosen and kind not in self.known and len(met) > SEEN:
            self.doubts[kind] = f"they are needed as numbers of Python's at {line}"
        return None

    def crowd(self, kind: Any, shapes: Sequence[Sides]) -> str | None:
        """Why none of many programs serves these sizes; None if there are few, or one does."""
        known = self.known.get(kind, [])
        if len(known) < MOST or any([made.shapes.match(shapes) is not None for made in known]):
            return None
        return known[0].shapes.objection(shapes)

    def refuse(self, kind: Any) -> str | None:
        """Why arguments of this kind have a program for each size, if they do.

        One was made just now: what failed before was not the function's own affair.
        """
        if kind in self.doubts:
            self.refused[kind] = self.doubts.pop(kind)
        return self.refused.get(kind)

    def remember(self, kind: Any, made: Any) -> None:
        """Keeps a program in the place of those that have fewer symbols."""
        symbols = len(made.shapes.past)
        kept = [m for m in self.known.get(kind, ()) if len(m.shapes.past) >= symbols]
        self.known[kind] = [made, *kept][:MOST]


def shapes_of(tensors: Sequence[Tensor]) -> list[Sides]:
    return [t._array.shape for t in tensors]


def first_sizes(tensors: Sequence[Tensor], dynamic: bool | None) -> list[list[Sides]]:
    """What the sizes of a first call are compared with: −1 where a change is expected."""
    found = []
    for t in tensors:
        marked = range(t.ndim) if dynamic else marks_of(t)
        found.append(tuple([-1 if d in marked else n for d, n in enumerate(t._array.shape)]))
    return [found] if any([-1 in sides for sides in found]) else []


def as_now(met: Sequence[Sequence[Sides]]) -> list[list[Sides]]:
    """Calls by which the sizes that change have one symbol if they are equal in the last one."""
    shapes = Shapes(met).list
    first = [tuple([n if isinstance(n, int) else -1 for n in shape]) for shape in shapes]
    return [first, [*met[-1]]]


def loosened(key: tuple[Any, ...]) -> Any:
    """The key of arguments without the sizes of tensors."""
    return tuple([loose(part) if type(part) is tuple else part for part in key])


def loose(part: tuple[Any, ...]) -> Any:
    if len(part) != 6 or not isinstance(part[0], type) or not issubclass(part[0], Tensor):
        return part
    kind, shape, *rest, layout = part
    return (kind, len(shape), *rest, layout if layout is True else order(layout))


def order(strides: Sides) -> Sides:
    """What matters of strides: the order of dimensions in memory, and which have none."""
    slowest_first = sorted(range(len(strides)), key=lambda d: -strides[d])
    return (*slowest_first, *[-1 for step in strides if step == 0])


MARKED: dict[int, tuple[Any, Sides]] = {}
"""The dimensions that will change, by the identity of tensors, of which ``==`` says nothing."""


def marks_of(t: Tensor) -> Sides:
    reference, dims = MARKED.get(id(t), (lambda: None, ()))
    return dims if reference() is t else ()


def mark_dynamic(t: Tensor, index: int | Sequence[int]) -> None:
    """Sizes of ``t`` in these dimensions will change: its first program is for all of them.

    >>> x = rl.ones(3, 2)
    >>> rl.mark_dynamic(x, 0)
    >>> double = rl.compile(lambda x: x * 2)
    >>> double(x).shape, double(rl.ones(5, 2)).shape
    (rushlight.Size([3, 2]), rushlight.Size([5, 2]))
    """
    if not isinstance(t, Tensor):
        raise TypeError(f"mark_dynamic(): expected a tensor, not {type(t).__name__}")
    dims = tuple(index) if isinstance(index, (tuple, list)) else (index,)
    if not all([isinstance(d, int) for d in dims]):
        raise TypeError(f"mark_dynamic(): index must be an int, or several, not {index!r}")
    if not all([-t.ndim <= d < t.ndim for d in dims]):
        raise IndexError(f"mark_dynamic(): dimension {dims} of a tensor of {t.ndim} dimensions")
    dims = (*marks_of(t), *[d % t.ndim for d in dims])
    MARKED[id(t)] = weakref.ref(t), dims
    weakref.finalize(t, MARKED.pop, id(t), None)
