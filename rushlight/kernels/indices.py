"""Arrays of indices: whether they are in range, and which is not."""

from __future__ import annotations

import numpy as np

UNSIGNED: dict[int, np.dtype] = {4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
largest = np.maximum.reduce


def within(index: np.ndarray, size: int) -> bool:
    """Whether every index is at least 0 and below ``size``, found in one reduction.

    Read as unsigned numbers, negative indices are larger than any size.
    """
    if not index.size:
        return True
    return bool(largest(index.view(UNSIGNED[index.itemsize]), None) < size)


def first_outside(index: np.ndarray, low: int, high: int) -> int | None:
    """The first index below ``low`` or not below ``high``, if there is one."""
    outside = (index < low) | (index >= high)
    return int(index[outside][0]) if outside.any() else None


def out_of_bounds(index: int | str, dim: int, size: int | str) -> str:
    return f"index {index} is out of bounds for dimension {dim} with size {size}"


def check_bounds(index: np.ndarray, dim: int, size: int, error: type, prefix: str = "") -> None:
    """``error``, naming the first index that is negative or not below ``size``."""
    wrong = None if within(index, size) else first_outside(index, 0, size)
    if wrong is not None:
        raise error(prefix + out_of_bounds(wrong, dim, size))


def wrapped(index: np.ndarray, dim: int, size: int) -> np.ndarray:
    """Indices counted from the front: negative ones have ``size`` added, once."""
    if within(index, size):
        return index
    wrong = first_outside(index, -size, size)
    if wrong is not None:
        raise IndexError(out_of_bounds(wrong, dim, size))
    return np.where(index < 0, index + size, index)


def along(index: np.ndarray, dim: int) -> tuple[np.ndarray, ...]:
    """The key whose ``dim`` is ``index`` and whose other dimensions count as those of ``index``."""
    key = list(np.ogrid[tuple([slice(n) for n in index.shape])])
    key[dim] = index
    return tuple(key)


def places(index: np.ndarray, dim: int, shape: tuple[int, ...]) -> np.ndarray:
    """Where the elements of :func:`along` stand among all of a tensor of ``shape``, in C order."""
    steps = [1]
    for n in shape[:0:-1]:
        steps.append(steps[-1] * n)
    place = index.astype(np.int64, copy=False)
    if steps[-1 - dim] != 1:
        place = place * steps[-1 - dim]
    for d, (count, step) in enumerate(zip(index.shape, reversed(steps), strict=True)):
        if d != dim:
            part = np.arange(count) * step
            place = place + part.reshape((count,) + (1,) * (index.ndim - d - 1))
    return place
