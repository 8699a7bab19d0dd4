"""Exponentials, logarithms, trigonometric and hyperbolic functions."""

from __future__ import annotations

import math

import numpy as np

from rushlight.ops.base import ops
from rushlight.ops.elementwise import TensorPair, masked
from rushlight.ops.families import Unary, conjugate
from rushlight.ops.samples import binary_samples, unary_samples

LOG_2, LOG_10 = math.log(2), math.log(10)


class Exp(Unary):
    """e to the power of each element.

    >>> rl.tensor([0.0, 1.0]).exp()
    tensor([1.0000, 2.7183])
    """

    floats = True
    arithmetic = True
    samples = unary_samples()
    eager = np.exp

    def vjp(self, g, y, _x):
        return g * conjugate(y)


class Exp2(Unary):
    """2 to the power of each element.

    >>> rl.tensor([0.0, 1.0, 3.0]).exp2()
    tensor([1., 2., 8.])
    """

    floats = True
    arithmetic = True
    samples = unary_samples()
    eager = np.exp2

    def vjp(self, g, y, _x):
        return g * conjugate(y * LOG_2)


class Expm1(Unary):
    """e to the power of each element, minus 1: precise for small elements.

    >>> rl.tensor([0.0, 1.0]).expm1()
    tensor([0.0000, 1.7183])
    """

    floats = True
    arithmetic = True
    samples = unary_samples()
    eager = np.expm1

    def vjp(self, g, y, _x):
        return g * conjugate(y + 1)


class Log(Unary):
    """The natural logarithm of each element.

    >>> rl.tensor([1.0, 10.0]).log()
    tensor([0.0000, 2.3026])
    """

    floats = True
    arithmetic = True
    samples = unary_samples(0.2, 4)
    eager = np.log

    def vjp(self, g, _y, x):
        return g / conjugate(x)


class Log2(Unary):
    """The logarithm to base 2 of each element.

    >>> rl.tensor([1.0, 8.0]).log2()
    tensor([0., 3.])
    """

    floats = True
    arithmetic = True
    samples = unary_samples(0.2, 4)
    eager = np.log2

    def vjp(self, g, _y, x):
        return g / conjugate(x * LOG_2)


class Log10(Unary):
    """The logarithm to base 10 of each element.

    >>> rl.tensor([1.0, 2.0, 8.0]).log10()
    tensor([0.0000, 0.3010, 0.9031])
    """

    floats = True
    arithmetic = True
    samples = unary_samples(0.2, 4)
    eager = np.log10

    def vjp(self, g, _y, x):
        return g / conjugate(x * LOG_10)


class Log1p(Unary):
    """The natural logarithm of 1 plus each element: precise for small elements.

    >>> rl.tensor([0.0, 1.0]).log1p()
    tensor([0.0000, 0.6931])
    """

    floats = True
    arithmetic = True
    samples = unary_samples(-0.5, 4)
    eager = np.log1p

    def vjp(self, g, _y, x):
        return g / conjugate(x + 1)


class Logaddexp(TensorPair):
    """``log(exp(input) + exp(other))`` without overflow.

    >>> rl.logaddexp(rl.tensor([1000.0]), rl.tensor([1000.0]))
    tensor([1000.6932])
    """

    kinds = "fc"
    inplace = False
    samples = binary_samples()

    def eager(self, a, b):
        if a.dtype.kind == "f":
            return np.logaddexp(a, b)
        larger = np.where(a.real > b.real, a, b)
        return np.where(a == b, a + LOG_2, larger + np.log(np.exp(a - larger) + np.exp(b - larger)))

    def vjp_a(self, g, _y, a, b):
        return g / conjugate(1 + (b - a).exp())

    def vjp_b(self, g, _y, a, b):
        return g / conjugate(1 + (a - b).exp())


class Logaddexp2(TensorPair):
    """``log2(2 ** input + 2 ** other)`` without overflow.

    >>> rl.logaddexp2(rl.tensor([1000.0]), rl.tensor([1000.0]))
    tensor([1001.])
    """

    kinds = "f"
    inplace = False
    samples = binary_samples()
    eager = np.logaddexp2

    def vjp_a(self, g, _y, a, b):
        return g / (1 + (b - a).exp2())

    def vjp_b(self, g, _y, a, b):
        return g / (1 + (a - b).exp2())


class Sin(Unary):
    """The sine of each element, an angle in radians.

    >>> rl.tensor([0.0, 1.0]).sin()
    tensor([0.0000, 0.8415])
    """

    floats = True
    samples = unary_samples(-4, 4)
    eager = np.sin

    def vjp(self, g, _y, x):
        return g * conjugate(x.cos())


class Cos(Unary):
    """The cosine of each element, an angle in radians.

    >>> rl.tensor([0.0, 1.0]).cos()
    tensor([1.0000, 0.5403])
    """

    floats = True
    samples = unary_samples(-4, 4)
    eager = np.cos

    def vjp(self, g, _y, x):
        return -g * conjugate(x.sin())


class Tan(Unary):
    """The tangent of each element, an angle in radians.

    >>> rl.tensor([0.0, 1.0]).tan()
    tensor([0.0000, 1.5574])
    """

    floats = True
    arithmetic = True
    samples = unary_samples(-1.2, 1.2)
    eager = np.tan

    def vjp(self, g, y, _x):
        return g * conjugate(1 + y * y)


