"""Powers and roots, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.kernels import scalars
from rushlight.ops.base import composite, into, ops, registry
from rushlight.ops.elementwise import Named, TensorPair, cleared, common_dtype, zero
from rushlight.ops.families import Binary, Unary, conjugate, operand_error
from rushlight.ops.samples import Fails, S, T, binary_samples, unary_samples
from rushlight.tensor import Tensor, install

SIMPLE_POWERS: dict[float, Callable[[Any], Any]] = {
    -2: lambda x: np.reciprocal(x * x),
    -1: np.reciprocal,
    -0.5: lambda x: np.reciprocal(np.sqrt(x)),
    0.5: np.sqrt,
    1: np.positive,
    2: np.square,
    3: lambda x: x * x * x,
}


class Square(Unary):
    """The square of each element.

    >>> rl.tensor([1.0, -2.0]).square()
    tensor([1., 4.])
    """

    samples = unary_samples()
    eager = np.square

    def kernel(self, numpy_dtype: np.dtype) -> Callable[..., Any]:
        if numpy_dtype.kind == "b":
            return lambda x: x.astype(np.int64)
        return super().kernel(numpy_dtype)

    arithmetic = True

    def vjp(self, g, _y, x):
        # The first power is a node of its own: as with Pow, derivatives of any order exist.
        return (g + g) * conjugate(x.pow(1) if isinstance(x, Tensor) else x)


class Pow(Named):
    """``input`` to the power of ``exponent``, element by element; either may be a number.

    >>> rl.tensor([1.0, 2.0, 3.0]) ** 2
    tensor([1., 4., 9.])
    >>> rl.pow(2, rl.tensor([1, 2, 3]))
    tensor([2, 4, 8])
    """

    operator = "pow"
    kinds = "ifc"
    samples = [
        *binary_samples(0.2, 2, second=(-2, 2)),
        *[S(T(3, 4, low=0.2), n) for n in (-2.0, -1.0, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4)],
        S(2.5, T(3, 4)),
    ]
    errors = [
        *Binary.errors,
        Fails(RuntimeError, "Integers to negative", T(2, dtype=dtypes.int64), -1),
        Fails(TypeError, "must be Tensor, not str", T(2), "2"),
    ]

    def public(self, binary: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        name, square = self.name, ops.square

        def power(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
            if type(exponent) is int and exponent == 2 and isinstance(input, Tensor):
                return square(input, out=out)
            t = binary(input, exponent)
            if t is NotImplemented:
                raise operand_error(name, input, exponent)
            return t if out is None else into(out, t)

        return power

    def closure(self) -> Callable[[Any, Any], Any]:
        binary, square = super().closure(), ops.square

        def power(a: Any, b: Any) -> Any:
            if (type(b) is int or type(b) is float) and b == 2:
                return square(a)
            return binary(a, b)

        return power

    def kernel(self, numpy_dtype: np.dtype) -> Callable[..., Any]:
        if numpy_dtype.kind in "iu":
            return integer_power
        return super().kernel(numpy_dtype)

    def detour(self, a: Any, b: Any) -> Any:
        if isinstance(b, bool) and isinstance(a, Tensor) and a.dtype is dtypes.bool_:
            return a.clone() if b else ops.ones_like(a)
        integers = isinstance(a, Tensor) and a.dtype.category < dtypes.FLOAT
        if integers and isinstance(b, int) and b < 0:
            raise RuntimeError(
                f"Integers to negative integer powers are not allowed, got {a.dtype} to the {b}."
            )
        return super().detour(a, b)

    def emit(self, b, x, y):
        if x.is_float and y.op == "constant" and y.data in SIMPLE_POWERS:
            return scalars.run(b, SIMPLE_POWERS[y.data], (x,))
        return scalars.run(b, whole_power if x.kind[0] == "i" else np.power, (x, y))

    def eager(self, a, b):
        if b.ndim == 0:
            simple = SIMPLE_POWERS.get(b.item())
            if simple is not None:
                return simple(a)
        return np.power(a, b)

    def vjp_a(self, g, _y, a, b):
        if isinstance(b, Tensor):
            return cleared(b == 0, g * conjugate(b * a ** (b - 1)))
        return zero(g) if b == 0 else g * conjugate(b * a ** (b - 1))

    def vjp_b(self, g, y, a, b):
        base = a.to(y.dtype) if isinstance(a, Tensor) else ops.full((), a, dtype=y.dtype)
        positive = ops.real(b) >= 0
        if b.dtype.is_complex:
            positive = positive & (ops.imag(b) == 0)
        return g * ops.where((base == 0) & positive, 0, conjugate(y * base.log()))


# The node of x² is called as in PyTorch.
registry["square"].node = registry["pow"].node


def integer_power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a to the b; negative exponents give 0, except those of 1 and -1."""
    return whole_power(a, b) if (b < 0).any() else np.power(a, b)


