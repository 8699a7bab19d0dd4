"""Reading and writing where a mask holds.

NumPy takes a branch per element of a mask, which random masks mispredict. Working on bits, or
finding the places first and then going from place to place, is several times quicker.
"""

from __future__ import annotations

import numpy as np

FEW = 1 << 9
"""Masks of fewer elements are quicker with NumPy's own loops."""
BLOCK = 1 << 14
"""So many elements at a time: what is in between stays in the cache."""
BITS = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}


def nonzero(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """The positions of all elements that are not zero, one array for each dimension."""
    if x.ndim < 2 or x.size < FEW:
        return x.nonzero()
    return np.unravel_index(x.reshape(-1).nonzero()[0], x.shape)


def pick(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """``x[mask]``: the elements, or rows, where the mask holds."""
    if mask.size < FEW or not x.flags.c_contiguous:
        return x[mask]
    places = mask.reshape(-1).nonzero()[0]
    return x.reshape(mask.size, *x.shape[mask.ndim :]).take(places, 0)


def put(x: np.ndarray, mask: np.ndarray, values: np.ndarray) -> None:
    """``x[mask] = values``."""
    if not values.ndim and mask.shape == x.shape:
        fill(x, mask, values)
    elif mask.size < FEW or not x.flags.c_contiguous:
        x[mask] = values
    else:
        x.reshape(mask.size, *x.shape[mask.ndim :])[mask.reshape(-1).nonzero()[0]] = values


def fill(x: np.ndarray, mask: np.ndarray, value: np.ndarray) -> None:
    """``x[mask] = value`` for one value and a mask like ``x``: (x & ~m) | (value & m), in bits."""
    bits = BITS.get(x.itemsize)
    if mask.size < FEW or bits is None or not x.flags.c_contiguous:
        np.putmask(x, mask, value)
        return
    flags, target = mask.reshape(-1).view(np.int8), x.reshape(-1).view(bits)
    number = value.view(bits)
    for start in range(0, target.size, BLOCK):
        part = target[start : start + BLOCK]
        m = np.negative(flags[start : start + BLOCK]).astype(bits)
        if number:
            part |= m
            m &= ~number
        np.invert(m, m)
        part &= m
