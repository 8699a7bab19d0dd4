"""New tensors: from Python values, from arrays, filled, counted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.device import device, require
from rushlight.ops.base import composite, into, need_tensor
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor, wrap


def shape_of(size: tuple[Any, ...], name: str) -> tuple[int, ...]:
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    shape = tuple([n.__index__() for n in size])
    if shape and min(shape) < 0:
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}"
        )
    return shape


def kind_of(dtype: Any) -> np.dtype:
    return (dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)).numpy


@composite(method=False, samples=[S(2, 3)], errors=[])
def zeros(*size: Any, out: Tensor | None = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:
    """Zeros of the given shape.

    >>> rl.zeros(2)
    tensor([0., 0.])
    """
    require(device)
    return wrap(np.zeros(shape_of(size, "zeros"), kind_of(dtype))).requires_grad_(requires_grad)


@composite(method=False, samples=[S(2, 3)], errors=[])
def ones(*size: Any, out: Tensor | None = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:
    """Ones of the given shape.

    >>> rl.ones(2)
    tensor([1., 1.])
    """
    require(device)
    return wrap(np.ones(shape_of(size, "ones"), kind_of(dtype))).requires_grad_(requires_grad)


@composite(method=False, samples=[S(2, 3)], errors=[])
def empty(*size: Any, out: Tensor | None = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False, memory_format: Any = None, requires_grad: bool = False) -> Tensor:
    """Uninitialised."""
    require(device)
    return wrap(np.empty(shape_of(size, "empty"), kind_of(dtype))).requires_grad_(requires_grad)


@composite(method=False, samples=[S((2, 3), 1.5)], errors=[])
def full(size: Any, fill_value: Any, *, out: Tensor | None = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:
    """Filled.

    >>> rl.full((2,), 1.5)
    tensor([1.5000, 1.5000])
    """
    require(device)
    kind = dtypes.of_scalar(fill_value).numpy if dtype is None else kind_of(dtype)
    return wrap(np.full(shape_of((size,), "full"), fill_value, kind)).requires_grad_(requires_grad)


@composite(method=False, samples=[S(5)], errors=[])
def arange(start: Any, end: Any = None, step: Any = 1, *, out: Tensor | None = None, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:
    """Counted.

    >>> rl.arange(3)
    tensor([0, 1, 2])
    """
    if end is None:
        start, end = 0, start
    count = max(0, math.ceil((end - start) / step))
    whole = all(isinstance(v, int) for v in (start, end, step))
    kind = (np.dtype(np.int64) if whole else kind_of(None)) if dtype is None else kind_of(dtype)
    return wrap((start + step * np.arange(count)).astype(kind)).requires_grad_(requires_grad)


@composite(
    method=False,
    samples=[S(T(3, 4)), S(T(2), dtype=dtypes.int64)],
    errors=[Fails(TypeError, "must be Tensor, not list", [1.0])],
)
def zeros_like(
    input: Tensor,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: device | str | None = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Zeros of the shape and dtype of ``input``.

    >>> rl.zeros_like(rl.ones(2))
    tensor([0., 0.])
    """
    x = need_tensor("zeros_like", input)
    require(device)
    kind = x._array.dtype if dtype is None else dtypes.as_dtype(dtype).numpy
    return wrap(np.zeros(x._array.shape, kind)).requires_grad_(requires_grad)


@composite(
    method=False,
    samples=[S(T(3, 4)), S(T(2), dtype=dtypes.int64)],
    errors=[Fails(TypeError, "must be Tensor, not list", [1.0])],
)
def ones_like(
    input: Tensor,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: device | str | None = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Ones of the shape and dtype of ``input``.

    >>> rl.ones_like(rl.ones(2))
    tensor([1., 1.])
    """
    x = need_tensor("ones_like", input)
    require(device)
    kind = x._array.dtype if dtype is None else dtypes.as_dtype(dtype).numpy
    return wrap(np.ones(x._array.shape, kind)).requires_grad_(requires_grad)
