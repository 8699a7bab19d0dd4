"""Layers that move elements between channels and space, or among channels."""

from __future__ import annotations

from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.tensor import Tensor


class PixelShuffle(Module):
    """Channels turned into space, by the factor r: for sub-pixel convolution.

    Shape:
        (*, C·r², H, W) to (*, C, H·r, W·r).

    >>> rl.nn.PixelShuffle(3)(rl.zeros(1, 9, 4, 4)).shape
    rushlight.Size([1, 1, 12, 12])
    """

    __constants__ = ["upscale_factor"]
    upscale_factor: int

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Space turned into channels, by the factor r: what undoes :class:`PixelShuffle`.

    Shape:
        (*, C, H·r, W·r) to (*, C·r², H, W).

    >>> rl.nn.PixelUnshuffle(3)(rl.zeros(1, 1, 12, 12)).shape
    rushlight.Size([1, 9, 4, 4])
    """

    __constants__ = ["downscale_factor"]
    downscale_factor: int

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Channels, in ``groups`` one after the other, dealt out in turn.

    Shape:
        (N, C, *) to the same, C divisible by ``groups``.

    >>> rl.nn.ChannelShuffle(2)(rl.arange(4.0).reshape(1, 4, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    __constants__ = ["groups"]
    groups: int

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
