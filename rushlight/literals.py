"""Python data as tensors: ``rl.tensor``, and what it infers from numbers and nested sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.device import device, require
from rushlight.dims import is_of_run
from rushlight.errors import warn
from rushlight.kernels.casting import LIMITS, cast
from rushlight.tensor import Tensor, install, lend, literal, wrap

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
    """A new leaf with a copy of ``data``: a number, nested sequences, an array or another tensor.

    Without ``dtype`` it is inferred: bool, int64 for ints, the default type for floats, complex;
    arrays, NumPy numbers and tensors keep theirs.

    >>> rl.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    >>> rl.tensor(1.5, dtype=rl.float64)
    tensor(1.5000, dtype=rushlight.float64)
    """
    if device is not None:
        require(device)
    if pin_memory:
        raise no_pinned_memory()
    if isinstance(data, Tensor):
        warn_copy("rushlight.tensor(sourceTensor)")
    t = made(data, dtype)
    return t.requires_grad_() if requires_grad else t


def as_tensor(
    data: Any, dtype: dtypes.dtype | None = None, device: device | str | int | None = None
) -> Tensor:
    """``data`` as a tensor: itself, or sharing an array's memory, where the dtype allows it.

    >>> array = np.zeros(2)
    >>> t = rl.as_tensor(array)
    >>> array[0] = 7
    >>> t
    tensor([7., 0.], dtype=rushlight.float64)
    """
    require(device)
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if isinstance(data, np.ndarray) and data.strides == tuple(map(abs, data.strides)):
        data = owned(data)
        if dtype is None or dtypes.as_dtype(dtype).numpy is data.dtype:
            return lend(wrap(data))
    return made(data, dtype)


def asarray(
    obj: Any,
    *,
    dtype: dtypes.dtype | None = None,
    device: device | str | int | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``obj`` as a tensor: a tensor, array, buffer, DLPack object, number or nested sequence.

    Args:
        copy: True copies always, False never (``ValueError`` if it must), None where it must.

    >>> rl.asarray([1, 2])
    tensor([1, 2])
    """
    require(device)
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    source = shareable(obj, kind)
    if source is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        t = made(obj, kind)
    elif kind is not None and source.dtype is not kind:
        if copy is False:
            raise ValueError(
                f"can't alias tensor with dtype '{source.dtype.storage_name}' into dtype "
                f"'{kind.storage_name}'."
            )
        t = source.to(kind)
    else:
        t = source.clone() if copy else source
    if not requires_grad:
        return t.detach() if t.requires_grad else t
    return t.requires_grad_()


