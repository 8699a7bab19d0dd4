"""When dynamic mode leaves a product to the contraction engine instead of BLAS.

The engine costs some microseconds more to call. It is quicker where BLAS copies a large matrix for
few rows or columns, begins many short sums, calls itself for each of many small matrices, or has no
half types.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rushlight import dtypes
from rushlight.config import config

FEW = 8  # rows or columns for which copying a matrix costs more than the product
LARGE = 1 << 15  # elements of such a matrix
SHORT = 320  # terms of sums for which BLAS takes longer to begin and end them
WIDE = 1 << 18  # such sums: fewer are over before the engine is called
SMALL = 1 << 18  # multiply-adds of one of many matrices
WORTH = 1 << 16  # multiply-adds of all of them
HALVES = 1 << 14  # multiply-adds of half types

KINDS = frozenset({np.dtype(np.float32), np.dtype(np.float64)}) | dtypes.HALF
Product = Callable[[tuple[str, str, str], np.ndarray, np.ndarray], np.ndarray]


class Engine:
    """Where this layer finds the engine, which is made of later ones; set by the package."""

    load: Callable[[], Product] | None = None
    product: Product | None = None


def engine(dtype: np.dtype) -> Product | None:
    """The engine's products, if there are any of such elements.

    It is loaded by the first of them, whatever that costs: equal calls give equal results.
    """
    if dtype not in KINDS or not config.fuse_eager:
        return None
    if Engine.product is None and Engine.load is not None:
        Engine.product = Engine.load()
    return Engine.product