class Asin(Unary):
    """The angle in [-π/2, π/2] whose sine is the element.

    >>> rl.tensor([0.0, 1.0]).asin()
    tensor([0.0000, 1.5708])
    """

    aliases = ("arcsin",)
    floats = True
    samples = unary_samples(-0.9, 0.9)
    eager = np.arcsin

    def vjp(self, g, _y, x):
        return g * conjugate((1 - x * x).rsqrt())


class Acos(Unary):
    """The angle in [0, π] whose cosine is the element.

    >>> rl.tensor([0.0, 1.0]).acos()
    tensor([1.5708, 0.0000])
    """

    aliases = ("arccos",)
    floats = True
    samples = unary_samples(-0.9, 0.9)
    eager = np.arccos

    def vjp(self, g, _y, x):
        return -g * conjugate((1 - x * x).rsqrt())


class Atan(Unary):
    """The angle in [-π/2, π/2] whose tangent is the element.

    >>> rl.tensor([0.0, 1.0]).atan()
    tensor([0.0000, 0.7854])
    """

    aliases = ("arctan",)
    floats = True
    arithmetic = True
    samples = unary_samples()
    eager = np.arctan

    def vjp(self, g, _y, x):
        return g / conjugate(1 + x * x)


class Atan2(TensorPair):
    """The angle in [-π, π] from the positive x axis to the point (other, input).

    >>> rl.atan2(rl.tensor([1.0, -1.0]), rl.tensor([1.0, -1.0]))
    tensor([ 0.7854, -2.3562])
    """

    aliases = ("arctan2",)
    kinds = "bif"
    floats = True
    arithmetic = True
    samples = binary_samples(0.3, 2, second=(-2, 2))
    eager = np.arctan2

    def vjp_a(self, g, _y, a, b):
        square = a * a + b * b
        return masked(square != 0, g * b / square)

    def vjp_b(self, g, _y, a, b):
        square = a * a + b * b
        return masked(square != 0, -g * a / square)


class Sinh(Unary):
    """Hyperbolic sine, element by element.

    >>> rl.tensor([0.0, 1.0]).sinh()
    tensor([0.0000, 1.1752])
    """

    floats = True
    samples = unary_samples()
    eager = np.sinh

    def vjp(self, g, _y, x):
        return g * conjugate(x.cosh())


class Cosh(Unary):
    """Hyperbolic cosine, element by element.

    >>> rl.tensor([0.0, 1.0]).cosh()
    tensor([1.0000, 1.5431])
    """

    floats = True
    samples = unary_samples()
    eager = np.cosh

    def vjp(self, g, _y, x):
        return g * conjugate(x.sinh())


class Tanh(Unary):
    """Hyperbolic tangent, element by element.

    >>> rl.tensor([0.0, 1.0]).tanh()
    tensor([0.0000, 0.7616])
    """

    floats = True
    arithmetic = True
    samples = unary_samples(-4, 4)
    eager = np.tanh

    def vjp(self, g, y, _x):
        return g - g * (y * y).conjugate()


class Asinh(Unary):
    """The inverse of the hyperbolic sine, element by element.

    >>> rl.tensor([0.0, 1.0]).asinh()
    tensor([0.0000, 0.8814])
    """

    aliases = ("arcsinh",)
    floats = True
    samples = unary_samples()
    eager = np.arcsinh

    def vjp(self, g, _y, x):
        return g * conjugate((1 + x * x).rsqrt())


class Acosh(Unary):
    """The inverse of the hyperbolic cosine, element by element.

    >>> rl.tensor([1.0, 2.0]).acosh()
    tensor([0.0000, 1.3170])
    """

    aliases = ("arccosh",)
    floats = True
    samples = unary_samples(1.2, 4)
    eager = np.arccosh

    def vjp(self, g, _y, x):
        return g * conjugate((x * x - 1).rsqrt())


class Atanh(Unary):
    """The inverse of the hyperbolic tangent, element by element.

    >>> rl.tensor([0.0, 0.5]).atanh()
    tensor([0.0000, 0.5493])
    """

    aliases = ("arctanh",)
    floats = True
    arithmetic = True
    samples = unary_samples(-0.9, 0.9)
    eager = np.arctanh

    def vjp(self, g, _y, x):
        return g / conjugate(1 - x * x)


class Sinc(Unary):
    """``sin(πx) / (πx)``, and 1 at 0.

    >>> rl.tensor([0.0, 0.5]).sinc()
    tensor([1.0000, 0.6366])
    """

    floats = True
    samples = unary_samples()

    def eager(self, x):
        angle = x * x.dtype.type(math.pi)
        return np.where(angle == 0, x.dtype.type(1), np.sin(angle) / angle)

    def vjp(self, g, _y, x):
        angle = x * math.pi
        slope = (angle * angle.cos() - angle.sin()) / (angle * x)
        return g * conjugate(ops.where(angle == 0, 0, slope))


class Deg2rad(Unary):
    """Degrees to radians.

    >>> rl.tensor([180.0, 90.0]).deg2rad()
    tensor([3.1416, 1.5708])
    """

    kinds = "bif"
    floats = True
    arithmetic = True
    samples = unary_samples(-180, 180)

    def eager(self, x):
        return x * x.dtype.type(math.pi / 180)

    def vjp(self, g, _y, _x):
        return g * (math.pi / 180)


class Rad2deg(Unary):
    """Radians to degrees.

    >>> rl.tensor([math.pi, 1.0]).rad2deg()
    tensor([180.0000,  57.2958])
    """

    kinds = "bif"
    floats = True
    arithmetic = True
    samples = unary_samples(-4, 4)

    def eager(self, x):
        return x * x.dtype.type(180 / math.pi)

    def vjp(self, g, _y, _x):
        return g * (180 / math.pi)
