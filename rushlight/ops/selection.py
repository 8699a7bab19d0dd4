"""Choosing between elements: where, clamp, the larger and the smaller of two, between two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from typing import cast as cast_to

import numpy as np

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.autograd.modes import local
from rushlight.autograd.tape import NO_ATTRS, record
from rushlight.dims import is_extent
from rushlight.kernels import select
from rushlight.ops.base import any_tracked, composite, into, need_tensor, ops, registry
from rushlight.ops.elementwise import (
    Formula,
    Named,
    TensorPair,
    cleared,
    common_dtype,
    masked,
    mismatch,
    plain,
    same_dtype,
)
from rushlight.ops.families import NUMBER, Binary, Pointwise, cast, conjugate
from rushlight.ops.samples import Fails, S, T, binary_samples
from rushlight.tensor import Tensor, install, literal, wrap

MASK = T(3, 4, dtype=dtypes.bool_)


class Where(Pointwise):
    """Elements of ``input`` where ``condition`` holds, of ``other`` elsewhere.

    With ``condition`` alone: the indices where it is not zero, as ``nonzero(as_tuple=True)``.

    >>> rl.where(rl.tensor([True, False]), rl.tensor([1.0, 2.0]), 0)
    tensor([1., 0.])
    """

    method = False
    samples = [
        S(MASK, T(3, 4), T(3, 4)),
        S(MASK, T(4), T(3, 1)),
        S(MASK, T(3, 4), 2.5),
        S(MASK, 0, T(3, 4)),
        S(T(dtype=dtypes.bool_), T(2), T()),
        S(T(0, dtype=dtypes.bool_), T(0), T(0)),
    ]
    errors = [
        Fails(RuntimeError, "boolean tensor, but got .* Float", T(2, dtype=dtypes.float32), 1, 2),
        Fails(RuntimeError, r"size of tensor a \(4\) must match", MASK, T(3, 4), T(3)),
        Fails(TypeError, "must be Tensor, not list", MASK, [1], 2),
        Fails(TypeError, "must be Tensor, not NoneType", MASK, T(3, 4)),
    ]

    def make(self) -> Callable[..., Any]:
        apply = self.apply

        def function(
            condition: Tensor, input: Any = None, other: Any = None, *, out: Tensor | None = None
        ) -> Any:
            if input is None and other is None:
                return need_tensor("where", condition, "condition").nonzero(as_tuple=True)
            t = apply((condition, input, other), NO_ATTRS)
            return t if out is None else into(out, t)

        return function

    def apply(self, operands: Any, attrs: dict[str, Any]) -> Tensor:
        condition, a, b = operands
        if local.state.trace is not None:
            return self.traced(alike_tensors(condition, a, b), attrs)
        try:
            c, x, y = condition._array, a._array, b._array
            ready = x.dtype is y.dtype and c.dtype is dtypes.bool_.numpy
        except AttributeError:
            ready = False
        if not ready:
            c, x, y = mask(condition), *alike(a, b)
        state = local.state
        try:
            t = wrap(state.run(select.choose, c, x, y))
        except ValueError as error:
            raise mismatch("where", (c, x, y), error) from None
        if state.grad and any_tracked((a, b)):
            record(self, t, operands, attrs)
        return t

    def eager(self, condition, a, b):
        return select.choose(condition, a, b)

    def vjp_condition(self, g, _y, condition, _a, _b):
        return None

    def vjp_a(self, g, _y, condition, _a, _b):
        return masked(condition, g)

    def vjp_b(self, g, _y, condition, _a, _b):
        return cleared(condition, g)


def mask(condition: Any) -> np.ndarray:
    """The array of a condition, as bools."""
    c = need_tensor("where", condition, "condition")
    if c.dtype not in (dtypes.bool_, dtypes.uint8):
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{c.dtype.storage_name}"
        )
    return c._array.astype(bool, copy=False)


def alike(a: Any, b: Any) -> list[np.ndarray]:
    """Tensors and numbers as arrays of their common dtype."""
    tensor = a if isinstance(a, Tensor) else b
    if isinstance(tensor, Tensor):
        kind = tensor._array.dtype
        x, y = plain(a, kind), plain(b, kind)
        if x is not None and y is not None:
            return [x, y]
    for name, position, value in (("input", 2, a), ("other", 3, b)):
        if not isinstance(value, (Tensor, *NUMBER)):
            raise messages.expected_tensor("where", name, position, value)
    kind = common_dtype((a, b)).numpy
    return [cast(t._array, kind) if isinstance(t, Tensor) else np.array(t, kind) for t in (a, b)]


def alike_tensors(condition: Any, a: Any, b: Any) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`mask` and :func:`alike` inside a trace: tensors instead of arrays."""
    c = need_tensor("where", condition, "condition")
    if c.dtype not in (dtypes.bool_, dtypes.uint8):
        mask(condition)
    for name, position, value in (("input", 2, a), ("other", 3, b)):
        if not isinstance(value, (Tensor, *NUMBER)):
            raise messages.expected_tensor("where", name, position, value)
    kind = common_dtype((a, b))
    return c.to(dtypes.bool_), as_tensor(a, kind), as_tensor(b, kind)


