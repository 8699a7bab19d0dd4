"""Strides of arrays: in elements, and others over the same memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.storage import address, memory_of
from rushlight.symbol import Symbol

ndarray = np.ndarray


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor, in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def element_strides(array: Any) -> tuple[int, ...]:
    """The strides in elements; NumPy gives none to a new array without elements."""
    if type(array) is Symbol:
        array.settle()
    if array.size or any(array.strides):
        itemsize = array.itemsize
        return tuple([s // itemsize for s in array.strides])
    return dense_strides(array.shape)


def restrided(array: Any, shape: Sequence[int], strides: Sequence[int]) -> ndarray:
    """The memory from the first element of ``array`` on, seen with other sizes and byte strides."""
    if array.flags.forc:
        return ndarray(shape, array.dtype, array, 0, strides)
    if type(array) is Symbol:
        raise TypeError("a symbol has no memory")
    flat = memory_of(array)
    return ndarray(shape, array.dtype, flat, address(array) - address(flat), strides)
