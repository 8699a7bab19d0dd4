"""When dynamic mode leaves a product to the contraction engine instead of BLAS.

The engine costs some microseconds more to call. It is quicker where BLAS copies a large matrix for
few rows or columns, calls itself for each of many small matrices, or has no half types. Large
products are as quick with either, or quicker; and the engine's threads are those of all other
kernels, while threads of BLAS stay busy for a tenth of a second after each product and take the
cores from them. So BLAS has none but products for which it would hardly use threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rushlight import dtypes
from rushlight.config import config

SOME = 1 << 12  # elements that an operand has if its product is any of these
FEW = 8  # rows or columns for which copying a matrix costs more than the product
LARGE = 1 << 18  # elements of such a matrix
MUCH = 1 << 19  # multiply-adds of a large product
ROOM = 1 << 24  # elements of its operands, which are copied
SMALL = 1 << 18  # multiply-adds of one of many matrices
WORTH = 1 << 16  # multiply-adds of all of them
HALVES = 1 << 14  # multiply-adds of half types


def is_thin(rows: int, terms: int, columns: int) -> bool:
    """Whether a product has few rows or columns, but more than one, beside a large matrix."""
    few = 1 < rows <= FEW or 1 < columns <= FEW
    return few and max(rows, columns) * terms >= LARGE


def is_large(rows: int, terms: int, columns: int) -> bool:
    """Whether a product takes long enough for its threads to matter."""
    large = rows * terms * columns >= MUCH and (rows + columns) * terms <= ROOM
    return large and rows > FEW and columns > FEW


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
