"""Products of arrays: by the contraction engine, or by BLAS where it uses no threads.

The digits of what BLAS multiplies with threads depend on how many there are; those of the engine do
not. And the engine's threads are those of all other kernels, while threads of BLAS stay busy for a
tenth of a second after each product and take the cores from them. The engine costs some
microseconds more to call, so BLAS has what is small. The engine is also quicker where BLAS copies a
large matrix for few rows or columns, calls itself for each of many small matrices, or has no half
types. Complex numbers are not for the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.config import config

SOME = 1 << 10  # elements that an operand has if its product is any of these
FEW = 8  # rows or columns for which copying a matrix costs more than the product
LARGE = 1 << 18  # elements of such a matrix
MUCH = 1 << 19  # multiply-adds for which BLAS uses threads
LONG = 1 << 18  # the same for a matrix and a vector
ROOM = 1 << 26  # elements of a matrix that is multiplied at once: it may be copied
NARROW = 16  # elements of lines that are too short for the engine to add
PIECE = 1 << 13  # elements of vectors that BLAS multiplies without threads
WORTH = 1 << 16  # multiply-adds of many matrices
HALVES = 1 << 14  # multiply-adds of half types

KINDS = frozenset({np.dtype(np.float32), np.dtype(np.float64)}) | dtypes.HALF
Array = np.ndarray
Product = Callable[[tuple[str, str, str], Array, Array], Array]


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


def is_thin(rows: int, terms: int, columns: int) -> bool:
    """Whether a product has few rows or columns, but more than one, beside a large matrix."""
    few = 1 < rows <= FEW or 1 < columns <= FEW
    return few and max(rows, columns) * terms >= LARGE


def dot(a: Array, b: Array) -> Array:
    """The product of two matrices."""
    if a.size >= SOME or b.size >= SOME:
        (n, k), (l, m) = a.shape, b.shape
        if k == l and 1 in (n, m):
            return apply(b.T, a[0])[None] if n == 1 else apply(a, b[:, 0])[:, None]
        if k == l and (n * k * m >= MUCH or is_thin(n, k, m)):
            product = engine(a.dtype)
            if product is not None:
                return product(("mk", "kn", "mn"), a, b) if k * m <= ROOM else wide(product, a, b)
    return a.dot(b)


def wide(product: Product, a: Array, b: Array) -> Array:
    """The product of two matrices, some columns at a time."""
    y = np.empty((len(a), b.shape[1]), a.dtype)
    step = -(-b.shape[1] // -(-b.size // ROOM))
    for first in range(0, b.shape[1], step):
        part = slice(first, first + step)
        y[:, part] = product(("mk", "kn", "mn"), a, b[:, part])
    return y


def apply(a: Array, x: Array) -> Array:
    """The product of a matrix and a vector."""
    if len(a) == 1 and a.shape[1] == len(x):
        return np.asarray(inner(a[0], x)).reshape(1)
    product = engine(a.dtype) if a.size >= LONG and a.shape[1] == len(x) else None
    if product is None:
        return a.dot(x)
    return apply_in_pieces(a, x) if is_narrow(a) else product(("mk", "k", "m"), a, x)


def is_narrow(a: Array) -> bool:
    """Whether a matrix lies in memory as many short lines."""
    short = 0 if len(a) < a.shape[1] else 1
    return a.shape[short] < NARROW and abs(a.strides[short]) <= abs(a.strides[1 - short])


def apply_in_pieces(a: Array, x: Array) -> Array:
    """The product of a narrow matrix and a vector: by BLAS, in pieces for which it has no threads.

    >>> apply_in_pieces(np.ones((100_000, 3)), np.ones(3)).sum()
    np.float64(300000.0)
    """
    n, k = a.shape
    if n >= k:
        step, y = LONG // k, np.empty(n, a.dtype)
        for i in range(0, n, step):
            np.dot(a[i : i + step], x, out=y[i : i + step])
        return y
    step = LONG // n
    y = a[:, :step].dot(x[:step])
    for i in range(step, k, step):
        y += a[:, i : i + step].dot(x[i : i + step])
    return y


def inner(a: Array, b: Array) -> Any:
    """The product of two vectors, in pieces for which BLAS has no threads.

    >>> inner(np.ones(100_000), np.ones(100_000))
    np.float64(100000.0)
    """
    whole = len(a) // PIECE * PIECE
    if whole <= PIECE or len(a) != len(b) or a.dtype.kind not in "fc":
        return a.dot(b)
    rows, columns = a[:whole].reshape(-1, 1, PIECE), b[:whole].reshape(-1, PIECE, 1)
    return np.matmul(rows, columns).sum(dtype=a.dtype) + a[whole:].dot(b[whole:])


def matmul(a: Array, b: Array, out: Array | None = None) -> Array:
    """The products of matrices (…, n, k) and (…, k, m), whose batches are broadcast."""
    (n, k), m = a.shape[-2:], b.shape[-1]
    if n * k * m >= MUCH or (n * k * m >= LONG and 1 in (n, m)):
        if a.ndim == 2 == b.ndim:
            y = dot(a, b)
        else:
            product = engine(a.dtype)
            if product is None:
                return np.matmul(a, b, out=out)
            y = stacked(product, a, b)
        if out is None:
            return y
        out[...] = y
        return out
    return np.matmul(a, b, out=out)


def stacked(product: Product, a: Array, b: Array) -> Array:
    """The engine's product of two stacks of matrices, of which the first may have fewer batches."""
    if a.ndim < b.ndim:
        a = a.reshape((1,) * (b.ndim - a.ndim) + a.shape)  # or batches would count as columns
    return product(letters(a.ndim, b.ndim), a, b)


def letters(first: int, second: int) -> tuple[str, str, str]:
    """Subscripts of the product of two stacks of matrices with so many dimensions.

    >>> letters(4, 3)
    ('ABmk', 'Bkn', 'ABmn')
    """
    batch = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: max(first, second) - 2]
    own = [batch[len(batch) - ndim + 2 :] for ndim in (first, second)]
    return f"{own[0]}mk", f"{own[1]}kn", f"{batch}mn"
