"""Reductions: many elements folded into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.ops.base import composite, need_tensor
from rushlight.ops.families import Reduction, restore_dims
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor


class Sum(Reduction):
    """The sum over all elements, or over the dimensions ``dim``.

    Integers and bools are summed as int64; ``dtype`` converts first.

    >>> rl.tensor([[1.0, 2.0], [3.0, 4.0]]).sum(dim=0)
    tensor([4., 6.])
    """

    samples = [S(T(3, 4)), S(T(3, 4), dim=1), S(T(2, 3, 4), dim=(0, 2), keepdim=True), S(T(0, 3), 0)]
    errors = [
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), 2),
        Fails(RuntimeError, "appears multiple times", T(3, 4), (1, 1)),
    ]

    def check(
        self,
        input: Tensor,
        dim: int | Sequence[int] | None = None,
        keepdim: bool = False,
        *,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        x = need_tensor("sum", input)
        if dtype is not None:
            x = x.to(dtype)
        elif x._array.dtype.kind in "biu":
            x = x.to(dtypes.int64)
        return Reduction.check(self, x, dim, keepdim)

    def eager(self, x, *, dim, keepdim):
        return np.add.reduce(x, dim, keepdims=keepdim)

    def vjp(self, g, _y, _x, *, dim, keepdim):
        return restore_dims(g, _x, dim, keepdim).expand(_x.shape)


@composite(
    function=False,
    samples=[S(T(3, 4), (1, 4)), S(T(3, 4), (4,))],
    errors=[Fails(RuntimeError, r"is not expandable to size \[3, 4\]", T(3, 4), (2,))],
)
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """The sum over the dimensions that broadcasting ``size`` to this shape would repeat.

    >>> rl.ones(3, 4).sum_to_size(1, 4)
    tensor([[3., 3., 3., 3.]])
    """
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    have = input._array.shape
    lead = len(have) - len(shape)
    if lead < 0 or any(n not in (1, h) for n, h in zip(shape, have[lead:], strict=True)):
        raise RuntimeError(f"size {list(shape)} is not expandable to size {list(have)}.")
    dims = [i for i, h in enumerate(have) if i < lead or (shape[i - lead] == 1 and h != 1)]
    y = input.sum(dims, keepdim=True) if dims else input
    return y.reshape(shape) if lead else y
