"""The scalars of a program with the face of 0-d arrays, so that NumPy kernels run on them.

A kernel of ufuncs, operators and ``np.where`` needs no second formula for generated code: run on
scalars it says, in the words of a builder, what it computes on arrays.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

NUMPY = {
    "b1": np.dtype(np.bool_), "i8": np.dtype(np.int8), "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32), "i64": np.dtype(np.int64), "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16), "u32": np.dtype(np.uint32), "u64": np.dtype(np.uint64),
    "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
}  # fmt: skip
"""The kinds of scalars that are computed with, as dtypes."""
KIND = {dtype: kind for kind, dtype in NUMPY.items()}
LOG_2 = math.log(2)


def run(b: Any, kernel: Callable[..., Any], values: Sequence[Any], **attrs: Any) -> Any:
    """What ``kernel`` computes, as a value of the builder ``b``."""
    return kernel(*[Scalar(b, value) for value in values], **attrs).value


class Scalar(NDArrayOperatorsMixin):
    """A value of the builder ``b``; a kernel may write to it as to an array (``+=``, ``out=``)."""

    __slots__ = ("b", "value")

    ndim, size = 0, 1
    shape: tuple[int, ...] = ()

    def __init__(self, b: Any, value: Any) -> None:
        self.b, self.value = b, value

    def __bool__(self) -> bool:
        raise TypeError("the kernel branches on a value: its op needs an emit rule of its own")

    @property
    def dtype(self) -> np.dtype:
        return NUMPY[self.value.kind]

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    def conjugate(self) -> Scalar:
        return self

    def copy(self) -> Scalar:
        return Scalar(self.b, self.value)

    def astype(self, dtype: Any, copy: bool = True) -> Scalar:
        return Scalar(self.b, self.value.cast(KIND[np.dtype(dtype)]))

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any
    ) -> Any:
        rule = UFUNCS.get(ufunc)
        if rule is None or method != "__call__" or options:
            return NotImplemented
        value = rule(self.b, *alike(self.b, inputs))
        if out is None:
            return Scalar(self.b, value)
        (target,) = out
        target.value = value.cast(target.value.kind)
        return target

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        rule = FUNCTIONS.get(function)
        return NotImplemented if rule is None else Scalar(self.b, rule(self.b, *args, **options))


NUMBERS = frozenset((bool, int, float))  # Python's own: they take the dtype beside them


def is_scalar(x: Any) -> bool:
    """Whether a kernel is run to be written down."""
    return isinstance(x, Scalar)


def alike(b: Any, inputs: Sequence[Any]) -> list[Any]:
    """Scalars, arrays and numbers as values of one kind, by NumPy's promotion."""
    kind = KIND[np.result_type(*[x if type(x) in NUMBERS else x.dtype for x in inputs])]
    return [
        x.value.cast(kind) if isinstance(x, Scalar) else b.constant(np.asarray(x).item(), kind)
        for x in inputs
    ]


def polynomial(b: Any, coefficients: Sequence[float], t: Any) -> Any:
    """Horner's rule, highest power first, each step rounded once."""
    first, *rest = coefficients
    y: Any = b.constant(first, t.kind)
    for c in rest:
        y = b.fma(y, t, c)
    return y


def horner(coefficients: Sequence[float], t: Any) -> Any:
    """:func:`polynomial` of a scalar."""
    return Scalar(t.b, polynomial(t.b, coefficients, t.value))


def piecewise(arguments: Any, pieces: Sequence[tuple[Any, Callable[..., Any]]]) -> Any:
    """Each formula where its condition holds, NaN where none does; all are computed."""
    y: Any = np.full_like(arguments[0], math.nan)
    for condition, formula in reversed(pieces):
        y = np.where(condition, formula(*[a.copy() for a in arguments]), y)
    return y


def is_signed(x: Any) -> bool:
    return x.kind.startswith("i")


