"""Types of tensors by their old names, ``rl.FloatTensor``, and ``rl.Tensor`` as a constructor."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.config import config
from rushlight.device import device, require
from rushlight.layouts import shape_of
from rushlight.literals import array_of
from rushlight.tensor import Size, Tensor, install, new


def old_new(cls: type[Tensor], *data: Any, device: device | str | None = None) -> Tensor:
    """``Tensor(2, 3)`` has these sizes and any elements; ``Tensor([2, 3])`` has these elements."""
    require(device)
    t = new(cls)
    t._array = built(data, None)
    return t


def built(data: tuple[Any, ...], kind: dtypes.dtype | None) -> np.ndarray:
    """The array that an old constructor makes of its arguments."""
    wanted = kind or dtypes.get_default_dtype()
    if len(data) == 1:
        (only,) = data
        if isinstance(only, Tensor):
            if kind is not None and only.dtype is not kind:
                raise TypeError(
                    f"expected a tensor of dtype {kind} (got {only.dtype}): use tensor.to({kind})"
                )
            return only._array
        if isinstance(only, Size):
            data = tuple(only)
        elif not isinstance(only, (int, np.integer)):
            if only is None or isinstance(only, (float, complex)):
                raise TypeError(f"new(): data must be a sequence (got {type(only).__name__})")
            return array_of(only, wanted)
    return np.empty(shape_of("new", data or (0,), wanted.numpy), wanted.numpy)


class TypedTensor(type):
    """The class of ``rl.FloatTensor`` and its relatives: Tensor with a dtype.

    >>> isinstance(rl.ones(2), rl.FloatTensor)
    True
    >>> rl.LongTensor([1, 2])
    tensor([1, 2])
    """

    dtype: dtypes.dtype
    place: str

    def __call__(cls, *data: Any, device: device | str | None = None) -> Tensor:
        require(device or cls.place)
        t = new(Tensor)
        t._array = built(data, cls.dtype)
        return t

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.dtype and cls.place == "cpu"

    def __subclasscheck__(cls, other: type) -> bool:
        return other is cls

    @property
    def is_cuda(cls) -> bool:
        return cls.place == "cuda"


def typed(kind: dtypes.dtype, place: str = "cpu") -> TypedTensor:
    module = "rushlight" if place == "cpu" else f"rushlight.{place}"
    body = {"dtype": kind, "place": place, "__module__": module}
    return TypedTensor(f"{kind.storage_name}Tensor", (), body)


OLD_KINDS = (
    *(dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.bool_),
    *(dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64),
)
CPU_TYPES = {kind: typed(kind) for kind in OLD_KINDS}
CUDA_TYPES = {kind: typed(kind, "cuda") for kind in OLD_KINDS}
_BY_NAME = {f"{kind.storage_name}Tensor": kind for kind in dtypes.ALL}


def name_of_type(kind: dtypes.dtype) -> str:
    """``'rushlight.FloatTensor'`` for float32."""
    return f"{config.public_name}.{kind.storage_name}Tensor"


def dtype_of_type(value: Any) -> dtypes.dtype:
    """The dtype that a dtype, a type such as ``rl.FloatTensor``, or the name of one, stands for."""
    if isinstance(value, dtypes.dtype):
        return value
    if isinstance(value, TypedTensor):
        require(value.place)
        return value.dtype
    if value is Tensor:
        return dtypes.get_default_dtype()
    text = value if isinstance(value, str) else getattr(value, "__name__", repr(value))
    package, _, name = text.rpartition(".")
    if package in ("rushlight", "torch") and name in _BY_NAME:
        return _BY_NAME[name]
    raise ValueError(f"invalid type: '{text}'")


def set_default_tensor_type(t: Any, /) -> None:
    """Makes the dtype of ``t``, such as ``rl.DoubleTensor`` or its name, the default one.

    >>> rl.set_default_tensor_type(rl.FloatTensor)
    """
    dtypes.set_default_dtype(dtype_of_type(t))


def old_style_new(self: Tensor, *data: Any, device: device | str | None = None) -> Tensor:
    """The old constructor with this tensor's dtype: ``x.new(2, 3)``, ``x.new([2, 3])``."""
    require(device)
    t = new(Tensor)
    t._array = built(data, self.dtype)
    return t


install(__new__=old_new, new=old_style_new)
