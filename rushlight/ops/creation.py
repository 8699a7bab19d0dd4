"""New tensors: empty, filled, of given strides; like another tensor."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.device import device, require
from rushlight.dims import is_of_run
from rushlight.kernels.casting import checked
from rushlight.layouts import (
    OutOfMemoryError,
    arranged,
    channels_last,
    contiguous_format,
    layout,
    memory_format,
    order_of,
    permuted,
    preserve_format,
    require_strided,
    shape_of,
    strided,
    whole,
)
from rushlight.literals import no_pinned_memory, tensor
from rushlight.ops.base import Op, composite, into, need_tensor, ops, registry
from rushlight.ops.elements import kind_of
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

NUMBER = (int, float, complex, np.number, np.bool_)


class Factory(Op, abstract=True):
    """A new tensor of sizes and numbers, or of the shape of another tensor.

    ``check(…, dtype=None)`` takes what is particular; the arguments that all factories share are
    handled here. The attribute ``kind`` is the NumPy dtype.
    """

    method = False
    differentiable = False
    variadic = False  # sizes may be given one by one: zeros(2, 3)

    def make(self) -> Callable[..., Any]:
        check, apply, variadic, name = self.check, self.apply, self.variadic, self.name

        def function(
            *args: Any,
            out: Tensor | None = None,
            dtype: dtypes.dtype | None = None,
            layout: layout | None = None,
            device: device | str | int | None = None,
            pin_memory: bool = False,
            requires_grad: bool = False,
            **kwargs: Any,
        ) -> Tensor:
            if device is not None or layout is not None or pin_memory:
                placed(layout, device, pin_memory)
            if out is not None:
                dtype = dtype_of_out(out, dtype)
            if variadic and not args:
                args = (sole_size(name, kwargs),)
            operands, attrs = check(*args, dtype=dtype, **kwargs)
            try:
                t = apply(operands, attrs)
            except MemoryError as error:
                raise OutOfMemoryError(f"{name}: {error}") from None
            if out is not None:
                return into(out, t)
            return t.requires_grad_() if requires_grad else t

        type(self).check.__qualname__ = self.name
        own = [p for p in inspect.signature(check).parameters.values() if p.name != "dtype"]
        function.__signature__ = inspect.Signature([*own, *SHARED])  # type: ignore[attr-defined]
        return function


SHARED = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
    for name, kind, default in (
        ("out", "Tensor | None", None),
        ("dtype", "dtypes.dtype | None", None),
        ("layout", "layout | None", None),
        ("device", "device | str | int | None", None),
        ("pin_memory", "bool", False),
        ("requires_grad", "bool", False),
    )
]
"""The parameters of every factory, as the documentation shows them."""


def sole_size(name: str, kwargs: dict[str, Any]) -> Any:
    """The shape given as ``size=``."""
    if "size" not in kwargs:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    return kwargs.pop("size")


def placed(layout: Any, device: Any, pin_memory: bool) -> None:
    """An error unless a new tensor can be where and how these arguments say."""
    require(device)
    require_strided(layout)
    if pin_memory:
        raise no_pinned_memory()


def dtype_of_out(out: Any, dtype: Any) -> dtypes.dtype:
    """The dtype of a result that goes to ``out``."""
    if not isinstance(out, Tensor):
        raise TypeError(f"argument 'out' must be Tensor, not {messages.kind(out)}")
    if dtype is not None and dtypes.as_dtype(dtype) is not out.dtype:
        raise RuntimeError(
            f"dtype {dtypes.as_dtype(dtype).storage_name} does not match dtype of out parameter "
            f"({out.dtype.storage_name})"
        )
    return out.dtype


def numpy_kind(dtype: Any) -> np.dtype:
    return (dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)).numpy


SIZE_ERRORS = [
    Fails(RuntimeError, "negative dimension -1", 2, -1),
    Fails(RuntimeError, "Storage size calculation overflowed", 2**40, 2**40),
    Fails(RuntimeError, "at most 64 dimensions, got 65", *[1] * 65),
    Fails(TypeError, "argument 'size' must be int, not float", 2.5),
    Fails(TypeError, "argument 'dtype' must be rushlight.dtype, not str", 2, dtype="float"),
    Fails(RuntimeError, "device 'cuda' is not available: .* 'cpu'", 2, device="cuda"),
    Fails(
        RuntimeError, "floating point and complex dtype", 2, dtype=dtypes.int64, requires_grad=True
    ),
]
SIZE_SAMPLES = [
    S(2, 3), S((2, 3)), S([]), S(0), S(size=(2,)),
    S(2, dtype=dtypes.int64), S(2, layout=strided, device="cpu"),
]  # fmt: skip


class Filled(Factory, abstract=True):
    """A new tensor of one number; compiled, one that is not to be looked into holds zeros."""

    element = 0

    def at(self, b, i, *like, kind, **attrs):
        return b.constant(self.element, kind_of(kind))

    def infer(self, arrays, attrs):
        if not arrays:
            return NotImplemented
        order = attrs["order"]
        return arranged(np.empty(permuted(arrays[0].shape, order), attrs["kind"]), order)


class Zeros(Filled):
    """Zeros in a tensor of the given sizes.

    >>> rl.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """

    variadic = True
    samples = SIZE_SAMPLES
    errors = SIZE_ERRORS

    def check(self, *size: int | Sequence[int], dtype: dtypes.dtype | None = None) -> Any:
        kind = numpy_kind(dtype)
        return (), {"size": shape_of("zeros", size, kind), "kind": kind}

    def eager(self, *, size, kind):
        return np.zeros(size, kind)


class Ones(Filled):
    """Ones in a tensor of the given sizes.

    >>> rl.ones(2, dtype=rl.int64)
    tensor([1, 1])
    """

    element = 1
    variadic = True
    samples = SIZE_SAMPLES
    errors = SIZE_ERRORS

    def check(self, *size: int | Sequence[int], dtype: dtypes.dtype | None = None) -> Any:
        kind = numpy_kind(dtype)
        return (), {"size": shape_of("ones", size, kind), "kind": kind}

    def eager(self, *, size, kind):
        return np.ones(size, kind)


class Empty(Filled):
    """A tensor of the given sizes whose elements are whatever was in memory.

    >>> rl.empty(2, 3).shape
    rushlight.Size([2, 3])
    """

    variadic = True
    samples = [*SIZE_SAMPLES, S(2, 3, 4, 5)]
    errors = SIZE_ERRORS

    def check(
        self,
        *size: int | Sequence[int],
        dtype: dtypes.dtype | None = None,
        memory_format: memory_format | None = None,
    ) -> Any:
        kind = numpy_kind(dtype)
        shape = shape_of("empty", size, kind)
        return (), {"size": shape, "kind": kind, "order": order_of(memory_format, shape)}

    def eager(self, *, size, kind, order):
        return arranged(np.empty(permuted(size, order), kind), order)


class Full(Factory):
    """A tensor of the shape ``size`` with every element ``fill_value``.

    >>> rl.full((2, 2), 3.5)
    tensor([[3.5000, 3.5000],
            [3.5000, 3.5000]])
    """

    samples = [S((2, 3), 1.5), S((), 2), S((0, 2), True), S((2,), 1, dtype=dtypes.float64)]
    errors = [
        Fails(TypeError, "must be tuple of ints, not int", 2, 1.0),
        Fails(TypeError, "argument 'fill_value' .* must be Number, not str", (2,), "a"),
        Fails(RuntimeError, "without overflow", (2,), 300, dtype=dtypes.uint8),
        Fails(RuntimeError, "negative dimension", (-2,), 300),
    ]

    def check(
        self, size: Sequence[int], fill_value: Any, *, dtype: dtypes.dtype | None = None
    ) -> Any:
        if not isinstance(size, (tuple, list)):
            raise TypeError(
                "full(): argument 'size' (position 1) must be tuple of ints, not "
                f"{messages.kind(size)}"
            )
        value = fill_number("full", fill_value)
        kind = dtypes.of_scalar(value) if dtype is None else dtypes.as_dtype(dtype)
        shape = shape_of("full", (size,), kind.numpy)
        return (), {"size": shape, "fill_value": checked(value, kind), "kind": kind.numpy}

    def eager(self, *, size, fill_value, kind):
        return np.full(size, fill_value, kind)

    def decompose(self, *, size, fill_value, kind):
        if not is_of_run(fill_value):
            return NotImplemented
        return ops.empty(size, dtype=dtypes.from_numpy(kind)).fill_(fill_value)

    def at(self, b, i, *, size, fill_value, kind):
        return b.constant(fill_value, kind_of(kind))


def fill_number(name: str, value: Any) -> Any:
    """The Python number that a fill value, perhaps a 0-d tensor, stands for."""
    if isinstance(value, Tensor) and value.ndim == 0:
        return value.item()
    if isinstance(value, NUMBER):
        return value.item() if isinstance(value, np.generic) else value
    raise TypeError(
        f"{name}(): argument 'fill_value' (position 2) must be Number, not {messages.kind(value)}"
    )


LIKE_SAMPLES = [
    S(T(3, 4)), S(T()), S(T(0, 2)), S(T(2), dtype=dtypes.int64),
    S(T(2, 3), memory_format=contiguous_format), S(T(1, 2, 3, 4), memory_format=channels_last),
]  # fmt: skip
LIKE_ERRORS = [
    Fails(TypeError, "argument 'input' .* must be Tensor, not list", [1.0]),
    Fails(RuntimeError, "device 'cuda' is not available", T(2), device="cuda"),
    Fails(TypeError, "argument 'dtype' must be rushlight.dtype, not str", T(2), dtype="float"),
    Fails(RuntimeError, "required rank 4 tensor", T(2), memory_format=channels_last),
]


def like(name: str, input: Any, dtype: Any, format: memory_format) -> dict[str, Any]:
    """The attributes of a tensor that is made like ``input``."""
    x = need_tensor(name, input)._array
    kind = x.dtype if dtype is None else dtypes.as_dtype(dtype).numpy
    return {"kind": kind, "order": order_of(format, x.shape, x)}


class ZerosLike(Filled):
    """Zeros with the shape, and by default the dtype and strides, of ``input``.

    >>> rl.zeros_like(rl.tensor([1, 2]))
    tensor([0, 0])
    """

    samples = LIKE_SAMPLES
    errors = LIKE_ERRORS

    def check(
        self,
        input: Tensor,
        *,
        dtype: dtypes.dtype | None = None,
        memory_format: memory_format = preserve_format,
    ) -> Any:
        return (input,), like("zeros_like", input, dtype, memory_format)

    def eager(self, x, *, kind, order):
        return arranged(np.zeros(permuted(x.shape, order), kind), order)


class OnesLike(Filled):
    """Ones with the shape, and by default the dtype and strides, of ``input``.

    >>> rl.ones_like(rl.zeros(2))
    tensor([1., 1.])
    """

    element = 1
    samples = LIKE_SAMPLES
    errors = LIKE_ERRORS

    def check(
        self,
        input: Tensor,
        *,
        dtype: dtypes.dtype | None = None,
        memory_format: memory_format = preserve_format,
    ) -> Any:
        return (input,), like("ones_like", input, dtype, memory_format)

    def eager(self, x, *, kind, order):
        return arranged(np.ones(permuted(x.shape, order), kind), order)


class EmptyLike(Filled):
    """Whatever was in memory, with the shape, and by default the dtype and strides, of ``input``.

    >>> rl.empty_like(rl.zeros(2, 3)).shape
    rushlight.Size([2, 3])
    """

    samples = LIKE_SAMPLES
    errors = LIKE_ERRORS

    def check(
        self,
        input: Tensor,
        *,
        dtype: dtypes.dtype | None = None,
        memory_format: memory_format = preserve_format,
    ) -> Any:
        return (input,), like("empty_like", input, dtype, memory_format)

    def eager(self, x, *, kind, order):
        return arranged(np.empty(permuted(x.shape, order), kind), order)


class FullLike(Factory):
    """``fill_value`` with the shape, and by default the dtype and strides, of ``input``.

    >>> rl.full_like(rl.zeros(2), 7)
    tensor([7., 7.])
    """

    samples = [S(T(3, 4), 1), S(T(), 1), S(T(0, 2), 1), S(T(2), 2, dtype=dtypes.int64)]
    errors = [
        Fails(TypeError, "argument 'input' .* must be Tensor, not list", [1.0], 1),
        Fails(TypeError, "argument 'fill_value' .* must be Number, not list", T(2), [1]),
        Fails(RuntimeError, "without overflow", T(2), 300, dtype=dtypes.int8),
    ]

    def check(
        self,
        input: Tensor,
        fill_value: Any,
        *,
        dtype: dtypes.dtype | None = None,
        memory_format: memory_format = preserve_format,
    ) -> Any:
        attrs = like("full_like", input, dtype, memory_format)
        value = checked(fill_number("full_like", fill_value), dtypes.from_numpy(attrs["kind"]))
        return (input,), {**attrs, "fill_value": value}

    def eager(self, x, *, fill_value, kind, order):
        return arranged(np.full(permuted(x.shape, order), fill_value, kind), order)

    def decompose(self, x, *, fill_value, kind, order):
        if not is_of_run(fill_value):
            return NotImplemented
        return registry["empty_like"].apply((x,), {"kind": kind, "order": order}).fill_(fill_value)

    def at(self, b, i, x, *, fill_value, kind, order):
        return b.constant(fill_value, kind_of(kind))


class EmptyStrided(Filled):
    """Whatever was in memory, in the given sizes and strides.

    >>> rl.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """

    samples = [S((2, 3), (1, 2)), S((2, 3), (0, 1)), S((), ()), S((0, 2), (2, 1))]
    errors = [
        Fails(
            RuntimeError, r"sizes \(2\) must match dimensionality of strides \(1\)", (2, 3), (1,)
        ),
        Fails(RuntimeError, "negative stride -1", (2, 3), (1, -1)),
    ]

    def check(
        self, size: Sequence[int], stride: Sequence[int], *, dtype: dtypes.dtype | None = None
    ) -> Any:
        kind = numpy_kind(dtype)
        shape = shape_of("empty_strided", (size,), kind)
        steps = tuple([whole(n, "empty_strided", "stride") for n in stride])
        if len(steps) != len(shape):
            raise RuntimeError(
                f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides "
                f"({len(steps)})"
            )
        if steps and min(steps) < 0:
            raise RuntimeError(f"empty_strided(): negative stride {min(steps)}: {list(steps)}")
        return (), {"size": shape, "stride": steps, "kind": kind}

    def eager(self, *, size, stride, kind):
        reach = sum([(n - 1) * step for n, step in zip(size, stride, strict=True)])
        memory = np.empty(reach + 1 if 0 not in size else 0, kind)
        strides = [step * kind.itemsize for step in stride]
        return np.lib.stride_tricks.as_strided(memory, size, strides)


class EmptyPermuted(Filled):
    """Whatever was in memory, dense, with the dimensions in memory in ``physical_layout`` order.

    >>> rl.empty_permuted((2, 3, 4), (2, 0, 1)).stride()
    (3, 1, 6)
    """

    samples = [S((2, 3, 4), (2, 0, 1)), S((), ()), S((2, 3), (0, 1))]
    errors = [
        Fails(RuntimeError, "Duplicate dim not allowed", (2, 3), (0, 0)),
        Fails(RuntimeError, "Dimension out of range", (2, 3), (0, 2)),
        Fails(RuntimeError, "number of dimensions", (2, 3), (0,)),
    ]

    def check(
        self,
        size: Sequence[int],
        physical_layout: Sequence[int],
        *,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        kind = numpy_kind(dtype)
        shape, order = shape_of("empty_permuted", (size,), kind), tuple(physical_layout)
        if len(order) != len(shape):
            raise RuntimeError(
                f"number of dimensions in size ({len(shape)}) and in physical_layout "
                f"({len(order)}) must match"
            )
        if not all(0 <= dim < len(shape) for dim in order):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(shape) - 1}), but "
                f"got physical_layout={list(order)}"
            )
        if len(set(order)) != len(order):
            raise RuntimeError(f"Duplicate dim not allowed: physical_layout={list(order)}")
        return (), {"size": shape, "order": order, "kind": kind}

    def eager(self, *, size, order, kind):
        return arranged(np.empty(permuted(size, order), kind), order)


class ScalarTensor(Factory):
    """A 0-d tensor of the number ``s``, of the default dtype if none is given.

    >>> rl.scalar_tensor(3)
    tensor(3.)
    """

    samples = [S(1.5), S(2, dtype=dtypes.int64)]
    errors = [
        Fails(TypeError, "must be Number, not str", "a"),
        Fails(RuntimeError, "without overflow", 3j),
    ]

    def check(self, s: Any, *, dtype: dtypes.dtype | None = None) -> Any:
        kind = numpy_kind(dtype)
        value = checked(fill_number("scalar_tensor", s), dtypes.from_numpy(kind))
        return (), {"s": value, "kind": kind}

    def eager(self, *, s, kind):
        return np.array(s, kind)

    def decompose(self, *, s, kind):
        if not is_of_run(s):
            return NotImplemented
        return ops.empty((), dtype=dtypes.from_numpy(kind)).fill_(s)

    def at(self, b, i, *, s, kind):
        return b.constant(s, kind_of(kind))


NEW_SAMPLES = [S(T(2), 3, 2), S(T(2), (3,)), S(T(), ()), S(T(2), 2, dtype=dtypes.int64)]
NEW_ERRORS = [
    Fails(RuntimeError, "negative dimension -1", T(2), -1),
    Fails(TypeError, "argument 'size' must be int, not float", T(2), 2.5),
]


@composite(function=False, samples=NEW_SAMPLES, errors=NEW_ERRORS)
def new_zeros(
    input: Tensor, *size: int | Sequence[int], dtype: dtypes.dtype | None = None, **options: Any
) -> Tensor:
    """:func:`zeros`, by default of this tensor's dtype.

    >>> rl.tensor([1, 2]).new_zeros(3)
    tensor([0, 0, 0])
    """
    return ops.zeros(*size, dtype=dtype or input.dtype, **options)


@composite(function=False, samples=NEW_SAMPLES, errors=NEW_ERRORS)
def new_ones(
    input: Tensor, *size: int | Sequence[int], dtype: dtypes.dtype | None = None, **options: Any
) -> Tensor:
    """:func:`ones`, by default of this tensor's dtype.

    >>> rl.tensor([1, 2]).new_ones(3)
    tensor([1, 1, 1])
    """
    return ops.ones(*size, dtype=dtype or input.dtype, **options)


@composite(function=False, samples=NEW_SAMPLES, errors=NEW_ERRORS)
def new_empty(
    input: Tensor, *size: int | Sequence[int], dtype: dtypes.dtype | None = None, **options: Any
) -> Tensor:
    """:func:`empty`, by default of this tensor's dtype.

    >>> rl.tensor([1, 2]).new_empty(3).dtype
    rushlight.int64
    """
    return ops.empty(*size, dtype=dtype or input.dtype, **options)


@composite(
    function=False,
    samples=[S(T(2), (3, 2), 1), S(T(2), (), 1, dtype=dtypes.int64)],
    errors=[Fails(RuntimeError, "negative dimension -1", T(2), (-1,), 1)],
)
def new_full(
    input: Tensor,
    size: Sequence[int],
    fill_value: Any,
    *,
    dtype: dtypes.dtype | None = None,
    **options: Any,
) -> Tensor:
    """:func:`full`, by default of this tensor's dtype.

    >>> rl.tensor([1, 2]).new_full((3,), 7)
    tensor([7, 7, 7])
    """
    return ops.full(size, fill_value, dtype=dtype or input.dtype, **options)


@composite(
    function=False,
    samples=[S(T(2), (3, 2), (1, 3))],
    errors=[Fails(RuntimeError, "must match dimensionality of strides", T(2), (2, 3), (1,))],
)
def new_empty_strided(
    input: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    dtype: dtypes.dtype | None = None,
    **options: Any,
) -> Tensor:
    """:func:`empty_strided`, by default of this tensor's dtype.

    >>> rl.tensor([1, 2]).new_empty_strided((2, 3), (1, 2)).dtype
    rushlight.int64
    """
    return ops.empty_strided(size, stride, dtype=dtype or input.dtype, **options)


ops.tensor = tensor  # for rules and composites
