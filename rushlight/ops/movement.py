"""Views: other shapes and orders of the same elements, without copying them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.ops.base import Op, axis, composite, need_tensor, ops
from rushlight.ops.families import View
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor


def sizes(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """``f(2, 3)`` and ``f((2, 3))`` mean the same shape."""
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    return tuple([n.__index__() for n in shape])


class Permute(View):
    """The dimensions in another order.

    >>> rl.zeros(2, 3, 5).permute(2, 0, 1).shape
    rushlight.Size([5, 2, 3])
    """

    samples = [S(T(2, 3, 4), (2, 0, 1)), S(T(2, 3), (0, 1)), S(T(), ())]
    errors = [
        Fails(RuntimeError, "2 dimensions, got 1", T(2, 3), (0,)),
        Fails(RuntimeError, "dim 0 appears multiple times", T(2, 3), (0, 0)),
        Fails(IndexError, "out of range", T(2, 3), (0, 2)),
    ]

    def check(self, input: Tensor, *dims: Any) -> Any:
        x = need_tensor("permute", input)
        order = [axis(d, x.ndim) for d in sizes(dims)]
        if len(order) != x.ndim:
            raise RuntimeError(
                f"permute(): the tensor has {x.ndim} dimensions, got {len(order)} in dims={order}"
            )
        if len(set(order)) != len(order):
            twice = next(d for d in order if order.count(d) > 1)
            raise RuntimeError(f"permute(): dim {twice} appears multiple times in dims={order}")
        return (x,), {"dims": tuple(order)}

    def eager(self, x, *, dims):
        return x.transpose(dims)

    def vjp(self, g, _y, _x, *, dims):
        return g.permute(tuple(np.argsort(dims)))


class Expand(View):
    """Dimensions of size 1 repeated without copying; -1 keeps a size.

    >>> rl.tensor([[1.0], [2.0]]).expand(2, 3)
    tensor([[1., 1., 1.],
            [2., 2., 2.]])
    """

    samples = [S(T(3, 1), (3, 4)), S(T(3), (2, 3)), S(T(2, 1), (-1, 3)), S(T(), (2,))]
    errors = [Fails(RuntimeError, r"must match the existing size \(3\)", T(3), (4,))]

    def check(self, input: Tensor, *size: Any) -> Any:
        x = need_tensor("expand", input)
        shape = list(sizes(size))
        old = x._array.shape
        lead = len(shape) - len(old)
        if lead < 0:
            raise RuntimeError(
                f"expand(): the number of sizes provided ({len(shape)}) must be greater or equal "
                f"to the number of dimensions in the tensor ({len(old)})"
            )
        for i, n in enumerate(shape):
            have = old[i - lead] if i >= lead else None
            if n == -1 and have is not None:
                shape[i] = have
            elif n < 0:
                raise RuntimeError(f"expand(): invalid size {n} at dimension {i} of {shape}")
            elif have not in (None, 1, n):
                raise RuntimeError(
                    f"The expanded size of the tensor ({n}) must match the existing size ({have}) "
                    f"at non-singleton dimension {i}. Target sizes: {shape}. "
                    f"Tensor sizes: {list(old)}"
                )
        return (x,), {"size": tuple(shape)}

    def eager(self, x, *, size):
        return np.broadcast_to(x, size)

    def vjp(self, g, _y, _x, *, size):
        return g.sum_to_size(_x.shape)


class Reshaped(View):
    """The elements, in order, in another shape; the strides must allow it."""

    name = "view"
    function = False
    samples = [S(T(2, 6), (3, 4)), S(T(2, 6), (-1, 2)), S(T(0, 3), (3, 0)), S(T(), (1, 1))]
    errors = [
        Fails(RuntimeError, "only one dimension can be inferred", T(4), (-1, -1)),
        Fails(RuntimeError, "is invalid for input of size 4", T(4), (3, 2)),
        Fails(RuntimeError, "cannot reshape tensor of 0 elements", T(0), (-1, 0)),
    ]

    def check(self, input: Tensor, *shape: Any) -> Any:
        x = need_tensor("view", input)
        return (x,), {"shape": complete_shape(x, sizes(shape))}

    def eager(self, x, *, shape):
        try:
            return np.reshape(x, shape, copy=False)
        except ValueError:
            raise RuntimeError(
                f"view size is not compatible with input tensor's size and stride: shape "
                f"{list(x.shape)} cannot be seen as {list(shape)} without a copy. "
                "Use .reshape(...) instead."
            ) from None

    def vjp(self, g, _y, _x, *, shape):
        return g.reshape(_x.shape)


def complete_shape(x: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """``shape`` with its -1 worked out; an error if the sizes do not fit the element count."""
    count = x._array.size
    known, unknown = 1, None
    for i, n in enumerate(shape):
        if n == -1:
            if unknown is not None:
                raise RuntimeError(f"only one dimension can be inferred, got shape {list(shape)}")
            unknown = i
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n} in {list(shape)}")
        else:
            known *= n
    if unknown is None:
        if known != count:
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {count}")
        return shape
    if known == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the "
            "unspecified dimension size -1 can be any value and is ambiguous"
        )
    if count % known:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {count}")
    return (*shape[:unknown], count // known, *shape[unknown + 1 :])


@composite(
    samples=[S(T(2, 6), (3, 4)), S(T(2, 3, 4), (-1,))],
    errors=[Fails(RuntimeError, "only one dimension can be inferred", T(4), (-1, -1))],
)
def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The elements, in order, in another shape: a view where the strides allow it, else a copy.

    >>> rl.arange(6).reshape(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    x = need_tensor("reshape", input)
    wanted = complete_shape(x, sizes(shape))
    array = x._array
    if not array.flags.c_contiguous:
        try:
            np.reshape(array, wanted, copy=False)
        except ValueError:
            x = x.clone()
    return x.view(wanted)


@composite(
    samples=[S(T(2, 3)), S(T(3)), S(T())],
    errors=[Fails(RuntimeError, "expects a tensor with <= 2 dimensions", T(2, 2, 2))],
)
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; vectors and scalars stay as they are.

    >>> rl.ones(2, 3).t().shape
    rushlight.Size([3, 2])
    """
    x = need_tensor("t", input)
    if x.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {x.ndim}D")
    return x.permute(1, 0) if x.ndim == 2 else x.view(x.shape)
