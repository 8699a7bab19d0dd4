"""Layers that convolve, and layers that do the transposed of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.device import device as Device
from rushlight.dtypes import dtype as DType
from rushlight.kernels.windows import Geometry
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.tuples import _ntuple, _reverse_repeat_tuple
from rushlight.ops import ops
from rushlight.tensor import Tensor

Sizes = int | Sequence[int]
PADDINGS = ("same", "valid")
PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What convolutions of all dimensions and their transposed share: fields and parameters."""

    __constants__ = [
        "stride",
        "padding",
        "dilation",
        "groups",
        "padding_mode",
        "output_padding",
        "in_channels",
        "out_channels",
        "kernel_size",
    ]
    dims: int
    function: Callable[..., Tensor]
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError(f"groups must be a positive integer, got {groups}")
        if in_channels % groups:
            raise ValueError(f"in_channels must be divisible by groups: {in_channels}, {groups}")
        if out_channels % groups:
            raise ValueError(f"out_channels must be divisible by groups: {out_channels}, {groups}")
        if len(kernel_size) != self.dims:
            raise ValueError(
                f"kernel_size of {type(self).__name__} should be a number or {self.dims} of them, "
                f"got {kernel_size}"
            )
        if isinstance(padding, str):
            if padding not in PADDINGS:
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {PADDINGS}")
            if padding == "same" and any([s != 1 for s in stride]):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {PADDING_MODES}, but got {padding_mode=!s}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._borders()
        shape = self._weight_shape()
        self.weight = Parameter(ops.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(ops.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _weight_shape(self) -> tuple[int, ...]:
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        return (first, second // self.groups, *self.kernel_size)

    def _borders(self) -> tuple[int, ...]:
        """The padding as ``F.pad`` wants it: before and after, from the last dimension on."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        borders: list[int] = []
        for d, k in zip(reversed(self.dilation), reversed(self.kernel_size), strict=True):
            both = d * (k - 1) if self.padding == "same" else 0
            borders += (both // 2, both - both // 2)
        return tuple(borders)

    def reset_parameters(self) -> None:
        """Draws weight and bias from the uniform distribution on ±1/√(products in a sum)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        dims = len(self.kernel_size)
        usual: dict[str, Any] = {
            "padding": (0,) * dims,
            "dilation": (1,) * dims,
            "output_padding": (0,) * dims,
            "groups": 1,
        }
        words = [f"{self.in_channels}, {self.out_channels}"]
        words += [f"kernel_size={self.kernel_size}, stride={self.stride}"]
        for name, value in usual.items():
            if getattr(self, name) != value:
                words.append(f"{name}={getattr(self, name)}")
        if self.bias is None:
            words.append("bias=False")
        if self.padding_mode != "zeros":
            words.append(f"padding_mode={self.padding_mode}")
        return ", ".join(words)


class _PlainConvNd(_ConvNd):
    """A convolution of ``dims`` dimensions, computed by ``function``."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: str | Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        each = _ntuple(self.dims)
        super().__init__(
            in_channels,
            out_channels,
            each(kernel_size),
            each(stride),
            padding if isinstance(padding, str) else each(padding),
            each(dilation),
            transposed=False,
            output_padding=each(0),
            groups=groups,
            bias=bias,
            padding_mode=padding_mode,
            device=device,
            dtype=dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            borders = self._reversed_padding_repeated_twice
            input, padding = F.pad(input, borders, mode=self.padding_mode), (0,) * self.dims
        return self.function(input, weight, bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_PlainConvNd):
    """A convolution of sequences; see :class:`Conv2d`.

    Shape:
        (images, in_channels, length) to (images, out_channels, length of the result), or both
        without the first dimension.

    >>> layer = rl.nn.Conv1d(16, 33, 3, stride=2)
    >>> layer(rl.zeros(20, 16, 50)).shape
    rushlight.Size([20, 33, 24])
    """

    dims = 1
    function = staticmethod(F.conv1d)


class Conv2d(_PlainConvNd):
    """A convolution of images.

    ``y[o, p] = bias[o] + Σ_{c, k} weight[o, c, k] · x[c, p · stride + k · dilation - padding]``

    Args:
        in_channels: the channels of the input.
        out_channels: those of the result.
        kernel_size: the height and width of a window, or one number for both; so all sizes here.
        stride: the distance of neighbouring windows.
        padding: elements around the input; or ``"same"`` for a result of its size, or
            ``"valid"`` for none.
        dilation: the distance of neighbouring elements of a window.
        groups: channels in as many groups are convolved apart from each other; with as many
            groups as channels each one has windows of its own.
        bias: whether there is a bias.
        padding_mode: what the elements around are: ``"zeros"``, or those of the input as in
            :func:`~rushlight.nn.functional.pad`: ``"reflect"``, ``"replicate"``, ``"circular"``.

    Shape:
        (images, in_channels, height, width) to (images, out_channels, height, width), or both
        without the first dimension. A size n becomes
        ⌊(n + 2 · padding - dilation · (kernel_size - 1) - 1) / stride⌋ + 1.

    >>> layer = rl.nn.Conv2d(16, 33, (3, 5), stride=(2, 1), padding=(4, 2))
    >>> layer(rl.zeros(20, 16, 50, 100)).shape
    rushlight.Size([20, 33, 28, 100])
    >>> layer.weight.shape
    rushlight.Size([33, 16, 3, 5])
    """

    dims = 2
    function = staticmethod(F.conv2d)


class Conv3d(_PlainConvNd):
    """A convolution of volumes; see :class:`Conv2d`.

    Shape:
        (volumes, in_channels, depth, height, width) to (volumes, out_channels, depth, height,
        width), or both without the first dimension.

    >>> layer = rl.nn.Conv3d(3, 4, (3, 5, 2), stride=(2, 1, 1), padding=(4, 2, 0))
    >>> layer(rl.zeros(2, 3, 10, 9, 8)).shape
    rushlight.Size([2, 4, 8, 9, 7])
    """

    dims = 3
    function = staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    """A transposed convolution of ``dims`` dimensions, computed by ``function``."""

    padding: tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}, got '
                f"{padding_mode!r}"
            )
        each = _ntuple(self.dims)
        super().__init__(
            in_channels,
            out_channels,
            each(kernel_size),
            each(stride),
            each(padding),
            each(dilation),
            transposed=True,
            output_padding=each(output_padding),
            groups=groups,
            bias=bias,
            padding_mode=padding_mode,
            device=device,
            dtype=dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra: Sequence[int] = self.output_padding
        if output_size is not None:
            extra = self._output_padding(input, output_size)
        return self.function(
            *(input, self.weight, self.bias),
            *(self.stride, self.padding, extra, self.groups, self.dilation),
        )

    def _output_padding(self, input: Tensor, output_size: Sequence[int]) -> list[int]:
        """What must be added to the end of the result to give it a size."""
        dims = self.dims
        lead = 2 if input.ndim == dims + 2 else 1
        wanted = output_size[lead:] if len(output_size) == lead + dims else output_size
        if len(wanted) != dims:
            raise ValueError(
                f"ConvTranspose{dims}D: for {input.ndim}D input, output_size must have {dims} or "
                f"{lead + dims} elements (got {len(output_size)})"
            )
        geometry = Geometry(self.stride, self.padding, self.dilation)
        reach = geometry.reach(self.kernel_size, tuple(input.shape[lead:]))
        least = [r - 2 * p for r, p in zip(reach, self.padding, strict=True)]
        most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
        if any([not a <= n <= b for a, n, b in zip(least, wanted, most, strict=True)]):
            raise ValueError(
                f"requested an output size of {tuple(wanted)}, but valid sizes range from {least} "
                f"to {most} (for an input of {input.shape[lead:]})"
            )
        return [n - a for n, a in zip(wanted, least, strict=True)]


class ConvTranspose1d(_ConvTransposeNd):
    """A transposed convolution of sequences; see :class:`ConvTranspose2d`.

    >>> layer = rl.nn.ConvTranspose1d(16, 33, 3, stride=2)
    >>> layer(rl.zeros(20, 16, 24)).shape
    rushlight.Size([20, 33, 49])
    """

    dims = 1
    function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """A transposed convolution of images: what :class:`Conv2d` does to gradients.

    Each element of the input lays a multiple of the weight over the result, ``stride`` apart.

    Args:
        in_channels: the channels of the input.
        out_channels: those of the result.
        kernel_size: the height and width of what an element lays, or one number for both.
        padding: elements taken away on all sides of the result.
        output_padding: elements added to the end of each dimension of the result: sizes that
            :class:`Conv2d` makes equal differ by it.

    Shape:
        (images, in_channels, height, width) to (images, out_channels, height, width), or both
        without the first dimension. A size n becomes
        (n - 1) · stride - 2 · padding + dilation · (kernel_size - 1) + output_padding + 1.

    A call may choose the size of the result instead: ``layer(x, output_size=y.shape)``.

    >>> down, up = rl.nn.Conv2d(16, 16, 3, stride=2), rl.nn.ConvTranspose2d(16, 16, 3, stride=2)
    >>> x = rl.zeros(1, 16, 12, 12)
    >>> up(down(x)).shape
    rushlight.Size([1, 16, 11, 11])
    >>> up(down(x), output_size=x.shape).shape
    rushlight.Size([1, 16, 12, 12])
    """

    dims = 2
    function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """A transposed convolution of volumes; see :class:`ConvTranspose2d`.

    >>> layer = rl.nn.ConvTranspose3d(3, 4, 3, stride=2)
    >>> layer(rl.zeros(2, 3, 4, 5, 6)).shape
    rushlight.Size([2, 4, 9, 11, 13])
    """

    dims = 3
    function = staticmethod(F.conv_transpose3d)
