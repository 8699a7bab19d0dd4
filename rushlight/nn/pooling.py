"""Layers that make one value of each window, and one that puts such values back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.nn.tuples import _pair, _single, _triple
from rushlight.tensor import Tensor

Sizes = int | Sequence[int]
Ratios = float | Sequence[float]
Pool = Callable[..., Any]


class _MaxPoolNd(Module):
    """Max pooling by the function ``pool``."""

    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    pool: Pool
    kernel_size: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes
    return_indices: bool
    ceil_mode: bool

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        return self.pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The largest element of each window that slides over the last dimension.

    Args:
        kernel_size: how many elements a window has.
        stride: how far apart windows begin; ``kernel_size`` if None.
        padding: how far windows reach over both ends, at most half of one.
        dilation: how far apart the elements of a window are.
        return_indices: also return where each result stands, for :class:`MaxUnpool1d`.
        ceil_mode: a last window may reach over the end.

    Shape:
        (N, C, L) or (C, L) to the same with ``(L + 2·padding − dilation·(kernel_size − 1) − 1) //
        stride + 1`` for L.

    >>> rl.nn.MaxPool1d(3, stride=2)(rl.tensor([[1.0, 3.0, 2.0, 0.0, 5.0]]))
    tensor([[3., 5.]])
    """

    pool = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """The largest element of each window that slides over the last two dimensions.

    The arguments are those of :class:`MaxPool1d`; sizes are one number or a pair.

    Shape:
        (N, C, H, W) or (C, H, W) to the same with H and W pooled as L of :class:`MaxPool1d` is.

    >>> layer = rl.nn.MaxPool2d(3, stride=2, padding=1)
    >>> layer(rl.zeros(64, 32, 28, 28)).shape
    rushlight.Size([64, 32, 14, 14])
    >>> layer
    MaxPool2d(kernel_size=3, stride=2, padding=1, dilation=1, ceil_mode=False)
    """

    pool = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """The largest element of each window that slides over the last three dimensions.

    The arguments are those of :class:`MaxPool1d`; sizes are one number or three.

    Shape:
        (N, C, D, H, W) or (C, D, H, W) to the same with the last three pooled.

    >>> rl.nn.MaxPool3d((1, 2, 2))(rl.zeros(1, 3, 4, 4, 6)).shape
    rushlight.Size([1, 3, 4, 2, 3])
    """

    pool = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(Module):
    """Max unpooling by the function ``unpool``; ``sizes`` makes a size one for each dimension."""

    unpool: Pool
    sizes: Callable[[Any], tuple[int, ...]]
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size = self.sizes(kernel_size)
        self.stride = self.sizes(kernel_size if stride is None else stride)
        self.padding = self.sizes(padding)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        return self.unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """What :class:`MaxPool1d` took, back at its place; everything else is zero.

    Args:
        kernel_size, stride, padding: those of the pooling.

    Shape:
        (N, C, L) or (C, L) to the same with ``(L − 1)·stride + kernel_size − 2·padding`` for L, or
        what ``output_size`` of the call says.

    >>> pool = rl.nn.MaxPool1d(2, return_indices=True)
    >>> y, indices = pool(rl.tensor([[1.0, 3.0, 2.0, 4.0]]))
    >>> rl.nn.MaxUnpool1d(2)(y, indices)
    tensor([[0., 3., 0., 4.]])
    """

    unpool, sizes = staticmethod(F.max_unpool1d), staticmethod(_single)


class MaxUnpool2d(_MaxUnpoolNd):
    """What :class:`MaxPool2d` took, back at its place; everything else is zero.

    Args:
        kernel_size, stride, padding: those of the pooling.

    Shape:
        (N, C, H, W) or (C, H, W), with the last two as before the pooling.

    >>> pool = rl.nn.MaxPool2d(2, return_indices=True)
    >>> y, indices = pool(rl.tensor([[[1.0, 3.0], [2.0, 4.0]]]))
    >>> rl.nn.MaxUnpool2d(2)(y, indices)
    tensor([[[0., 0.],
             [0., 4.]]])
    """

    unpool, sizes = staticmethod(F.max_unpool2d), staticmethod(_pair)


class MaxUnpool3d(_MaxUnpoolNd):
    """What :class:`MaxPool3d` took, back at its place; everything else is zero.

    Args:
        kernel_size, stride, padding: those of the pooling.

    Shape:
        (N, C, D, H, W) or (C, D, H, W), with the last three as before the pooling.

    >>> pool = rl.nn.MaxPool3d(2, return_indices=True)
    >>> y, indices = pool(rl.rand(1, 3, 4, 4, 4))
    >>> rl.nn.MaxUnpool3d(2)(y, indices).shape
    rushlight.Size([1, 3, 4, 4, 4])
    """

    unpool, sizes = staticmethod(F.max_unpool3d), staticmethod(_triple)


