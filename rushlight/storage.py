"""The memory under a tensor: storages, resizing, sharing with other processes."""

from __future__ import annotations

import math
import mmap
import warnings
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

from rushlight import dtypes
from rushlight.layouts import arranged, memory_format, order_of, permuted, shape_of
from rushlight.tensor import Tensor, install, lend, relate


def memory_of(array: np.ndarray) -> np.ndarray:
    """The flat array of all elements of the memory that ``array`` is a view of."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    if root.flags.forc:
        flat = root.ravel("K")
    else:  # another library's array, itself a part of its memory
        low, high = byte_bounds(root)
        flat = as_strided(root, ((high - low) // root.itemsize,), (root.itemsize,))
    if flat.dtype is array.dtype:
        return flat
    count = flat.nbytes // array.itemsize
    return flat.view(np.uint8)[: count * array.itemsize].view(array.dtype)


def offset_of(array: np.ndarray, flat: np.ndarray) -> int:
    """Where in ``flat`` the first element of ``array`` is."""
    return (address(array) - address(flat)) // array.itemsize


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


class UntypedStorage:
    """The bytes under a tensor, shared with it.

    >>> rl.zeros(2, 3).untyped_storage().nbytes()
    24
    """

    def __init__(self, flat: np.ndarray) -> None:
        self._bytes = flat.view(np.uint8)

    def __len__(self) -> int:
        return self._bytes.size

    def __getitem__(self, index: Any) -> Any:
        part = self._bytes[index]
        return UntypedStorage(part) if isinstance(index, slice) else int(part)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._bytes[index] = value

    def nbytes(self) -> int:
        """How many bytes there are."""
        return self._bytes.size

    size = nbytes

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return address(self._bytes)

    def tolist(self) -> list[int]:
        """The bytes as ints."""
        return self._bytes.tolist()

    def is_shared(self) -> bool:
        """Whether processes forked from this one see the same bytes."""
        return is_shared_memory(self._bytes)

    def __repr__(self) -> str:
        return f"[rushlight.UntypedStorage of {self._bytes.size} bytes]"


class TypedStorage:
    """The elements under a tensor as one row, shared with it.

    >>> rl.zeros(2, 3).storage().size()
    6
    """

    def __init__(self, flat: np.ndarray) -> None:
        self._flat = flat

    @property
    def dtype(self) -> dtypes.dtype:
        return dtypes.from_numpy(self._flat.dtype)

    def __len__(self) -> int:
        return self._flat.size

    def __getitem__(self, index: Any) -> Any:
        part = self._flat[index]
        return TypedStorage(part) if isinstance(index, slice) else part.item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._flat[index] = value

    def size(self) -> int:
        """How many elements there are."""
        return self._flat.size

    def nbytes(self) -> int:
        """How many bytes they take."""
        return self._flat.nbytes

    def element_size(self) -> int:
        """Bytes per element."""
        return self._flat.itemsize

    def data_ptr(self) -> int:
        """The address of the first element."""
        return address(self._flat)

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return self._flat.tolist()

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self._flat)

    def is_shared(self) -> bool:
        """Whether processes forked from this one see the same elements."""
        return is_shared_memory(self._flat)

    def __repr__(self) -> str:
        return f"[rushlight.TypedStorage of {self._flat.size} elements of {self.dtype}]"


def is_storage(obj: Any, /) -> bool:
    """Whether ``obj`` is the storage of a tensor.

    >>> rl.is_storage(rl.ones(2).storage())
    True
    """
    return isinstance(obj, (UntypedStorage, TypedStorage))


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The bytes under this tensor, and under all tensors that share memory with it."""
    return UntypedStorage(memory_of(lend(self)._array))


def storage(self: Tensor) -> TypedStorage:
    """The elements under this tensor, and under all tensors that share memory with it."""
    return TypedStorage(memory_of(lend(self)._array))


def storage_offset(self: Tensor) -> int:
    """How many elements of the storage come before this tensor's first."""
    return offset_of(self._array, memory_of(self._array)) if self._array.size else 0


