"""Tensors to and from NumPy, DLPack, buffers, pickles, and Python's own numbers and lists."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.device import device
from rushlight.errors import expected_tensor
from rushlight.layouts import strided
from rushlight.literals import no_pinned_memory, owned
from rushlight.storage import address, memory_of
from rushlight.symbol import Symbol
from rushlight.tensor import LEAF, Tensor, install, lend, new, relate, wrap


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor over the memory of an array; writing to one is writing to both.

    A tensor over a read-only array can be read, and refuses to be written to.

    >>> array = np.array([1.0, 2.0])
    >>> rl.from_numpy(array).mul_(2)
    tensor([2., 4.], dtype=rushlight.float64)
    >>> array
    array([2., 4.])
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    array = owned(ndarray)
    if any(step < 0 for step in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative "
            f"strides are not supported: strides {ndarray.strides}. Use array.copy()."
        )
    return lend(wrap(array))


def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The elements as an array over the same memory.

    bfloat16 gives an array of the dtype of that name in ``ml_dtypes``.

    >>> rl.tensor([1.0, 2.0]).numpy()
    array([1., 2.], dtype=float32)
    """
    if self.requires_grad and not force and local.state.grad:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    return elements(self if local.state.trace is not None else lend(self))


def elements(t: Tensor) -> np.ndarray:
    """The elements, for Python to look at; inside a trace they are not known."""
    trace = local.state.trace
    if trace is not None:
        return trace.read(t)
    array = t._array
    return array if type(array) is not Symbol else array.elements()


def array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """``np.asarray(tensor)``: shares memory unless ``dtype`` or ``copy`` forbids it."""
    return np.array(numpy(self), dtype, copy=copy)


def array_wrap(
    self: Tensor, array: np.ndarray, context: Any = None, return_scalar: bool = False
) -> Tensor:
    """NumPy's functions of a tensor give a tensor: ``np.sin(x)``."""
    return lend(wrap(array))


def frombuffer(
    buffer: Any,
    *,
    dtype: dtypes.dtype,
    count: int = -1,
    offset: int = 0,
    requires_grad: bool = False,
) -> Tensor:
    """A 1-d tensor over the memory of an object with Python's buffer protocol.

    Args:
        count: how many elements; -1, all that follow.
        offset: how many bytes to skip before the first.

    >>> rl.frombuffer(bytearray([1, 2, 3]), dtype=rl.uint8)
    tensor([1, 2, 3], dtype=rushlight.uint8)
    """
    kind = dtypes.as_dtype(dtype)
    length, size = memoryview(buffer).nbytes, kind.itemsize
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({length} bytes) minus 1"
        )
    if count < 0 and (length - offset) % size:
        raise ValueError(
            f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a "
            f"multiple of element size ({size})"
        )
    if count * size > length - offset:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must "
            f"not be greater than actual buffer length ({length} bytes)"
        )
    t = wrap(np.frombuffer(buffer, np.uint8, count * size if count > 0 else -1, offset))
    t._array = t._array.view(kind.numpy)
    return lend(t).requires_grad_(requires_grad)


def from_dlpack(
    ext_tensor: Any, *, device: device | str | None = None, copy: bool | None = None
) -> Tensor:
    """A tensor over the memory of another library's array, exchanged by the DLPack protocol.

    >>> rl.from_dlpack(np.arange(3))
    tensor([0, 1, 2])
    """
    if type(ext_tensor).__name__ == "PyCapsule":
        ext_tensor = Exported(ext_tensor)
    return lend(wrap(owned(np.from_dlpack(ext_tensor, copy=copy))))


