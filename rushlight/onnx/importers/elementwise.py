"""Arithmetic, comparisons and logic, element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.onnx.elements import HELD
from rushlight.onnx.importers.conversion import converted, element_named
from rushlight.onnx.importers.registry import is_host, known, op, tensor_of
from rushlight.ops import ops
from rushlight.tensor import Tensor

LARGEST = float(np.finfo(np.float32).max)

UNARY = {
    "Abs": ops.abs,
    "Acos": ops.acos,
    "Acosh": ops.acosh,
    "Asin": ops.asin,
    "Asinh": ops.asinh,
    "Atan": ops.atan,
    "Atanh": ops.atanh,
    "Ceil": ops.ceil,
    "Cos": ops.cos,
    "Cosh": ops.cosh,
    "Erf": ops.erf,
    "Exp": ops.exp,
    "Floor": ops.floor,
    "IsNaN": ops.isnan,
    "Log": ops.log,
    "Neg": ops.neg,
    "Reciprocal": ops.reciprocal,
    "Round": ops.round,
    "Sign": ops.sign,
    "Sin": ops.sin,
    "Sinh": ops.sinh,
    "Sqrt": ops.sqrt,
    "Tan": ops.tan,
    "Tanh": ops.tanh,
    "Sigmoid": ops.sigmoid,
    "Relu": ops.relu,
    "BitwiseNot": ops.bitwise_not,
}
HOST_UNARY = {"Abs": np.abs, "Neg": np.negative, "Ceil": np.ceil, "Floor": np.floor}
HOST_UNARY |= {"Sqrt": np.sqrt, "Not": np.logical_not}
UNARY |= {"Not": ops.logical_not}


def unary(on_tensors: Callable[..., Any], on_arrays: Callable[..., Any] | None) -> Any:
    """An importer of one input; early versions said with an attribute what they overwrite."""

    def apply(x: Any, *, consumed_inputs: Sequence[int] = ()) -> Any:
        return on_arrays(x) if on_arrays is not None and is_host(x) else on_tensors(x)

    return apply


for name, function in UNARY.items():
    twin = HOST_UNARY.get(name)
    op(name, host=twin is not None)(unary(function, twin))


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Division as ONNX has it: integers are rounded towards zero."""
    if a.dtype.kind not in "iu":
        return a // b if a.dtype == object else a / b
    below = a // b
    return below + ((below < 0) & (below * b != a)).astype(a.dtype)


def divided(a: Tensor, b: Tensor) -> Tensor:
    return ops.div(a, b) if a.is_floating_point() else ops.div(a, b, rounding_mode="trunc")


BINARY: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "Add": (ops.add, np.add),
    "Sub": (ops.sub, np.subtract),
    "Mul": (ops.mul, np.multiply),
    "Div": (divided, quotient),
    "And": (ops.logical_and, np.logical_and),
    "Or": (ops.logical_or, np.logical_or),
    "Xor": (ops.logical_xor, np.logical_xor),
    "Equal": (ops.eq, np.equal),
    "Greater": (ops.gt, np.greater),
    "GreaterOrEqual": (ops.ge, np.greater_equal),
    "Less": (ops.lt, np.less),
    "LessOrEqual": (ops.le, np.less_equal),
    "BitwiseAnd": (ops.bitwise_and, np.bitwise_and),
    "BitwiseOr": (ops.bitwise_or, np.bitwise_or),
    "BitwiseXor": (ops.bitwise_xor, np.bitwise_xor),
}


def binary(on_tensors: Callable[..., Any], on_arrays: Callable[..., Any]) -> Any:
    """An importer of two inputs, with the broadcasting of version 1 to 6, which names an axis."""

    def apply(
        a: Any,
        b: Any,
        *,
        axis: int | None = None,
        broadcast: int = 0,
        consumed_inputs: Sequence[int] = (),
    ) -> Any:
        if broadcast and axis is not None:
            b = aligned(b, a.ndim, axis)
        return on_arrays(a, b) if is_host(a) else on_tensors(a, b)

    return apply


