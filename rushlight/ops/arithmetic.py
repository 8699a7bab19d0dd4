"""Sums, products, quotients and powers, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.ops.base import into, ops
from rushlight.ops.families import Binary, Unary, conjugate, operand_error
from rushlight.ops.samples import Fails, S, T, binary_samples, unary_samples
from rushlight.tensor import Tensor


class Scaled(Binary, abstract=True):
    """a ∘ alpha·b: the public function takes ``alpha``."""

    def public(self, binary: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        name = self.name

        def function(
            input: Tensor, other: Any, *, alpha: Any = 1, out: Tensor | None = None
        ) -> Tensor:
            t = binary(input, other if alpha == 1 else other * alpha)
            if t is NotImplemented:
                raise operand_error(name, input, other)
            return t if out is None else into(out, t)

        return function


class Add(Scaled):
    """Sum, element by element: ``input + alpha * other``.

    >>> rl.tensor([1.0, 2.0]) + 1
    tensor([2., 3.])
    """

    operator = "add"
    samples = [*binary_samples(), S(T(3, 4), 2), S(T(3), T(3), alpha=3)]
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
    kinds = "ifc"
    operator = "sub"
    samples = [*binary_samples(), S(T(3, 4), 2), S(T(3), T(3), alpha=3)]
    eager = np.subtract

    def vjp_a(self, g, _y, _a, _b):
        return g

    def vjp_b(self, g, _y, _a, _b):
        return -g


class Mul(Binary):
    """Product, element by element.

    >>> rl.tensor([1.0, 2.0]) * 3
    tensor([3., 6.])
    """

    aliases = ("multiply",)
    operator = "mul"
    samples = [*binary_samples(), S(T(3, 4), 2.5)]
    eager = np.multiply

    def vjp_a(self, g, _y, _a, b):
        return g * conjugate(b)

    def vjp_b(self, g, _y, a, _b):
        return g * conjugate(a)


class Neg(Unary):
    """Negation, element by element.

    >>> -rl.tensor([1.0, -2.0])
    tensor([-1.,  2.])
    """

    aliases = ("negative",)
    kinds = "ifc"
    samples = unary_samples()
    eager = np.negative

    def vjp(self, g, _y, _x):
        return -g


Tensor.__neg__ = ops.neg
