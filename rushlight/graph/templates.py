"""Templates without memory: a trace keeps shapes, dtypes and strides of values, not elements."""

from __future__ import annotations

import functools
import mmap
from typing import Any

import numpy as np

SMALL = 1 << 12  # bytes that are not worth the trouble


def hollow(array: np.ndarray) -> np.ndarray:
    """An array that looks like this one, over bytes that all such arrays share and nobody touches.

    >>> x = hollow(np.ones((1000, 1000)).T)
    >>> x.shape, x.strides
    ((1000, 1000), (8, 8000))
    """
    ends = [(size - 1) * step for size, step in zip(array.shape, array.strides, strict=True)]
    if array.nbytes < SMALL or min(ends) < 0 or sum(ends) + array.itemsize > array.nbytes:
        return array
    return np.ndarray(array.shape, array.dtype, room(array.nbytes.bit_length()), 0, array.strides)


@functools.cache
def room(bits: int) -> mmap.mmap:
    """So many bytes of addresses; memory comes only to those that are written."""
    return mmap.mmap(-1, 1 << bits)


def memory_key(array: np.ndarray) -> Any:
    """What two arrays have in common that are the same elements in the same way."""
    if not array.size:
        return id(array)
    address = array.__array_interface__["data"][0]
    return address, array.shape, array.strides, array.dtype
