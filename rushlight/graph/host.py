"""Numbers of the host program inside a trace: a learning rate that a schedule changes each step."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.errors import user_line
from rushlight.graph.ir import CAPTURED, Node, type_of
from rushlight.graph.reads import is_users_file
from rushlight.symbol import Symbol
from rushlight.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.graph.trace import Trace

LIFTED = (float, np.float64)
"""The types of floats that can be numbers of the run."""


class Host:
    """A Python float that is read anew at each call of the compiled function.

    It passes for a float, as ``isinstance`` says. Arithmetic with numbers gives another such
    number, which Python computes at each call; with tensors, it is part of the graph. A comparison
    or its truth is answered at once, and becomes a condition of the graph: if the answer changes,
    another graph is made. Whoever needs the value itself (``int``, ``round``, ``math``, a text, a
    key of a dict) gets it, and then the graph is one for this value.

    It cannot inherit from float: functions in C would take the value without asking.
    """

    __slots__ = ("formula", "kind", "now", "numbers", "read", "steps")
    now: Any
    steps: int

    def __init__(self, numbers: Numbers, read: Callable[[], float], formula: Any = "") -> None:
        self.numbers, self.formula = numbers, formula
        if isinstance(formula, tuple):  # (operation, *operands), or else what it is called
            operation, *operands = formula
            self.now = operation(*[x.now if type(x) is Host else x for x in operands])
            steps = 1 + sum([x.steps for x in operands if type(x) is Host])
        else:
            self.now, steps = read(), 1
        self.read, self.steps = (read, steps) if steps < MANY else (Straight(self), MANY)
        self.kind = type(self.now)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return self.kind

    def __float__(self) -> float:
        """The value; the graph is right for no other one."""
        self.numbers.asked.append(self)
        return self.numbers.settle(self.read)

    def symbol(self) -> Symbol:
        """The number as a 0-d value of the graph."""
        return self.numbers.symbol(self)

    def __bool__(self) -> bool:
        self.numbers.asked.append(self)
        self.numbers.note_branch()
        return self.numbers.decide(lambda: bool(self.read()))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(float(self), dtype)

    def __reduce__(self) -> Any:
        return self.kind, (float(self),)

    def __copy__(self) -> Host:
        return self

    def __deepcopy__(self, known: Any) -> Host:
        return self

    def conjugate(self) -> Host:
        return self

    @property
    def real(self) -> Host:
        return self

    @property
    def imag(self) -> float:
        return 0.0


DEEPEST = 3  # formulas within each other that have words
WORDS = {
    "neg": "minus", "sub": "minus", "add": "plus", "mul": "times", "truediv": "over",
    "pow": "to the power of",
}  # fmt: skip


def in_words(number: Any, depth: int = 0) -> str:
    """What a number is called, with the names of those it is computed from; "" if it has none.

    A formula of many steps has none, either.
    """
    if type(number) is not Host:
        return f"{number:g}" if type(number) in (int, *LIFTED) else ""
    if not isinstance(number.formula, tuple):
        return str(number.formula)
    operation, *operands = number.formula
    name = operation.__name__.strip("_")
    parts = [in_words(operand, depth + 1) for operand in operands] if depth < DEEPEST else [""]
    if not all(parts):
        return ""
    text = f" {WORDS.get(name, name)} ".join(["", *parts] if len(parts) == 1 else parts).strip()
    return f"({text})" if depth else text


MANY = 64  # steps, from which on each number that a formula shares is read once


class Straight:
    """Reads a formula of many steps: all numbers it is made of, each after its operands."""

    def __init__(self, number: Host) -> None:
        self.number = number

    @functools.cached_property
    def order(self) -> list[Host]:
        """The numbers, without those that have no formula."""
        made: list[Host] = []
        found, open_numbers = {id(self.number)}, [(self.number, iter(self.number.formula))]
        while open_numbers:
            number, operands = open_numbers[-1]
            for x in operands:
                if type(x) is Host and isinstance(x.formula, tuple) and id(x) not in found:
                    found.add(id(x))
                    open_numbers.append((x, iter(x.formula)))
                    break
            else:
                made.append(number)
                open_numbers.pop()
        return made

    def __call__(self) -> float:
        values: dict[int, float] = {}
        for number in self.order:
            operation, *operands = number.formula
            known = [values[id(x)] if id(x) in values else value(x) for x in operands]
            values[id(number)] = operation(*known)
        return values[id(self.number)]


class Numbers:
    """The numbers of the host program that a trace has met."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.known: dict[Any, Host] = {}  # results of arithmetic, by operation and operands
        self.symbols: dict[int, tuple[Host, Symbol]] = {}
        self.settled: str | None = None  # the line where a value was needed first
        self.asked: list[Any] = []  # the numbers on whose values the graph depends
        self.branch: str | None = None  # the line of the user's that compares one

    def decide(self, question: Callable[[], Any]) -> Any:
        """The answer, on which the graph depends from now on."""
        answer = question()
        self.trace.decide(question, answer)
        return answer

    def note_branch(self) -> None:
        """Notes that code of the user's may go one way or the other, by what a number is."""
        code = sys._getframe(2).f_code
        if self.branch is None and is_users_file(code.co_filename):
            self.branch = user_line()

    def settle(self, read: Callable[[], float]) -> Any:
        """The value of a number, on which the graph depends from now on."""
        self.settled = self.settled or user_line()
        self.decide(lambda: repr(read()))  # which tells 0.0 from -0.0, and knows NaN
        return read()

    def combine(self, operation: Callable[..., Any], *operands: Any) -> Any:
        """The result of an operation on numbers, as a number; a complex one is a constant."""
        key = (operation, *[id(x) if type(x) is Host else (type(x), repr(x)) for x in operands])
        found = self.known.get(key)
        if found is None:
            formula = (operation, *operands)
            found = Host(self, lambda: operation(*map(value, operands)), formula)
            if operation is operator.pow and self.decide(lambda: type(found.read())) is complex:
                return self.settle(found.read)
            self.known[key] = found
        return found

    def symbol(self, number: Host) -> Symbol:
        """The number as a 0-d value of the graph."""
        if id(number) not in self.symbols:
            array = np.array(number.read(), np.float64)
            symbol = Symbol(self.trace, Node(CAPTURED, (), {}, type_of(array)), array)
            self.trace.capture_number(symbol, number.read, in_words(number))
            self.symbols[id(number)] = (number, symbol)
        return self.symbols[id(number)][1]


