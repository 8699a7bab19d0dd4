"""The memory of new tensors: their sizes, ``layout`` and ``memory_format``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.config import config
from rushlight.dims import index, is_extent
from rushlight.errors import kind as kind_of

MOST_DIMENSIONS = 64
MOST_BYTES = 2**63 - 1


class _Constant:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{config.public_name}.{self.name}"

    def __reduce__(self) -> tuple:
        return _by_name, (self.name,)


class layout(_Constant):  # noqa: N801 - PyTorch's spelling
    """The kind of storage of a tensor; all tensors here are ``rl.strided``.

    >>> rl.ones(2).layout
    rushlight.strided
    """

    __slots__ = ()


class memory_format(_Constant):  # noqa: N801 - PyTorch's spelling
    """The order of the dimensions in memory, such as ``rl.channels_last``.

    >>> rl.empty(1, 3, 2, 2, memory_format=rl.channels_last).stride()
    (12, 1, 6, 3)
    """

    __slots__ = ()


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

_ALL = (
    *(strided, sparse_coo, sparse_csr),
    *(contiguous_format, preserve_format, channels_last, channels_last_3d),
)
_CHANNELS_LAST = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}


def _by_name(name: str) -> _Constant:
    return next(constant for constant in _ALL if constant.name == name)


def require_strided(value: layout | None) -> None:
    """An error unless tensors can have this layout."""
    if value is None or value is strided:
        return
    if not isinstance(value, layout):
        raise TypeError(f"argument 'layout' must be rushlight.layout, not {type(value).__name__}")
    raise NotImplementedError(f"layout {value} is not available: tensors are rushlight.strided")


def order_of(
    format: memory_format | None, shape: tuple[int, ...], like: np.ndarray | None = None
) -> tuple[int, ...] | None:
    """The dimensions from the slowest to the quickest in memory; None if that is their own order.

    ``preserve_format`` is the order of ``like``.
    """
    if format is None or format is contiguous_format:
        return None
    if format is preserve_format:
        if like is None or like.flags.c_contiguous or 0 in like.strides:
            return None
        kept = tuple(sorted(range(like.ndim), key=lambda dim: -like.strides[dim]))
        return None if kept == tuple(range(like.ndim)) else kept
    try:
        order = _CHANNELS_LAST[format]
    except (KeyError, TypeError):
        raise TypeError(
            f"argument 'memory_format' must be rushlight.memory_format, not {type(format).__name__}"
        ) from None
    if len(order) != len(shape):
        raise RuntimeError(
            f"required rank {len(order)} tensor to use {format.name} format, got shape "
            f"{list(shape)}"
        )
    return order


def format_of(*images: np.ndarray) -> memory_format:
    """How images that are made of these lie: channels last, if those of one of them do."""
    for array in images:
        for format, order in _CHANNELS_LAST.items():
            if array.ndim == len(order) and _lies(array, order):
                return format
    return contiguous_format


def _lies(array: np.ndarray, order: tuple[int, ...]) -> bool:
    """Whether the dimensions are in this order, from the slowest to the quickest, and no other."""
    shape, strides, least = array.shape, array.strides, 1
    for dim in reversed(order):
        alone = dim == 0 and strides[1] == least  # single numbers are in any order
        if alone or not shape[dim] or strides[dim] < least:
            return False
        least = strides[dim] * shape[dim]
    return True


def arranged(array: np.ndarray, order: tuple[int, ...] | None) -> np.ndarray:
    """``array``, made with its dimensions in ``order``, seen with them in their own order."""
    return array if order is None else array.transpose(np.argsort(order))


def permuted(shape: tuple[int, ...], order: tuple[int, ...] | None) -> tuple[int, ...]:
    """The shape to make an array of that :func:`arranged` turns into ``shape``."""
    return shape if order is None else tuple([shape[dim] for dim in order])


class OutOfMemoryError(RuntimeError):
    """A tensor was asked for that does not fit into memory."""


def whole(value: Any, name: str, argument: str) -> int:
    """``value`` as an int; ``TypeError`` if it is not a whole number."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return index(value)
    except TypeError:
        raise TypeError(
            f"{name}(): argument '{argument}' must be int, not {kind_of(value)}"
        ) from None


def shape_of(name: str, size: Sequence[Any], kind: np.dtype) -> tuple[int, ...]:
    """The shape that sizes given one by one or as one sequence mean, checked to be possible."""
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = size[0]
    count = kind.itemsize
    for n in size:
        if type(n) is not int and not is_extent(n):
            return shape_of(name, [whole(n, name, "size") for n in size], kind)
        if n < 0:
            raise RuntimeError(
                f"{name}: Trying to create tensor with negative dimension {n}: {list(size)}"
            )
        count *= n
    if len(size) > MOST_DIMENSIONS:
        raise RuntimeError(
            f"{name}: a tensor has at most {MOST_DIMENSIONS} dimensions, got {len(size)}"
        )
    if count > MOST_BYTES:
        raise RuntimeError(f"{name}: Storage size calculation overflowed with sizes={list(size)}")
    return tuple(size)
