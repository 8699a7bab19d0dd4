"""Random tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.ops.base import composite
from rushlight.ops.creation import kind_of, shape_of
from rushlight.ops.samples import S
from rushlight.tensor import Tensor, wrap

_random = np.random.default_rng(0)


@composite(method=False, samples=[S(2, 3)], errors=[])
def randn(*size: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Normal deviates."""
    y = _random.standard_normal(shape_of(size, "randn")).astype(kind_of(dtype))
    return wrap(y).requires_grad_(requires_grad)


@composite(method=False, samples=[S(2, 3)], errors=[])
def rand(*size: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Uniform deviates."""
    y = _random.random(shape_of(size, "rand")).astype(kind_of(dtype))
    return wrap(y).requires_grad_(requires_grad)
