"""Signs, exponents, neighbours and the special values of floating-point numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.ops.base import Op, composite, into, need_tensor, ops
from rushlight.ops.elementwise import Formula, TensorPair, cleared, masked, mismatch, zero
from rushlight.ops.families import Binary, Pointwise, Unary
from rushlight.ops.results import result_type
from rushlight.ops.samples import Fails, S, T, binary_samples, unary_samples
from rushlight.tensor import Tensor

EDGES = T(values=[0.0, -0.0, 1.5, np.nan, np.inf, -np.inf], dtype=dtypes.float32)
SPECIAL = [S(EDGES), *unary_samples()]


class Classify(Unary, abstract=True):
    """A property of each element: a bool tensor."""

    differentiable = False
    inplace = False
    samples = SPECIAL


class Isnan(Classify):
    """Where the element is NaN.

    >>> rl.tensor([1.0, float("nan")]).isnan()
    tensor([False,  True])
    """

    eager = np.isnan


class Isinf(Classify):
    """Where the element is infinite.

    >>> rl.tensor([1.0, float("-inf")]).isinf()
    tensor([False,  True])
    """

    eager = np.isinf


class Isfinite(Classify):
    """Where the element is neither infinite nor NaN.

    >>> rl.tensor([1.0, float("-inf")]).isfinite()
    tensor([ True, False])
    """

    eager = np.isfinite


class Isposinf(Classify):
    """Where the element is positive infinity.

    >>> rl.tensor([float("inf"), float("-inf")]).isposinf()
    tensor([ True, False])
    """

    kinds = "bif"

    def eager(self, x):
        return np.equal(x, np.inf)


class Isneginf(Classify):
    """Where the element is negative infinity.

    >>> rl.tensor([float("inf"), float("-inf")]).isneginf()
    tensor([False,  True])
    """

    kinds = "bif"

    def eager(self, x):
        return np.equal(x, -np.inf)


class Isreal(Classify):
    """Where the element has no imaginary part.

    >>> rl.tensor([1 + 0j, 1j]).isreal()
    tensor([ True, False])
    """

    def eager(self, x):
        return np.isreal(x)


class Signbit(Classify):
    """Where the element has a minus sign, that of -0.0 included.

    >>> rl.tensor([1.0, -0.0]).signbit()
    tensor([False,  True])
    """

    kinds = "bif"

    def eager(self, x):
        return np.signbit(x) if x.dtype.kind == "f" else x < 0


def sign(x: np.ndarray) -> np.ndarray:
    """-1, 0 or 1; unlike np.sign, 0 for NaN."""
    return x.copy() if x.dtype.kind == "b" else (x > 0).astype(x.dtype) - (x < 0)


class Sign(Unary):
    """-1, 0 or 1: the sign of each element.

    >>> rl.tensor([-2.0, 0.0, 3.0]).sign()
    tensor([-1.,  0.,  1.])
    """

    kinds = "bif"
    arithmetic = True
    samples = unary_samples()

    eager = staticmethod(sign)

    def vjp(self, g, _y, _x):
        return zero(g)


class Sgn(Unary):
    """The sign; of a complex number, the number of modulus 1 in its direction.

    >>> rl.tensor([3 + 4j, 0j]).sgn()
    tensor([0.6000+0.8000j, 0.0000+0.0000j])
    """

    samples = unary_samples()

    def eager(self, x):
        return np.sign(x) if x.dtype.kind == "c" else sign(x)

    def vjp(self, g, y, x):
        if not x.dtype.is_complex:
            return zero(g)
        size = x.abs()
        return cleared(size == 0, (g - (g * y.conj()).real * y) / size)


class NanToNum(Formula):
    """NaN and infinities replaced: by 0 and by the largest and smallest numbers, or those given.

    >>> rl.nan_to_num(rl.tensor([float("nan"), float("inf"), 1.0]), posinf=9.0)
    tensor([0., 9., 1.])
    """

    samples = [*unary_samples(), S(T(3), nan=1.0, posinf=2.0, neginf=-2.0)]
    errors = [Fails(TypeError, "must be Tensor, not float", 1.5)]

    def check(
        self,
        input: Tensor,
        nan: float | None = None,
        posinf: float | None = None,
        neginf: float | None = None,
    ) -> Any:
        x = need_tensor("nan_to_num", input)
        if x.dtype.category >= dtypes.FLOAT:
            limits = dtypes.finfo(x.dtype)
            posinf = limits.max if posinf is None else posinf
            neginf = limits.min if neginf is None else neginf
        return (x,), {"nan": nan or 0.0, "posinf": posinf, "neginf": neginf}

    def eager(self, x, *, nan, posinf, neginf):
        if x.dtype.kind in "biu":
            return x.copy()
        return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)

    def vjp(self, g, _y, x, *, nan, posinf, neginf):
        return masked(x.isfinite(), g)


class Copysign(Binary):
    """The magnitude of ``input`` with the sign of ``other``, a tensor or number.

    >>> rl.copysign(rl.tensor([1.0, 2.0]), rl.tensor([-1.0, 0.0]))
    tensor([-1.,  2.])
    """

    kinds = "bif"
    floats = True
    samples = [*binary_samples(0.3, 2, second=(-2, 2)), S(T(3, 4, low=0.3), -1)]
    eager = np.copysign

    def vjp_a(self, g, y, a, _b):
        return g * ops.where(a == 0, 0, y / a)

    def vjp_b(self, g, _y, _a, _b):
        return zero(g)


class Nextafter(TensorPair):
    """The next floating-point number from ``input`` towards ``other``.

    >>> rl.nextafter(rl.tensor([1.0]), rl.tensor([2.0])) > 1
    tensor([True])
    """

    kinds = "f"
    arithmetic = True
    samples = binary_samples()
    eager = np.nextafter

    def vjp_a(self, g, _y, a, b):
        return masked(a != b, g)

    def vjp_b(self, g, _y, _a, _b):
        return zero(g)


class Heaviside(Pointwise):
    """The step function: 0 below zero, 1 above it, and ``values`` at zero.

    >>> rl.heaviside(rl.tensor([-1.0, 0.0, 2.0]), rl.tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    inplace = True
    differentiable = False
    samples = [S(T(3, 4), T(4)), S(T(values=[-1.0, 0.0, 1.0], grad=False), T(3))]
    errors = [
        Fails(TypeError, "must be Tensor, not float", T(2), 1.0),
        Fails(RuntimeError, r"a \(5\) must match .* b \(3\)", T(5), T(3)),
        Fails(
            RuntimeError,
            "different dtypes",
            T(2, dtype=dtypes.float32),
            T(2, dtype=dtypes.float64),
        ),
    ]

    def check(self, input: Tensor, values: Tensor) -> Any:
        x, v = need_tensor("heaviside", input), need_tensor("heaviside", values, "values", 2)
        if x._array.dtype is not v._array.dtype:
            raise RuntimeError(
                "heaviside is not yet implemented for tensors with different dtypes, "
                f"got {x.dtype} and {v.dtype}."
            )
        return (x, v), {}

    def eager(self, x, values):
        try:
            return np.where(x == 0, values, (x > 0).astype(x.dtype))
        except ValueError as error:
            raise mismatch("heaviside", (x, values), error) from None


class Frexp(Op):
    """Mantissa in [0.5, 1) and exponent of each element: ``mantissa * 2 ** exponent``.

    >>> mantissa, exponent = rl.frexp(rl.tensor([1.0, 10.0]))
    >>> mantissa, exponent
    (tensor([0.5000, 0.6250]), tensor([1, 4], dtype=rushlight.int32))
    """

    differentiable = (0,)
    result = result_type("frexp", "mantissa", "exponent")
    samples = unary_samples(0.6, 0.9)
    errors = [Fails(RuntimeError, "only supports floating-point", T(2, dtype=dtypes.int64))]

    def check(self, input: Tensor) -> Any:
        x = need_tensor("frexp", input)
        if not x.dtype.is_floating_point:
            raise RuntimeError(f"frexp() only supports floating-point dtypes, got {x.dtype}")
        return (x,), {}

    def eager(self, x):
        wide = x.astype(np.float32) if x.dtype in dtypes.HALF else x
        mantissa, exponent = np.frexp(wide)
        return np.asarray(mantissa).astype(x.dtype, copy=False), np.asarray(exponent)

    def at(self, b, i, x):
        v = x.broadcast(i)
        kind, width, bias = ("f64", 52, 1022) if x.kind == "f64" else ("f32", 23, 126)
        v = v.cast(kind)
        tiny = abs(v) < 2.0 ** (1 - bias)  # denormal: multiplied by 2 ** width first
        bits = b.where(tiny, v * 2.0**width, v).bits(f"i{kind[1:]}")
        mask = ((2 << bias.bit_length()) - 1) << width
        exponent = ((bits & mask) >> width) - bias - b.where(tiny, b.constant(width, bits.kind), 0)
        mantissa = ((bits & ~mask) | (bias << width)).bits(kind)
        plain = v.ne(0) & (abs(v) < math.inf)
        return b.where(plain, mantissa, v), b.where(plain, exponent, 0).cast("i32")

    def vjp(self, g, y, _x):
        return g * (-y[1]).to(g.dtype).exp2()


@composite(
    inplace=True,
    samples=[S(T(3, 4), T(4)), S(T(3), T(3, dtype=dtypes.int64))],
    errors=[Fails(TypeError, "must be Tensor, not int", T(2), 1)],
)
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input * 2 ** other``.

    >>> rl.ldexp(rl.tensor([1.0, 3.0]), rl.tensor([1, 2]))
    tensor([ 2., 12.])
    """
    x, exponent = need_tensor("ldexp", input), need_tensor("ldexp", other, "other", 2)
    y = x * ops.pow(2.0, exponent)
    return y if out is None else into(out, y)
