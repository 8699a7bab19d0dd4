"""Folding values into the places that indices name: a place once for every index that names it.

Values that meet in one place are folded in the order of the indices, whatever the sizes, so that
results are the same in every run and on every machine.
"""

from __future__ import annotations

import math

import numpy as np

from rushlight import dtypes
from rushlight.kernels.indices import wrapped

WIDE, FEW = 512, 4
"""Rows at least so wide, or so few of them, are added one by one, else element by element."""


def fold(ufunc: np.ufunc, x: np.ndarray, places: np.ndarray, values: np.ndarray) -> None:
    """``x[p] = ufunc(x[p], v)`` for each place ``p``, counted in C order, and its value ``v``.

    Half types are folded in float32 and rounded once.
    """
    flat, direct = _flat(x)
    if values.dtype is not flat.dtype:
        values = values.astype(flat.dtype)
    ufunc.at(flat, places.reshape(-1), values.reshape(-1))
    if not direct:
        x[...] = flat.reshape(x.shape)


def add_rows(x: np.ndarray, rows: np.ndarray, values: np.ndarray, width: int) -> None:
    """``x[r] += v`` for each row number ``r`` and its row ``v``, of ``width`` elements."""
    if not values.size:
        return
    if width < WIDE and rows.size > FEW:
        if width > 1:
            rows = rows.reshape(-1, 1) * width + np.arange(width)
        fold(np.add, x, rows, values)
        return
    flat, direct = _flat(x)
    table, add = flat.reshape(-1, width), np.add
    for r, v in zip(rows.reshape(-1).tolist(), values.reshape(-1, width), strict=True):
        row = table[r]
        add(row, v, row)
    if not direct:
        x[...] = flat.reshape(x.shape)


def sum_runs(x: np.ndarray, numbers: np.ndarray, count: int) -> np.ndarray:
    """The sums of the rows that have the same number below ``count``; these never decrease."""
    rows, width = x.shape
    wide = x.astype(np.float32) if x.dtype in dtypes.HALF else x
    first = np.flatnonzero(np.diff(numbers, prepend=-1))
    if len(first) == count and rows and (np.diff(first, append=rows) * count == rows).all():
        return wide.reshape(count, rows // count, width).sum(1, dtype=wide.dtype).astype(x.dtype)
    y = np.zeros((count, width), x.dtype)
    if rows:
        y[numbers[first]] = np.add.reduceat(wide, first, 0)
    return y


def add_along(x: np.ndarray, dim: int, index: np.ndarray, values: np.ndarray) -> None:
    """``x[..., index[k], ...] += values[..., k, ...]`` for each k, at position ``dim``."""
    add_rows(x, _rows(x.shape[:dim], index, x.shape[dim]), values, math.prod(x.shape[dim + 1 :]))


def add_at(x: np.ndarray, key: tuple, values: np.ndarray) -> None:
    """``x[key] += values`` for each index in turn; ``key`` holds index arrays and full slices."""
    indices = {d: wrapped(k, d, x.shape[d]) for d, k in enumerate(key) if isinstance(k, np.ndarray)}
    first, last = min(indices), max(indices) + 1
    if last - first > len(indices):
        wide = x.astype(np.float32) if x.dtype in dtypes.HALF else x
        where = tuple([indices.get(d, k) for d, k in enumerate(key)])
        np.add.at(wide, where, values.astype(wide.dtype, copy=False))
        if wide is not x:
            x[...] = wide
        return
    place = indices[first]
    if len(indices) > 1:
        place = np.ravel_multi_index(tuple(indices.values()), x.shape[first:last])
    shape = (*x.shape[:first], *place.shape, *x.shape[last:])
    if values.shape != shape:
        values = np.broadcast_to(values, shape)
    rows = _rows(x.shape[:first], place, math.prod(x.shape[first:last]))
    add_rows(x, rows, values, math.prod(x.shape[last:]))


def _rows(before: tuple[int, ...], index: np.ndarray, size: int) -> np.ndarray:
    """The row numbers of ``index``, which counts to ``size``, for all positions before it."""
    index = index.astype(np.int64, copy=False)
    if not before:
        return index
    return np.arange(0, math.prod(before) * size, size or 1).reshape(-1, 1) + index.reshape(-1)


def _flat(x: np.ndarray) -> tuple[np.ndarray, bool]:
    """The elements of ``x`` in one dimension, and whether they are its own or a copy."""
    if x.dtype in dtypes.HALF:
        return x.astype(np.float32, order="C").reshape(-1), False
    return x.reshape(-1), x.flags.c_contiguous
