"""Running sums, products and extrema along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

BLOCK = 1 << 16  # elements whose wider copies stay in the cache
MANY = 128  # lines side by side that are worth a step of Python for each of their elements


def running(combine: np.ufunc, x: np.ndarray, dim: int, kind: Any) -> np.ndarray:
    """``combine.accumulate(x, dim)``, computed in the dtype ``kind`` and rounded to that of x."""
    y = np.empty(x.shape, x.dtype)
    if not x.size:
        return y
    n = x.shape[dim]
    if dim == x.ndim - 1:
        lines, results = x.reshape(-1, n), y.reshape(-1, n)
        rows = max(BLOCK // n, 1)
        for i in range(0, len(lines), rows):
            results[i : i + rows] = combine.accumulate(lines[i : i + rows], 1, kind)
    elif x.size < MANY * n:
        y[...] = combine.accumulate(x, dim, kind)
    else:
        steps, results = np.moveaxis(x, dim, 0), np.moveaxis(y, dim, 0)
        state = steps[0].astype(kind)
        results[0] = state
        for i in range(1, n):
            combine(state, steps[i], out=state)
            results[i] = state
    return y
