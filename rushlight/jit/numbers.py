"""Numbers that a program reads at each call: learning rates, and what is computed from them.

A formula is plain data: ``["sub", 1.0, ["number", "betas[0]"]]``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from rushlight.dims import Dim, at
from rushlight.graph.host import Host
from rushlight.graph.parse import parse_size

Formula = Any
UNARY = ("neg", "pos", "abs")
OPERATIONS = {
    name: getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", *UNARY)
}


class Formulas:
    """Writes down the formulas of numbers of a trace.

    Args:
        arguments: the numbers that are arguments, in order.

    What is neither an argument nor computed has a name, and a value in ``named``.
    """

    def __init__(self, arguments: Sequence[Any]) -> None:
        self.places = {id(number): i for i, number in enumerate(arguments)}
        self.named: dict[str, float] = {}
        self.names: dict[int, str] = {}
        self.readers: dict[str, list[Callable[[], float]]] = {}

    def of(self, number: Any) -> Formula:
        if not isinstance(number, Host):
            return float(number)
        if id(number) in self.places:
            return ["argument", self.places[id(number)]]
        if isinstance(number.formula, Dim):
            return ["size", str(number.formula)]
        if isinstance(number.formula, tuple):
            operation, *operands = number.formula
            return [operation.__name__.strip("_"), *map(self.of, operands)]
        return ["number", self.name(number)]

    def name(self, number: Host) -> str:
        """The name of a number; two of one name and value are the same number."""
        if id(number) not in self.names:
            label, value = number.formula or "number", float(number.read())
            name, count = label, 2
            while self.named.setdefault(name, value) != value:
                name, count = f"{label}#{count}", count + 1
            self.names[id(number)] = name
            self.readers.setdefault(name, []).append(number.read)
        return self.names[id(number)]

    def arguments_in(self, number: Any) -> set[int]:
        """The arguments that a number is computed from."""
        if not isinstance(number, Host):
            return set()
        if id(number) in self.places:
            return {self.places[id(number)]}
        operands = number.formula[1:] if isinstance(number.formula, tuple) else ()
        return set().union(*map(self.arguments_in, operands))


class Values(NamedTuple):
    """What formulas are computed from: named numbers, arguments that are floats, and sizes."""

    named: Mapping[str, float]
    arguments: Sequence[float] = ()
    sizes: Mapping[str, int] = MappingProxyType({})


def evaluated(formula: Formula, values: Values) -> float:
    """The value of a formula.

    >>> evaluated(["sub", 1.0, ["number", "beta"]], Values({"beta": 0.25}))
    0.75
    """
    if isinstance(formula, float):
        return formula
    kind, *operands = formula
    if kind == "number":
        return values.named[operands[0]]
    if kind == "argument":
        return values.arguments[operands[0]]
    if kind == "size":
        return float(at(operands[0], values.sizes))
    return OPERATIONS[kind](*[evaluated(each, values) for each in operands])


def with_sizes(formula: Formula, symbols: Mapping[str, Dim]) -> Formula:
    """A formula whose sizes, which are texts in a file, can be computed."""
    if isinstance(formula, float):
        return formula
    kind, *operands = formula
    if kind == "size":
        return [kind, parse_size(operands[0], symbols)]
    if kind in OPERATIONS:
        return [kind, *[with_sizes(each, symbols) for each in operands]]
    return formula


def checked(
    formula: Any, named: Mapping[str, float], arguments: int, symbols: Mapping[str, Dim]
) -> Formula:
    """A formula of a file: an error unless it is one."""
    if isinstance(formula, float):
        return formula
    kind, *operands = formula
    if kind == "number":
        if operands[0] not in named:
            raise ValueError(f"there is no number {operands[0]!r:.40}")
    elif kind == "argument":
        if type(operands[0]) is not int or not 0 <= operands[0] < arguments:
            raise ValueError(f"there is no argument {operands[0]!r:.40}")
    elif kind == "size":
        parse_size(operands[0], symbols)
    elif kind not in OPERATIONS or len(operands) != (1 if kind in UNARY else 2):
        raise ValueError(f"{kind!r:.40} is no operation on numbers")
    else:
        for each in operands:
            checked(each, named, arguments, symbols)
    return formula
