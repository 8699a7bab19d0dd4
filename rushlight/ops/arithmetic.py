"""Sums, products, quotients and remainders, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.kernels import scalars
from rushlight.ops.base import composite, into, need_tensor, ops, registry
from rushlight.ops.elements import Refusal
from rushlight.ops.elementwise import Formula, TensorPair, common_dtype, zero
from rushlight.ops.families import Binary, Unary, conjugate, operand_error
from rushlight.ops.samples import Fails, S, T, binary_samples, unary_samples
from rushlight.tensor import Tensor, install

BOOL_MINUS = (
    "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
    "invert a mask, use the `~` or `logical_not()` operator instead."
)


class Scaled(Binary, abstract=True):
    """a ∘ alpha·b: the public function takes ``alpha``."""

    def public(self, binary: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        name = self.name

        def function(
            input: Tensor, other: Any, *old: Tensor, alpha: Any = 1, out: Tensor | None = None
        ) -> Tensor:
            if old:
                alpha, (other,) = other, old
            t = binary(input, other if alpha == 1 else scaled(input, other, alpha))
            if t is NotImplemented:
                raise operand_error(name, input, other)
            return t if out is None else into(out, t)

        return function

    def make_in_place(self) -> Callable[..., Any]:
        write = super().make_in_place()

        def scaled_write(self: Tensor, other: Any, *old: Tensor, alpha: Any = 1) -> Tensor:
            if old:
                alpha, (other,) = other, old
            return write(self, other if alpha == 1 else scaled(self, other, alpha))

        scaled_write.__name__ = scaled_write.__qualname__ = write.__name__
        scaled_write.__doc__ = write.__doc__
        return scaled_write


def scaled(input: Any, other: Any, alpha: Any) -> Any:
    """alpha · other, in the dtype that ``input`` and ``other`` will have together."""
    kind = common_dtype((input, other))
    if isinstance(alpha, bool) and kind is not dtypes.bool_:
        raise RuntimeError(f"Boolean alpha only supported for Boolean results, not {kind}.")
    if isinstance(alpha, float) and kind.category < dtypes.FLOAT:
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number, "
            f"got alpha={alpha} for {kind}."
        )
    if isinstance(other, Tensor) and other.dtype.category < kind.category:
        other = other.to(kind)
    return other * (bool(alpha) if kind is dtypes.bool_ else alpha)


class Add(Scaled):
    """Sum, element by element: ``input + alpha * other``.

    >>> rl.tensor([1.0, 2.0]) + 1
    tensor([2., 3.])
    """

    operator = "add"
    samples = [*binary_samples(), S(T(3, 4), 2), S(T(3), T(3), alpha=3)]
    errors = [
        *Binary.errors,
        Fails(TypeError, "must be Tensor, not str", T(2), "1"),
        Fails(
            RuntimeError,
            "alpha must not be a floating point",
            T(2, dtype=dtypes.int64),
            T(2, dtype=dtypes.int64),
            alpha=0.5,
        ),
    ]
    arithmetic = True
    eager = np.add

    def vjp_a(self, g, _y, _a, _b):
        return g

    def vjp_b(self, g, _y, _a, _b):
        return g


class Sub(Scaled):
    """Difference, element by element: ``input - alpha * other``.

    >>> rl.tensor([1.0, 2.0]) - 1
    tensor([0., 1.])
    """

    aliases = ("subtract",)
    operator = "sub"
    kinds = "ifc"
    samples = [*binary_samples(), S(T(3, 4), 2), S(T(3), T(3), alpha=3)]
    errors = [
        *Binary.errors,
        Fails(RuntimeError, "with a bool tensor is not", T(2, dtype=dtypes.bool_), 1),
        Fails(RuntimeError, "with a bool tensor is not", T(2), True),
        Fails(
            RuntimeError,
            "with two bool tensors",
            T(2, dtype=dtypes.bool_),
            T(2, dtype=dtypes.bool_),
        ),
    ]
    arithmetic = True
    eager = np.subtract

    def kernel(self, numpy_dtype: np.dtype) -> Callable[..., Any]:
        if numpy_dtype.kind == "b":
            raise RuntimeError(
                "Subtraction, the `-` operator, with two bool tensors is not supported. "
                "Use the `^` or `logical_xor()` operator instead."
            )
        return super().kernel(numpy_dtype)

    def detour(self, a: Any, b: Any) -> Any:
        if is_bool(a) or is_bool(b):
            raise RuntimeError(BOOL_MINUS)
        return super().detour(a, b)

    def vjp_a(self, g, _y, _a, _b):
        return g

    def vjp_b(self, g, _y, _a, _b):
        return -g


def is_bool(value: Any) -> bool:
    return value.dtype is dtypes.bool_ if isinstance(value, Tensor) else isinstance(value, bool)


@composite(
    method=False,
    samples=[S(T(3), T(3)), S(T(3), 2.5, alpha=2)],
    errors=[Fails(TypeError, "must be Tensor, not str", T(2), "1")],
)
def rsub(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """The difference the other way round: ``other - alpha * input``.

    >>> rl.rsub(rl.tensor([1.0, 2.0]), 10)
    tensor([9., 8.])
    """
    return ops.sub(other, need_tensor("rsub", input), alpha=alpha)


class Mul(Binary):
    """Product, element by element.

    >>> rl.tensor([1.0, 2.0]) * 3
    tensor([3., 6.])
    """

    aliases = ("multiply",)
    operator = "mul"
    samples = [*binary_samples(), S(T(3, 4), 2.5)]
    arithmetic = True
    eager = np.multiply

    def vjp_a(self, g, _y, _a, b):
        return g * b.conjugate()

    def vjp_b(self, g, _y, a, _b):
        return g * a.conjugate()


class Div(Binary):
    """Quotient, element by element, rounded if ``rounding_mode`` is ``"trunc"`` or ``"floor"``.

    Integers give floating-point quotients unless rounded.

    >>> rl.tensor([7, -7]) / 2
    tensor([ 3.5000, -3.5000])
    >>> rl.div(rl.tensor([7, -7]), 2, rounding_mode="floor")
    tensor([ 3, -4])
    """

    aliases = ("divide",)
    operator = "truediv"
    floats = True
    arithmetic = True
    samples = [
        *binary_samples(second=(0.5, 2)),
        S(T(3, 4), 2.5),
        S(T(3, 4), 2),
        S(T(3, 4, dtype=dtypes.float64), 0.5, rounding_mode="floor"),
        S(T(3, 4, dtype=dtypes.float64), 0.5, rounding_mode="trunc"),
    ]
    errors = [
        *Binary.errors,
        Fails(RuntimeError, "rounding_mode to be one of", T(2), 2, rounding_mode="up"),
    ]
    eager = np.true_divide

    def public(self, binary: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        def function(
            input: Tensor,
            other: Any,
            *,
            rounding_mode: str | None = None,
            out: Tensor | None = None,
        ) -> Tensor:
            t = (binary if rounding_mode is None else rounded(rounding_mode))(input, other)
            if t is NotImplemented:
                raise operand_error("div", input, other)
            return t if out is None else into(out, t)

        return function

    def vjp_a(self, g, _y, _a, b):
        return g / conjugate(b)

    def vjp_b(self, g, _y, a, b):
        return -g * conjugate(a / b / b)


def divide_into(self: Tensor, other: Any) -> Any:
    """``other / self``, by the reciprocal as in PyTorch."""
    y = ops.reciprocal(self)
    return y if type(other) in (int, float) and other == 1 else y * other


install(__rtruediv__=divide_into, __rdiv__=divide_into)
install(__div__=Tensor.__truediv__, __idiv__=Tensor.__itruediv__)


@composite(inplace=True, samples=binary_samples(second=(0.5, 2)), errors=Binary.errors)
def true_divide(input: Tensor, other: Any, *, out: Tensor | None = None) -> Tensor:
    """Quotient, element by element, never rounded.

    >>> rl.true_divide(rl.tensor([7, -7]), 2)
    tensor([ 3.5000, -3.5000])
    """
    return ops.div(input, other, out=out)


def rounded(rounding_mode: str) -> Callable[[Any, Any], Any]:
    """The op that divides and rounds in this way."""
    if rounding_mode not in ("trunc", "floor"):
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"{rounding_mode!r}"
        )
    op = registry["floor_divide" if rounding_mode == "floor" else "div_trunc"]
    assert isinstance(op, Binary)
    return op.binary


class Divider(Binary, abstract=True):
    """Division with a remainder: integers must not be divided by zero."""

    kinds = "if"

    def kernel(self, numpy_dtype: np.dtype) -> Callable[..., Any]:
        eager = super().kernel(numpy_dtype)
        if numpy_dtype.kind not in "iu":
            return eager

        def nonzero(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            if not b.all():
                raise self.by_zero(0)
            return eager(a, b)

        return nonzero

    @property
    def by_zero(self) -> Refusal:
        return Refusal(RuntimeError, f"ZeroDivisionError: {self.name} of integers by zero")

    def emit(self, b, x, y):
        if not x.is_float and not (y.op == "constant" and y.data):
            fault = b.checked(y.eq(0).cast("index"), 1, self.by_zero)  # 0, or the program's end
            y = y + fault.cast(y.kind)
        return scalars.run(b, self.eager, (x, y))


BY_ZERO = (
    *Binary.errors,
    Fails(RuntimeError, "ZeroDivisionError", T(2, dtype=dtypes.int64), 0),
)


class DivTrunc(Divider):
    """The quotient rounded towards zero, with the gradient zero."""

    function = method = inplace = False

    def eager(self, a, b):
        if a.dtype.kind == "f":
            return np.trunc(np.true_divide(a, b))
        return np.floor_divide(a - np.fmod(a, b), b)

    def vjp_a(self, g, _y, _a, _b):
        return zero(g)

    def vjp_b(self, g, _y, _a, _b):
        return zero(g)


class FloorDivide(Divider):
    """The quotient rounded down, element by element.

    >>> rl.tensor([7, -7]) // 2
    tensor([ 3, -4])
    """

    operator = "floordiv"
    arithmetic = True
    samples = [*binary_samples(second=(0.5, 2)), S(T(3, 4), 2)]
    errors = BY_ZERO
    eager = np.floor_divide

    def vjp_a(self, g, _y, _a, _b):
        return zero(g)

    def vjp_b(self, g, _y, _a, _b):
        return zero(g)


class Remainder(Divider):
    """The remainder with the divisor's sign: ``a - b * floor(a / b)``.

    >>> rl.tensor([7, -7]) % 3
    tensor([1, 2])
    """

    operator = "mod"
    samples = [*binary_samples(second=(0.7, 2)), S(T(3, 4), 1.5), S(T(3, 4), -1.5)]
    errors = BY_ZERO
    eager = np.remainder

    def vjp_a(self, g, _y, _a, _b):
        return g

    def vjp_b(self, g, _y, a, b):
        return -g * ops.div(a, b, rounding_mode="floor")


class Fmod(Divider):
    """The remainder with the dividend's sign: ``a - b * trunc(a / b)``.

    >>> rl.fmod(rl.tensor([7, -7]), 3)
    tensor([ 1, -1])
    """

    samples = [*binary_samples(second=(0.7, 2)), S(T(3, 4), 1.5), S(T(3, 4), -1.5)]
    errors = BY_ZERO
    eager = np.fmod

    def vjp_a(self, g, _y, _a, _b):
        return g

    def vjp_b(self, g, _y, a, b):
        return -g * ops.div(a, b, rounding_mode="trunc")


class Neg(Unary):
    """Negation, element by element.

    >>> -rl.tensor([1.0, -2.0])
    tensor([-1.,  2.])
    """

    aliases = ("negative",)
    kinds = "ifc"
    samples = unary_samples()
    errors = [
        *Unary.errors,
        Fails(RuntimeError, "on a bool tensor is not supported", T(2, dtype=dtypes.bool_)),
    ]
    arithmetic = True
    eager = np.negative

    def kernel(self, numpy_dtype: np.dtype) -> Callable[..., Any]:
        if numpy_dtype.kind == "b":
            raise RuntimeError(
                "Negation, the `-` operator, on a bool tensor is not supported. If you are trying "
                "to invert a mask, use the `~` or `logical_not()` operator instead."
            )
        return super().kernel(numpy_dtype)

    def vjp(self, g, _y, _x):
        return -g


install(__neg__=ops.neg)


@composite(
    samples=[S(T(3, 4))],
    errors=[Fails(RuntimeError, "bool tensor is not supported", T(2, dtype=dtypes.bool_))],
)
def positive(input: Tensor) -> Tensor:
    """The tensor itself: ``+input``.

    >>> +rl.tensor([1.0, -2.0])
    tensor([ 1., -2.])
    """
    if need_tensor("positive", input).dtype is dtypes.bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


install(__pos__=ops.positive)


class Abs(Unary):
    """Absolute value, element by element; the modulus of complex numbers.

    >>> rl.tensor([1.5, -2.0]).abs()
    tensor([1.5000, 2.0000])
    """

    aliases = ("absolute",)
    kinds = "ifc"
    samples = unary_samples()
    eager = np.absolute

    def vjp(self, g, _y, x):
        return g * x.sgn()


install(__abs__=ops.abs)


class Addcmul(Formula):
    """``input + value * tensor1 * tensor2``, element by element.

    >>> rl.addcmul(rl.ones(2), rl.tensor([1.0, 2.0]), rl.tensor([3.0, 4.0]), value=10)
    tensor([31., 81.])
    """

    samples = [S(T(3, 4), T(3, 4), T(4)), S(T(), T(3, 1), T(4), value=2), S(T(0), T(0), T(0))]
    errors = [
        Fails(RuntimeError, r"size of tensor a \(3\) must match", T(3), T(4), T(3)),
        Fails(TypeError, "must be Tensor, not float", T(3), T(3), 1.0),
    ]

    def check(
        self, input: Tensor, tensor1: Any, tensor2: Tensor, *old: Tensor, value: Any = 1
    ) -> Any:
        return accumulated("addcmul", input, tensor1, tensor2, old, value)

    def eager(self, x, a, b, *, value):
        return added(x, np.multiply(a, b), value)

    def vjp_x(self, g, _y, _x, _a, _b, *, value):
        return g

    def vjp_a(self, g, _y, _x, _a, b, *, value):
        return g * conjugate(b * value)

    def vjp_b(self, g, _y, _x, a, _b, *, value):
        return g * conjugate(a * value)


class Addcdiv(Formula):
    """``input + value * tensor1 / tensor2``, element by element.

    >>> rl.addcdiv(rl.ones(2), rl.tensor([1.0, 2.0]), rl.tensor([4.0, 4.0]), value=10)
    tensor([3.5000, 6.0000])
    """

    kinds = "fc"
    samples = [
        S(T(3, 4), T(3, 4), T(4, low=0.5)),
        S(T(), T(3, 1), T(4, low=0.5), value=2),
        S(T(0), T(0), T(0)),
    ]
    errors = [
        Fails(RuntimeError, r"size of tensor a \(3\) must match", T(3), T(4), T(3)),
        Fails(
            RuntimeError,
            "Integer division with addcdiv",
            T(2),
            T(2, dtype=dtypes.int64),
            T(2, dtype=dtypes.int64),
        ),
    ]

    def check(
        self, input: Tensor, tensor1: Any, tensor2: Tensor, *old: Tensor, value: Any = 1
    ) -> Any:
        operands, attrs = accumulated("addcdiv", input, tensor1, tensor2, old, value)
        if all(t.dtype.category < dtypes.FLOAT for t in operands[1:]):
            raise RuntimeError(
                "Integer division with addcdiv is no longer supported. Write (input + value * "
                "tensor1 / tensor2) for true division, or use rl.div with a rounding_mode."
            )
        return operands, attrs

    def eager(self, x, a, b, *, value):
        return added(x, np.true_divide(a, b), value)

    def vjp_x(self, g, _y, _x, _a, _b, *, value):
        return g

    def vjp_a(self, g, _y, _x, _a, b, *, value):
        return g * conjugate(value / b)

    def vjp_b(self, g, _y, _x, a, b, *, value):
        return -g * conjugate(value * a / b / b)


def added(x: np.ndarray, y: np.ndarray, value: Any) -> np.ndarray:
    """x + value · y, which may use the memory of y."""
    whole = x.shape == y.shape and y.ndim > 0
    if value != 1:
        y = np.multiply(y, y.dtype.type(value), out=y if whole else None)
    return np.add(x, y, out=y if whole else None)


def accumulated(name: str, input: Any, a: Any, b: Any, old: Any, value: Any) -> Any:
    """The operands of ``input + value * (a ∘ b)``; in old calls the value comes before a and b."""
    if old:
        value, a, (b,) = a, b, old
    tensors = (need_tensor(name, input), need_tensor(name, a, "tensor1", 2))
    return (*tensors, need_tensor(name, b, "tensor2", 3)), {"value": value}


INTEGERS = [
    S(T(3, 4, dtype=dtypes.int64, low=-20, high=20), T(4, dtype=dtypes.int64, high=20)),
    S(T(dtype=dtypes.int64), T(0, dtype=dtypes.int64)),
]
NO_INTEGERS = [Fails(NotImplementedError, "not implemented for 'Float'", T(2), T(2))]


class Gcd(TensorPair):
    """The greatest common divisor, element by element.

    >>> rl.gcd(rl.tensor([12, 18]), rl.tensor([8, 27]))
    tensor([4, 9])
    """

    kinds = "i"
    differentiable = False
    library = "Euclid's algorithm takes as many steps as the numbers need"
    samples = INTEGERS
    errors = NO_INTEGERS
    eager = np.gcd


class Lcm(TensorPair):
    """The least common multiple, element by element.

    >>> rl.lcm(rl.tensor([4, 6]), rl.tensor([6, 9]))
    tensor([12, 18])
    """

    kinds = "i"
    differentiable = False
    library = "Euclid's algorithm takes as many steps as the numbers need"
    samples = INTEGERS
    errors = NO_INTEGERS
    eager = np.lcm
