"""Python data as tensors: ``rl.tensor`` and what it infers from numbers and nested lists."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.device import device, require
from rushlight.tensor import Tensor, wrap

PLAIN = frozenset((bool, int, float, complex))
LISTS = frozenset((list, tuple))


def tensor(
    data: Any,
    *,
    dtype: dtypes.dtype | None = None,
    device: device | str | int | None = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new leaf with a copy of ``data``: a number, nested lists, an array or another tensor.

    Without ``dtype`` it is inferred: bool, int64 for ints, the default type for floats, complex;
    arrays, NumPy numbers and tensors keep theirs.

    >>> rl.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    >>> rl.tensor(1.5, dtype=rl.float64)
    tensor(1.5000, dtype=rushlight.float64)
    """
    require(device)
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use "
            "sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), "
            "rather than rushlight.tensor(sourceTensor).",
            UserWarning,
            stacklevel=2,
        )
    t = wrap(array_of(data, dtype))
    return t.requires_grad_() if requires_grad else t


def array_of(data: Any, dtype: dtypes.dtype | None = None) -> np.ndarray:
    """``data`` as an array of its own, of ``dtype`` or of the one inferred."""
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(data, Tensor):
        data = data._array
    if isinstance(data, (np.ndarray, np.generic)):
        check_array(data)
        return np.array(data, None if kind is None else kind.numpy)
    found, shape = infer(data)
    return fill(data, shape, kind or found)


def check_array(array: np.ndarray | np.generic) -> None:
    """An error if no tensor can have the elements of ``array``."""
    if not array.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order: use "
            "array.astype(array.dtype.newbyteorder('='))"
        )
    dtypes.from_numpy(array.dtype)


def infer(data: Any) -> tuple[dtypes.dtype, tuple[int, ...]]:
    """The dtype and shape of numbers in nested sequences."""
    if type(data) in PLAIN:
        return dtypes.of_scalar(data), ()
    if isinstance(data, Tensor):
        return data.dtype, ()
    if isinstance(data, (np.ndarray, np.generic)):
        check_array(data)
        return dtypes.from_numpy(data.dtype), data.shape
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if isinstance(data, (bool, int, float, complex)):
        return dtypes.of_scalar(data), ()
    return infer_sequence(data)


def infer_sequence(data: Any) -> tuple[dtypes.dtype, tuple[int, ...]]:
    if type(data) not in LISTS:
        data = sequence(data)
    if not len(data):
        return dtypes.get_default_dtype(), (0,)
    classes = set(map(type, data))
    if classes <= PLAIN:
        return plain_kind(classes), (len(data),)
    if str in classes:
        raise ValueError("too many dimensions 'str'")
    kinds, shape = set(), None
    for item in data:
        if item is data:
            raise TypeError("new(): self-referential lists are incompatible")
        kind, part = infer(item)
        if shape is not None and part != shape:
            raise uneven(shape, part)
        kinds.add(kind)
        shape = part
    return reduce(dtypes.promote_types, kinds), (len(data), *(shape or ()))


def plain_kind(classes: set[type]) -> dtypes.dtype:
    """The dtype of Python numbers of these classes together."""
    return max([dtypes.of_scalar(c()) for c in classes], key=lambda kind: kind.category)


def sequence(data: Any) -> Any:
    """``data`` if it can be indexed and measured, else the error that names its type."""
    cls = type(data)
    if isinstance(data, (dict, set)) or not (
        "__getitem__" in dir(cls) and "__len__" in dir(cls)
    ):
        raise RuntimeError(f"Could not infer dtype of {cls.__name__}")
    return [data[i] for i in range(len(data))]


def uneven(first: tuple[int, ...], other: tuple[int, ...]) -> Exception:
    """The error for items of different shapes in one sequence."""
    if len(first) != len(other) and (not first or not other):
        return TypeError(f"not a sequence: items of shapes {list(first)} and {list(other)}")
    dim = next((i for i, (a, b) in enumerate(zip(first, other, strict=False)) if a != b), 0)
    return ValueError(
        f"expected sequence of length {first[dim]} at dim {dim + 1} (got {other[dim]})"
    )


def fill(data: Any, shape: tuple[int, ...], kind: dtypes.dtype) -> np.ndarray:
    return np.array(data, kind.numpy).reshape(shape)
