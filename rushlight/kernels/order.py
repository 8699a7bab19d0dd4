"""Sorting and selection along the last axis, stable, with NaN as the largest value.

Elements of up to 32 bits become the upper half of unsigned 64-bit keys whose lower half is their
position: sorting those is stable, needs no comparison of floats, and NumPy does it with SIMD.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

HALF = np.uint64(32)
LOWER = np.uint64(0xFFFFFFFF)
PASSES = 8  # how often the largest element is found before a bound is
FEW = 256  # elements that NumPy's argsort orders before keys would be made
SHORT, SOME = 16, 4096  # in lines so short it orders so many


def pick(
    x: np.ndarray, dim: int, choose: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Elements of the lines along ``dim``, and their indices, which ``choose(lines)`` gives."""
    last = x.ndim - 1
    if last < 0:
        values, indices = pick(x.reshape(1), 0, choose)
        return (values, indices) if len(indices) != 1 else (values.reshape(()), indices.reshape(()))
    lines = x if dim == last else np.moveaxis(x, dim, last)
    indices = choose(lines)
    values = take(lines, indices)
    if dim == last:
        return values, indices
    return moved(values, last, dim), moved(indices, last, dim)


def moved(x: np.ndarray, source: int, target: int) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(x, source, target))


def take(lines: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """``np.take_along_axis`` for the last axis, quicker."""
    if lines.ndim == 1:
        return lines[indices]
    shape = indices.shape
    count = math.prod(shape[:-1])
    row = np.arange(count)[:, None]
    picked = lines.reshape(count, lines.shape[-1])[row, indices.reshape(count, shape[-1])]
    return picked.reshape(shape)


def order(x: np.ndarray, descending: bool = False) -> np.ndarray:
    """The indices that sort each line; equal elements stay in order."""
    few = x.size <= (SOME if x.shape[-1:] <= (SHORT,) else FEW)
    packed = None if few else keys(x, descending)
    if packed is not None:
        packed.sort(-1)
        return positions(packed)
    if not descending:
        return np.argsort(x, -1, kind="stable")
    last = x.shape[-1] - 1
    return last - np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1]


def top(x: np.ndarray, k: int, largest: bool) -> np.ndarray:
    """The indices of the ``k`` largest (or smallest) elements of each line, in that order."""
    n = x.shape[-1]
    if n < 2 * k or k == 0 or x.size <= FEW or (n <= SHORT and x.size <= SOME):
        return order(x, largest)[..., :k]
    if x.dtype.kind == "f" and (k == 1 or (k <= PASSES and (n > 64 * k or x.size <= SOME))):
        found = top_in_passes(x, k, largest)
    else:
        found = top_from_bound(x, k, largest) if x.size > SOME else None
    if found is not None:
        return found
    packed = keys(x, largest)
    if packed is None:
        return order(x, largest)[..., :k]
    packed.partition(k - 1, -1)
    return positions(np.sort(packed[..., :k], -1))


def top_in_passes(x: np.ndarray, k: int, largest: bool) -> np.ndarray | None:
    """:func:`top` by taking the best ``k`` times; None if an infinity or NaN stands in the way."""
    n, taken = x.shape[-1], -np.inf if largest else np.inf
    lines = x.reshape(-1, n).copy()
    row, indices = np.arange(len(lines)), np.empty((len(lines), k), np.int64)
    for j in range(k):
        indices[:, j] = lines.argmax(1) if largest else lines.argmin(1)
        lines[row, indices[:, j]] = taken
    indices = indices.reshape(*x.shape[:-1], k)
    values = take(x, indices)
    if (values == taken).any() or not (largest or (values == values).all()):
        return None
    return indices


def top_from_bound(x: np.ndarray, k: int, largest: bool) -> np.ndarray | None:
    """:func:`top` by comparing with the last one's value; None if it has equals, or among NaN."""
    n = x.shape[-1]
    lines = x.reshape(-1, n)
    bound = np.partition(lines, n - k if largest else k - 1, -1)
    bound = bound[:, n - k, None] if largest else bound[:, k - 1, None]
    found = np.flatnonzero(lines >= bound if largest else lines <= bound)
    if len(found) != len(lines) * k:
        return None
    indices = found.reshape(len(lines), k) - np.arange(0, x.size, n)[:, None]
    if (indices[:, 0] < 0).any() or (indices[:, -1] >= n).any():
        return None
    return take(indices, order(take(lines, indices), largest)).reshape(*x.shape[:-1], k)


def kth(x: np.ndarray, k: int) -> np.ndarray:
    """The index of the element of rank ``k`` (from 0) in each line, as a last axis of size 1."""
    if x.size <= FEW:
        return order(x)[..., k : k + 1]
    packed = keys(x, False)
    if packed is not None:
        packed.partition(k, -1)
        return positions(packed[..., k : k + 1])
    bound = np.partition(x, k, -1)[..., k : k + 1]
    number = bound == bound  # else NaN, which comes last
    less = np.where(number, x < bound, x == x)
    alike = np.where(number, x == bound, x != x)
    which = k + 1 - less.sum(-1, keepdims=True)
    return (alike & (alike.cumsum(-1) == which)).argmax(-1)[..., None]


def positions(packed: np.ndarray) -> np.ndarray:
    return (packed & LOWER).astype(np.int64)


def keys(x: np.ndarray, descending: bool) -> np.ndarray | None:
    """Keys that sort as the elements do and then by position; None if 64 bits are too few."""
    rank = ranks(x)
    if rank is None or x.shape[-1] > LOWER:
        return None
    if descending:
        np.subtract(LOWER, rank, out=rank)
    np.left_shift(rank, HALF, out=rank)
    rank |= np.arange(x.shape[-1], dtype=np.uint64)
    return rank


def ranks(x: np.ndarray) -> np.ndarray | None:
    """Numbers below 2³² as uint64, new and contiguous, in the same order as the elements."""
    if x.dtype == np.float32:
        bits = np.add(x, np.float32(0), order="C").view(np.uint32)  # + 0 makes -0 equal to 0
        sign = (bits.view(np.int32) >> 31).view(np.uint32)
        bits ^= sign | np.uint32(0x80000000)
        bits[x != x] = 0xFFFFFFFF
        return bits.astype(np.uint64)
    if x.dtype.kind == "f" or not x.size:
        return None
    low, high = x.min(), x.max()
    if x.itemsize == 8 and int(high) - int(low) > int(LOWER):
        return None
    return np.subtract(x, low, dtype=np.int64, casting="unsafe", order="C").view(np.uint64)