class _AvgPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]
    kernel_size: Sizes
    stride: Sizes
    padding: Sizes
    ceil_mode: bool
    count_include_pad: bool

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The average of each window that slides over the last dimension.

    Args:
        kernel_size: how many elements a window has.
        stride: how far apart windows begin; ``kernel_size`` if None.
        padding: how many zeros stand at both ends, at most half a window.
        ceil_mode: a last window may reach over the end.
        count_include_pad: the zeros of the padding count as elements.

    Shape:
        (N, C, L) or (C, L) to the same with ``(L + 2·padding − kernel_size) // stride + 1`` for L.

    >>> rl.nn.AvgPool1d(3, stride=2)(rl.tensor([[1.0, 3.0, 2.0, 0.0, 4.0]]))
    tensor([[2., 2.]])
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(kernel_size if stride is None else stride)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class _DividedPoolNd(_AvgPoolNd):
    """Average pooling by the function ``pool``, which may be told what to divide by."""

    __constants__ = [*_AvgPoolNd.__constants__, "divisor_override"]
    pool: Pool
    divisor_override: int | None

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return self.pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_DividedPoolNd):
    """The average of each window that slides over the last two dimensions.

    The arguments are those of :class:`AvgPool1d`; sizes are one number or a pair. If there is a
    ``divisor_override`` sums are divided by it, however many elements a window has.

    Shape:
        (N, C, H, W) or (C, H, W) to the same with H and W pooled as L of :class:`AvgPool1d` is.

    >>> rl.nn.AvgPool2d(2)(rl.arange(8.0).reshape(1, 2, 4))
    tensor([[[2.5000, 4.5000]]])
    """

    pool = staticmethod(F.avg_pool2d)


class AvgPool3d(_DividedPoolNd):
    """The average of each window that slides over the last three dimensions.

    The arguments are those of :class:`AvgPool2d`; sizes are one number or three.

    Shape:
        (N, C, D, H, W) or (C, D, H, W) to the same with the last three pooled.

    >>> rl.nn.AvgPool3d(2)(rl.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[3.5000]]]])
    """

    pool = staticmethod(F.avg_pool3d)


class _FractionalMaxPoolNd(Module):
    """Fractional max pooling by ``pool``; ``sizes`` makes a size one for each dimension."""

    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    pool: Pool
    sizes: Callable[[Any], tuple[Any, ...]]
    kernel_size: tuple[int, ...]
    return_indices: bool
    output_size: tuple[int, ...] | None
    output_ratio: tuple[float, ...] | None
    _random_samples: Tensor | None

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: Ratios | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = self.sizes(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else self.sizes(output_size)
        self.output_ratio = None if output_ratio is None else self.sizes(output_ratio)
        name = type(self).__name__
        if any(isinstance(k, int) and k <= 0 for k in self.kernel_size):
            raise ValueError(f"{name}: kernel_size must be greater than 0, but got {kernel_size}")
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError(f"{name}: only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return self.pool(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The largest elements of windows that begin at random distances in the last two dimensions.

    Args:
        kernel_size: the size of a window, one number or a pair.
        output_size: how many windows there are, one number or a pair.
        output_ratio: the size of the result divided by that of the input, in place of
            ``output_size``; between 0 and 1.
        return_indices: also return where each result stands, for :class:`MaxUnpool2d`.

    Shape:
        (N, C, H, W) or (C, H, W) to the same with H and W of ``output_size``.

    >>> rl.nn.FractionalMaxPool2d(3, output_size=(13, 12))(rl.rand(2, 4, 50, 32)).shape
    rushlight.Size([2, 4, 13, 12])
    """

    pool, sizes = staticmethod(F.fractional_max_pool2d), staticmethod(_pair)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The largest elements of windows that begin at random distances in the last three dimensions.

    The arguments are those of :class:`FractionalMaxPool2d`; sizes are one number or three.

    Shape:
        (N, C, D, H, W) or (C, D, H, W) to the same with the last three of ``output_size``.

    >>> rl.nn.FractionalMaxPool3d(2, output_ratio=0.5)(rl.rand(2, 4, 8, 6, 8)).shape
    rushlight.Size([2, 4, 4, 3, 4])
    """

    pool, sizes = staticmethod(F.fractional_max_pool3d), staticmethod(_triple)


class _LPPoolNd(Module):
    """Power-average pooling by the function ``pool``."""

    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]
    pool: Pool
    norm_type: float
    kernel_size: Sizes
    stride: Sizes | None
    ceil_mode: bool

    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return self.pool(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """The p-norm of each window that slides over the last dimension: (Σ x^p)^(1/p).

    Args:
        norm_type: p; 1 gives sums, infinity the largest magnitude.
        kernel_size: how many elements a window has.
        stride: how far apart windows begin; ``kernel_size`` if None.
        ceil_mode: a last window may reach over the end.

    Shape:
        (N, C, L) or (C, L) to the same with ``(L − kernel_size) // stride + 1`` for L.

    >>> rl.nn.LPPool1d(2, 2)(rl.tensor([[3.0, 4.0, 0.0, 2.0]]))
    tensor([[5., 2.]])
    """

    pool = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """The p-norm of each window that slides over the last two dimensions: (Σ x^p)^(1/p).

    The arguments are those of :class:`LPPool1d`; sizes are one number or a pair.

    Shape:
        (N, C, H, W) or (C, H, W) to the same with H and W pooled.

    >>> rl.nn.LPPool2d(2, 2)(rl.tensor([[[3.0, 4.0], [0.0, 0.0]]]))
    tensor([[[5.]]])
    """

    pool = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """The p-norm of each window that slides over the last three dimensions: (Σ x^p)^(1/p).

    The arguments are those of :class:`LPPool1d`; sizes are one number or three.

    Shape:
        (N, C, D, H, W) or (C, D, H, W) to the same with the last three pooled.

    >>> rl.nn.LPPool3d(1, 2)(rl.ones(1, 2, 2, 2))
    tensor([[[[8.]]]])
    """

    pool = staticmethod(F.lp_pool3d)
