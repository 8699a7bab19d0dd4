"""Sums that stay accurate and quick along any dimension.

NumPy sums pairwise along the innermost axis but one by one along the others, where a long float32
sum loses digits; and each row costs it a call. Here a long sum across rows goes in levels of 32
terms, so that its error grows with the logarithm of the length, and short rows are summed by
np.einsum, which needs no call for each.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

ADD: Any = np.add  # whose type knows keepdims as a literal only
SMALL = 4096  # elements below which NumPy's own way is the quickest
ROW = 1024  # terms of a row that np.einsum sums as accurately as np.add.reduce
LONG = 128  # terms beyond which a sum across rows goes in levels
TERMS = 32  # terms that one level adds up
WIDE = 512  # elements of a row that NumPy adds to another at full speed


def add_up(x: np.ndarray, dim: tuple[int, ...] | None = None, keepdim: bool = False) -> np.ndarray:
    """The sum of an array over the dimensions ``dim``, all of them if None."""
    if x.size < SMALL or x.dtype.kind != "f" or not _is_hard(x, dim):
        return ADD.reduce(x, dim, keepdims=True) if keepdim else ADD.reduce(x, dim)
    dims = range(x.ndim) if dim is None else dim
    if keepdim:
        shape = [1 if i in dims else n for i, n in enumerate(x.shape)]
    else:
        shape = [n for i, n in enumerate(x.shape) if i not in dims]
    if len(dims) == 1 and x.flags.c_contiguous:
        d = dims[0]
        inner = math.prod(x.shape[d + 1 :])
        return _add_up_middle(x.reshape(-1, x.shape[d], inner)).reshape(shape)
    order = sorted(range(x.ndim), key=lambda i: -abs(x.strides[i]))
    y = _add_up_runs(x.transpose(order), [order.index(i) for i in dims])
    return y.transpose(np.argsort(order)).reshape(shape)


def add_up_squares(x: np.ndarray, dim: tuple[int, ...] | None, keepdim: bool = False) -> np.ndarray:
    """Σ|x|² over the dimensions ``dim``, without holding the squares where rows are summed."""
    if x.flags.c_contiguous and x.ndim and (dim is None or dim == (x.ndim - 1,)):
        y = np.vecdot(x, x) if dim else np.vdot(x, x)
        return np.expand_dims(y.real, dim or tuple(range(x.ndim))) if keepdim else y.real
    return add_up((x.conj() * x).real if x.dtype.kind == "c" else x * x, dim, keepdim)


def _is_hard(x: np.ndarray, dim: tuple[int, ...] | None) -> bool:
    """Whether NumPy would be inaccurate or slow."""
    if dim is None:
        return not x.flags.forc
    terms, innermost = 1, False
    for d in dim:
        terms *= x.shape[d]
        innermost = innermost or x.strides[d] == x.itemsize
    return terms > LONG if not innermost else terms <= ROW or len(dim) > 1


def _add_up_runs(x: np.ndarray, dims: list[int]) -> np.ndarray:
    """The sum where strides descend: run by run of neighbouring dimensions, the innermost first."""
    shape = list(x.shape)
    last = x.ndim
    while last > 0:
        last -= 1
        if last not in dims:
            continue
        first = last
        while first - 1 in dims:
            first -= 1
        terms, inner = math.prod(shape[first : last + 1]), math.prod(shape[last + 1 :])
        x = _add_up_middle(x.reshape(-1, terms, inner))
        shape[first : last + 1] = [1] * (last + 1 - first)
        last = first
    return x.reshape(shape)


def _add_up_middle(x: np.ndarray) -> np.ndarray:
    """The sum over the middle one of three dimensions."""
    outer, n, inner = x.shape
    if inner == 1:
        return _add_up_rows(x.reshape(outer, n))
    if n <= LONG:
        return np.add.reduce(x, 1)
    rest = n % TERMS
    head, tail = x[:, : n - rest], x[:, n - rest :]
    if inner < WIDE:
        partial = np.add.reduce(head.reshape(outer, TERMS, -1, inner), 1)
    else:
        partial = np.add.reduce(head.reshape(outer, -1, TERMS, inner), 2)
    return _add_up_middle(partial) + np.add.reduce(tail, 1)


def _add_up_rows(x: np.ndarray) -> np.ndarray:
    rows, n = x.shape
    return np.einsum("ij->i", x) if n <= ROW and rows > 1 else np.add.reduce(x, 1)
