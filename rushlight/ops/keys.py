"""What may stand between brackets: the parts of an index, one by one."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.dims import index as to_int
from rushlight.errors import kind as kind_name
from rushlight.symbol import Symbol
from rushlight.tensor import Tensor, literal

ndarray = np.ndarray
BOOL, BYTE, INT32, INT64 = (np.dtype(kind) for kind in ("?", "u1", "i4", "i8"))
LIMITS = (int, type(None))
BASIC = (int, type(None), type(...))


def index_tensor(t: Tensor) -> Tensor:
    """``t`` if its elements can be positions, or a mask; bytes are an old spelling of masks."""
    kind = t._array.dtype
    if kind is BOOL or kind is INT64 or kind is INT32:
        return t
    if kind is not BYTE:
        raise IndexError(
            f"tensors used as indices must be long, int, byte or bool tensors, not {t.dtype}"
        )
    warnings.warn(
        "indexing with dtype rushlight.uint8 is now deprecated, please use a dtype rushlight.bool "
        "instead.",
        UserWarning,
        stacklevel=4,
    )
    return t != 0


def plain(s: slice) -> bool:
    """Whether a slice has ints, or nothing, as limits and a positive step."""
    step = s.step
    if step is None or (type(step) is int and step > 0):
        return type(s.start) in LIMITS and type(s.stop) in LIMITS
    return False


def items_of(key: Any) -> Sequence[Any]:
    """The parts of an index; a short list that holds more than numbers counts as a tuple."""
    if isinstance(key, tuple):
        return key
    if isinstance(key, list) and len(key) < 32:
        if any([isinstance(k, (Tensor, ndarray, list, tuple, slice, *BASIC[1:])) for k in key]):
            warnings.warn(
                "Using a non-tuple sequence for multidimensional indexing is deprecated; use "
                "x[tuple(seq)] instead of x[seq], or x[rl.tensor(seq)] for a tensor of positions",
                UserWarning,
                stacklevel=4,
            )
            return key
    return (key,)


def part_of_index(item: Any) -> tuple[Any, int]:
    """One part of an index, and how many dimensions of the indexed tensor it stands for.

    It becomes an int, a bool, a slice of ints, None, ``...`` or a tensor.
    """
    kind = type(item)
    if kind is slice:
        return item if plain(item) else checked_slice(item), 1
    if kind is bool or kind in BASIC:
        return item, int(kind is int)
    if isinstance(item, (ndarray, list, tuple, range)):
        item = literal(positions(item))
    elif not isinstance(item, Tensor):
        if isinstance(item, np.bool_):
            return bool(item), 0
        try:
            return to_int(item), 1
        except TypeError:
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte tensors are "
                f"valid indices (got {kind_name(item)})"
            ) from None
    array = item._array
    if array.ndim or array.dtype.kind not in "biu":
        item = index_tensor(item)
        return item, item._array.ndim if item._array.dtype is BOOL else 1
    if array.dtype in (BOOL, BYTE):
        return bool(array), 0
    return (item, 1) if type(array) is Symbol else (int(array), 1)  # which is known later


def positions(item: Any) -> ndarray:
    """A list or array of positions, or a mask, as an array of our own."""
    array = np.array(item)
    if not array.size or (array.dtype.kind in "iu" and array.dtype != BYTE):
        return array.astype(INT64)
    return array


def checked_slice(s: slice) -> slice:
    try:
        start, stop, step = (None if i is None else to_int(i) for i in (s.start, s.stop, s.step))
    except TypeError:
        raise TypeError(
            f"slice indices must be integers or None or have an __index__ method, got {s}"
        ) from None
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step is not None and step < 0:
        raise ValueError(f"step must be greater than zero, got {step}; use flip() to reverse")
    return slice(start, stop, step)


def too_many(ndim: int, count: int) -> IndexError:
    return IndexError(f"too many indices for tensor of dimension {ndim} (got {count})")


def excess(shape: tuple[int, ...], parts: Sequence[tuple[Any, int]], count: int) -> IndexError:
    """The error for more indices than dimensions."""
    if not shape and isinstance(parts[0][0], slice):
        return IndexError("slice() cannot be applied to a 0-dim tensor.")
    if not shape and isinstance(parts[0][0], int):
        return IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a "
            "number"
        )
    return too_many(len(shape), count)
