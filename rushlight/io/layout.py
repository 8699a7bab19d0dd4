"""Tensors over stored bytes: every size and place is checked before an array is made."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.io.errors import CheckpointError
from rushlight.tensor import Tensor, wrap

MOST = (1 << 63) - 1


def dtype_called(name: Any) -> dtypes.dtype:
    for kind in dtypes.ALL:
        if kind.name == name:
            return kind
    raise CheckpointError(f"the dtype {name!r} is unknown")


def sizes(values: Any, what: str) -> tuple[int, ...]:
    """A list of whole numbers of which none is negative."""
    if not isinstance(values, (list, tuple)) or len(values) > 64:
        raise CheckpointError(f"{what} is no list of at most 64 sizes")
    for n in values:
        if type(n) is not int or n < 0 or n > MOST:
            raise CheckpointError(f"{what} holds {n!r}, which is no size")
    if prod([n for n in values if n]) > MOST:
        raise CheckpointError(f"{what} {list(values)} describes too many elements")
    return tuple(values)


def dense(data: np.ndarray, kind: dtypes.dtype, shape: Sequence[int]) -> Tensor:
    """The tensor that fills ``data``, an array of bytes, exactly."""
    if prod(shape) * kind.itemsize != data.size:
        raise CheckpointError(
            f"shape {list(shape)} of {kind.name} takes {prod(shape) * kind.itemsize} bytes, but "
            f"{data.size} are stored"
        )
    return wrap(data.view(kind.numpy).reshape(shape))


def strided(
    data: np.ndarray,
    kind: dtypes.dtype,
    shape: Sequence[int],
    strides: Sequence[int],
    offset: int,
) -> Tensor:
    """A tensor of given strides and offset (in elements) over an array of bytes."""
    if len(strides) != len(shape):
        raise CheckpointError(f"{len(shape)} sizes but {len(strides)} strides")
    count = data.size // kind.itemsize
    last = offset + sum([(n - 1) * s for n, s in zip(shape, strides, strict=True)])
    if 0 not in shape and last >= count:
        raise CheckpointError(
            f"shape {list(shape)} with strides {list(strides)} from element {offset} reaches "
            f"beyond the {count} stored elements"
        )
    elements = data[: count * kind.itemsize].view(kind.numpy)
    if 0 in shape:
        return wrap(np.empty(shape, kind.numpy))
    steps = [s * kind.itemsize for s in strides]
    return wrap(np.ndarray(shape, kind.numpy, elements, offset * kind.itemsize, steps))