def classified(b: Any, x: Any, relation: str, others: bool) -> Any:
    """How |x| relates to infinity; ``others``, what is said of integers."""
    if not x.is_float:
        return b.constant(others, "b1")
    return b.binary(relation, b.unary("abs", x), math.inf)


def isnan(b: Any, x: Any) -> Any:
    return b.isnan(x) if x.is_float else b.constant(False, "b1")


def signbit(b: Any, x: Any) -> Any:
    return (x.bits(f"i{x.kind[1:]}") if x.is_float else x) < 0


FEW = range(-6, 7)  # exponents for which products err by less than 3 units in the last place


def power(b: Any, x: Any, y: Any) -> Any:
    """x to the y; integers to exponents that are not negative."""
    if x.is_float:
        if y.op != "constant" or y.data not in FEW:
            return b.pow(x, y)
        product = multiplied(b, x, int(abs(y.data)))
        return 1 / product if y.data < 0 else product
    if y.op == "constant":
        return multiplied(b, x, y.data)
    result: Any = b.constant(1, x.kind)
    for k in range(NUMPY[y.kind].itemsize * 8 - is_signed(y)):
        result = b.where(((y >> k) & 1).ne(0), result * x, result)
        x = x * x
    return result


def multiplied(b: Any, x: Any, n: int) -> Any:
    """x to the n, by squares."""
    if n < 2:
        return x if n else b.constant(1, x.kind)
    half = multiplied(b, x, n // 2)
    return half * half * x if n % 2 else half * half


def astray(x: Any, y: Any) -> Any:
    """Whether a remainder x is not zero and has not the sign of the divisor y."""
    return x.ne(0) & ((x < 0) ^ (y < 0))


def fmod(b: Any, x: Any, y: Any) -> Any:
    return b.fmod(x, y) if x.is_float else b.binary("irem", x, y)


def remainder(b: Any, x: Any, y: Any) -> Any:
    r = fmod(b, x, y)
    if x.is_float:
        near = b.where(astray(r, y), r + y, b.where(r.eq(0), b.binary("copysign", r, y), r))
        return b.where(y.eq(0), r, near)
    return b.where(astray(r, y), r + y, r) if is_signed(x) else r


def floor_divide(b: Any, x: Any, y: Any) -> Any:
    r = fmod(b, x, y)
    if not x.is_float:
        q = b.binary("idiv", x, y)
        return q - astray(r, y).cast(x.kind) if is_signed(x) else q
    q = (x - r) / y
    q = b.where(astray(r, y), q - 1, q)
    low = b.unary("floor", q)
    low = b.where(q - low > 0.5, low + 1, low)
    exact = x / y
    low = b.where(q.eq(0), b.binary("copysign", b.constant(0, x.kind), exact), low)
    return b.where(y.eq(0), exact, low)


def fmax(b: Any, x: Any, y: Any, name: str = "max") -> Any:
    """The larger (or smaller) of two; a NaN loses to a number."""
    found = b.binary(name, x, y)
    return b.where(b.isnan(x), y, b.where(b.isnan(y), x, found)) if x.is_float else found


def logaddexp(b: Any, x: Any, y: Any, exp: str = "exp", scale: float = 1.0) -> Any:
    """The larger plus log(1 + exp(-distance)) · scale; equal infinities have no distance."""
    small = b.call(exp, -b.unary("abs", x - y))
    apart = b.max(x, y) + b.log1p(small) * scale
    return b.where(x.eq(y), x + LOG_2 * scale, apart)


def nextafter(b: Any, x: Any, y: Any) -> Any:
    """One step in the order of the bits, which is that of the magnitudes."""
    bits = x.bits(f"i{x.kind[1:]}")
    step = b.where((x < y) ^ (x < 0), bits + 1, bits - 1).bits(x.kind)
    least = b.constant(1, bits.kind).bits(x.kind)
    step = b.where(x.eq(0), b.binary("copysign", least, y), step)
    return b.where(x.eq(y), y, b.where(b.isnan(x) | b.isnan(y), x + y, step))


UNARY = {
    np.negative: "neg", np.absolute: "abs", np.invert: "not", np.sqrt: "sqrt", np.floor: "floor",
    np.ceil: "ceil", np.trunc: "trunc", np.rint: "rint",
}  # fmt: skip
BINARY = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.true_divide: "div",
    np.maximum: "max", np.minimum: "min", np.equal: "eq", np.not_equal: "ne", np.less: "lt",
    np.less_equal: "le", np.greater: "gt", np.greater_equal: "ge", np.bitwise_and: "and",
    np.bitwise_or: "or", np.bitwise_xor: "xor", np.left_shift: "shl", np.right_shift: "shr",
    np.copysign: "copysign",
}  # fmt: skip
LOGICAL = {np.logical_and: "and", np.logical_or: "or", np.logical_xor: "xor"}
MATH = {
    np.exp: "exp", np.exp2: "exp2", np.expm1: "expm1", np.log: "log", np.log2: "log2",
    np.log10: "log10", np.log1p: "log1p", np.sin: "sin", np.cos: "cos", np.tan: "tan",
    np.arcsin: "asin", np.arccos: "acos", np.arctan: "atan", np.arctan2: "atan2",
    np.sinh: "sinh", np.cosh: "cosh", np.tanh: "tanh", np.arcsinh: "asinh", np.arccosh: "acosh",
    np.arctanh: "atanh", np.hypot: "hypot",
}  # fmt: skip