def as_tensor(value: Any, kind: dtypes.dtype) -> Tensor:
    """An operand inside a trace as a tensor; a float, or a size, may change between calls."""
    if isinstance(value, Tensor):
        return value.to(kind)
    if isinstance(value, float) or is_extent(value):
        return registry["cast"].traced((value,), {"dtype": kind})
    return literal(np.array(value, kind.numpy))


def where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """Elements of this tensor where ``condition`` holds, of ``other`` elsewhere."""
    return ops.where(condition, self, other)


where_method.__name__ = where_method.__qualname__ = "where"
install(where=where_method)


class ClampMin(Named):
    """Elements below ``min`` (a number or tensor) raised to it.

    >>> rl.tensor([-1.0, 2.0]).clamp_min(0)
    tensor([0., 2.])
    """

    kinds = "bif"
    arithmetic = True
    samples = [*binary_samples(), S(T(3, 4), 0.5), S(T(3, 4), 1)]
    eager = staticmethod(select.at_least)

    def public(self, binary: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        function = super().public(binary)

        def clamp_min(input: Tensor, min: Any, *, out: Tensor | None = None) -> Tensor:
            return function(input, min, out=out)

        return clamp_min

    def vjp_a(self, g, _y, a, b):
        return masked(a >= b, g)

    def vjp_b(self, g, _y, a, b):
        return masked(a < b, g)


class ClampMax(Named):
    """Elements above ``max`` (a number or tensor) lowered to it.

    >>> rl.tensor([-1.0, 2.0]).clamp_max(0)
    tensor([-1.,  0.])
    """

    kinds = "bif"
    arithmetic = True
    samples = [*binary_samples(), S(T(3, 4), 0.5), S(T(3, 4), 1)]
    eager = staticmethod(select.at_most)

    def public(self, binary: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        function = super().public(binary)

        def clamp_max(input: Tensor, max: Any, *, out: Tensor | None = None) -> Tensor:
            return function(input, max, out=out)

        return clamp_max

    def vjp_a(self, g, _y, a, b):
        return masked(a <= b, g)

    def vjp_b(self, g, _y, a, b):
        return masked(a > b, g)


class Between(Formula):
    """Elements clamped from both sides."""

    function = method = inplace = False
    operands = ("x", "low", "high")
    kinds = "if"
    arithmetic = True
    eager = staticmethod(select.between)

    def check(self, input, min, max):
        return (input, min, max), {}

    def vjp_x(self, g, _y, x, low, high):
        return masked((x >= low) & (x <= high), g)

    def vjp_low(self, g, _y, x, low, high):
        return masked((x < low) & (low < high), g)

    def vjp_high(self, g, _y, x, low, high):
        return masked((x > high) | (high < low), g)


between = registry["between"].call
raised, lowered = [cast_to(Binary, registry[name]).binary for name in ("clamp_min", "clamp_max")]
BOUND = (Tensor, *NUMBER)


@composite(
    aliases=("clip",),
    inplace=True,
    samples=[
        S(T(3, 4), -1, 1),
        S(T(3, 4), min=0.5),
        S(T(3, 4), max=0.5),
        S(T(3, 4), T(4, low=-2, high=0), T(3, 1, low=0.1)),
        S(T(3, 4), max=T(4)),
        S(T(0), 0, 1),
    ],
    errors=[
        Fails(RuntimeError, "At least one of 'min' or 'max' must not be None", T(2)),
        Fails(TypeError, "argument 'min' .* must be Tensor or Number, not str", T(2), "0"),
        Fails(RuntimeError, r"size of tensor a \(2\) must match", T(2), T(3), T(2)),
    ],
)
def clamp(input: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Elements below ``min`` raised to it, above ``max`` lowered to it: numbers, tensors or None.

    >>> rl.tensor([-1.0, 0.5, 2.0]).clamp(0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if max is None and isinstance(min, BOUND) and isinstance(input, Tensor):
        y = raised(input, min)
    elif min is None and isinstance(max, BOUND):
        y = lowered(need_tensor("clamp", input), max)
    elif isinstance(min, BOUND) and isinstance(max, BOUND):
        y = between(need_tensor("clamp", input), min, max)
    elif min is None and max is None:
        raise RuntimeError("clamp: At least one of 'min' or 'max' must not be None")
    else:
        wrong = ("min", 2, min) if not isinstance(min, (*BOUND, type(None))) else ("max", 3, max)
        name, position, value = wrong
        raise TypeError(
            f"clamp(): argument '{name}' (position {position}) must be Tensor or Number, "
            f"not {messages.kind(value)}"
        )
    return y if out is None else into(out, y)


class Extreme(TensorPair, abstract=True):
    """The larger or smaller of two elements; equal ones share the gradient."""

    kinds = "bif"
    inplace = False
    samples = binary_samples()


class Maximum(Extreme):
    """The larger of two elements, or NaN if one is.

    >>> rl.maximum(rl.tensor([1.0, 5.0]), rl.tensor([3.0, 2.0]))
    tensor([3., 5.])
    """

    eager = np.maximum

    def vjp_a(self, g, _y, a, b):
        return cleared(a < b, ops.where(a == b, g / 2, g))

    def vjp_b(self, g, _y, a, b):
        return cleared(a > b, ops.where(a == b, g / 2, g))


class Minimum(Extreme):
    """The smaller of two elements, or NaN if one is.

    >>> rl.minimum(rl.tensor([1.0, 5.0]), rl.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """

    eager = np.minimum

    def vjp_a(self, g, _y, a, b):
        return cleared(a > b, ops.where(a == b, g / 2, g))

    def vjp_b(self, g, _y, a, b):
        return cleared(a < b, ops.where(a == b, g / 2, g))


class Fmax(Extreme):
    """The larger of two elements; a NaN loses to a number.

    >>> rl.fmax(rl.tensor([1.0, float("nan")]), rl.tensor([3.0, 2.0]))
    tensor([3., 2.])
    """

    eager = np.fmax

    def vjp_a(self, g, _y, a, b):
        return masked((a >= b) | b.isnan(), g)

    def vjp_b(self, g, _y, a, b):
        return cleared((a >= b) | b.isnan(), g)


class Fmin(Extreme):
    """The smaller of two elements; a NaN loses to a number.

    >>> rl.fmin(rl.tensor([1.0, float("nan")]), rl.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """

    eager = np.fmin

    def vjp_a(self, g, _y, a, b):
        return masked((a <= b) | b.isnan(), g)

    def vjp_b(self, g, _y, a, b):
        return cleared((a <= b) | b.isnan(), g)


class Lerp(Formula):
    """The point between ``input`` and ``end``: ``input + weight * (end - input)``.

    >>> rl.lerp(rl.tensor([0.0, 10.0]), rl.tensor([10.0, 20.0]), 0.5)
    tensor([ 5., 15.])
    """

    kinds = "fc"
    samples = [
        S(T(3, 4), T(3, 4), 0.3),
        S(T(3, 4), T(4), 0.7),
        S(T(3, 4), T(4), T(3, 1, low=0, high=1)),
        S(T(), T(), T()),
    ]
    errors = [
        Fails(
            RuntimeError,
            "dtype float32 for `end` but got dtype float64",
            T(2, dtype=dtypes.float32),
            T(2, dtype=dtypes.float64),
            0.5,
        ),
        Fails(RuntimeError, r"size of tensor a \(2\) must match", T(2), T(3), 0.5),
    ]

    def check(self, input: Tensor, end: Tensor, weight: Any) -> Any:
        a, b = need_tensor("lerp", input), need_tensor("lerp", end, "end", 2)
        same_dtype("lerp", a, b, "end")
        if isinstance(weight, Tensor):
            same_dtype("lerp", a, weight, "weight")
        elif not isinstance(weight, NUMBER):
            raise messages.expected_tensor("lerp", "weight", 3, weight)
        return (a, b, weight), {}

    def eager(self, start, end, weight):
        way = end - start
        if not weight.ndim:
            return start + way * weight if abs(weight) < 0.5 else end - way * (1 - weight)
        return np.where(abs(weight) < 0.5, start + way * weight, end - way * (1 - weight))

    def emit(self, b, start, end, weight):
        way = end - start
        return b.where(abs(weight) < 0.5, start + way * weight, end - way * (1 - weight))

    def vjp_start(self, g, _y, _start, _end, weight):
        return g * conjugate(1 - weight)

    def vjp_end(self, g, _y, _start, _end, weight):
        return g * conjugate(weight)

    def vjp_weight(self, g, _y, start, end, _weight):
        return g * conjugate(end - start)
