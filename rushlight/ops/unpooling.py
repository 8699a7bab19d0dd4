"""Max unpooling: pooled values put back where they came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.layouts import shape_of
from rushlight.ops.base import composite, need_tensor
from rushlight.ops.pooling import Sizes, need_dtype, per_dimension, plane_put
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor


def unpooled(
    rank: int,
    input: Any,
    indices: Any,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    output_size: Sequence[int] | None,
) -> Tensor:
    """``input`` at the places ``indices`` of planes of zeros."""
    name = f"max_unpool{rank}d"
    x, index = need_tensor(name, input), need_tensor(name, indices, "indices", 2)
    need_dtype(name, x, "f")
    size = per_dimension(name, "kernel_size", kernel_size, rank)
    steps = size if stride is None else per_dimension(name, "stride", stride, rank)
    margin = per_dimension(name, "padding", padding, rank)
    shape = x._array.shape
    if index.dtype is not dtypes.int64:
        raise RuntimeError(
            f"{name}(): elements in indices should be type int64 but got: "
            f"{index.dtype.storage_name}"
        )
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(
            f"{name}(): Input to max_unpooling should be a {rank + 1}d or {rank + 2}d Tensor, but "
            f"got a tensor with {len(shape)} dimensions."
        )
    if index._array.shape != shape:
        raise RuntimeError(
            f"{name}(): Expected shape of indices to be same as that of the input tensor "
            f"({list(shape)}) but got indices tensor with shape: {list(index._array.shape)}"
        )
    if 0 in shape[-rank - 1 :]:
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got "
            f"{list(shape)}"
        )
    sides = zip(shape[-rank:], size, steps, margin, strict=True)
    usual = [(n - 1) * s + k - 2 * p for n, k, s, p in sides]
    plane = tuple(usual) if output_size is None else near(usual, steps, output_size)
    if min(plane) < 0:
        raise ValueError(
            f"{name}(): output_size must contain non-negative spatial dimensions, but got "
            f"output_size {list(plane)}"
        )
    shape_of(name, [*shape[:-rank], *plane], x._array.dtype)
    return plane_put(x, index, plane, True)


def near(usual: list[int], stride: Sequence[int], output_size: Any) -> tuple[int, ...]:
    """``output_size``, which must be within a stride of what the pooled size tells."""
    rank = len(usual)
    wanted = list(output_size)
    if len(wanted) == rank + 2:
        wanted = wanted[2:]
    if len(wanted) != rank:
        raise ValueError(
            f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it "
            f"has a length of '{len(wanted)}'"
        )
    for dim, (n, middle, step) in enumerate(zip(wanted, usual, stride, strict=True)):
        if not middle - step < n < middle + step:
            raise ValueError(
                f'invalid output_size "{wanted}" (dim {dim} must be between {middle - step} and '
                f"{middle + step})"
            )
    return tuple([n.__index__() for n in wanted])


def unpool_samples(rank: int) -> dict[str, Any]:
    """The samples and error samples of max unpooling to ``rank`` dimensions."""
    plane = (2,) * rank
    count, x = 2**rank, T(1, 2, *plane)

    def places(step: int, first: int = 0, dtype: dtypes.dtype = dtypes.int64) -> T:
        rows = np.arange(first, first + 2 * count).reshape(2, -1) % count * step
        return T(values=rows.reshape(1, 2, *plane), dtype=dtype)

    far = RuntimeError, "Found an invalid max index: "
    return {
        "samples": [
            S(x, places(2), 2),
            S(x, places(1, 1), 3, 1),
            S(x, places(1, 3), kernel_size=2, stride=2, padding=1),
            S(x, places(1), (2,), output_size=(1, 2, *(3,) * rank)),
            S(x, places(1), 2, 2, output_size=[5] * rank),
            S(T(0, 2, *plane), T(0, 2, *plane, dtype=dtypes.int64), 2),
        ],
        "errors": [
            Fails(TypeError, "'indices' .* must be Tensor, not int", x, 3, 2),
            Fails(*far, x, places(4**rank), 2),
            Fails(*far, x, places(-1), 2),
            Fails(RuntimeError, "type int64 but got: Int", x, places(1, 0, dtypes.int32), 2),
            Fails(RuntimeError, "Expected shape of indices to be same", T(2, *plane), places(1), 2),
            Fails(RuntimeError, rf"a {rank + 1}d or {rank + 2}d Tensor", T(4), places(1), 2),
            Fails(
                ValueError, "dim 0 must be between 2 and 6", x, places(1), 2, None, 0, [9] * rank
            ),
            Fails(ValueError, "has a length of '7'", x, places(1), 2, output_size=[9] * 7),
            Fails(ValueError, "non-negative spatial dimensions", x, places(1), 2, padding=9),
            Fails(NotImplementedError, "for 'Long'", places(1), places(1), 2),
        ],
    }


@composite(namespace="nn.functional", method=False, **unpool_samples(1))
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """What :func:`max_pool1d` took, back at its place; everything else is zero.

    Args:
        input, indices: what pooling returned.
        kernel_size, stride, padding: those of the pooling.
        output_size: the length before the pooling, where it is not the shortest possible.

    >>> x = rl.tensor([[1.0, 3.0, 2.0, 4.0]])
    >>> y, indices = rl.nn.functional.max_pool1d(x, 2, return_indices=True)
    >>> rl.nn.functional.max_unpool1d(y, indices, 2)
    tensor([[0., 3., 0., 4.]])
    """
    return unpooled(1, input, indices, kernel_size, stride, padding, output_size)


@composite(namespace="nn.functional", method=False, **unpool_samples(2))
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """What :func:`max_pool2d` took, back at its place; everything else is zero.

    Args:
        input, indices: what pooling returned.
        kernel_size, stride, padding: those of the pooling.
        output_size: the size before the pooling, where it is not the smallest possible.

    >>> x = rl.tensor([[[1.0, 3.0], [2.0, 4.0]]])
    >>> y, indices = rl.nn.functional.max_pool2d(x, 2, return_indices=True)
    >>> rl.nn.functional.max_unpool2d(y, indices, 2)
    tensor([[[0., 0.],
             [0., 4.]]])
    """
    return unpooled(2, input, indices, kernel_size, stride, padding, output_size)


@composite(namespace="nn.functional", method=False, **unpool_samples(3))
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """What :func:`max_pool3d` took, back at its place; everything else is zero.

    Args:
        input, indices: what pooling returned.
        kernel_size, stride, padding: those of the pooling.
        output_size: the size before the pooling, where it is not the smallest possible.

    >>> x = rl.arange(4.0).reshape(1, 1, 2, 2)
    >>> y, indices = rl.nn.functional.max_pool3d(x, (1, 2, 2), return_indices=True)
    >>> rl.nn.functional.max_unpool3d(y, indices, (1, 2, 2))
    tensor([[[[0., 0.],
              [0., 3.]]]])
    """
    return unpooled(3, input, indices, kernel_size, stride, padding, output_size)
