"""Views of all elements, in order, in another shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight import dtypes
from rushlight.layouts import MOST_DIMENSIONS, whole
from rushlight.ops.base import axis, composite, need_tensor, registry
from rushlight.ops.elements import flat, unflat
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.views import ALWAYS, WRONG, View, as_shape, viewed
from rushlight.tensor import Tensor


class Reshaped(View):
    """The elements, in order, in another shape; the strides must allow it.

    ``x.view(dtype)`` is the memory of ``x`` read as another type, without a gradient.

    >>> rl.arange(6).view(2, 3)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    >>> rl.tensor([1.0]).view(rl.int32)
    tensor([1065353216], dtype=rushlight.int32)
    """

    name = "view"
    function = False
    samples = [S(T(2, 6), (3, 4)), S(T(2, 6), (-1, 2)), S(T(0, 3), (3, 0)), S(T(), (1, 1))]
    errors = [
        Fails(RuntimeError, "only one dimension can be inferred", T(4), (-1, -1)),
        Fails(RuntimeError, "invalid shape dimension -2", T(4), (-2, 2)),
        Fails(RuntimeError, "is invalid for input of size 4", T(4), (3, 2)),
        Fails(RuntimeError, "cannot reshape tensor of 0 elements", T(0), (-1, 0)),
        Fails(RuntimeError, "at most 64 dimensions", T(1), (1,) * 65),
        Fails(TypeError, "takes ints", T(4), (2.0, 2)),
    ]

    def make(self) -> Callable[..., Any]:
        op, check, apply = self, self.check, self.apply

        def view(
            input: Tensor,
            *shape: int | Sequence[int] | dtypes.dtype,
            size: Sequence[int] | None = None,
            dtype: dtypes.dtype | None = None,
        ) -> Tensor:
            wanted: Any = shape
            if len(shape) == 1 and type(shape[0]) is not int:
                (wanted,) = shape
            try:
                array = input._array
                if not array.flags.c_contiguous:
                    raise ValueError
                array = array.reshape(wanted)
                if array.shape != wanted and any([n < -1 for n in wanted]):
                    raise ValueError
            except WRONG:
                if isinstance(wanted, dtypes.dtype):
                    return reinterpret(need_tensor("view", input), wanted)
                if dtype is not None:
                    return reinterpret(need_tensor("view", input), dtypes.as_dtype(dtype))
                return apply(*check(input, wanted if size is None else size))
            return viewed(op, input, array, {"shape": array.shape})

        return view

    def check(self, input: Tensor, *shape: Any) -> Any:
        x = need_tensor("view", input)
        return (x,), {"shape": complete_shape(x, as_shape("view", shape))}

    def eager(self, x, *, shape):
        try:
            return x.reshape(shape, copy=False)
        except ValueError:
            raise RuntimeError(
                f"view size is not compatible with input tensor's size and stride: shape "
                f"{list(x.shape)} cannot be seen as {list(shape)} without a copy. "
                "Use .reshape(...) instead."
            ) from None

    def origin(self, b, i, old, *, shape):
        return unflat(flat(i, shape), old)

    def seen(self, b, j, old, *, shape):
        return ALWAYS, unflat(flat(j, old), shape)

    def compute(self, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        return arrays[0].reshape(attrs["shape"])  # a value in a graph has no strides to respect

    def vjp(self, g, _y, _x, *, shape):
        return g.reshape(_x.shape)


def reinterpret(x: Tensor, kind: dtypes.dtype) -> Tensor:
    """The memory of ``x`` read as another dtype: the last dimension grows or shrinks with it."""
    array = x._array
    have, want = array.itemsize, kind.itemsize
    if have != want:
        if not array.ndim:
            raise RuntimeError(
                f"self.dim() cannot be 0 to view {x.dtype.storage_name} as {kind.storage_name} "
                "(different element sizes)"
            )
        if array.size and array.strides[-1] != have:
            raise RuntimeError(
                f"self.stride(-1) must be 1 to view {x.dtype.storage_name} as "
                f"{kind.storage_name} (different element sizes), but got strides {list(x.stride())}"
            )
        if have * array.shape[-1] % want:
            raise RuntimeError(
                f"self.size(-1) must be divisible by {want // have} to view "
                f"{x.dtype.storage_name} as {kind.storage_name} (different element sizes), but "
                f"got {array.shape[-1]}"
            )
    y = x.detach()
    y._array = array.view(kind.numpy)
    return y


def complete_shape(x: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """``shape`` with its -1 worked out; an error if the sizes do not fit the element count."""
    count = x._array.size
    if len(shape) > MOST_DIMENSIONS:
        raise RuntimeError(f"a tensor has at most {MOST_DIMENSIONS} dimensions, got {len(shape)}")
    known, unknown = 1, None
    for i, n in enumerate(shape):
        if n == -1:
            if unknown is not None:
                raise RuntimeError(f"only one dimension can be inferred, got shape {list(shape)}")
            unknown = i
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n} at index {i} of shape {list(shape)}")
        else:
            known *= n
    if unknown is None:
        if known != count:
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {count}")
        return shape
    if known == 0 and count == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the "
            "unspecified dimension size -1 can be any value and is ambiguous"
        )
    if known == 0 or count % known:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {count}")
    return (*shape[:unknown], count // known, *shape[unknown + 1 :])


see = registry["view"]


@composite(
    samples=[S(T(2, 6), (3, 4)), S(T(2, 3, 4), (-1,)), S(T(), (1, 1)), S(T(0, 3), (3, -1))],
    errors=[
        Fails(RuntimeError, "only one dimension can be inferred", T(4), (-1, -1)),
        Fails(RuntimeError, "is invalid for input of size 4", T(4), (3, 2)),
        Fails(TypeError, "takes ints", T(4), (2.0, 2)),
    ],
)
def reshape(
    input: Tensor, *sizes: int | Sequence[int], shape: Sequence[int] | None = None
) -> Tensor:
    """The elements, in order, in another shape: a view where the strides allow it, else a copy.

    >>> rl.arange(6).reshape(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    wanted: Any = sizes
    if len(sizes) == 1 and type(sizes[0]) is not int:
        (wanted,) = sizes
    try:
        array = input._array
        if not array.flags.c_contiguous:
            raise ValueError
        array = array.reshape(wanted)
        if array.shape != wanted and any([n < -1 for n in wanted]):
            raise ValueError
    except WRONG:
        return reshape_or_copy(need_tensor("reshape", input), wanted if shape is None else shape)
    return viewed(see, input, array, {"shape": array.shape})


def reshape_or_copy(x: Tensor, shape: Any) -> Tensor:
    wanted = complete_shape(x, as_shape("reshape", shape if isinstance(shape, tuple) else (shape,)))
    try:
        array = x._array.reshape(wanted, copy=False)
    except ValueError:
        x = x.contiguous()
        array = x._array.reshape(wanted)
    return viewed(see, x, array, {"shape": wanted})


@composite(
    function=False,
    samples=[S(T(2, 3), T(6)), S(T(1), T())],
    errors=[Fails(RuntimeError, "is invalid for input of size 6", T(2, 3), T(4))],
)
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """``input`` viewed in the shape of ``other``.

    >>> rl.arange(4).view_as(rl.ones(2, 2)).shape
    rushlight.Size([2, 2])
    """
    return input.view(need_tensor("view_as", other, "other")._array.shape)


@composite(
    function=False,
    samples=[S(T(2, 3), T(6)), S(T(1), T())],
    errors=[Fails(RuntimeError, "is invalid for input of size 6", T(2, 3), T(4))],
)
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """``input`` in the shape of ``other``.

    >>> rl.arange(4).reshape_as(rl.ones(2, 2)).shape
    rushlight.Size([2, 2])
    """
    return input.reshape(need_tensor("reshape_as", other, "other")._array.shape)


@composite(
    samples=[S(T(2, 3, 4)), S(T(2, 3, 4), 1), S(T(2, 3, 4), 0, -2), S(T()), S(T(0, 3))],
    errors=[
        Fails(RuntimeError, "start_dim cannot come after end_dim", T(2, 3), 1, 0),
        Fails(IndexError, "out of range", T(2, 3), 0, 2),
    ],
)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The dimensions from ``start_dim`` to ``end_dim`` merged into one.

    >>> rl.zeros(2, 3, 4).flatten(1).shape
    rushlight.Size([2, 12])
    """
    x = need_tensor("flatten", input)
    shape = x._array.shape
    if start_dim == 0 and end_dim == -1 and len(shape) != 1:
        return x.reshape(-1)
    first, last = axis(start_dim, len(shape)), axis(end_dim, len(shape))
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if first == last:
        return x
    return x.reshape((*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@composite(samples=[S(T(2, 3)), S(T())], errors=[Fails(TypeError, "must be Tensor", [1.0])])
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension.

    >>> rl.tensor([[1, 2], [3, 4]]).ravel()
    tensor([1, 2, 3, 4])
    """
    return need_tensor("ravel", input).reshape(-1)


@composite(
    samples=[S(T(6, 2), 0, (2, 3)), S(T(2, 6), -1, (-1, 2)), S(T(0, 2), 0, (0, 3))],
    errors=[
        Fails(RuntimeError, r"\[2, 2\] don't multiply up to the size of dim 0", T(5), 0, (2, 2)),
        Fails(RuntimeError, "sizes must be non-empty", T(5), 0, ()),
    ],
)
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dimension divided into several; one of the ``sizes`` may be -1.

    >>> rl.zeros(2, 12).unflatten(1, (3, -1)).shape
    rushlight.Size([2, 3, 4])
    """
    x = need_tensor("unflatten", input)
    shape = x._array.shape
    d = axis(dim, len(shape))
    if not len(sizes):
        raise RuntimeError("unflatten: sizes must be non-empty")
    parts = [whole(n, "unflatten", "sizes") for n in sizes]
    known = math.prod([n for n in parts if n != -1])
    if parts.count(-1) == 1 and known > 0:
        parts[parts.index(-1)] = shape[d] // known
        known *= shape[d] // known
    if known != shape[d] or min(parts) < 0:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {d} "
            f"({shape[d]}) in the input tensor"
        )
    return x.view((*shape[:d], *parts, *shape[d + 1 :]))
