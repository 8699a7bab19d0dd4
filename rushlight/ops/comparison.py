"""Relations between elements, and between whole tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.ops.base import composite, need_tensor, registry
from rushlight.ops.elementwise import mismatch, same_dtype
from rushlight.ops.families import Binary, Compare, Pointwise, operand_error
from rushlight.ops.samples import Fails, S, T, binary_samples
from rushlight.tensor import Tensor, install, wrap


class Relation(Compare, abstract=True):
    """A comparison that Python has an operator for; the first operand is a tensor."""

    samples = [*binary_samples(), S(T(3, 4), 1.5)]
    errors = [*Binary.errors, Fails(TypeError, "must be Tensor, not str", T(2), "1")]

    def installed(self, write: Callable[..., Any] | None) -> None:
        install(**{f"__{self.name}__": self.binary})

    def public(self, binary: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        name, function = self.name, super().public(binary)

        def relation(input: Tensor, other: Any, *, out: Tensor | None = None) -> Tensor:
            if not isinstance(input, Tensor):
                raise operand_error(name, input, other)
            return function(input, other, out=out)

        return relation


class Equality(Relation, abstract=True):
    """A comparison that Python answers by identity where the operator gives up.

    Therefore it takes arrays as they are: ``tensor == array`` compares the elements.
    """

    def detour(self, a: Any, b: Any) -> Any:
        return super().detour(a, wrap(b) if isinstance(b, np.ndarray) else b)


class Eq(Equality):
    """Where the elements are equal.

    >>> rl.tensor([1, 2, 3]) == 2
    tensor([False,  True, False])
    """

    eager = np.equal


class Ne(Equality):
    """Where the elements differ.

    >>> rl.tensor([1, 2, 3]) != 2
    tensor([ True, False,  True])
    """

    aliases = ("not_equal",)
    eager = np.not_equal


class Lt(Relation):
    """Where ``input`` is less than ``other``.

    >>> rl.tensor([1, 2, 3]) < 2
    tensor([ True, False, False])
    """

    aliases = ("less",)
    kinds = "bif"
    eager = np.less


class Le(Relation):
    """Where ``input`` is at most ``other``.

    >>> rl.tensor([1, 2, 3]) <= 2
    tensor([ True,  True, False])
    """

    aliases = ("less_equal",)
    kinds = "bif"
    eager = np.less_equal


class Gt(Relation):
    """Where ``input`` is greater than ``other``.

    >>> rl.tensor([1, 2, 3]) > 2
    tensor([False, False,  True])
    """

    aliases = ("greater",)
    kinds = "bif"
    eager = np.greater


class Ge(Relation):
    """Where ``input`` is at least ``other``.

    >>> rl.tensor([1, 2, 3]) >= 2
    tensor([False,  True,  True])
    """

    aliases = ("greater_equal",)
    kinds = "bif"
    eager = np.greater_equal


class Isclose(Pointwise):
    """Where ``|input - other| <= atol + rtol * |other|``.

    >>> rl.isclose(rl.tensor([1.0, 2.0]), rl.tensor([1.0, 2.1]))
    tensor([ True, False])
    """

    differentiable = False
    samples = [
        S(T(3, 4), T(3, 4)),
        S(T(3, 4), T(4), rtol=0.5, atol=0.1),
        S(T(values=[1.0, np.nan]), T(values=[1.0, np.nan]), equal_nan=True),
    ]
    errors = [
        Fails(RuntimeError, "rtol must be greater than or equal to zero", T(2), T(2), rtol=-1.0),
        Fails(RuntimeError, r"size of tensor a \(2\) must match", T(2), T(3)),
        Fails(TypeError, "must be Tensor, not float", T(2), 1.0),
    ]

    def check(
        self,
        input: Tensor,
        other: Tensor,
        rtol: float = 1e-05,
        atol: float = 1e-08,
        equal_nan: bool = False,
    ) -> Any:
        a, b = need_tensor("isclose", input), need_tensor("isclose", other, "other", 2)
        same_dtype("isclose", a, b, "other")
        for name, value in (("rtol", rtol), ("atol", atol)):
            if value < 0:
                raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value}")
        return (a, b), {"rtol": rtol, "atol": atol, "equal_nan": equal_nan}

    def eager(self, a, b, *, rtol, atol, equal_nan):
        try:
            close = a == b
        except ValueError as error:
            raise mismatch("isclose", (a, b), error) from None
        if close.size == 0 or close.all():
            return close
        if a.dtype.kind in "biu":
            a, b = a.astype(np.float64), b.astype(np.float64)
        if equal_nan:
            close |= np.isnan(a) & np.isnan(b)
        distance = np.abs(a - b)
        return close | (np.isfinite(distance) & (distance <= atol + np.abs(rtol * b)))

    def emit(self, b, x, y, *, rtol, atol, equal_nan):
        if not x.is_float:
            x, y = x.cast("f64"), y.cast("f64")
        close = x.eq(y)
        if equal_nan:
            close = close | (b.isnan(x) & b.isnan(y))
        distance = abs(x - y)
        return close | ((distance < math.inf) & (distance <= abs(y * rtol) + atol))


@composite(
    samples=[S(T(3, 4), T(3, 4)), S(T(3), T(3), rtol=0.5, atol=10.0)],
    errors=[Fails(RuntimeError, "atol must be greater than or equal", T(2), T(2), atol=-1.0)],
)
def allclose(
    input: Tensor,
    other: Tensor,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> bool:
    """Whether all elements are close; see :func:`isclose`.

    >>> rl.allclose(rl.tensor([1.0, 2.0]), rl.tensor([1.0, 2.000001]))
    True
    """
    return bool(registry["isclose"].call(input, other, rtol, atol, equal_nan)._array.all())


@composite(
    samples=[S(T(3, 4), T(3, 4)), S(T(3), T(2))],
    errors=[Fails(TypeError, "must be Tensor, not int", T(2), 1)],
)
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both tensors have the same shape and the same elements.

    >>> rl.equal(rl.tensor([1, 2]), rl.tensor([1, 2]))
    True
    """
    a, b = need_tensor("equal", input), need_tensor("equal", other, "other", 2)
    return np.array_equal(a._array, b._array)