def same(b: Any, x: Any) -> Any:
    return x


def unary(name: str) -> Callable[..., Any]:
    return lambda b, x: b.unary(name, x)


def binary(name: str) -> Callable[..., Any]:
    return lambda b, x, y: b.binary(name, x, y)


def logical(name: str) -> Callable[..., Any]:
    return lambda b, x, y: b.binary(name, x.cast("b1"), y.cast("b1"))


def called(name: str) -> Callable[..., Any]:
    return lambda b, *xs: b.call(name, *xs)


UFUNCS: dict[np.ufunc, Callable[..., Any]] = {
    **{ufunc: unary(name) for ufunc, name in UNARY.items()},
    **{ufunc: binary(name) for ufunc, name in BINARY.items()},
    **{ufunc: logical(name) for ufunc, name in LOGICAL.items()},
    **{ufunc: called(name) for ufunc, name in MATH.items()},
    np.positive: same,
    np.conjugate: same,
    np.square: lambda b, x: x * x,
    np.reciprocal: lambda b, x: 1 / x,
    np.logical_not: lambda b, x: ~x.cast("b1"),
    np.isnan: isnan,
    np.isinf: functools.partial(classified, relation="eq", others=False),
    np.isfinite: functools.partial(classified, relation="lt", others=True),
    np.signbit: signbit,
    np.nextafter: nextafter,
    np.power: power,
    np.fmod: fmod,
    np.remainder: remainder,
    np.floor_divide: floor_divide,
    np.fmax: fmax,
    np.fmin: functools.partial(fmax, name="min"),
    np.logaddexp: logaddexp,
    np.logaddexp2: functools.partial(logaddexp, exp="exp2", scale=1 / LOG_2),
}
"""What each ufunc is in the builder's words."""


def where(b: Any, condition: Any, x: Any, y: Any) -> Any:
    if not isinstance(condition, Scalar):
        return alike(b, (x, y))[0 if condition else 1]
    return b.where(condition.value.cast("b1"), *alike(b, (x, y)))


def nan_to_num(b: Any, x: Scalar, *, nan: float, posinf: float, neginf: float) -> Any:
    v = x.value
    finite = b.where(v.eq(math.inf), posinf, b.where(v.eq(-math.inf), neginf, v))
    return b.where(b.isnan(v), nan, finite)


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: where,
    np.nan_to_num: nan_to_num,
    np.full_like: lambda b, x, number: b.constant(number, x.value.kind),
    np.isreal: lambda b, x: b.constant(True, "b1"),
    np.copy: lambda b, x: x.value,
}
"""The functions that are no ufuncs."""
