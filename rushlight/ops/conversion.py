"""Changing the dtype, device and memory order of elements, and copying them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.device import device, require
from rushlight.kernels.casting import cast as cast_array
from rushlight.layouts import (
    arranged,
    channels_last,
    contiguous_format,
    memory_format,
    order_of,
    preserve_format,
)
from rushlight.ops.base import composite, need_tensor, ops, registry
from rushlight.ops.elements import kind_of
from rushlight.ops.families import Pointwise
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor, install
from rushlight.typed import TypedTensor, dtype_of_type, name_of_type


class ToCopy(Pointwise):
    """The elements converted to another dtype, as a new tensor.

    Floats become integers by dropping their fraction. NaN, infinities and numbers out of the
    range of an integer type give what the processor's conversion gives, as in PyTorch.
    """

    name = "cast"
    function = method = False
    samples = [S(T(3, 4), dtypes.float64), S(T(), dtypes.float16), S(T(0, 2), dtypes.complex64)]
    errors = [Fails(TypeError, "must be rushlight.dtype, not int", T(3), 3)]

    def check(self, input: Tensor, dtype: dtypes.dtype) -> Any:
        return (need_tensor("cast", input),), {"dtype": dtypes.as_dtype(dtype)}

    def eager(self, x, *, dtype):
        return cast_array(x, dtype.numpy)

    def emit(self, b, x, *, dtype):
        return x.cast(kind_of(dtype.numpy))

    def vjp(self, g, _y, _x, *, dtype):
        return g


cast = registry["cast"].call


class Clone(Pointwise):
    """A copy with memory of its own, by default with the dimensions in the same order in memory.

    >>> rl.tensor([1.0, 2.0]).clone()
    tensor([1., 2.])
    """

    samples = [
        S(T(3, 4)), S(T()), S(T(2, 0)), S(T(2, 3), memory_format=contiguous_format),
        S(T(1, 2, 3, 4), memory_format=channels_last),
    ]  # fmt: skip
    errors = [
        Fails(TypeError, "must be Tensor, not list", [1.0]),
        Fails(RuntimeError, "required rank 4 tensor", T(2), memory_format=channels_last),
        Fails(TypeError, "must be rushlight.memory_format, not int", T(2), memory_format=3),
    ]

    def check(self, input: Tensor, *, memory_format: memory_format = preserve_format) -> Any:
        x = need_tensor("clone", input)._array
        return (input,), {"order": order_of(memory_format, x.shape, x)}

    def infer(self, arrays, attrs):
        (x,), order = arrays, attrs["order"]
        if order is None:
            return np.empty(x.shape, x.dtype)
        return arranged(np.empty([x.shape[d] for d in order], x.dtype), order)

    def eager(self, x, *, order):
        return x.copy() if order is None else arranged(x.transpose(order).copy(), order)

    def emit(self, b, x, *, order):
        return x

    def vjp(self, g, _y, _x, *, order):
        return g


@composite(
    function=False,
    samples=[
        S(T(3, 4), dtypes.float64), S(T(2), dtypes.float64, copy=True), S(T(2), "cpu"),
        S(T(2), "cpu", dtypes.int64), S(T(2), T(3, dtype=dtypes.float64)), S(T(2)),
        S(T(2), device="cpu", dtype=dtypes.float64, non_blocking=True),
        S(T(1, 2, 3, 4), memory_format=channels_last),
    ],
    errors=[
        Fails(RuntimeError, "device 'cuda' is not available: .* 'cpu'", T(2), "cuda"),
        Fails(TypeError, "to\\(\\) takes", T(2), dtypes.int64, dtypes.int32),
        Fails(TypeError, "must be rushlight.dtype, not str", T(2), dtype="float32"),
    ],
)  # fmt: skip
def to(
    input: Tensor,
    *target: Any,
    device: device | str | int | None = None,
    dtype: dtypes.dtype | None = None,
    other: Tensor | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: memory_format = preserve_format,
) -> Tensor:
    """The tensor with another dtype, device or memory format; itself if nothing changes.

    Args:
        target: a dtype; or a device and then perhaps a dtype; or a tensor that has the wanted
            ones. ``non_blocking`` and ``copy`` may follow.
        copy: make a copy even if nothing changes.

    >>> x = rl.tensor([1.7, -1.7])
    >>> x.to(rl.int64)
    tensor([ 1, -1])
    >>> x.to("cpu") is x
    True
    """
    if target:
        device, dtype, flags = read_target(target, device, dtype)
        copy = flags[1] if len(flags) > 1 else copy
    elif other is not None:
        dtype = other.dtype
    if device is not None:
        require(device)
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    x = input._array
    if kind is not None and kind.numpy is not x.dtype:
        if x.dtype.kind == "c" and kind.category < dtypes.COMPLEX and kind is not dtypes.bool_:
            warnings.warn(
                "Casting complex values to real discards the imaginary part",
                UserWarning,
                stacklevel=2,
            )
        if kind.category < dtypes.FLOAT:
            input = input.detach()
        input, copy = cast(input, kind), False
    if memory_format is not preserve_format and not follows(input._array, memory_format):
        copy = True
    return ops.clone(input, memory_format=memory_format) if copy else input


def read_target(target: tuple, device: Any, dtype: Any) -> tuple[Any, Any, tuple]:
    """The device, the dtype and the flags that the positional arguments of ``to`` mean."""
    first, *rest = target
    if isinstance(first, Tensor):
        dtype = first.dtype
    elif isinstance(first, (dtypes.dtype, type, np.dtype)):
        dtype = first
    else:
        device = first
        if rest and not isinstance(rest[0], bool):
            dtype = rest.pop(0)
    if len(rest) > 2 or not all(isinstance(flag, bool) for flag in rest):
        words = ", ".join(messages.kind(value) for value in target)
        raise TypeError(
            f"to() takes (dtype), (device, dtype) or (tensor), then non_blocking and copy; got "
            f"({words})"
        )
    return device, dtype, tuple(rest)


def follows(x: np.ndarray, format: memory_format) -> bool:
    """Whether the elements already lie in memory as ``format`` says."""
    order = order_of(format, x.shape)
    return (x if order is None else x.transpose(order)).flags.c_contiguous


def converter(name: str, kind: dtypes.dtype) -> Callable[..., Tensor]:
    def convert(input: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
        if input._array.dtype is kind.numpy and memory_format is preserve_format:
            return input
        return to(input, kind, memory_format=memory_format)

    convert.__name__ = name
    convert.__doc__ = f"""The tensor with its elements as ``rl.{kind.name}``; see :meth:`to`.

    >>> rl.ones(2).{name}().dtype
    {kind}
    """
    return convert


CONVERSIONS = {
    "float": dtypes.float32,
    "double": dtypes.float64,
    "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "int": dtypes.int32,
    "long": dtypes.int64,
    "short": dtypes.int16,
    "char": dtypes.int8,
    "byte": dtypes.uint8,
    "bool": dtypes.bool_,
    "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
}
for name, kind in CONVERSIONS.items():
    composite(
        function=False,
        samples=[S(T(3, 4, grad=False)), S(T(grad=False)), S(T(0, 2, grad=False))],
        errors=[Fails(TypeError, "must be rushlight.memory_format", T(2), memory_format=3)],
    )(converter(name, kind))


@composite(
    function=False,
    samples=[S(T(2), dtypes.int64), S(T(2), "rushlight.DoubleTensor")],
    errors=[Fails(ValueError, "invalid type: 'foo'", T(2), "foo")],
)
def type_(
    input: Tensor,
    dtype: dtypes.dtype | TypedTensor | str | None = None,
    non_blocking: bool = False,
    **kwargs: Any,
) -> Any:
    """The name of the tensor's type; or, given a dtype or type, the tensor converted to it.

    >>> rl.ones(2).type()
    'rushlight.FloatTensor'
    >>> rl.ones(2).type(rl.int64)
    tensor([1, 1])
    """
    if dtype is None:
        return name_of_type(input.dtype)
    return to(input, dtype_of_type(dtype))


@composite(
    function=False,
    samples=[S(T(2), T(3, dtype=dtypes.float64))],
    errors=[Fails(TypeError, "argument 'other' .* must be Tensor, not str", T(2), "a")],
)
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """The tensor with the dtype of ``other``.

    >>> rl.ones(2).type_as(rl.tensor([1]))
    tensor([1, 1])
    """
    return to(input, need_tensor("type_as", other, "other").dtype)


@composite(
    function=False,
    samples=[S(T(2))],
    errors=[Fails(TypeError, "must be rushlight.memory_format", T(2), memory_format=3)],
)
def cpu(input: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
    """The tensor on the CPU: itself.

    >>> rl.ones(2).cpu()
    tensor([1., 1.])
    """
    return to(input, memory_format=memory_format)


def cuda(
    input: Tensor,
    device: device | str | int | None = None,
    non_blocking: bool = False,
    memory_format: memory_format = preserve_format,
) -> Tensor:
    """The tensor on a CUDA device; an error that lists the devices, since there is none."""
    return to(input, "cuda" if device is None else device)


install(cuda=cuda)
