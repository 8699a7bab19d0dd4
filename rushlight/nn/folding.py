"""Layers that make windows columns, and columns images."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.tensor import Tensor

Sizes = int | Sequence[int]


class Unfold(Module):
    """The windows that slide over images, each as a column.

    Args:
        kernel_size: the height and width of a window, or one number for both; so all sizes here.
        dilation: the distance of neighbouring elements of a window.
        padding: zeros on both sides of the input.
        stride: the distance of neighbouring windows.

    Shape:
        (images, channels, height, width) to (images, channels · elements of a window, windows),
        or both without the first dimension.

    >>> rl.nn.Unfold(kernel_size=(2, 3))(rl.zeros(2, 5, 3, 4)).shape
    rushlight.Size([2, 30, 4])
    """

    __constants__ = ["dilation", "kernel_size", "padding", "stride"]
    kernel_size: Sizes
    dilation: Sizes
    padding: Sizes
    stride: Sizes

    def __init__(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )


class Fold(Module):
    """Columns, as :class:`Unfold` makes them, laid back to images; where they overlap they add up.

    Args:
        output_size: the height and width of the images, or one number for both.

    Shape:
        (images, channels · elements of a window, windows) to (images, channels, height, width),
        or both without the first dimension.

    >>> rl.nn.Fold(output_size=(4, 5), kernel_size=(2, 2))(rl.zeros(1, 3 * 2 * 2, 12)).shape
    rushlight.Size([1, 3, 4, 5])
    """

    __constants__ = ["dilation", "kernel_size", "output_size", "padding", "stride"]
    output_size: Sizes
    kernel_size: Sizes
    dilation: Sizes
    padding: Sizes
    stride: Sizes

    def __init__(
        self,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(
            *(input, self.output_size, self.kernel_size),
            *(self.dilation, self.padding, self.stride),
        )

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, "
            f"dilation={self.dilation}, padding={self.padding}, stride={self.stride}"
        )
