"""Layers that pool to a given size, whatever that of their input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.tensor import Tensor

OutputSizes = int | None | Sequence[int | None]
Pool = Callable[..., Any]


class _AdaptiveMaxPoolNd(Module):
    """Max pooling to a given size by the function ``pool``."""

    __constants__ = ["output_size", "return_indices"]
    pool: Pool
    output_size: OutputSizes
    return_indices: bool

    def __init__(self, output_size: OutputSizes, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return self.pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The largest elements of ``output_size`` windows that divide the last dimension.

    Args:
        output_size: the length of the result.
        return_indices: also return where each result stands, for :class:`MaxUnpool1d`.

    Shape:
        (N, C, L) or (C, L) to the same with ``output_size`` for L.

    >>> rl.nn.AdaptiveMaxPool1d(2)(rl.tensor([[1.0, 4.0, 3.0, 2.0, 5.0]]))
    tensor([[4., 5.]])
    """

    pool = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """The largest elements of windows that divide the last two dimensions, to a given size.

    Args:
        output_size: one number or a pair; None leaves a dimension as it is.
        return_indices: also return where each result stands, for :class:`MaxUnpool2d`.

    Shape:
        (N, C, H, W) or (C, H, W) to the same with ``output_size`` for (H, W).

    >>> rl.nn.AdaptiveMaxPool2d((None, 7))(rl.zeros(1, 64, 10, 9)).shape
    rushlight.Size([1, 64, 10, 7])
    """

    pool = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """The largest elements of windows that divide the last three dimensions, to a given size.

    Args:
        output_size: one number or three; None leaves a dimension as it is.
        return_indices: also return where each result stands, for :class:`MaxUnpool3d`.

    Shape:
        (N, C, D, H, W) or (C, D, H, W) to the same with ``output_size`` for (D, H, W).

    >>> rl.nn.AdaptiveMaxPool3d((5, 7, None))(rl.zeros(1, 2, 8, 9, 4)).shape
    rushlight.Size([1, 2, 5, 7, 4])
    """

    pool = staticmethod(F.adaptive_max_pool3d)


class _AdaptiveAvgPoolNd(Module):
    """Average pooling to a given size by the function ``pool``."""

    __constants__ = ["output_size"]
    pool: Pool
    output_size: OutputSizes

    def __init__(self, output_size: OutputSizes) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return self.pool(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The averages of ``output_size`` windows that divide the last dimension.

    Shape:
        (N, C, L) or (C, L) to the same with ``output_size`` for L.

    >>> rl.nn.AdaptiveAvgPool1d(2)(rl.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]]))
    tensor([[2., 4.]])
    """

    pool = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """The averages of windows that divide the last two dimensions, to a given size.

    ``output_size`` is one number or a pair; None leaves a dimension as it is.

    Shape:
        (N, C, H, W) or (C, H, W) to the same with ``output_size`` for (H, W).

    >>> rl.nn.AdaptiveAvgPool2d(1)(rl.zeros(8, 512, 7, 7)).shape
    rushlight.Size([8, 512, 1, 1])
    """

    pool = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """The averages of windows that divide the last three dimensions, to a given size.

    ``output_size`` is one number or three; None leaves a dimension as it is.

    Shape:
        (N, C, D, H, W) or (C, D, H, W) to the same with ``output_size`` for (D, H, W).

    >>> rl.nn.AdaptiveAvgPool3d((5, 7, None))(rl.zeros(1, 2, 8, 9, 4)).shape
    rushlight.Size([1, 2, 5, 7, 4])
    """

    pool = staticmethod(F.adaptive_avg_pool3d)
