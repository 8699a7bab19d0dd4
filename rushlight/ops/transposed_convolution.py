"""Transposed convolution: the derivative of a convolution, as a function of its own."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from rushlight import dtypes
from rushlight.layouts import shape_of
from rushlight.ops.base import composite, need_tensor
from rushlight.ops.convolution import convolution_in, convolve_transposed
from rushlight.ops.convolution_checks import (
    checked_operands,
    geometry_of,
    per_dimension,
    planned_transposed,
)
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor


def transposed_in(
    dims: int,
    op: str,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: Any,
    dilation: Any,
) -> Tensor:
    """``op`` of ``dims`` dimensions, with all its checks."""
    y, w, batched = checked_operands(op, dims, input, weight, bias)
    geometry = geometry_of(op, dims, stride, padding, dilation, groups)
    extra = per_dimension(op, "output_padding", output_padding, dims)
    shape, kernel = y._array.shape, w._array.shape
    biases = None if bias is None else bias._array.shape
    size = planned_transposed(shape, kernel, biases, geometry, extra)
    shape_of(op, (shape[0], kernel[1] * geometry.groups, *size), y._array.dtype)
    x = convolve_transposed(y, w, bias, geometry, size)
    return x if batched else x.squeeze(0)


def transposed_work(y: Sequence[int], weight: Sequence[int], *_bias: Sequence[int]) -> int:
    """The multiply-adds of all elements that lay a multiple of the weight."""
    if not len(weight) - 1 <= len(y) <= len(weight):
        return 0
    return prod(y) * prod(weight[1:])


def transposed_errors(dims: int) -> list[Fails]:
    """What all three functions refuse."""
    x, w = (2, 4, *[5] * dims), (4, 6, *[3] * dims)
    X, W, k = T(*x), T(*w), [3] * dims
    long = dtypes.int64
    return [
        Fails(TypeError, "'input' .* must be Tensor, not list", [1.0], W),
        Fails(TypeError, "'weight' .* must be Tensor, not float", X, 1.0),
        Fails(TypeError, "'padding' must be tuple of ints, not str", X, W, padding="same"),
        Fails(TypeError, "'stride' must be tuple of ints, not float", X, W, None, 1.5),
        Fails(
            RuntimeError, rf"{dims + 1}D \(unbatched\) or {dims + 2}D .* of size: \[4\]", T(4), W
        ),
        Fails(RuntimeError, "2-dimensional input for 2-dimensional weight", X, T(6, 4)),
        Fails(RuntimeError, "Given transposed=1.* 3 channels, but got 4 channels", X, T(3, 6, *k)),
        Fails(RuntimeError, "divisible by 3 at dimension 0", X, W, groups=3),
        Fails(RuntimeError, "non-positive groups is not supported", X, W, groups=0),
        Fails(RuntimeError, "non-positive stride is not supported", X, W, stride=0),
        Fails(RuntimeError, "dilation should be greater than zero", X, W, dilation=0),
        Fails(RuntimeError, "negative padding is not supported", X, W, padding=-1),
        Fails(RuntimeError, "negative output_padding is not", X, W, stride=2, output_padding=-1),
        Fails(RuntimeError, "smaller than either stride or dilation", X, W, output_padding=1),
        Fails(RuntimeError, "smaller than either", X, W, stride=2, output_padding=2),
        Fails(RuntimeError, r"a list of \d values", X, W, output_padding=[0] * 4),
        Fails(RuntimeError, "kernel size should be greater than zero", X, T(4, 6, *[0] * dims)),
        Fails(RuntimeError, "Output size is too small", X, W, padding=4),
        Fails(RuntimeError, "with 6 elements, but got bias of size .5.", X, W, T(5)),
        Fails(RuntimeError, "expected scalar type Float but found Long", X, T(*w, dtype=long)),
        Fails(NotImplementedError, "for 'Bool'", *[T(*s, dtype=dtypes.bool_) for s in (x, w)]),
        Fails(RuntimeError, "Only zero batch or zero channel", T(2, 4, *[0] * dims), W),
    ]


@composite(
    fused=True,
    work=transposed_work,
    namespace="nn.functional",
    method=False,
    kinds="ifc",
    samples=[
        S(T(2, 2, 4), T(2, 3, 2), T(3)),
        S(T(2, 4), T(2, 3, 2)),
        S(T(1, 2, 4), T(2, 2, 3), None, 2, 1, 1),
        S(T(1, 4, 3), T(4, 1, 2), T(2), stride=(3,), padding=(1,), groups=2, dilation=(2,)),
        S(T(1, 1, 4), T(1, 1, 3), dilation=3, output_padding=2),
        S(T(1, 1, 4), T(1, 1, 2), stride=4),
        S(T(2, 1, 3), T(1, 9, 3)),
        S(T(0, 2, 4), T(2, 3, 2), T(3)),
    ],
    errors=transposed_errors(1),
)
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """Multiples of a weight laid over each other to a sequence; see :func:`conv_transpose2d`.

    >>> x = rl.tensor([[[1.0, 2.0, 4.0]]])
    >>> rl.nn.functional.conv_transpose1d(x, rl.ones(1, 1, 2))
    tensor([[[1., 3., 6., 4.]]])
    """
    return transposed_in(
        *(1, "conv_transpose1d", input, weight, bias),
        *(stride, padding, output_padding, groups, dilation),
    )


@composite(
    fused=True,
    work=transposed_work,
    namespace="nn.functional",
    method=False,
    kinds="ifc",
    samples=[
        S(T(1, 2, 2, 3), T(2, 2, 2, 2), T(2)),
        S(T(2, 2, 3), T(2, 1, 2, 2)),
        S(T(1, 1, 3, 2), T(1, 2, 3, 3), None, 2, 1, 1),
        S(T(1, 2, 2, 2), T(2, 1, 2, 3), T(2), (2, 1), (1, 0), (1, 0), 2, (1, 2)),
        S(T(1, 1, 3, 3), T(1, 1, 2, 2), stride=2),
        S(T(1, 1, 3, 3), T(1, 1, 2, 2), stride=3),
        S(T(0, 2, 2, 3), T(2, 2, 2, 2), T(2)),
        S(T(3, 2, 40, 40), T(2, 3, 4, 4), T(3), stride=2, padding=1),
        S(T(3, 2, 40, 40), T(2, 3, 3, 3), T(3), padding=1),
    ],
    errors=transposed_errors(2),
)
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """The gradient of :func:`conv2d` for its input: each element lays a multiple of the weight.

    ``y[n, o, p · stride + k · dilation] = bias[o] + Σ_{c, k} weight[c, o, k] · input[n, c, p]``

    Args:
        input: (images, channels, height, width), or one image without the first dimension.
        weight: (channels, channels of the result // groups, height, width).
        padding: rows and columns taken away on both sides of the result.
        output_padding: rows and columns added to the end of it, fewer than the stride or the
            dilation: of the sizes that a convolution would make the size of the input from, it
            chooses one.

    >>> x = rl.tensor([[[[1.0, 2.0]]]])
    >>> rl.nn.functional.conv_transpose2d(x, rl.ones(1, 1, 2, 2), stride=2)
    tensor([[[[1., 1., 2., 2.],
              [1., 1., 2., 2.]]]])
    """
    return transposed_in(
        *(2, "conv_transpose2d", input, weight, bias),
        *(stride, padding, output_padding, groups, dilation),
    )


@composite(
    fused=True,
    work=transposed_work,
    namespace="nn.functional",
    method=False,
    kinds="ifc",
    samples=[
        S(T(1, 1, 2, 2, 3), T(1, 2, 2, 2, 1), T(2)),
        S(T(1, 2, 2, 2), T(1, 2, 2, 1, 2)),
        S(T(1, 2, 2, 1, 2), T(2, 1, 2, 2, 2), None, 2, 1, 1, 2),
        S(T(1, 1, 2, 2, 2), T(1, 1, 2, 2, 2), stride=(1, 2, 1), padding=(0, 1, 1), dilation=2),
        S(T(0, 1, 2, 2, 3), T(1, 2, 2, 2, 1), T(2)),
    ],
    errors=transposed_errors(3),
)
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """Multiples of a weight laid over each other to a volume; see :func:`conv_transpose2d`.

    >>> rl.nn.functional.conv_transpose3d(rl.ones(1, 2, 2, 2, 2), rl.ones(2, 3, 3, 3, 3)).shape
    rushlight.Size([1, 3, 4, 4, 4])
    """
    return transposed_in(
        *(3, "conv_transpose3d", input, weight, bias),
        *(stride, padding, output_padding, groups, dilation),
    )


@composite(
    method=False,
    kinds="ifc",
    samples=[
        S(T(1, 2, 5), T(3, 2, 2), T(3), [2], [1], [1], False, [0], 1),
        S(T(1, 2, 3, 3), T(2, 1, 2, 2), None, [1], [0], [1, 2], False, [0, 0], 2),
        S(T(1, 2, 3, 3), T(2, 1, 2, 2), T(1), [2, 1], [0, 0], [1, 1], True, [1, 0], 1),
        S(T(1, 1, 2, 2, 2), T(1, 1, 2, 2, 2), None, [1], [1], [1], True, [0], 1),
    ],
    errors=[
        Fails(
            *(RuntimeError, "expected 3 to 5 dimensions, got 2"),
            *(T(2, 2), T(2, 2), None, [1], [0], [1], False, [0], 1),
        ),
        Fails(
            *(RuntimeError, "have 1 channels, but got 2 channels"),
            *(T(1, 2, 3), T(1, 1, 3), None, [1], [0], [1], False, [0], 1),
        ),
        Fails(
            *(TypeError, "'stride' must be tuple of ints, not int"),
            *(T(1, 1, 3), T(1, 1, 3), None, 1, [0], [1], False, [0], 1),
        ),
    ],
)
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """A convolution, or a transposed one, of as many dimensions as the weight has beyond two.

    >>> x, weight = rl.ones(1, 2, 5), rl.ones(3, 2, 2)
    >>> rl.convolution(x, weight, None, [1], [0], [1], False, [0], 1).shape
    rushlight.Size([1, 3, 4])
    """
    dims = need_tensor("convolution", weight, "weight", 2).ndim - 2
    if not 1 <= dims <= 3:
        raise RuntimeError(f"convolution(): weight: expected 3 to 5 dimensions, got {dims + 2}")
    for name, given in (("stride", stride), ("padding", padding), ("dilation", dilation)):
        if isinstance(given, int):
            raise TypeError(f"convolution(): argument '{name}' must be tuple of ints, not int")
    if not transposed:
        return convolution_in(
            *(dims, "convolution", input, weight, bias), *(stride, padding, dilation, groups)
        )
    return transposed_in(
        *(dims, "convolution", input, weight, bias),
        *(stride, padding, output_padding, groups, dilation),
    )