def shareable(obj: Any, kind: dtypes.dtype | None) -> Tensor | None:
    """``obj`` as a tensor over its own memory, if it has such."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, (np.ndarray, np.generic)):
        return as_tensor(np.asarray(obj))
    if "__dlpack__" in dir(type(obj)):
        return as_tensor(np.from_dlpack(obj))
    if isinstance(obj, (bytes, bytearray, memoryview)):
        return wrap(np.frombuffer(obj, (kind or dtypes.get_default_dtype()).numpy))
    return None


def new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: dtypes.dtype | None = None,
    device: device | str | int | None = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """:func:`tensor` of ``data``, by default of this tensor's dtype.

    >>> rl.ones(2, dtype=rl.int32).new_tensor([1, 2])
    tensor([1, 2], dtype=rushlight.int32)
    """
    require(device)
    if isinstance(data, Tensor):
        warn_copy("tensor.new_tensor(sourceTensor)")
    return made(data, dtype or self.dtype).requires_grad_(requires_grad)


def warn_copy(call: str) -> None:
    warn(
        "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() "
        f"or sourceTensor.detach().clone().requires_grad_(True), rather than {call}."
    )


def no_pinned_memory() -> RuntimeError:
    return RuntimeError("memory can be pinned for an accelerator only; there is the device 'cpu'")


def made(data: Any, dtype: dtypes.dtype | None) -> Tensor:
    """A new tensor with the elements of ``data``; in a trace, numbers that change may be there."""
    trace = local.state.trace
    if trace is not None and isinstance(data, Tensor):
        copy = data.detach().clone()
        return copy if dtype is None else copy.to(dtypes.as_dtype(dtype))
    if trace is not None and (isinstance(data, (list, tuple)) or is_of_run(data)):
        found, shape, values = infer(data)
        numbers = [*leaves(values)]
        if any(map(is_of_run, numbers)):
            return trace.filled(numbers, shape, found if dtype is None else dtype)
    return literal(array_of(data, dtype))


def leaves(data: Any) -> Iterator[Any]:
    """What is in nested sequences."""
    if isinstance(data, (list, tuple)):
        for item in data:
            yield from leaves(item)
    else:
        yield data


def array_of(data: Any, dtype: dtypes.dtype | None = None) -> np.ndarray:
    """A new array with the elements of ``data``, of ``dtype`` or of the inferred one."""
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(data, Tensor):
        trace = local.state.trace
        data = data._array if trace is None else trace.read(data)
    if isinstance(data, (np.ndarray, np.generic)):
        array = owned(data)
        if kind is None or kind.numpy is array.dtype:
            return array.copy(order="K")
        return cast(array, kind.numpy)
    found, shape, values = infer(data)
    return filled(values, shape, found, kind or found)


def owned(array: np.ndarray | np.generic) -> np.ndarray:
    """``array`` with the one dtype object that stands for its type here, if a tensor can have it.

    NumPy has several for one type: ``np.longlong`` is int64 too, and a pickle brings its own.
    """
    if not array.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order: use "
            "array.astype(array.dtype.newbyteorder('='))"
        )
    kind = dtypes.from_numpy(array.dtype).numpy
    array = np.asarray(array)
    return array if array.dtype is kind else array.view(kind)


def infer(data: Any, depth: int = 0) -> tuple[dtypes.dtype, tuple[int, ...], Any]:
    """The dtype and the shape of ``data``, and its values as NumPy can read them.

    ``depth`` is how many sequences ``data`` is in.
    """
    kind = type(data)
    if kind in LISTS:
        return infer_items(data, depth)
    if kind in PLAIN:
        return dtypes.of_scalar(data), (), data
    if isinstance(data, Tensor):
        if data._array.size != 1:
            raise ValueError(
                "only one element tensors can be converted to Python scalars, got shape "
                f"{list(data.shape)}: use rushlight.stack"
            )
        return data.dtype, (), data.item()
    if isinstance(data, (np.ndarray, np.generic)):
        array = owned(data)
        return dtypes.from_numpy(array.dtype), array.shape, data
    if isinstance(data, (int, float, complex)):
        return dtypes.of_scalar(data), (), data
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{kind.__name__}'")
    protocols = dir(kind)
    if "__array__" in protocols:
        return infer(np.asarray(data))
    if isinstance(data, dict) or "__getitem__" not in protocols or "__len__" not in protocols:
        raise RuntimeError(f"Could not infer dtype of {kind.__name__}")
    return infer_items([data[i] for i in range(len(data))], depth)


def infer_items(data: Sequence[Any], depth: int) -> tuple[dtypes.dtype, tuple[int, ...], Any]:
    if not data:
        return dtypes.get_default_dtype(), (0,), data
    classes = set(map(type, data))
    if classes <= PLAIN:
        kinds = {dtypes.of_scalar(c()) for c in classes}
        return reduce(dtypes.promote_types, kinds), (len(data),), data
    if str in classes:
        raise ValueError("too many dimensions 'str'")
    if any(item is data for item in data):
        raise TypeError("new(): self-referential lists are incompatible")
    found, shapes, values = zip(*[infer(item, depth + 1) for item in data], strict=True)
    for shape in shapes:
        if shape != shapes[0]:
            raise uneven(shapes[0], shape, depth + 1)
    unchanged = all(a is b for a, b in zip(values, data, strict=True))
    shape = (len(data), *shapes[0])
    return reduce(dtypes.promote_types, set(found)), shape, data if unchanged else values


def uneven(first: tuple[int, ...], other: tuple[int, ...], depth: int) -> Exception:
    """The error for items of different shapes in one sequence."""
    for dim, (a, b) in enumerate(zip(first, other, strict=False), depth):
        if a != b:
            return ValueError(f"expected sequence of length {a} at dim {dim} (got {b})")
    if len(other) < len(first):
        return TypeError(f"expected a sequence of length {first[len(other)]}, got a number")
    return TypeError("expected a number, got a sequence")


def filled(
    values: Any, shape: tuple[int, ...], found: dtypes.dtype, kind: dtypes.dtype
) -> np.ndarray:
    """An array of ``kind`` with ``values``, which have the dtype ``found``."""
    if found.category == dtypes.COMPLEX and kind.category < dtypes.COMPLEX:
        raise TypeError(f"must be real number, not complex, for dtype {kind}")
    if kind.category == dtypes.INT:
        array = whole_numbers(values, found, kind)
    elif kind.numpy in dtypes.HALF:
        array = cast(np.array(values, np.float64), kind.numpy)
    else:
        array = np.array(values, kind.numpy)
    return array if array.shape == shape else array.reshape(shape)


def whole_numbers(values: Any, found: dtypes.dtype, kind: dtypes.dtype) -> np.ndarray:
    """``values`` as an integer type, checked to fit; negative ones wrap in unsigned types."""
    try:
        if kind is found:
            return np.array(values, kind.numpy)
        wide = np.array(values, np.float64 if found.category == dtypes.FLOAT else None)
    except OverflowError:
        raise ValueError("Overflow when unpacking long long") from None
    low, high = LIMITS[kind]
    if wide.size and not ((low or -high) <= wide.min() and wide.max() <= high):
        raise RuntimeError(f"value cannot be converted to type {kind.name} without overflow")
    return cast(wide, kind.numpy)


install(new_tensor=new_tensor)
