"""Numbers of few bits with a scale and a zero point, and products of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from rushlight import dtypes
from rushlight.onnx.elements import HELD
from rushlight.onnx.importers.contraction import conv
from rushlight.onnx.importers.conversion import converted, element_named
from rushlight.onnx.importers.registry import op, tensor_of
from rushlight.ops import ops
from rushlight.tensor import Tensor


def kind_of(x: Any) -> np.dtype:
    return x._array.dtype if isinstance(x, Tensor) else x.dtype


def is_integer(kind: np.dtype) -> bool:
    return kind.name.startswith(("int", "uint"))


def limits(kind: np.dtype) -> tuple[int, int]:
    info = ml_dtypes.iinfo(kind)
    return int(info.min), int(info.max)


def spread(p: Tensor, shape: Any, axis: int, block: int) -> Tensor:
    """A scale or zero point beside each element: one for all, for a slice, or for a block."""
    if block:
        return p.repeat_interleave(block, axis).narrow(axis, 0, shape[axis])
    if p.numel() == 1:
        return p.reshape(())
    sizes = [1] * len(shape)
    sizes[axis] = -1
    return p.reshape(sizes)


@op("QuantizeLinear", raw=True)
def quantize(
    x: Any,
    y_scale: Any,
    y_zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Any:
    """``round(x / scale) + zero point``, as far as the elements reach."""
    target = np.dtype(np.uint8)
    if y_zero_point is not None:
        target = kind_of(y_zero_point)
    elif output_dtype:
        target = element_named(output_dtype)
    x = tensor_of(x)
    scale = spread(wide(y_scale, dtypes.float32), x.shape, axis, block_size)
    wanted = scale.dtype
    if precision:
        wanted = dtypes.from_numpy(element_named(precision))
    scaled = x.to(wanted) / scale.to(wanted)
    if not is_integer(target):
        return converted(scaled, target, bool(saturate))
    y = ops.round(scaled)
    if y_zero_point is not None:
        y = y + spread(wide(y_zero_point, dtypes.int32), x.shape, axis, block_size)
    low, high = limits(target)
    return converted(ops.clamp(y, low, high), target)


@op("DequantizeLinear", raw=True)
def dequantize(
    x: Any,
    x_scale: Any,
    x_zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    """``(x - zero point) scale``."""
    result = kind_of(x_scale) if not output_dtype else element_named(output_dtype)
    scale = spread(wide(x_scale, dtypes.float32), x.shape, axis, block_size)
    y = wide(x, dtypes.int32 if is_integer(kind_of(x)) else dtypes.float32)
    if x_zero_point is not None and is_integer(kind_of(x)):
        y = y - spread(wide(x_zero_point, dtypes.int32), x.shape, axis, block_size)
    return (y.to(dtypes.float32) * scale).to(dtypes.from_numpy(result))


def wide(x: Any, dtype: dtypes.dtype) -> Tensor:
    """A tensor of elements that are wide enough to calculate with."""
    if isinstance(x, np.ndarray) and x.dtype not in HELD:
        return tensor_of(x.astype(dtype.numpy))
    return tensor_of(x).to(dtype)


def shifted(x: Tensor, zero: Tensor | None, row: bool = False) -> Tensor:
    """Integers less their zero point, as float64: products of them are exact."""
    if zero is None:
        return x.to(dtypes.float64)
    zero = zero.to(dtypes.float64)
    if zero.ndim and zero.numel() > 1 and row:
        zero = zero.unsqueeze(-1)
    return x.to(dtypes.float64) - (zero.reshape(()) if zero.numel() == 1 else zero)


@op("MatMulInteger")
def matmul_integer(
    a: Tensor, b: Tensor, a_zero_point: Tensor | None = None, b_zero_point: Tensor | None = None
) -> Tensor:
    product = ops.matmul(shifted(a, a_zero_point, a.ndim > 1), shifted(b, b_zero_point))
    return product.to(dtypes.int32)


@op("ConvInteger")
def conv_integer(
    x: Tensor,
    w: Tensor,
    x_zero_point: Tensor | None = None,
    w_zero_point: Tensor | None = None,
    **options: Any,
) -> Tensor:
    return conv(shifted(x, x_zero_point), channels(w, w_zero_point), **options).to(dtypes.int32)


def channels(w: Tensor, zero: Tensor | None) -> Tensor:
    """Weights less the zero point of each output channel."""
    if zero is not None and zero.numel() > 1:
        zero = zero.reshape(-1, *[1] * (w.ndim - 1))
    return shifted(w, zero)


def requantized(y: Tensor, scale: Tensor, zero: Any) -> Any:
    """Exact sums of products as small integers again."""
    target = kind_of(zero)
    low, high = limits(target)
    shifted_back = ops.round(y.to(dtypes.float32) * scale) + wide(zero, dtypes.float32)
    return converted(ops.clamp(shifted_back, low, high), target)


@op("QLinearMatMul")
def qlinear_matmul(
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
) -> Any:
    product = ops.matmul(shifted(a, a_zero_point, a.ndim > 1), shifted(b, b_zero_point))
    left = a_scale.unsqueeze(-1) if a_scale.ndim and a_scale.numel() > 1 else a_scale
    scale = left.to(dtypes.float32) * b_scale.to(dtypes.float32) / y_scale.to(dtypes.float32)
    return requantized(product, scale, y_zero_point)


@op("QLinearConv")
def qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    b: Tensor | None = None,
    **options: Any,
) -> Any:
    bias = None if b is None else b.to(dtypes.float64)
    y = conv(shifted(x, x_zero_point), channels(w, w_zero_point), bias, **options)
    scale = x_scale * w_scale / y_scale
    if scale.numel() > 1:
        scale = scale.reshape(-1, *[1] * (w.ndim - 2))
    return requantized(y, scale, y_zero_point)
