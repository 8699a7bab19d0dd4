"""Sizes of tensors in a trace for all sizes: they pass for ints, and note what is asked."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import random
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from rushlight.dims import (
    STEPS,
    Dim,
    Settled,
    Size,
    Symbol,
    World,
    at,
    at_least,
    known,
    partly,
    parts_of,
    remade,
    symbols_of,
    worlds,
)
from rushlight.errors import PACKAGE, user_line
from rushlight.graph.host import Host
from rushlight.graph.inference import Rule, TooLarge, inferred
from rushlight.graph.ir import Node, TensorType, type_of
from rushlight.graph.multiples import line_of, need_remainders
from rushlight.graph.templates import hollow
from rushlight.ops.base import Op, registry
from rushlight.symbol import Symbol as Symbolic
from rushlight.symbol import TraceError, root
from rushlight.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.graph.trace import Trace


EXPAND, VIEW = registry["expand"], registry["view"]
TRIED = 1 << 20  # elements on which an op is tried to see the shapes of its results
ADDRESSED = 1 << 28  # elements of operands whose shapes alone are looked at
DRAWN = 128  # sizes that are tried for one that makes sense
DRAWN_STEPS = range(12)  # so that remainders by 2, 3 and 4 come out in all ways


class Sizes(threading.local):
    """What the symbols are in the call that this thread makes."""

    now: Mapping[str, int] = {}


class Condition(NamedTuple):
    """What a function was told about sizes: its graph is right as long as this holds."""

    relation: Callable[[Any, Any], bool]
    left: Size
    right: Size
    answer: bool

    @property
    def dims(self) -> frozenset[Symbol]:
        return symbols_of((self.left, self.right))

    @property
    def symbols(self) -> set[str]:
        return {s.name for s in self.dims}

    def holds(self, sizes: Mapping[str, int]) -> bool:
        return self.relation(at(self.left, sizes), at(self.right, sizes)) is self.answer

    @property
    def is_number(self) -> bool:
        """Whether this says what number a size is."""
        equal = self.relation is operator.eq and self.answer
        return equal and int in (type(self.left), type(self.right))


def sizes_apart(symbols: Iterable[Symbol], conditions: Sequence[Condition]) -> Mapping[str, int]:
    """Other sizes than those of this call, none of them equal, for which a graph makes sense.

    Of some that are drawn, the first for which all conditions hold; or else as many as can be.
    """
    all_of_them = {*symbols}.union(*[symbols_of((c.left, c.right)) for c in conditions])
    named = sorted(all_of_them, key=lambda s: s.name)
    draw, best, fewest = random.Random(0), World({}), len(conditions) + 1
    for k in range(DRAWN):
        steps = [draw.choice(DRAWN_STEPS) if k else STEPS[-1] for _ in named]
        world = World({s.name: s.sample(step) for s, step in zip(named, steps, strict=True)})
        failing = sum([not condition.holds(world) for condition in conditions])
        if failing < fewest:
            best, fewest = world, failing
        if not failing:
            break
    return best


class Extent:
    """A size that may be another one at the next call.

    It passes for an int, as ``isinstance`` says. Arithmetic gives another such size, or a number of
    the run; a comparison is answered for the sizes of this call and becomes a condition of the
    graph, unless the answer is always the same. Who needs the number itself (``range``, a key of a
    dict, functions in C) ends the trace: the next one is for this size.
    """

    __slots__ = ("dim", "extents")

    def __init__(self, extents: Extents, dim: Dim) -> None:
        self.extents, self.dim = extents, dim

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int

    def __index__(self) -> int:
        return self.extents.settle(self.dim)

    __int__ = __trunc__ = __floor__ = __ceil__ = __index__

    def __bool__(self) -> bool:
        return self.extents.decide(operator.ne, self.dim, 0)

    def __float__(self) -> float:
        return float(self.extents.settle(self.dim))

    def __hash__(self) -> int:
        return hash(self.extents.settle(self.dim))

    def symbol(self) -> Any:
        """The size as a 0-d value of the graph."""
        return number(self).symbol()

    def __repr__(self) -> str:
        return repr(self.extents.settle(self.dim))

    def __format__(self, how: str) -> str:
        return format(self.extents.settle(self.dim), how)

    def __copy__(self) -> Extent:
        return self

    def __deepcopy__(self, known: Any) -> Extent:
        return self

    def __reduce__(self) -> Any:
        return int, (self.extents.settle(self.dim),)

    def __neg__(self) -> Any:
        return self.extents.extent(-self.dim)

    def __pos__(self) -> Extent:
        return self

    def __abs__(self) -> Any:
        return self if self.extents.decide(operator.ge, self.dim, 0) else -self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, other: Any) -> Any:
        if type(other) is int and 0 <= other <= 4:
            result: Any = 1
            for _ in range(other):
                result = result * self
            return result
        return number(self) ** other

    def __rpow__(self, other: Any) -> Any:
        return other ** number(self)

    @property
    def real(self) -> Extent:
        return self

    @property
    def imag(self) -> int:
        return 0

    def conjugate(self) -> Extent:
        return self

    def bit_length(self) -> int:
        return self.extents.settle(self.dim).bit_length()


def number(x: Extent) -> Host:
    """A size as a float of the run."""
    sizes, dim, made = x.extents.sizes, x.dim, x.extents.numbers
    if dim not in made:
        read = functools.partial(count, dim, sizes)
        made[dim] = Host(x.extents.trace.numbers, read, dim)
    return made[dim]


def count(dim: Dim, sizes: Sizes) -> float:
    return float(at(dim, sizes.now))


def dim_of(x: Any) -> Any:
    return x.dim if type(x) is Extent else x


def whole(operation: Callable[..., Any], swapped: bool = False) -> Callable[..., Any]:
    """The method of an operator that makes ints of ints."""

    def method(self: Extent, other: Any) -> Any:
        if isinstance(other, Tensor):
            return NotImplemented
        if type(other) not in (int, bool, Extent):
            pair = (other, number(self)) if swapped else (number(self), other)
            return operation(*pair) if type(other) in (float, Host) else NotImplemented
        if operation in (operator.floordiv, operator.mod):
            below = self if swapped else other
            if not below:
                raise ZeroDivisionError("integer division or modulo by zero")
            if type(below) is int and below < 0:  # both signs turned, the quotient is the same
                turned = operation(-self, -below)
                return turned if operation is operator.floordiv else -turned
        pair = (dim_of(other), self.dim) if swapped else (self.dim, dim_of(other))
        return self.extents.extent(operation(*pair))

    return method


def divided(self: Extent, other: Any) -> Any:
    return NotImplemented if isinstance(other, Tensor) else number(self) / as_number(other)


def divided_by(self: Extent, other: Any) -> Any:
    return NotImplemented if isinstance(other, Tensor) else as_number(other) / number(self)


def as_number(x: Any) -> Any:
    return number(x) if type(x) is Extent else x


def relation(operation: Callable[..., Any]) -> Callable[..., Any]:
    """The method of a comparison."""

    def method(self: Extent, other: Any) -> Any:
        if type(other) in (int, bool, Extent):
            return self.extents.decide(operation, self.dim, dim_of(other))
        if type(other) in (float, Host):
            return operation(number(self), other)
        if isinstance(other, (Tensor, Host)) or not isinstance(other, (int, float)):
            return NotImplemented
        return operation(int(self), other)

    return method


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Extent, f"__{_name}__", relation(getattr(operator, _name)))
for _name in ("add", "sub", "mul", "floordiv", "mod"):
    setattr(Extent, f"__{_name}__", whole(getattr(operator, _name)))
    setattr(Extent, f"__r{_name}__", whole(getattr(operator, _name), swapped=True))
setattr(Extent, "__truediv__", divided)  # noqa: B010
setattr(Extent, "__rtruediv__", divided_by)  # noqa: B010

ASKED = {f.__code__ for f in (Extent.__index__, Extent.__float__, Tensor.__len__, Tensor.__iter__)}


CHOICES = {f.__code__ for f in (Extent.__bool__, relation(operator.eq))}


def asked_by_user(ways: Collection[CodeType] = ASKED) -> bool:
    """Whether code of the user's itself asks for a number: a loop, ``len``, ``int``."""
    frame: FrameType | None = sys._getframe(1)
    below = None
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        below, frame = frame.f_code, frame.f_back
    return below in ways


