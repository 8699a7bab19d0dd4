"""Folding values into the places that indices name: a place once for every index that names it.

Values that meet in one place are folded in the order of the indices, whatever the sizes, so that
results are the same in every run and on every machine.
"""

from __future__ import annotations

import math

import numpy as np

from rushlight import dtypes
from rushlight.kernels.indices import wrapped

WIDE = 512
"""From this row length on, one addition per row is quicker than one index per element."""


def fold(ufunc: np.ufunc, x: np.ndarray, places: np.ndarray, values: np.ndarray) -> None:
    """``x[p] = ufunc(x[p], v)`` for each place ``p``, counted in C order, and its value ``v``.

    Half types are folded in float32 and rounded once.
    """
    flat = _flat(x)
    values = np.broadcast_to(values, places.shape).astype(flat.dtype, copy=False)
    ufunc.at(flat, places.reshape(-1), values.reshape(-1))
    _store(flat, x)


def add_rows(x: np.ndarray, rows: np.ndarray, values: np.ndarray, width: int) -> None:
    """``x[r] += v`` for each row number ``r`` and its row ``v``, of ``width`` elements."""
    if not values.size:
        return
    if width == 1:
        fold(np.add, x, rows.reshape(-1), values.reshape(-1))
        return
    flat = _flat(x)
    values = values.astype(flat.dtype, copy=False).reshape(-1, width)
    if width < WIDE:
        places = rows.reshape(-1, 1) * width + np.arange(width)
        np.add.at(flat, places.reshape(-1), values.reshape(-1))
    else:
        table, add = flat.reshape(-1, width), np.add
        for r, v in zip(rows.reshape(-1).tolist(), values, strict=True):
            row = table[r]
            add(row, v, row)
    _store(flat, x)


def add_along(x: np.ndarray, dim: int, index: np.ndarray, values: np.ndarray) -> None:
    """``x[..., index[k], ...] += values[..., k, ...]`` for each k, at position ``dim``."""
    before, after = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])
    rows = np.arange(before).reshape(-1, 1) * x.shape[dim] + index
    add_rows(x, rows, values, after)


def add_at(x: np.ndarray, key: tuple, values: np.ndarray) -> None:
    """``x[key] += values`` for each index in turn; ``key`` holds index arrays and full slices."""
    indices = {d: wrapped(k, d, x.shape[d]) for d, k in enumerate(key) if isinstance(k, np.ndarray)}
    first, last = min(indices), max(indices) + 1
    if last - first > len(indices):
        wide = x.astype(np.float32) if x.dtype in dtypes.HALF else x
        np.add.at(wide, tuple([indices.get(d, k) for d, k in enumerate(key)]), values)
        if wide is not x:
            x[...] = wide
        return
    place = np.ravel_multi_index(tuple(indices.values()), x.shape[first:last])
    before, sizes, after = x.shape[:first], x.shape[first:last], x.shape[last:]
    values = np.broadcast_to(values, (*before, *place.shape, *after))
    rows = np.arange(math.prod(before)).reshape(-1, 1) * math.prod(sizes) + place.reshape(-1)
    add_rows(x, rows, values, math.prod(after))


def _flat(x: np.ndarray) -> np.ndarray:
    """The elements of ``x`` in one dimension: themselves if they lie in order, else a copy."""
    if x.dtype in dtypes.HALF:
        return x.astype(np.float32, order="C").reshape(-1)
    return x.reshape(-1)


def _store(flat: np.ndarray, x: np.ndarray) -> None:
    """Writes ``flat`` back to ``x`` where it is a copy."""
    if not np.may_share_memory(flat, x):
        x[...] = flat.reshape(x.shape)
