"""Convolution: the primitive and its two gradients, and the functions of one, two and three
dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.kernels import convolution as kernels
from rushlight.kernels.windows import Geometry, Sizes
from rushlight.layouts import (
    arranged,
    contiguous_format,
    format_of,
    order_of,
    permuted,
    shape_of,
    whole,
)
from rushlight.ops import channels_last
from rushlight.ops.base import Op, composite, need_tensor, registry
from rushlight.ops.contraction import conjugated, rounded
from rushlight.ops.convolution_checks import checked_operands, geometry_of, planned
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

ndarray = np.ndarray


class Convolve(Op):
    """y, with ``count`` places, from x, w and a bias; see :mod:`rushlight.kernels.convolution`.

    This op, ``convolve_transposed`` and ``convolve_weight`` each make one of x, w and y from the
    two others: so each is the derivative of the others.
    """

    function = method = False
    library = "a contraction"

    def check(
        self, x: Tensor, w: Tensor, bias: Tensor | None, geometry: Geometry, count: Sizes
    ) -> Any:
        return (x, w, bias), {"geometry": geometry, "count": count}

    def infer(self, arrays, attrs):
        x, w, bias = arrays
        check_images(x, w, bias, w.shape[1] * attrs["geometry"].groups, len(w))
        return images((x.shape[0], w.shape[0], *attrs["count"]), x, w)

    def eager(self, x, w, bias, *, geometry, count):
        y = biased(partial(kernels.convolve, geometry=geometry, count=count), x, w, bias)
        return laid(y, x, w)

    def decompose(self, x, w, bias, *, geometry, count):
        if x._array.dtype in dtypes.HALF:
            return in_float32(convolve, (x, w, bias), geometry, count)
        if not channels_last.fits(x, w):
            return NotImplemented
        return alone(channels_last.convolution(x, w, geometry, count, bias), x, w)

    def vjp_x(self, g, _y, _x, w, _bias, *, geometry, count):
        return convolve_transposed(g, conjugated(w), None, geometry, _x.shape[2:])

    def vjp_w(self, g, _y, x, _w, _bias, *, geometry, count):
        return convolve_weight(conjugated(x), g, geometry, _w.shape[2:])

    def vjp_bias(self, g, _y, _x, _w, _bias, *, geometry, count):
        return over_places(g)


class ConvolveTransposed(Op):
    """x, of a given ``size``, from y, w and a bias."""

    function = method = False
    library = "a contraction"

    def check(
        self, y: Tensor, w: Tensor, bias: Tensor | None, geometry: Geometry, size: Sizes
    ) -> Any:
        return (y, w, bias), {"geometry": geometry, "size": size}

    def infer(self, arrays, attrs):
        y, w, bias = arrays
        channels = w.shape[1] * attrs["geometry"].groups
        check_images(y, w, bias, len(w), channels)
        return images((y.shape[0], channels, *attrs["size"]), y, w)

    def eager(self, y, w, bias, *, geometry, size):
        x = biased(partial(kernels.convolve_transposed, geometry=geometry, size=size), y, w, bias)
        return laid(x, y, w)

    def decompose(self, y, w, bias, *, geometry, size):
        if y._array.dtype in dtypes.HALF:
            return in_float32(convolve_transposed, (y, w, bias), geometry, size)
        if not channels_last.fits(y, w):
            return NotImplemented
        x = channels_last.convolution_transposed(y, w, geometry, size)
        return x if x is NotImplemented else alone(with_bias(x, bias), y, w)

    def vjp_y(self, g, _x, _y, w, _bias, *, geometry, size):
        return convolve(g, conjugated(w), None, geometry, _y.shape[2:])

    def vjp_w(self, g, _x, y, _w, _bias, *, geometry, size):
        return convolve_weight(g, conjugated(y), geometry, _w.shape[2:])

    def vjp_bias(self, g, _x, _y, _w, _bias, *, geometry, size):
        return over_places(g)


class ConvolveWeight(Op):
    """w, with a given ``kernel``, from x and y."""

    function = method = False
    library = "a contraction"

    def check(self, x: Tensor, y: Tensor, geometry: Geometry, kernel: Sizes) -> Any:
        return (x, y), {"geometry": geometry, "kernel": kernel}

    def infer(self, arrays, attrs):
        x, y = arrays
        if x.ndim != y.ndim or len(x) != len(y) or x.dtype != y.dtype:
            raise ValueError(f"images {x.dtype}{x.shape} and their results {y.dtype}{y.shape}")
        channels = x.shape[1] // attrs["geometry"].groups
        return np.empty((y.shape[1], channels, *attrs["kernel"]), x.dtype)

    def eager(self, x, y, *, geometry, kernel):
        return rounded(partial(kernels.convolve_weight, geometry=geometry, kernel=kernel), x, y)

    def decompose(self, x, y, *, geometry, kernel):
        if x._array.dtype in dtypes.HALF:
            return in_float32(convolve_weight, (x, y), geometry, kernel)
        if not channels_last.fits(x, y):
            return NotImplemented
        w = channels_last.convolution_weight(x, y, geometry, kernel)
        return w.clone(memory_format=contiguous_format)

    def vjp_x(self, g, _w, _x, y, *, geometry, kernel):
        return convolve_transposed(conjugated(y), g, None, geometry, _x.shape[2:])

    def vjp_y(self, g, _w, x, _y, *, geometry, kernel):
        return convolve(conjugated(x), g, None, geometry, _y.shape[2:])


convolve = registry["convolve"].call
convolve_transposed = registry["convolve_transposed"].call
convolve_weight = registry["convolve_weight"].call
for _name in ("convolve", "convolve_transposed"):
    registry[_name].node.__name__ = "ConvolutionBackward0"  # PyTorch's name


def check_images(x: ndarray, w: ndarray, bias: ndarray | None, channels: int, results: int) -> None:
    """An error unless images have as many channels as a weight is for, and a bias for results."""
    fits = x.ndim == w.ndim and x.shape[1] == channels and x.dtype == w.dtype
    if not fits or (bias is not None and bias.shape != (results,)):
        shapes = [a.shape for a in (x, w, bias) if a is not None]
        raise ValueError(f"operands {shapes} of a convolution do not fit")


def images(shape: Sizes, *operands: ndarray) -> ndarray:
    """Memory for images made of these operands: channels last, if those of one of them are."""
    order = order_of(format_of(*operands), shape)
    return arranged(np.empty(permuted(shape, order), operands[0].dtype), order)


def laid(y: ndarray, *operands: ndarray) -> ndarray:
    """Images as they lie in :func:`images`."""
    order = order_of(format_of(*operands), y.shape)
    return y if order is None else arranged(np.ascontiguousarray(y.transpose(order)), order)


def alone(y: Tensor, *operands: Tensor) -> Tensor:
    """A result as dynamic mode lays it out; a graph, which holds no copies, drops this one."""
    return y.clone(memory_format=format_of(*[t._array for t in operands]))


def in_float32(op: Callable[..., Tensor], operands: Sequence[Tensor | None], *attrs: Any) -> Tensor:
    """An op of half types in a graph: as :func:`rounded`, where loops around it convert."""
    wide = [None if t is None else t.to(dtypes.float32) for t in operands]
    return op(*wide, *attrs).to(next(t.dtype for t in operands if t is not None))


def biased(kernel: Callable[..., ndarray], x: ndarray, w: ndarray, bias: ndarray | None) -> ndarray:
    """``kernel(x, w)`` plus a bias for each channel."""
    if bias is None:
        return rounded(kernel, x, w)

    def sum_of_both(x: ndarray, w: ndarray, bias: ndarray) -> ndarray:
        y = kernel(x, w)
        y += bias.reshape(-1, *[1] * (y.ndim - 2))
        return y

    return rounded(sum_of_both, x, w, bias)


def with_bias(y: Tensor, bias: Tensor | None) -> Tensor:
    """Images plus a bias for each channel."""
    return y if bias is None else y + bias.view(-1, *[1] * (y.ndim - 2))


def over_places(g: Tensor) -> Tensor:
    """The sum over all images and places, which is the gradient of a bias."""
    return g.sum((0, *range(2, g.ndim)))


def convolution_in(
    dims: int,
    op: str,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
) -> Tensor:
    """``op`` of ``dims`` dimensions, with all its checks."""
    x, w, batched = checked_operands(op, dims, input, weight, bias)
    name = padding if isinstance(padding, str) else ""
    geometry = geometry_of(op, dims, stride, 0 if name else padding, dilation, groups)
    shape, biases = x._array.shape, None if bias is None else bias._array.shape
    geometry, count = planned(shape, w._array.shape, biases, geometry, name)
    shape_of(op, (shape[0], w._array.shape[0], *count), x._array.dtype)
    y = convolve(x, w, bias, geometry, count)
    return y if batched else y.squeeze(0)


def convolution_errors(dims: int) -> list[Fails]:
    """What all three functions refuse."""
    x, w = (2, 4, *[5] * dims), (6, 4, *[3] * dims)
    X, W, k = T(*x), T(*w), [3] * dims
    long = dtypes.int64
    return [
        Fails(TypeError, "'input' .* must be Tensor, not list", [1.0], W),
        Fails(TypeError, "'weight' .* must be Tensor, not float", X, 1.0),
        Fails(TypeError, "'bias' .* must be Tensor, not int", X, W, 0),
        Fails(TypeError, "'stride' must be tuple of ints, not float", X, W, None, 1.5),
        Fails(TypeError, r"'stride' must be tuple of ints, not \(float", X, W, None, [1.5] * dims),
        Fails(TypeError, "'groups' must be int, not float", X, W, groups=1.0),
        Fails(
            RuntimeError, rf"{dims + 1}D \(unbatched\) or {dims + 2}D .* of size: \[4\]", T(4), W
        ),
        Fails(RuntimeError, "2-dimensional input for 2-dimensional weight", X, T(6, 4)),
        Fails(RuntimeError, "have 3 channels, but got 4 channels instead", X, T(6, 3, *k)),
        Fails(RuntimeError, "Given groups=2.*to have 8 channels, but got 4", X, W, groups=2),
        Fails(RuntimeError, "divisible by 2 at dimension 0", X, T(5, 2, *k), groups=2),
        Fails(RuntimeError, "at least 4 at dimension 0", X, T(2, 1, *k), groups=4),
        Fails(RuntimeError, "non-positive groups is not supported", X, W, groups=0),
        Fails(RuntimeError, "non-positive groups is not supported", X, W, groups=-1),
        Fails(RuntimeError, "non-positive stride is not supported", X, W, stride=0),
        Fails(RuntimeError, "non-positive stride is not supported", X, W, stride=-1),
        Fails(RuntimeError, "dilation should be greater than zero", X, W, dilation=0),
        Fails(RuntimeError, "negative padding is not supported", X, W, padding=-1),
        Fails(RuntimeError, "kernel size should be greater than zero", X, T(6, 4, *[0] * dims)),
        Fails(RuntimeError, "Kernel size can't be greater than actual", X, W, dilation=3),
        Fails(RuntimeError, r"size per channel: \(7", X, W, padding=1, dilation=4),
        Fails(RuntimeError, rf"a list of {dims} values", X, W, stride=[1] * 4),
        Fails(RuntimeError, rf"a list of {dims} values", X, W, padding=[1] * 4),
        Fails(RuntimeError, "with 6 elements, but got bias of size .5.", X, W, T(5)),
        Fails(RuntimeError, "1-dimensional with 6 elements", X, W, T(6, 1)),
        Fails(RuntimeError, "expected scalar type Float but found Long", X, T(*w, dtype=long)),
        Fails(RuntimeError, "bias type .int64. should be the same", X, W, T(6, dtype=long)),
        Fails(NotImplementedError, "for 'Bool'", *[T(*s, dtype=dtypes.bool_) for s in (x, w)]),
        Fails(RuntimeError, "Invalid padding string: 'full'", X, W, padding="full"),
        Fails(RuntimeError, "'same' is not supported for strided", X, W, None, 2, "same"),
        Fails(RuntimeError, "Only zero batch or zero channel", T(2, 4, *[0] * dims), W, padding=2),
    ]


@composite(
    fused=True,
    namespace="nn.functional",
    method=False,
    kinds="ifc",
    samples=[
        S(T(2, 2, 5), T(3, 2, 2), T(3)),
        S(T(2, 5), T(3, 2, 2)),
        S(T(1, 2, 7), T(2, 2, 3), None, 2, 1),
        S(T(1, 4, 7), T(4, 1, 2), T(4), stride=(2,), padding=(2,), dilation=(3,), groups=4),
        S(T(1, 4, 5), T(2, 2, 2), groups=2),
        S(T(2, 1, 5), T(1, 1, 4), T(1), padding="same"),
        S(T(2, 1, 5), T(1, 1, 4), padding="valid"),
        S(T(0, 2, 5), T(3, 2, 2), T(3)),
        S(T(1, 0, 5), T(3, 0, 2), T(3)),
        S(T(3, 2, 5), T(3, 2, 1)),
        S(T(2, 3, 1500), T(4, 3, 3), T(4), stride=1, padding=1),
    ],
    errors=convolution_errors(1),
)
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """The sums of products of a weight with the windows of a sequence; see :func:`conv2d`.

    >>> x = rl.tensor([[[1.0, 2.0, 4.0, 8.0]]])
    >>> rl.nn.functional.conv1d(x, rl.tensor([[[-1.0, 1.0]]]))
    tensor([[[1., 2., 4.]]])
    """
    return convolution_in(1, "conv1d", input, weight, bias, stride, padding, dilation, groups)


@composite(
    fused=True,
    namespace="nn.functional",
    method=False,
    kinds="ifc",
    samples=[
        S(T(1, 2, 3, 4), T(2, 2, 2, 2), T(2)),
        S(T(2, 3, 3), T(2, 2, 2, 2)),
        S(T(1, 1, 5, 4), T(2, 1, 3, 3), None, 2, 1),
        S(T(1, 2, 5, 4), T(4, 1, 2, 3), T(4), stride=(2, 1), padding=(1, 2), groups=2),
        S(T(1, 1, 5, 5), T(1, 1, 2, 2), dilation=(2, 3)),
        S(T(1, 1, 4, 4), T(1, 1, 2, 3), padding="same", dilation=(1, 2)),
        S(T(1, 1, 4, 4), T(1, 1, 2, 3), padding="valid"),
        S(T(0, 2, 3, 4), T(2, 2, 2, 2), T(2)),
        S(T(2, 2, 2, 2), T(3, 2, 1, 1), T(3)),
        S(T(3, 4, 40, 40), T(2, 4, 3, 3), T(2), padding=1),
        S(T(3, 4, 20, 20), T(4, 1, 3, 3), T(4), padding=1, groups=4),
    ],
    errors=convolution_errors(2),
)
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """The sums of products of a weight with the windows of images.

    ``y[n, o, p] = bias[o] + Σ_{c, k} weight[o, c, k] · input[n, c, p · stride + k · dilation]``

    Args:
        input: (images, channels, height, width), or one image without the first dimension.
        weight: (channels of the result, channels // groups, height, width) of the windows.
        stride: the distance of neighbouring windows.
        padding: zeros on both sides of the input; ``"same"`` gives a result of its size,
            ``"valid"`` is none.
        dilation: the distance of neighbouring elements of a window.
        groups: channels in as many groups are convolved apart from each other.

    >>> x = rl.arange(9.0).view(1, 1, 3, 3)
    >>> rl.nn.functional.conv2d(x, rl.ones(1, 1, 2, 2))
    tensor([[[[ 8., 12.],
              [20., 24.]]]])
    >>> rl.nn.functional.conv2d(x, rl.ones(5, 1, 3, 3), stride=2, padding=1).shape
    rushlight.Size([1, 5, 2, 2])
    """
    return convolution_in(2, "conv2d", input, weight, bias, stride, padding, dilation, groups)


@composite(
    fused=True,
    namespace="nn.functional",
    method=False,
    kinds="ifc",
    samples=[
        S(T(1, 1, 2, 3, 3), T(2, 1, 2, 2, 1), T(2)),
        S(T(2, 2, 2, 2), T(1, 2, 2, 1, 2)),
        S(T(1, 2, 3, 2, 2), T(2, 1, 2, 2, 2), None, 2, 1, groups=2),
        S(T(1, 1, 3, 3, 3), T(1, 1, 2, 2, 2), stride=(1, 2, 1), padding=(0, 1, 2)),
        S(T(1, 1, 3, 3, 3), T(1, 1, 2, 2, 2), dilation=2),
        S(T(1, 1, 3, 2, 3), T(1, 1, 2, 1, 3), padding="same"),
        S(T(0, 1, 2, 3, 3), T(2, 1, 2, 2, 1), T(2)),
    ],
    errors=convolution_errors(3),
)
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """The sums of products of a weight with the windows of volumes; see :func:`conv2d`.

    >>> x = rl.arange(8.0).view(1, 1, 2, 2, 2)
    >>> rl.nn.functional.conv3d(x, rl.ones(1, 1, 2, 2, 2))
    tensor([[[[[28.]]]]])
    """
    return convolution_in(3, "conv3d", input, weight, bias, stride, padding, dilation, groups)


@composite(
    namespace="nn.functional",
    method=False,
    kinds="ifc",
    samples=[
        S(T(4, 2, 3), T(2, 3, 2), T(2)),
        S(T(4, 1, 2), T(3, 2, 2), T(2), pad=2),
        S(T(4, 1, 2), T(2, 2, 1), T(1), -1),
    ],
    errors=[
        Fails(RuntimeError, "Input must have 3 dims", T(4, 2), T(2, 3, 2), T(2)),
        Fails(RuntimeError, "Weight tensor must have 3 dims", T(4, 2, 3), T(3, 2), T(2)),
        Fails(RuntimeError, "Bias must be 1-D", T(4, 2, 3), T(2, 3, 2), T(2, 1)),
        Fails(RuntimeError, r"Input dim 2 \(4 input channels\)", T(4, 2, 4), T(2, 3, 2), T(2)),
        Fails(RuntimeError, "Bias size must equal dim 2", T(4, 2, 3), T(2, 3, 2), T(3)),
        Fails(RuntimeError, "negative dimension -1", T(1, 2, 3), T(3, 3, 2), T(2)),
        Fails(TypeError, "'bias' .* must be Tensor, not NoneType", T(4, 2, 3), T(2, 3, 2), None),
        Fails(
            RuntimeError, "scalar type Float", T(4, 2, 3), T(2, 3, 2, dtype=dtypes.float64), T(2)
        ),
    ],
)
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution of sequences stored as (time, batch, channels), padded on both ends.

    ``weight`` is (time, channels, channels of the result).

    >>> x = rl.tensor([1.0, 2.0, 4.0]).view(3, 1, 1)
    >>> rl.nn.functional.conv_tbc(x, rl.ones(2, 1, 1), rl.zeros(1)).flatten()
    tensor([3., 6.])
    """
    op = "conv_tbc"
    x, w = need_tensor(op, input), need_tensor(op, weight, "weight", 2)
    b = need_tensor(op, bias, "bias", 3)
    (shape, kernel, biases), p = (t._array.shape for t in (x, w, b)), whole(pad, op, "pad")
    if len(shape) != 3:
        raise RuntimeError(f"Input must have 3 dims: time, batch, in_channel, got {list(shape)}")
    if len(kernel) != 3:
        raise RuntimeError(
            "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels, got "
            f"{list(kernel)}"
        )
    if len(biases) != 1:
        raise RuntimeError(f"Bias must be 1-D, got {list(biases)}")
    if shape[2] != kernel[1]:
        raise RuntimeError(
            f"Input dim 2 ({shape[2]} input channels) is not == dim 1 in the weight tensor "
            f"({kernel[1]})"
        )
    if biases[0] != kernel[2]:
        raise RuntimeError(
            f"Bias size must equal dim 2 in the weight tensor ({kernel[2]} output channels), got "
            f"{biases[0]}"
        )
    checked_operands(op, 1, x, w, b)
    geometry = Geometry((1,), (p,), (1,))
    count = geometry.counts(kernel[:1], shape[:1])
    shape_of(op, (*count, shape[1], kernel[2]), x._array.dtype)
    y = convolve(x.permute(1, 2, 0), w.permute(2, 1, 0), b, geometry, count)
    return y.permute(2, 0, 1)