def data_ptr(self: Tensor) -> int:
    """The address of the first element; 0 if there is none."""
    return address(lend(self)._array) if self._array.size else 0


def element_size(self: Tensor) -> int:
    """Bytes per element."""
    return self._array.itemsize


def resize_(self: Tensor, *sizes: Any, memory_format: memory_format | None = None) -> Tensor:
    """Gives this tensor another shape, over the same memory if it is large enough.

    Elements that the old memory did not have are not initialised.

    >>> rl.arange(6).resize_(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    old = self._array
    shape = shape_of("resize_", sizes, old.dtype)
    order = order_of(memory_format, shape)
    if shape == old.shape and order is None:
        return self
    flat, start = memory_of(old), storage_offset(self)
    size = math.prod(shape)
    if start + size > flat.size:
        larger = np.empty(start + size, old.dtype)
        larger[: flat.size] = flat
        flat = larger
    self._array = arranged(flat[start : start + size].reshape(permuted(shape, order)), order)
    return self


def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """:meth:`resize_` to the shape of another tensor.

    >>> rl.arange(4).resize_as_(rl.zeros(1, 2))
    tensor([[0, 1]])
    """
    if not isinstance(the_template, Tensor):
        raise TypeError(
            "resize_as_(): argument 'the_template' (position 1) must be Tensor, not "
            f"{type(the_template).__name__}"
        )
    return resize_(self, the_template.shape, memory_format=memory_format)


def resize(self: Tensor, *sizes: Any) -> Tensor:
    """An old name of :meth:`view`, for as many elements as there are."""
    warnings.warn("non-inplace resize is deprecated: use view", UserWarning, stacklevel=2)
    shape = shape_of("resize", sizes, self._array.dtype)
    if math.prod(shape) != self._array.size:
        raise RuntimeError(
            f"requested resize to {list(shape)}, but the given tensor has {self._array.size} "
            f"elements in shape {list(self.shape)}: resize can only change the shape"
        )
    return self.contiguous().view(shape)


def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """An old name of :meth:`view_as`, for as many elements as there are."""
    return resize(self, tensor.shape)


def set_(self: Tensor, source: Tensor | None = None) -> Tensor:
    """Makes this tensor one over the memory, shape and strides of ``source``; empty without it."""
    if source is None:
        self._array = np.empty(0, self._array.dtype)
        return self
    if not isinstance(source, Tensor):
        raise TypeError(f"set_(): argument 'source' must be Tensor, not {type(source).__name__}")
    if source.dtype is not self.dtype:
        raise RuntimeError(
            f"could not set tensor of dtype {self.dtype} to a tensor of dtype {source.dtype}"
        )
    self._array = source._array
    relate(self, source)
    return self


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both tensors are over the same memory, with the same shape and strides."""
    a, b = self._array, tensor._array
    return (address(a), a.shape, a.strides) == (address(b), b.shape, b.strides)


def share_memory_(self: Tensor) -> Tensor:
    """Moves the elements to memory that processes forked from this one share.

    A tensor that is sent to another process is copied all the same.

    >>> rl.ones(2).share_memory_().is_shared()
    True
    """
    old = self._array
    if old.size and not is_shared_memory(old):
        shared = np.frombuffer(mmap.mmap(-1, old.nbytes), np.uint8).view(old.dtype)
        shared = shared.reshape(old.shape)
        shared[...] = old
        self._array = shared
    return self


def is_shared(self: Tensor) -> bool:
    """Whether :meth:`share_memory_` was called for this tensor's memory."""
    return is_shared_memory(self._array)


def is_shared_memory(array: np.ndarray) -> bool:
    root: Any = array
    while isinstance(root, (np.ndarray, memoryview)):
        root = root.base if isinstance(root, np.ndarray) else root.obj
    return isinstance(root, mmap.mmap)


METHODS = (
    *(untyped_storage, storage, storage_offset, data_ptr, element_size, resize_, resize_as_),
    *(resize, resize_as, set_, is_set_to, share_memory_, is_shared),
)
install(**{method.__name__: method for method in METHODS}, const_data_ptr=data_ptr)
