"""Arrays of indices: whether they are in range, and which is not."""

from __future__ import annotations

import numpy as np


def within(index: np.ndarray, size: int) -> bool:
    """Whether every index is at least 0 and below ``size``, found in one reduction.

    Read as unsigned numbers, negative indices are larger than any size.
    """
    if not index.size:
        return True
    unsigned = index.view("u4" if index.itemsize == 4 else "u8")
    return int(np.maximum.reduce(unsigned, None)) < size


def first_outside(index: np.ndarray, low: int, high: int) -> int | None:
    """The first index below ``low`` or not below ``high``, if there is one."""
    outside = (index < low) | (index >= high)
    return int(index[outside][0]) if outside.any() else None


def out_of_bounds(index: int, dim: int, size: int) -> str:
    return f"index {index} is out of bounds for dimension {dim} with size {size}"


def check_bounds(index: np.ndarray, dim: int, size: int, error: type, prefix: str = "") -> None:
    """``error``, naming the first index that is negative or not below ``size``."""
    if not within(index, size):
        raise error(prefix + out_of_bounds(first_outside(index, 0, size), dim, size))


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
    place: np.ndarray | None = None
    step = 1
    for d in reversed(range(len(shape))):
        count = index.shape[d]
        if d == dim:
            part = index if step == 1 else index * step
        else:
            part = np.arange(0, count * step, step).reshape(
                [count if e == d else 1 for e in range(len(shape))]
            )
        place = part if place is None else place + part
        step *= shape[d]
    return place
