"""Changing the dtype of elements, and copying them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.ops.base import Op, composite, need_tensor, ops
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor


class Cast(Op):
    """The elements converted to another dtype, as a new tensor.

    >>> rl.tensor([1.7, -1.7]).to(rl.int64)
    tensor([ 1, -1])
    """

    method = False
    samples = [S(T(3, 4), dtypes.float64)]
    errors = [Fails(TypeError, "must be rushlight.dtype, not int", T(3), 3)]

    def check(self, input: Tensor, dtype: dtypes.dtype) -> Any:
        return (need_tensor("cast", input),), {"dtype": dtypes.as_dtype(dtype)}

    def eager(self, x, *, dtype):
        return x.astype(dtype.numpy)

    def vjp(self, g, _y, _x, *, dtype):
        return g.to(_x.dtype)


class Clone(Op):
    """A copy with memory of its own.

    >>> rl.tensor([1.0, 2.0]).clone()
    tensor([1., 2.])
    """

    samples = [S(T(3, 4)), S(T()), S(T(2, 0))]
    errors = [Fails(TypeError, "must be Tensor, not list", [1.0])]

    def check(self, input: Tensor, *, memory_format: Any = None) -> Any:
        return (need_tensor("clone", input),), {}

    def eager(self, x):
        return x.copy()

    def vjp(self, g, _y, _x):
        return g


@composite(
    function=False,
    samples=[S(T(3, 4), dtypes.float64), S(T(2), dtypes.float32, copy=True)],
    errors=[Fails(RuntimeError, "device 'cuda' is not available", T(2), "cuda")],
)
def to(input: Tensor, dtype: Any = None, copy: bool = False) -> Tensor:
    """The tensor with another dtype or device; itself if nothing changes.

    >>> rl.ones(2).to(rl.float64).dtype
    rushlight.float64
    """
    if input._array.dtype is dtype.numpy and not copy:
        return input
    return ops.cast(input, dtype)
