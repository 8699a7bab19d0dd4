"""The memory under NumPy arrays: what views of one storage are parts of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

ndarray = np.ndarray


def storage(array: ndarray) -> ndarray:
    """All the memory that ``array`` is a part of, as one dimension of its dtype."""
    root = array
    while isinstance(root.base, ndarray):
        root = root.base
    if root.flags.forc:
        flat = ndarray((root.size,), root.dtype, root)
    else:
        low, high = byte_bounds(root)
        flat = as_strided(root, ((high - low) // root.itemsize,), (root.itemsize,))
    if root.dtype is array.dtype:
        return flat
    count = flat.nbytes // array.itemsize
    return flat.view(np.uint8)[: count * array.itemsize].view(array.dtype)


def address(array: ndarray) -> int:
    return array.__array_interface__["data"][0]


def offset_in(flat: ndarray, array: ndarray) -> int:
    """How many elements of its storage lie before ``array``."""
    return (address(array) - address(flat)) // array.itemsize if array.size else 0


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor, in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def element_strides(array: ndarray) -> tuple[int, ...]:
    """The strides in elements; NumPy gives none to a new array without elements."""
    if array.size or any(array.strides):
        itemsize = array.itemsize
        return tuple([s // itemsize for s in array.strides])
    return dense_strides(array.shape)


def restrided(array: ndarray, shape: Sequence[int], strides: Sequence[int]) -> ndarray:
    """The memory from the first element of ``array`` on, seen with other sizes and byte strides."""
    if array.flags.forc:
        return ndarray(shape, array.dtype, array, 0, strides)
    flat = storage(array)
    return ndarray(shape, array.dtype, flat, address(array) - address(flat), strides)
