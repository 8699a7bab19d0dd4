"""Sums that keep their dimensions, quick where they run along rows.

``np.einsum`` and ``np.vecdot`` go along a row at full speed, without the threads of a matrix
product, for which small sums would wait.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rushlight.kernels.summation import ROW, add_up

Array = NDArray[Any]
Dims = tuple[int, ...]

PRODUCTS = 8192  # terms of a row beyond which ``np.vecdot`` would start threads


def total(x: Array, dims: Dims) -> Array:
    """The sum over ``dims``, which stay with size 1; ``x`` itself if there are none.

    >>> total(np.array([[1.0, 2.0], [3.0, 4.0]]), (1,))
    array([[3.],
           [7.]])
    """
    last = x.ndim - 1
    if last in dims and x.shape[last] <= ROW:
        x = np.einsum("...i->...", x)[..., None]
        dims = tuple([d for d in dims if d != last])
    return add_up(x, dims, keepdim=True) if dims else x


def total_of_products(a: Array, b: Array, dims: Dims) -> Array:
    """``total(a * b, dims)``.

    >>> total_of_products(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]), (1,))
    array([[11.]])
    """
    last = a.ndim - 1
    if last in dims and a.shape[last] <= PRODUCTS:
        return total(np.vecdot(a, b)[..., None], tuple([d for d in dims if d != last]))
    return total(a * b, dims)
