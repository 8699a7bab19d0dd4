"""Reductions: sums, extremes and their places, and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.onnx.importers.registry import integer, integers, is_host, op, tensor_of
from rushlight.ops import ops
from rushlight.tensor import Tensor


def product(x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    for axis in sorted([axis % x.ndim for axis in axes], reverse=True):
        x = ops.prod(x, axis, keepdim=keepdim, dtype=x.dtype)
    return x


def extreme(function: Callable[..., Tensor], sign: int) -> Callable[..., Tensor]:
    """Of booleans, too; of nothing, it is the value that all others exceed."""

    def apply(x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
        if x.dtype is dtypes.bool_:
            return apply(x.to(dtypes.uint8), axes, keepdim).to(x.dtype)
        if any([x.shape[axis] == 0 for axis in axes]):
            least = -math.inf * sign
            if not x.is_floating_point():
                limits = dtypes.iinfo(x.dtype)
                least = limits.min if sign > 0 else limits.max
            return total(x, axes, keepdim) + least
        return function(x, axes, keepdim)

    return apply


def total(x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    return ops.sum(x, axes, keepdim=keepdim, dtype=x.dtype)


def mean(x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    if x.is_floating_point():
        return ops.mean(x, axes, keepdim=keepdim)
    count = math.prod([x.shape[axis] for axis in axes])
    return ops.div(total(x, axes, keepdim), count, rounding_mode="trunc")


def log_sum_exp(x: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    return ops.logsumexp(x, axes, keepdim=keepdim)


REDUCTIONS: dict[str, tuple[Callable[..., Tensor], Callable[..., Any] | None]] = {
    "ReduceSum": (total, np.sum),
    "ReduceProd": (product, np.prod),
    "ReduceMax": (extreme(ops.amax, 1), np.max),
    "ReduceMin": (extreme(ops.amin, -1), np.min),
    "ReduceMean": (mean, None),
    "ReduceL1": (lambda x, axes, keepdim: total(x.abs(), axes, keepdim), None),
    "ReduceL2": (lambda x, axes, keepdim: total(x * x, axes, keepdim).sqrt().to(x.dtype), None),
    "ReduceSumSquare": (lambda x, axes, keepdim: total(x * x, axes, keepdim), None),
    "ReduceLogSum": (lambda x, axes, keepdim: total(x, axes, keepdim).log(), None),
    "ReduceLogSumExp": (log_sum_exp, None),
}


def reduction(on_tensors: Callable[..., Tensor], on_arrays: Callable[..., Any] | None) -> Any:
    """An importer; ``axes`` became an input in version 13 (of sums) or 18."""

    def apply(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        chosen = [] if axes is None else integers(axes)
        if not chosen:
            if noop_with_empty_axes:
                return x if on_tensors in (total, mean) else on_tensors(x[None], [0], False)
            chosen = list(range(x.ndim))
        if is_host(x) and on_arrays is not None and x.size:
            return np.asarray(on_arrays(x, tuple(chosen), keepdims=bool(keepdims)))
        x = tensor_of(x)
        return on_tensors(x, chosen, bool(keepdims)) if chosen else on_tensors(x[None], [0], False)

    return apply


for name, (on_tensors, on_arrays) in REDUCTIONS.items():
    op(name, known=["axes"], host=on_arrays is not None)(reduction(on_tensors, on_arrays))


def place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An importer of ArgMax or ArgMin."""

    def apply(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
        if not select_last_index:
            return function(x, axis, keepdim=bool(keepdims))
        return x.shape[axis] - 1 - function(x.flip(axis), axis, keepdim=bool(keepdims))

    return apply


op("ArgMax")(place(ops.argmax))
op("ArgMin")(place(ops.argmin))


def running(function: Callable[..., Tensor], neutral: int) -> Callable[..., Tensor]:
    """An importer of CumSum or CumProd."""

    def apply(x: Tensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
        dim = integer(axis)
        if reverse:
            x = x.flip(dim)
        y = function(x, dim, dtype=x.dtype)
        if exclusive:
            first = ops.full_like(x.narrow(dim, 0, min(1, x.shape[dim])), neutral)
            y = ops.cat([first, y.narrow(dim, 0, max(x.shape[dim] - 1, 0))], dim)
        return y.flip(dim) if reverse else y

    return apply


op("CumSum", known=["axis"])(running(ops.cumsum, 0))
op("CumProd", known=["axis"])(running(ops.cumprod, 1))