def aligned(b: Any, ndim: int, axis: int) -> Any:
    """``b`` with its first dimension at ``axis`` of ``ndim``."""
    after = ndim - (axis % max(ndim, 1)) - b.ndim
    return b.reshape(*b.shape, *[1] * after) if after > 0 else b


for name, (on_tensors, on_arrays) in BINARY.items():
    op(name, host=True)(binary(on_tensors, on_arrays))


@op("Mod", host=True)
def mod(a: Any, b: Any, *, fmod: int = 0) -> Any:
    if is_host(a):
        return np.fmod(a, b) if fmod else a % b
    return ops.fmod(a, b) if fmod else ops.remainder(a, b)


@op("Pow")
def power(
    a: Tensor,
    b: Tensor,
    *,
    axis: int | None = None,
    broadcast: int = 0,
) -> Tensor:
    if broadcast and axis is not None:
        b = aligned(b, a.ndim, axis)
    if not a.is_floating_point() and b.is_floating_point():
        return ops.pow(a.to(dtypes.float64), b).to(a.dtype)
    return ops.pow(a, b).to(a.dtype)


@op("BitShift")
def bit_shift(a: Tensor, b: Tensor, *, direction: str) -> Tensor:
    return ops.bitwise_left_shift(a, b) if direction == "LEFT" else ops.bitwise_right_shift(a, b)


@op("IsInf")
def is_infinite(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    if detect_negative and detect_positive:
        return ops.isinf(x)
    if detect_negative:
        return ops.isneginf(x)
    return ops.isposinf(x) if detect_positive else ops.zeros_like(x, dtype=dtypes.bool_)


@op("Max", host=True)
def maximum(*xs: Any, consumed_inputs: Sequence[int] = ()) -> Any:
    return reduce(np.maximum if is_host(xs[0]) else ops.maximum, xs)


@op("Min", host=True)
def minimum(*xs: Any, consumed_inputs: Sequence[int] = ()) -> Any:
    return reduce(np.minimum if is_host(xs[0]) else ops.minimum, xs)


@op("Sum")
def total(*xs: Tensor, consumed_inputs: Sequence[int] = ()) -> Tensor:
    return reduce(ops.add, xs)


@op("Mean")
def mean(*xs: Tensor, consumed_inputs: Sequence[int] = ()) -> Tensor:
    return reduce(ops.add, xs) / len(xs)


@op("Clip", since=11)
@op("Clip")
def clip(x: Tensor, min: Any = None, max: Any = None, *, consumed_inputs: Any = ()) -> Tensor:
    """The limits are attributes up to version 10; if they cross, the upper one holds."""
    if min is None and max is None:
        return x
    return ops.clamp(x, min=min, max=max)


@op("Clip", since=6)
def clip_to_finite(x: Tensor, *, min: float = -LARGEST, max: float = LARGEST) -> Tensor:
    """From version 6 to 10: infinities become the largest numbers."""
    return ops.clamp(x, min=min, max=max)


@op("Where", host=True)
def where(condition: Any, x: Any, y: Any) -> Any:
    if is_host(condition):
        return np.where(condition, x, y)
    return ops.where(condition, x, y)


@op("Cast", raw=True)
def cast(x: Any, *, to: Any, saturate: int = 1, round_mode: str = "up") -> Any:
    """``to`` was a name up to version 5. Elements that tensors lack are arrays."""
    return converted(x, element_named(to), bool(saturate), round_mode)


@op("CastLike", raw=True)
def cast_like(x: Any, like: Any, *, saturate: int = 1, round_mode: str = "up") -> Any:
    target = like._array.dtype if isinstance(like, Tensor) else like.dtype
    return converted(x, target, bool(saturate), round_mode)


@op("BitCast", raw=True)
def bit_cast(x: Any, *, to: int) -> Any:
    target = element_named(to)
    if target in HELD and isinstance(tensor_of(x), Tensor):
        return tensor_of(x).view(dtypes.from_numpy(target))
    return np.asarray(known(x)).view(target)