def whole_power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """:func:`integer_power` of any exponents."""
    y = np.power(a, np.abs(b))
    return np.where((b >= 0) | (np.abs(a) == 1), y, y.dtype.type(0))


@composite(
    samples=[S(T(3, 4, low=0.2), T(4)), S(T(3, low=0.2), 1.5), S(2, T(3))],
    errors=Binary.errors,
)
def float_power(input: Any, exponent: Any, *, out: Tensor | None = None) -> Tensor:
    """``input`` to the power of ``exponent``, in double precision.

    >>> rl.float_power(rl.tensor([1, 2, 3]), -1)
    tensor([1.0000, 0.5000, 0.3333], dtype=rushlight.float64)
    """
    kind = double(input, exponent)
    a, b = [t.to(kind) if isinstance(t, Tensor) else t for t in (input, exponent)]
    y = ops.pow(a, b)
    return y if out is None else into(out, y)


def double(a: Any, b: Any) -> dtypes.dtype:
    return dtypes.complex128 if common_dtype((a, b)).is_complex else dtypes.float64


def float_power_write(self: Tensor, exponent: Any) -> Tensor:
    """In-place version of :meth:`float_power`: the tensor is of double precision already."""
    kind = double(self, exponent)
    if self.dtype is not kind:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {self.dtype.storage_name} but the "
            f"operation's result requires dtype {kind.storage_name}"
        )
    return self.pow_(exponent)


float_power_write.__name__ = float_power_write.__qualname__ = "float_power_"
install(float_power_=float_power_write)


class Sqrt(Unary):
    """The square root of each element.

    >>> rl.tensor([1.0, 4.0]).sqrt()
    tensor([1., 2.])
    """

    floats = True
    arithmetic = True
    samples = unary_samples(0.2, 3)
    eager = np.sqrt

    def vjp(self, g, y, _x):
        return g / conjugate(y + y)


class Rsqrt(Unary):
    """The reciprocal of the square root of each element.

    >>> rl.tensor([1.0, 4.0]).rsqrt()
    tensor([1.0000, 0.5000])
    """

    floats = True
    arithmetic = True
    samples = unary_samples(0.2, 3)

    def eager(self, x):
        return np.reciprocal(np.sqrt(x))

    def emit(self, b, x):
        return b.rsqrt(x)

    def vjp(self, g, y, _x):
        return -0.5 * g * conjugate(y * y * y)


class Reciprocal(Unary):
    """One divided by each element.

    >>> rl.tensor([1.0, 4.0]).reciprocal()
    tensor([1.0000, 0.2500])
    """

    floats = True
    arithmetic = True
    samples = unary_samples(0.2, 3)
    eager = np.reciprocal

    def vjp(self, g, y, _x):
        return -g * conjugate(y * y)


class Hypot(TensorPair):
    """The hypotenuse of right triangles: ``sqrt(input² + other²)``.

    >>> rl.hypot(rl.tensor([3.0, 5.0]), rl.tensor([4.0, 12.0]))
    tensor([ 5., 13.])
    """

    kinds = "f"
    arithmetic = True
    samples = binary_samples()
    eager = np.hypot

    def vjp_a(self, g, y, a, _b):
        return g * (a / y)

    def vjp_b(self, g, y, _a, b):
        return g * (b / y)