SURE = {
    operator.eq: lambda a, b: a == b,
    operator.le: lambda a, b: at_least(b, a),
    operator.ge: at_least,
    operator.lt: lambda a, b: at_least(b, a + 1),
    operator.gt: lambda a, b: at_least(a, b + 1),
}
OPPOSITE = {operator.lt: operator.ge, operator.gt: operator.le, operator.le: operator.gt,
            operator.ge: operator.lt, operator.ne: operator.eq}  # fmt: skip


class Shape(tuple):
    """Sizes of a tensor; another number of them is another shape, whatever they are."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple) or len(self) != len(other):
            return False
        return all([a == b for a, b in zip(self, other, strict=True)])

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Shape(found) if isinstance(index, slice) else found


class Extents:
    """The sizes that a trace for all sizes has met."""

    def __init__(self, trace: Trace, sizes: Sizes) -> None:
        self.trace, self.sizes = trace, sizes
        self.conditions: dict[Condition, str] = {}  # and the lines where they were decided
        self.choices: set[Condition] = set()  # those that code of the user's has asked for
        self.checked: dict[int, tuple[Any, int, bool]] = {}  # sizes with how many of them hold
        self.numbers: dict[Dim, Host] = {}

    def extent(self, size: Size) -> Any:
        return Extent(self, size) if isinstance(size, Dim) else size

    def shape(self, kind: Any) -> tuple[Any, ...] | None:
        """The shape of a value as a function sees it."""
        return Shape([self.extent(n) for n in kind.shape]) if type(kind) is TensorType else None

    def decide(self, relation: Callable[..., bool], left: Size, right: Size) -> bool:
        """The answer for the sizes of this call, on which the graph depends from now on."""
        if relation in SURE and SURE[relation](left, right):
            return True
        if relation in (operator.eq, operator.ne):
            if at_least(left, right + 1) or at_least(right, left + 1):
                return relation is operator.ne
        other = OPPOSITE.get(relation)
        if other in SURE and SURE[other](left, right):
            return False
        self.check_time()
        answer = relation(at(left, self.sizes.now), at(right, self.sizes.now))
        if relation in (operator.eq, operator.ne) and isinstance(right, int):
            if relation is operator.eq and answer and line_of(left):
                raise Settled(symbols_of(left), user_line(), chosen=True)
            if answer is (relation is operator.eq):
                need_remainders(left, lambda places: partly(left, places) == right, user_line())
        condition = Condition(relation, left, right, answer)
        if condition not in self.conditions:
            self.conditions[condition] = user_line()
        if asked_by_user(CHOICES):
            self.choices.add(condition)
        return answer

    def possible(self, sizes: Mapping[str, int]) -> bool:
        """Whether what was decided holds for these sizes, as far as it is about them alone."""
        _, count, holds = self.checked.get(id(sizes), (sizes, 0, True))
        if holds and count < len(self.conditions):
            new = itertools.islice(self.conditions, count, None)
            holds = all([c.holds(sizes) for c in new if c.symbols <= set(sizes)])
            self.checked[id(sizes)] = sizes, len(self.conditions), holds
        return holds

    def settle(self, dim: Dim) -> int:
        """An end to this trace: the next one is for that number."""
        self.check_time()
        raise Settled(symbols_of(dim), user_line(), asked=asked_by_user())

    def check_time(self) -> None:
        """An error once the trace is over: a size of its call is none of another one."""
        if self.trace.over.is_set():
            raise TraceError(
                f"a size of a finished trace is used at {user_line()}: a compiled function must "
                "not keep sizes for later, but return them"
            )

    def settle_all(self) -> NoReturn:
        """An end to this trace: the next one is for the sizes of this call."""
        raise Settled({Symbol(name, size) for name, size in self.sizes.now.items()}, user_line())

    def attribute(self, value: Any) -> Any:
        """An attribute as the graph keeps it."""
        if type(value) is Extent:
            return value.dim
        parts = parts_of(value)
        if not any([self.holds(part) for part in parts]):
            return value
        made = [self.attribute(part) for part in parts]
        return tuple(made) if type(value) is Shape else remade(value, made)

    def holds(self, value: Any) -> bool:
        return type(value) is Extent or any([self.holds(part) for part in parts_of(value)])

    def here(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes with the sizes of this call."""
        return {name: known(value, self.sizes.now) for name, value in attrs.items()}

    def plain(self, value: Any) -> Any:
        """A value with the sizes of this call in the places of those that may change."""
        return known(self.attribute(value), self.sizes.now)

    def type_of(self, op: Op, nodes: Sequence[Node | None], attrs: Mapping[str, Any]) -> Any:
        """The type of the results of an op for all sizes."""

        def rule(types: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
            most = TRIED if op.infer is None and changing else ADDRESSED
            if sum([t.size for t in types if t]) > most:
                raise TooLarge
            return type_of(self.trace.infer(op, (), [blank(t) for t in types], attrs))

        types = [None if n is None else n.type for n in nodes]
        changing = symbols_of([[t.shape for t in types if t], *attrs.values()])
        found = self.inferred(rule, types, attrs)
        if op.emit is not None and type(found) is TensorType:
            self.check_broadcast([t.shape for t in types if t], found.shape)
        return found

    def view_type(self, op: Op, base: Any, node: Node, attrs: Mapping[str, Any]) -> Any:
        """The type of a view of ``base``, whose node this is, for all sizes."""

        def rule(types: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
            return type_of(op.compute([blank(types[0])], attrs))

        if op is VIEW:
            self.check_layout(base, attrs["shape"])
        found = self.inferred(rule, [node.type], attrs)
        if op is EXPAND:
            self.check_broadcast([node.type.shape], found.shape)
        return found

    def check_broadcast(self, shapes: Sequence[Sequence[Size]], result: Sequence[Size]) -> None:
        """An end to this trace if what was decided alone makes a size 1, or that of the result.

        Code goes by sizes as they are written down.
        """
        pairs = [p for shape in shapes for p in zip(shape[::-1], result[::-1], strict=False)]
        apart = [(own, wanted) for own, wanted in pairs if own not in (1, wanted)]
        if apart:
            line = user_line()
            need_remainders(
                apart, lambda places: all([own in (1, n) for own, n in partly(apart, places)]), line
            )
            raise Settled(symbols_of(apart[0]), line)

    def check_layout(self, base: Symbolic, shape: Any) -> None:
        """An end to this trace if only some sizes allow to see ``base`` in that shape.

        Of the others, a function would get an error.
        """
        if not self.viewable(base, shape):
            raise Settled(symbols_of([base.node.type.shape, shape]), user_line())

    def viewable(self, base: Symbolic, shape: Any) -> bool:
        """Whether ``base`` can be seen in that shape without a copy, whatever the sizes are."""
        for world, array in self.looks(base, shape):
            wanted = known(shape, world)
            if math.prod(wanted) == array.size:
                try:
                    array.reshape(wanted, copy=False)
                except ValueError:
                    return False
        return True

    def lying(self, symbol: Symbolic) -> np.ndarray:
        """An array that lies in memory as the symbol's value does at sizes other than 1."""
        for _, array in self.looks(symbol, ()):
            return array
        return symbol.template

    def looks(self, symbol: Symbolic, shape: Any) -> Iterator[tuple[World, np.ndarray]]:
        """What a symbol may be like, at sizes of it and of ``shape`` other than those of now.

        Nothing if it is contiguous at all sizes.
        """
        links, whole = [], root(symbol)
        while symbol is not whole:
            links.append(symbol.how)
            symbol = symbol.base  # type: ignore[assignment]
        if whole.node is None or (not links and whole.template.flags.c_contiguous):
            return
        kind = whole.node.type
        symbols = symbols_of([kind.shape, shape, *[attrs for _, attrs in links]])
        for world in worlds(sorted(symbols, key=lambda s: s.name)):
            try:
                array = arranged(whole.template, known(kind.shape, world))
                for op, attrs in reversed(links):
                    array = op.compute([array], known(dict(attrs), world))
            except Exception:  # such sizes make no sense
                continue
            if self.possible(world):
                yield world, array

    def inferred(self, rule: Rule, types: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """The type for all sizes; where there is none, an end to this trace.

        Of a size that must be a multiple of 4, say, one factor is a number in the next trace.
        """
        try:
            return inferred(rule, types, attrs, self.possible)
        except Exception:
            sizes = [[t.shape for t in types if t], *attrs.values()]

        def works(places: Mapping[str, Size]) -> bool:
            """Whether there is one with other sizes in the places of some symbols."""

            def possible(world: World) -> bool:
                return self.possible(World({**world, **known(own, world)}))

            try:
                own = {name: size for name, size in places.items() if isinstance(size, Dim)}
                kinds = [t and TensorType(partly(t.shape, places), t.dtype) for t in types]
                inferred(rule, kinds, partly(dict(attrs), places), possible)
            except Exception:
                return False
            return True

        line, symbols = user_line(), symbols_of(sizes)
        need_remainders(sizes, works, line)
        for symbol in sorted(symbols, key=lambda s: s.name, reverse=True):
            if works({symbol.name: self.sizes.now[symbol.name]}):
                raise Settled({symbol}, line)
        raise Settled(symbols, line)


def template_of(trace: Trace, kind: TensorType) -> np.ndarray:
    """An array of a type at the sizes of this call, whose elements mean nothing."""
    sizes = {} if trace.extents is None else trace.extents.sizes.now
    return hollow(np.empty(known(kind.shape, sizes), kind.dtype.numpy))


def arranged(like: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array of another shape, with its dimensions in memory as those of ``like`` are."""
    if like.flags.c_contiguous:
        return np.empty(shape, like.dtype)
    order = sorted(range(like.ndim), key=lambda d: -like.strides[d])
    sides = [1 if like.strides[d] == 0 else shape[d] for d in order]
    return np.broadcast_to(np.empty(sides, like.dtype).transpose(np.argsort(order)), shape)


def blank(kind: TensorType | None) -> np.ndarray | None:
    """An array of a type, without memory of its own."""
    if kind is None:
        return None
    return hollow(np.broadcast_to(np.zeros((), kind.dtype.numpy), kind.shape))
