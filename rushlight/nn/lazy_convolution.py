"""Convolutions that take the number of their channels from the first input."""

from __future__ import annotations

from rushlight.device import device as Device
from rushlight.dtypes import dtype as DType
from rushlight.nn.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    Sizes,
    _ConvNd,
    _ConvTransposeNd,
    _PlainConvNd,
)
from rushlight.nn.lazy import LazyModuleMixin
from rushlight.nn.parameter import UninitializedParameter
from rushlight.tensor import Tensor


class _LazyConvXdMixin(LazyModuleMixin, _ConvNd):
    """A convolution whose parameters wait for the first input."""

    weight: UninitializedParameter
    bias: UninitializedParameter | None

    def _await(
        self, out_channels: int, bias: bool, device: Device | str | None, dtype: DType | None
    ) -> None:
        """Puts parameters without a shape in the place of those made with no channels."""
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws the parameters once they are there."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *rest: object, **options: object) -> None:
        """Makes the parameters for inputs such as this one."""
        if not self.has_uninitialized_params():
            return
        if input.ndim not in (self.dims + 1, self.dims + 2):
            raise RuntimeError(
                f"Expected {self.dims + 1}D (unbatched) or {self.dims + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {list(input.shape)}"
            )
        self.in_channels = input.shape[-self.dims - 1]
        if self.in_channels % self.groups:
            raise ValueError(
                f"in_channels must be divisible by groups: {self.in_channels}, {self.groups}"
            )
        self.weight.materialize(self._weight_shape())
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyConvNd(_LazyConvXdMixin, _PlainConvNd):
    """A convolution of ``dims`` dimensions that waits for its first input."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            *(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        )
        self._await(out_channels, bias, device, dtype)


class _LazyConvTransposeNd(_LazyConvXdMixin, _ConvTransposeNd):
    """A transposed convolution of ``dims`` dimensions that waits for its first input."""

    def __init__(
        self,
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
        super().__init__(
            *(0, 0, kernel_size, stride, padding, output_padding, groups, False),
            *(dilation, padding_mode),
        )
        self._await(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConvNd, Conv1d):
    """A :class:`Conv1d` that takes ``in_channels`` from its first input.

    >>> rl.nn.LazyConv1d(3, 2)(rl.zeros(1, 5, 4)).shape
    rushlight.Size([1, 3, 3])
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvNd, Conv2d):
    """A :class:`Conv2d` that takes ``in_channels`` from its first input.

    >>> layer = rl.nn.LazyConv2d(3, 2)
    >>> layer(rl.zeros(1, 5, 4, 4)).shape
    rushlight.Size([1, 3, 3, 3])
    >>> layer
    Conv2d(5, 3, kernel_size=(2, 2), stride=(1, 1))
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvNd, Conv3d):
    """A :class:`Conv3d` that takes ``in_channels`` from its first input.

    >>> rl.nn.LazyConv3d(3, 2)(rl.zeros(1, 5, 4, 4, 4)).shape
    rushlight.Size([1, 3, 3, 3, 3])
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTransposeNd, ConvTranspose1d):
    """A :class:`ConvTranspose1d` that takes ``in_channels`` from its first input.

    >>> rl.nn.LazyConvTranspose1d(3, 2)(rl.zeros(1, 5, 4)).shape
    rushlight.Size([1, 3, 5])
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTransposeNd, ConvTranspose2d):
    """A :class:`ConvTranspose2d` that takes ``in_channels`` from its first input.

    >>> rl.nn.LazyConvTranspose2d(3, 2)(rl.zeros(1, 5, 4, 4)).shape
    rushlight.Size([1, 3, 5, 5])
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTransposeNd, ConvTranspose3d):
    """A :class:`ConvTranspose3d` that takes ``in_channels`` from its first input.

    >>> rl.nn.LazyConvTranspose3d(3, 2)(rl.zeros(1, 5, 4, 4, 4)).shape
    rushlight.Size([1, 3, 5, 5, 5])
    """

    cls_to_become = ConvTranspose3d