PLAIN = (Host, float, int, bool)


def value(x: Any) -> Any:
    return x.read() if type(x) is Host else x


def arithmetic(operation: Callable[..., Any], swapped: bool = False) -> Callable[[Host, Any], Any]:
    """The method of an operator: ``self ∘ other``, or ``other ∘ self``."""

    def method(self: Host, other: Any) -> Any:
        if isinstance(other, Tensor):
            return NotImplemented
        number: Any = self if type(other) in PLAIN else float(self)
        operands = (other, number) if swapped else (number, other)
        return (
            self.numbers.combine(operation, *operands) if number is self else operation(*operands)
        )

    return method


def relation(operation: Callable[..., Any]) -> Callable[[Host, Any], Any]:
    """The method of a comparison."""

    def method(self: Host, other: Any) -> Any:
        if type(other) in PLAIN:
            self.numbers.asked += (self, other)
            self.numbers.note_branch()
            return self.numbers.decide(lambda: operation(self.read(), value(other)))
        if isinstance(other, (Number, np.generic, np.ndarray)):
            return operation(float(self), other)
        return NotImplemented

    return method


def unary(operation: Callable[..., Any]) -> Callable[[Host], Any]:
    return lambda self: self.numbers.combine(operation, self)


def asking(name: str) -> Callable[..., Any]:
    """A method of floats that needs the value."""
    return lambda self, *args: getattr(float(self), name)(*args)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Host, f"__{_name}__", relation(getattr(operator, _name)))
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Host, f"__{_name}__", arithmetic(getattr(operator, _name)))
    setattr(Host, f"__r{_name}__", arithmetic(getattr(operator, _name), swapped=True))
for _name in ("neg", "pos", "abs"):
    setattr(Host, f"__{_name}__", unary(getattr(operator, _name)))
for _name in (
    "__int__", "__trunc__", "__round__", "__floor__", "__ceil__", "__divmod__", "__rdivmod__",
    "__hash__", "__repr__", "__str__", "__format__", "is_integer", "as_integer_ratio", "hex",
):  # fmt: skip
    setattr(Host, _name, asking(_name))
