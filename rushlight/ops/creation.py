"""New tensors: from Python values, from arrays, filled, counted."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.device import device, require
from rushlight.ops.base import composite, need_tensor
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor, wrap


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