class Exported:
    """The owner of a bare DLPack capsule, which NumPy takes from an owner only."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def dlpack(self: Tensor, **options: Any) -> Any:
    """A DLPack capsule over this tensor's memory, for ``from_dlpack`` of another library."""
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    return elements(lend(self)).__dlpack__(**options)


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """DLPack's number of the device: the CPU."""
    return self._array.__dlpack_device__()


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule over the memory of ``tensor``."""
    return dlpack(tensor)


def item(self: Tensor) -> Any:
    """The only element as a Python number.

    >>> rl.tensor([2.5]).item()
    2.5
    """
    x = elements(self)
    if x.size != 1:
        raise RuntimeError(f"a Tensor with {x.size} elements cannot be converted to Scalar")
    return x.item() if x.dtype.kind != "V" else float(x.reshape(()))


def tolist(self: Tensor) -> Any:
    """The elements as Python numbers in nested lists; a 0-d tensor is a number.

    >>> rl.tensor([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    x = elements(self)
    return (x if x.dtype.kind != "V" else x.astype(np.float32)).tolist()


def scalar(self: Tensor) -> Any:
    if self._array.size != 1:
        raise ValueError(
            "only one element tensors can be converted to Python scalars, got shape "
            f"{list(self.shape)}"
        )
    return item(self)


def to_bool(self: Tensor) -> bool:
    x = elements(self)
    if x.size == 1:
        return bool(x.item())
    many = "more than one value" if x.size else "no values"
    raise RuntimeError(f"Boolean value of Tensor with {many} is ambiguous: shape {list(x.shape)}")


def to_int(self: Tensor) -> int:
    return int(real(scalar(self)))


def to_float(self: Tensor) -> float:
    return float(real(scalar(self)))


def to_complex(self: Tensor) -> complex:
    return complex(scalar(self))


def real(value: Any) -> Any:
    if isinstance(value, complex):
        if value.imag:
            raise RuntimeError("value cannot be converted to type double without overflow")
        return value.real
    return value


def to_index(self: Tensor) -> int:
    x = elements(self)
    if x.size != 1 or x.dtype.kind not in "biu":
        raise TypeError(
            "only integer tensors of a single element can be converted to an index, got "
            f"{self.dtype} of shape {list(x.shape)}"
        )
    return int(x.item())


def contains(self: Tensor, element: Any) -> bool:
    if not isinstance(element, (Tensor, int, float, complex, np.number, np.bool_)):
        raise RuntimeError(
            "Tensor.__contains__ only supports Tensor or scalar, but you passed in a "
            f"{type(element)}."
        )
    other = element._array if isinstance(element, Tensor) else element
    return bool((elements(self) == other).any())


def rebuild(
    cls: type[Tensor], array: np.ndarray, requires_grad: bool, extra: dict[str, Any]
) -> Tensor:
    """The tensor that a pickle describes."""
    t = new(cls)
    t._array = owned(array)
    if requires_grad:
        t._history = LEAF
    t.__dict__.update(extra)
    return t


def extra_attributes(t: Tensor) -> dict[str, Any]:
    """What a user has put on a tensor: the attributes that are not ours."""
    return {name: value for name, value in t.__dict__.items() if name not in OURS}


def reduce(self: Tensor, protocol: SupportsIndex) -> tuple[Any, ...]:
    """For pickling: the elements, whether it requires a gradient, and attributes put on it.

    History, hooks and ``.grad`` stay behind.
    """
    return rebuild, (type(self), self._array, self.requires_grad, extra_attributes(self))


def shallow_copy(self: Tensor) -> Tensor:
    """``copy.copy(tensor)``: another tensor over the same memory."""
    t = rebuild(type(self), self._array, self.requires_grad, extra_attributes(self))
    relate(self, t)
    return t


def deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """A copy of a leaf with its ``.grad``; copies of tensors that share memory share theirs."""
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment. Use tensor.detach().clone()."
        )
    if id(self) in memo:
        return memo[id(self)]
    array = copied(self._array, memo)
    t = memo[id(self)] = rebuild(type(self), array, self.requires_grad, {})
    if self._grad is not None:
        t._grad = copy.deepcopy(self._grad, memo)
    t.__dict__.update(copy.deepcopy(extra_attributes(self), memo))
    return t


def copied(array: np.ndarray, memo: dict[Any, Any]) -> np.ndarray:
    """``array`` over a copy of its whole memory, which is made once for all tensors over it."""
    flat = memory_of(array)
    start = address(flat)
    key = ("memory", start)
    if key not in memo:
        memo[key] = flat.copy()
    part = np.ndarray(array.shape, array.dtype, memo[key], address(array) - start, array.strides)
    part.flags.writeable = array.flags.writeable or not flat.flags.writeable
    return part


def as_subclass(self: Tensor, cls: type[Tensor]) -> Tensor:
    """The same elements and history in a tensor of the class ``cls``.

    >>> class Named(rl.Tensor):
    ...     pass
    >>> type(rl.ones(2).as_subclass(Named)).__name__
    'Named'
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"cls must be a subclass of Tensor, got {cls!r}")
    source = self.view(self.shape) if self.requires_grad else self
    t = new(cls)
    t.__dict__.update(source.__dict__)
    relate(source, t)
    return t


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Memory is pinned for the copies of an accelerator: an error, since there is none."""
    raise no_pinned_memory()


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the memory is pinned for an accelerator: False."""
    return False


def get_device(input: Tensor) -> int:
    """The number of the accelerator the tensor is on: -1, the CPU.

    >>> rl.get_device(rl.ones(2))
    -1
    """
    return -1


def reverse(self: Tensor) -> Tensor:
    """``reversed(tensor)``: the first dimension from its end."""
    return self.flip(0) if self._array.ndim else self


def to_dense(
    self: Tensor, dtype: dtypes.dtype | None = None, *, masked_grad: bool | None = None
) -> Tensor:
    """The tensor with a place in memory for each element, which it has anyhow.

    >>> rl.ones(2).to_dense()
    tensor([1., 1.])
    """
    return self if dtype is None else self.to(dtype)


def dense_dim(self: Tensor) -> int:
    """How many dimensions have a place in memory for each element: all."""
    return self._array.ndim


def sparse_dim(self: Tensor) -> int:
    """How many dimensions leave out zeros: none."""
    return 0


def is_distributed(input: Tensor) -> bool:
    """Whether the elements are spread over several processes: False."""
    return False


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape.

    >>> rl.is_same_size(rl.zeros(2, 3), rl.zeros(3, 2))
    False
    """
    first = tensor_argument("is_same_size", input)
    return first._array.shape == tensor_argument("is_same_size", other, "other", 2)._array.shape


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are of a floating-point type.

    >>> rl.is_floating_point(rl.ones(2))
    True
    """
    return tensor_argument("is_floating_point", input).dtype.is_floating_point


def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex.

    >>> rl.is_complex(rl.ones(2))
    False
    """
    return tensor_argument("is_complex", input).dtype.is_complex


def is_signed(input: Tensor) -> bool:
    """Whether the elements can be negative.

    >>> rl.ones(2, dtype=rl.uint8).is_signed()
    False
    """
    return tensor_argument("is_signed", input).dtype.is_signed


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not zero.

    >>> rl.is_nonzero(rl.tensor([0.0]))
    False
    """
    return to_bool(tensor_argument("is_nonzero", input))


def numel(input: Tensor) -> int:
    """The number of elements.

    >>> rl.numel(rl.zeros(2, 3))
    6
    """
    return tensor_argument("numel", input)._array.size


def is_tensor(obj: Any, /) -> bool:
    """Whether ``obj`` is a tensor.

    >>> rl.is_tensor([1, 2])
    False
    """
    return isinstance(obj, Tensor)


def names(self: Tensor) -> tuple[None, ...]:
    """The names of the dimensions: they have none."""
    return (None,) * self._array.ndim


def tensor_argument(name: str, value: Any, argument: str = "input", position: int = 1) -> Tensor:
    if isinstance(value, Tensor):
        return value
    raise expected_tensor(name, argument, position, value)


OURS = frozenset(Tensor.__annotations__)


def is_inference(self: Tensor) -> bool:
    """False: tensors made in ``inference_mode`` are ordinary ones here."""
    return False


METHODS: dict[str, Callable[..., Any]] = {
    "is_inference": is_inference,
    "__array__": array,
    "__array_wrap__": array_wrap,
    "__bool__": to_bool,
    "__complex__": to_complex,
    "__contains__": contains,
    "__copy__": shallow_copy,
    "__deepcopy__": deepcopy,
    "__dlpack__": dlpack,
    "__dlpack_device__": dlpack_device,
    "__float__": to_float,
    "__index__": to_index,
    "__int__": to_int,
    "__reduce_ex__": reduce,
    "__reversed__": reverse,
    "as_subclass": as_subclass,
    "dense_dim": dense_dim,
    "get_device": get_device,
    "is_complex": is_complex,
    "is_distributed": is_distributed,
    "is_floating_point": is_floating_point,
    "is_nonzero": is_nonzero,
    "is_pinned": is_pinned,
    "is_same_size": is_same_size,
    "is_signed": is_signed,
    "item": item,
    "numpy": numpy,
    "pin_memory": pin_memory,
    "sparse_dim": sparse_dim,
    "to_dense": to_dense,
    "tolist": tolist,
}
CONSTANTS = {
    "layout": (strided, "The kind of storage: ``rl.strided``."),
    "is_cpu": (True, "Whether the elements are in the CPU's memory: they are."),
    "is_sparse": (False, "Whether zeros are left out of the storage: never."),
    "is_sparse_csr": (False, "Whether zeros are left out of the storage: never."),
    "is_quantized": (False, "Whether the elements are stored as scaled integers: never."),
    "is_nested": (False, "Whether the tensor is a list of tensors: never."),
    "is_cuda": (False, "Whether the elements are on a CUDA device: never."),
    "is_meta": (False, "Whether the tensor has a shape but no elements: never."),
    "is_mkldnn": (False, "Whether the elements are in a layout of oneDNN: never."),
    "is_mtia": (False, "Whether the elements are on an MTIA device: never."),
    "is_vulkan": (False, "Whether the elements are on a Vulkan device: never."),
    "is_xla": (False, "Whether the elements are on an XLA device: never."),
    "is_mps": (False, "Whether the elements are on an Apple device: never."),
    "is_xpu": (False, "Whether the elements are on an Intel device: never."),
}


def constant(value: Any, meaning: str) -> property:
    return property(lambda self: value, doc=meaning)


install(**METHODS, names=property(names))
install(**{name: constant(value, meaning) for name, (value, meaning) in CONSTANTS.items()})
