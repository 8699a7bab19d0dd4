"""Average and power-average pooling: what a sum over each window gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.dims import is_known
from rushlight.kernels import pooling as kernels
from rushlight.kernels.pooling import Window, Windows
from rushlight.ops.base import Op, composite, need_tensor, ops, registry
from rushlight.ops.channels_last import stored
from rushlight.ops.elements import wide
from rushlight.ops.pooling import (
    Sizes,
    along,
    last_dims,
    need_dtype,
    per_dimension,
    pool_errors,
    pooled_type,
    spread_type,
    windows_of,
)
from rushlight.ops.reduce import in_float32, need_bool
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.windowing import shared, window_spread, window_sum
from rushlight.tensor import Tensor


class SpreadAverage(Op):
    """Each element shared out evenly among its window: the transpose of average pooling."""

    function = method = False

    def check(self, input: Tensor, **attrs: Any) -> Any:
        return (input,), attrs

    @along
    @in_float32
    def eager(self, y, *, windows, padded, divisor, dims):
        return kernels.spread(shares(y, windows, padded, divisor), windows)

    def infer(self, arrays, attrs):
        return spread_type(arrays[0], attrs)

    def at(self, b, i, y, *, windows, padded, divisor, dims):
        def share(index: Any, _: Any) -> Any:
            own = [index[d] for d in dims]
            return shared(b, wide(y[index]), own, windows, padded, divisor)

        return window_spread(b, i, windows, dims, share)

    def folded(self, attrs, *shapes):
        return ()

    def vjp(self, g, _x, _y, **attrs):
        pool = registry[f"nn.functional.avg_pool{len(attrs['windows'])}d"]
        return pool.apply((g,), attrs)


spread_average = registry["spread_average"].call


def shares(x: np.ndarray, windows: Windows, padded: bool, divisor: int | None) -> np.ndarray:
    """``x`` divided by ``divisor``, else by how many elements its windows hold."""
    kind = x.dtype
    n = kernels.holdings(windows, padded, kind) if divisor is None else np.array(divisor, kind)
    if kind.kind == "f":
        return x / n
    quotient = np.abs(x) // np.abs(n)
    return np.where((x < 0) == (n < 0), quotient, -quotient)


def overhangs(w: Window) -> bool:
    """Whether the last window reaches over the padding."""
    return (w.outputs - 1) * w.stride + w.size > w.length + 2 * w.padding


class AvgPool(Op, abstract=True):
    """The average of each window: its sum by ``divisor``, else by the number of its elements."""

    namespace = "nn.functional"
    method = False
    rank: int

    def averaging(
        self,
        input: Any,
        kernel_size: Sizes,
        stride: Sizes | None,
        padding: Sizes,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor: int | None,
    ) -> Any:
        x, name = need_tensor(self.name, input), self.name
        need_dtype(name, x, "i" if x._array.dtype == np.int64 else "f")
        windows = windows_of(name, self.rank, x, kernel_size, stride, padding, 1, ceil_mode)
        if divisor == 0:
            raise RuntimeError(f"{name}(): divisor must be not zero")
        padded = need_bool("count_include_pad", count_include_pad)
        dims = last_dims(self.rank)
        return (x,), {"windows": windows, "padded": padded, "divisor": divisor, "dims": dims}

    @along
    @in_float32
    def eager(self, x, *, windows, padded, divisor, dims):
        return shares(kernels.fold(np.add, x, windows, 0), windows, padded, divisor)

    def infer(self, arrays, attrs):
        return pooled_type(arrays[0], attrs)

    def decompose(self, x, *, windows, padded, divisor, dims):
        """Zeros that count are laid around planes first: windows then ask nothing."""
        zeros = any([w.padding for w in windows]) and padded and x.dtype.is_floating_point
        if not zeros or not all([is_known(w) and not overhangs(w) for w in windows]):
            return NotImplemented
        pads = [n for w in reversed(windows) for n in (w.padding, w.padding)]
        whole = [w._replace(length=w.length + 2 * w.padding, padding=0) for w in windows]
        attrs = {"windows": tuple(whole), "padded": padded, "divisor": divisor, "dims": dims}
        return self.apply((stored(ops.constant_pad_nd(x, pads, 0.0)),), attrs)

    def at(self, b, i, x, *, windows, padded, divisor, dims):
        own = [i[d] for d in dims]
        return shared(b, window_sum(b, i, x, windows, dims), own, windows, padded, divisor)

    def folded(self, attrs, *shapes):
        return ()

    def vjp(self, g, _y, _x, **attrs):
        return spread_average(g, **attrs)


class AvgPool1D(AvgPool):
    """The average of each window that slides over the last dimension.

    Args:
        input: (N, C, L) or (C, L).
        stride: how far apart windows begin; ``kernel_size`` if None.
        padding: how many zeros stand before and after.
        ceil_mode: a last window may reach over the end.
        count_include_pad: the zeros of the padding count as elements.

    >>> rl.nn.functional.avg_pool1d(rl.tensor([[1.0, 3.0, 2.0, 0.0, 4.0]]), 3, stride=2)
    tensor([[2., 2.]])
    """

    name, rank = "avg_pool1d", 1
    samples = [
        S(T(2, 3, 6), 2),
        S(T(3, 8), 3, 2, 1),
        S(T(1, 2, 9), (3,), stride=(2,), padding=1, count_include_pad=False),
        S(T(2, 2, 8), 3, 2, ceil_mode=True),
        S(T(1, 3, 5), 5),
        S(T(0, 2, 6), 2),
        S(T(1, 2, 6, low=-9, high=9, dtype=dtypes.int64), 4, 1),
    ]
    errors = pool_errors(1)

    def check(
        self,
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Any:
        return self.averaging(
            input, kernel_size, stride, padding, ceil_mode, count_include_pad, None
        )


class AvgPool2D(AvgPool):
    """The average of each window that slides over the last two dimensions.

    Arguments that stand for two dimensions are one number or a pair.

    Args:
        input: (N, C, H, W) or (C, H, W).
        stride: how far apart windows begin; ``kernel_size`` if None.
        padding: how many zeros stand around each plane.
        ceil_mode: last windows may reach over the border.
        count_include_pad: the zeros of the padding count as elements.
        divisor_override: divide by this number, however many elements there are.

    >>> rl.nn.functional.avg_pool2d(rl.arange(8.0).reshape(1, 2, 4), 2)
    tensor([[[2.5000, 4.5000]]])
    """

    name, rank = "avg_pool2d", 2
    samples = [
        S(T(2, 2, 4, 5), 2),
        S(T(1, 1, 6, 6), 3, 2, 1),
        S(T(3, 3, 4), (1, 2), stride=1, divisor_override=3),
        S(T(1, 1, 5, 7), 2, (2, 3), (0, 1), ceil_mode=True, count_include_pad=False),
        S(T(1, 1, 5, 5), 3, 2, 1, True),
        S(T(1, 2, 4, 4), 4),
        S(T(0, 2, 4, 4), 2),
        S(T(1, 2, 4, 4, low=-9, high=9, dtype=dtypes.int64), 2, divisor_override=-3),
    ]
    errors = [
        *pool_errors(2),
        Fails(RuntimeError, "divisor must be not zero", T(1, 4, 4), 2, divisor_override=0),
        Fails(NotImplementedError, "for 'Int'", T(1, 4, 4, dtype=dtypes.int32), 2),
    ]

    def check(
        self,
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        return self.averaging(
            input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )


class AvgPool3D(AvgPool):
    """The average of each window that slides over the last three dimensions.

    Arguments that stand for three dimensions are one number or three; see :func:`avg_pool2d`.

    >>> rl.nn.functional.avg_pool3d(rl.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[3.5000]]]])
    """

    name, rank = "avg_pool3d", 3
    samples = [
        S(T(1, 2, 2, 4, 2), 2),
        S(T(1, 3, 3, 4), (1, 2, 3), 1, (0, 1, 1), count_include_pad=False),
        S(T(1, 1, 3, 3, 4), 2, ceil_mode=True, divisor_override=5),
        S(T(0, 1, 2, 2, 2), 2),
    ]
    errors = [
        *pool_errors(3, r"image \(T: 6 H: 6 W: 6\) smaller than kernel size \(kT: 7 kH: 7 kW: 7\)"),
        Fails(RuntimeError, "smaller than", T(1, 2, 4, 4), 3, padding=1, ceil_mode=True),
        Fails(RuntimeError, "divisor must be not zero", T(1, 4, 4, 4), 2, divisor_override=0),
    ]
    check = AvgPool2D.check


def power_sum(
    rank: int, input: Any, p: float, kernel_size: Sizes, stride: Sizes | None, ceil_mode: bool
) -> Tensor:
    """(Σ x^p)^(1/p) over windows of ``rank`` dimensions."""
    name = f"lp_pool{rank}d"
    x = need_tensor(name, input)
    space = ops.__dict__["nn.functional"]
    if abs(p) == math.inf:
        sign = math.copysign(1, p)
        largest = getattr(space, f"max_pool{rank}d")
        return sign * largest(sign * x.abs(), kernel_size, stride, ceil_mode=ceil_mode)
    average = getattr(space, f"avg_pool{rank}d")
    mean = average(x.pow(p), kernel_size, stride, ceil_mode=ceil_mode)
    count = math.prod(per_dimension(name, "kernel_size", kernel_size, rank))
    # relu stops the infinite slope of the root where the sum is zero.
    return (mean.sign() * mean.abs().relu() * count).pow(1 / p)


def power_samples(rank: int) -> dict[str, Any]:
    """The samples and error samples of power-average pooling over ``rank`` dimensions."""
    plane = (4, *[2] * (rank - 1))
    x = T(1, 2, *plane, low=0.5, distinct=True)
    return {
        "samples": [
            S(x, 2, 2),
            S(x, 3.5, 2, stride=1, ceil_mode=True),
            S(x, 1, 1),
            S(x, math.inf, 2),
            S(x, -math.inf, 2),
        ],
        "errors": [
            Fails(TypeError, "must be Tensor, not float", 1.5, 2, 2),
            Fails(RuntimeError, "kernel_size must be greater than zero, but got 0", x, 2, 0),
            Fails(RuntimeError, "too small|smaller than kernel size", x, 2, 9),
            Fails(ZeroDivisionError, "division by zero", x, 0, 2),
        ],
    }


@composite(namespace="nn.functional", method=False, **power_samples(1))
def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of each window that slides over the last dimension: ``(Σ x^p)^(1/p)``.

    p is ``norm_type``; windows are those of :func:`avg_pool1d`.

    >>> rl.nn.functional.lp_pool1d(rl.tensor([[3.0, 4.0, 0.0, 2.0]]), 2, kernel_size=2)
    tensor([[5., 2.]])
    """
    return power_sum(1, input, norm_type, kernel_size, stride, ceil_mode)


@composite(namespace="nn.functional", method=False, **power_samples(2))
def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of each window that slides over the last two dimensions: ``(Σ x^p)^(1/p)``.

    p is ``norm_type``; windows are those of :func:`avg_pool2d`.

    >>> rl.nn.functional.lp_pool2d(rl.tensor([[[3.0, 4.0], [0.0, 0.0]]]), 2, kernel_size=2)
    tensor([[[5.]]])
    """
    return power_sum(2, input, norm_type, kernel_size, stride, ceil_mode)


@composite(namespace="nn.functional", method=False, **power_samples(3))
def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of each window that slides over the last three dimensions: ``(Σ x^p)^(1/p)``.

    p is ``norm_type``; windows are those of :func:`avg_pool3d`.

    >>> rl.nn.functional.lp_pool3d(rl.full((1, 1, 2, 2), 2.0), 2, kernel_size=(1, 2, 2))
    tensor([[[[4.]]]])
    """
    return power_sum(3, input, norm_type, kernel_size, stride, ceil_mode)
