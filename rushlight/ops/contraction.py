"""Products that sum over a shared index: matrices, batches of them, einsum."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.ops.base import Op, need_tensor
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor


class Mm(Op):
    """The product of two matrices: (n, k) by (k, m) gives (n, m).

    >>> rl.ones(2, 3).mm(rl.ones(3, 4)).shape
    rushlight.Size([2, 4])
    """

    samples = [S(T(3, 4), T(4, 5)), S(T(3, 0), T(0, 2)), S(T(1, 1), T(1, 1))]
    errors = [
        Fails(RuntimeError, r"cannot be multiplied \(2x3 and 4x5\)", T(2, 3), T(4, 5)),
        Fails(RuntimeError, "mat2 must be a matrix", T(2, 3), T(3)),
        Fails(RuntimeError, "same dtype", T(2, 3, dtype=dtypes.float32), T(3, 2, dtype=dtypes.float64)),
    ]

    def check(self, input: Tensor, mat2: Tensor) -> Any:
        a, b = need_tensor("mm", input), need_tensor("mm", mat2, "mat2", 2)
        if a.ndim != 2:
            raise RuntimeError(f"mm(): self must be a matrix, got shape {list(a.shape)}")
        if b.ndim != 2:
            raise RuntimeError(f"mm(): mat2 must be a matrix, got shape {list(b.shape)}")
        (n, k), (l, m) = a._array.shape, b._array.shape
        if k != l:
            raise RuntimeError(
                f"mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {l}x{m})"
            )
        if a._array.dtype is not b._array.dtype:
            raise RuntimeError(
                f"mm(): expected both matrices to have the same dtype, got {a.dtype} and {b.dtype}"
            )
        return (a, b), {}

    def eager(self, a, b):
        return np.matmul(a, b)

    def vjp_a(self, g, _y, _a, b):
        return g.mm(b.t())

    def vjp_b(self, g, _y, a, _b):
        return a.t().mm(g)
