"""What the functions are built with: formats, polynomials, numbers of two words."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rushlight.codegen.values import Builder, Value

EXPANSIONS: dict[str, Callable[..., Value]] = {}
"""Each function of ``values.MATH`` by its name: (builder, operands) → basic operations."""

NAN, INFINITY = math.nan, math.inf
Pair = tuple[Value, Value]
"""A number as an unevaluated sum: its rounded value, and what that leaves over."""


def expansion(function: Callable[..., Value]) -> Callable[..., Value]:
    """Registers the expansion of the function it is named after."""
    EXPANSIONS[function.__name__] = function
    return function


@dataclass(frozen=True)
class Format:
    """A floating-point kind: its bits as an integer kind, its digits after the point."""

    kind: str
    integer: str
    digits: int
    bias: int

    @property
    def magic(self) -> float:
        """x + magic − magic is x rounded to an integer, which the low bits of x + magic hold."""
        return 1.5 * 2.0**self.digits

    @property
    def least(self) -> float:
        """The least normal number."""
        return 2.0 ** (1 - self.bias)

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next number."""
        return 2.0**-self.digits

    @property
    def one(self) -> int:
        """The bits of 1."""
        return self.bias << self.digits

    @property
    def code(self) -> str:
        """Its name in ``struct``."""
        return "<f" if self.kind == "f32" else "<d"

    def bits(self, number: float) -> int:
        """The bits of a number."""
        return int.from_bytes(struct.pack(self.code, number), "little", signed=True)

    def rounded(self, number: float) -> float:
        """The nearest number of this kind."""
        return float(struct.unpack(self.code, struct.pack(self.code, number))[0])


FORMATS = {"f32": Format("f32", "i32", 23, 127), "f64": Format("f64", "i64", 52, 1023)}


def rare(b: Builder, condition: Value, slow: Value, fast: Value) -> Value:
    """``where``, of which the slow side need only be computed if some lane asks for it."""
    return b.make("rare", fast.kind, (condition, slow, fast))


def clamp(b: Builder, x: Value, low: float, high: float) -> Value:
    """``x`` no less than low, no more than high; a NaN stays."""
    least, most = b.constant(low, x.kind), b.constant(high, x.kind)
    below = b.where(x < least, least, x)
    return b.where(below > most, most, below)


def horner(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """The polynomial with these coefficients, highest power first: exact, one step at a time."""
    y = b.constant(coefficients[0], x.kind)
    for c in coefficients[1:]:
        y = b.fma(y, x, c)
    return y


def even_odd(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """The same as an even and an odd polynomial, which a processor computes side by side."""
    if len(coefficients) <= 6:
        return horner(b, x, coefficients)
    rising, square = coefficients[::-1], x * x
    even, odd = [even_odd(b, square, rising[k::2][::-1]) for k in (0, 1)]
    return b.fma(odd, x, even)


def polynomial(b: Builder, table: Mapping[str, Sequence[float]], x: Value) -> Value:
    """A polynomial of ``coefficients.py``."""
    return even_odd(b, x, table[x.kind])


def rational(b: Builder, table: tuple[Sequence[float], Sequence[float]], x: Value) -> Value:
    """A rational function of ``kernels/tables.py``."""
    return horner(b, x, table[0]) / horner(b, x, table[1])


def power_of_two(n: Value, form: Format) -> Value:
    """2ⁿ of an integer within the range of exponents."""
    return ((n + form.bias) << form.digits).bits(form.kind)


def number(n: Value, form: Format) -> Value:
    """A small integer as a float; not every processor converts vectors of 64-bit integers."""
    if form.kind == "f32":
        return n.cast("f32")
    return (n + form.bits(form.magic)).bits(form.kind) - form.magic


def absolute(b: Builder, x: Value) -> Value:
    return b.unary("abs", x)


def square_root(b: Builder, x: Value) -> Value:
    return b.unary("sqrt", x)


def signed(x: Value) -> Value:
    """Whether the sign bit is set: of negative numbers and of −0."""
    return x.bits(FORMATS[x.kind].integer) < 0


def two_sum(x: Value, y: Value) -> Pair:
    """x + y exactly."""
    s = x + y
    t = s - x
    return s, (x - (s - t)) + (y - t)


def quick_two_sum(x: Value, y: Value) -> Pair:
    """x + y exactly, if |x| >= |y|."""
    s = x + y
    return s, y - (s - x)


def two_product(b: Builder, x: Value, y: Value) -> Pair:
    """x·y exactly."""
    p = x * y
    return p, b.fma(x, y, -p)


def add_pairs(x: Pair, y: Pair) -> Pair:
    s, e = two_sum(x[0], y[0])
    return quick_two_sum(s, e + (x[1] + y[1]))


def multiply_pairs(b: Builder, x: Pair, y: Pair) -> Pair:
    p, e = two_product(b, x[0], y[0])
    return quick_two_sum(p, e + b.fma(x[0], y[1], x[1] * y[0]))
