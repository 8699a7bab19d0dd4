"""Pooling over windows and over whole images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rushlight import dtypes
from rushlight.nn import functional as F
from rushlight.onnx.errors import OnnxError
from rushlight.onnx.importers.contraction import padded, padding_of
from rushlight.onnx.importers.registry import integers, op
from rushlight.ops import ops
from rushlight.tensor import Tensor

MAXIMA = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
MEANS = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


class Window:
    """The windows of a pooling: how far the image is padded, and how many windows there are.

    With ``ceil_mode`` the image is padded at its end until the last window fits, unless that one
    would begin in the padding.
    """

    def __init__(
        self,
        shape: Sequence[int],
        kernel: Sequence[int],
        strides: Sequence[int] | None,
        pads: Sequence[int] | None,
        dilations: Sequence[int] | None,
        auto_pad: str,
        ceil_mode: int,
    ) -> None:
        ndim = len(kernel)
        if ndim not in MAXIMA:
            raise OnnxError(f"pooling of {ndim} dimensions is not supported")
        self.ndim, self.kernel = ndim, list(kernel)
        self.stride, self.dilation = list(strides or [1] * ndim), list(dilations or [1] * ndim)
        self.low, self.high = padding_of(
            auto_pad, pads, shape, self.kernel, self.stride, self.dilation
        )
        self.extra = [0] * ndim  # beyond the padding, for the last window
        for i, n in enumerate(shape):
            span = self.dilation[i] * (self.kernel[i] - 1) + 1
            rest = (n + self.low[i] + self.high[i] - span) % self.stride[i]
            begin = n + self.low[i] + self.high[i] - span - rest + self.stride[i]
            if ceil_mode and rest and begin < n + self.low[i]:
                self.extra[i] = self.stride[i] - rest

    @property
    def narrow(self) -> bool:
        """Whether the padding is at most half a window: other pooling allows no more."""
        return all([2 * p <= k for p, k in zip(self.low, self.kernel, strict=True)])

    @property
    def end(self) -> list[int]:
        return [a + b for a, b in zip(self.high, self.extra, strict=True)]


def lowest(dtype: dtypes.dtype) -> float:
    return -math.inf if dtype.is_floating_point else dtypes.iinfo(dtype).min


@op("MaxPool")
def max_pool(
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    storage_order: int = 0,
    strides: Sequence[int] | None = None,
    outputs: int = 1,
) -> Any:
    shape = x.shape[2:]
    w = Window(shape, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    pool = MAXIMA[w.ndim]
    small = x.dtype in (dtypes.int8, dtypes.uint8)
    y = x.to(dtypes.float32) if small else x
    if outputs == 1 and w.low == w.end and w.narrow:
        y = pool(y, w.kernel, w.stride, w.low, w.dilation)
        return y.to(x.dtype)
    bordered = padded(y, w.low, w.end, lowest(y.dtype))
    y, index = pool(bordered, w.kernel, w.stride, 0, w.dilation, return_indices=True)
    y = y.to(x.dtype)
    if outputs == 1:
        return y
    return y, flat_index(index, x.shape, bordered.shape[2:], w.low, bool(storage_order))


def flat_index(
    index: Tensor, shape: Sequence[int], bordered: Sequence[int], low: Sequence[int], columns: bool
) -> Tensor:
    """Places in a padded image as places in the whole input."""
    places = []
    for n, before in zip(reversed(bordered), reversed(low), strict=True):
        places.append(index % n - before)
        index = ops.div(index, n, rounding_mode="floor")
    places.reverse()
    sizes = list(shape[2:])
    if columns:
        places, sizes = places[::-1], sizes[::-1]
    flat = ops.zeros_like(index)
    for place, n in zip(places, sizes, strict=True):
        flat = flat * n + place
    image = math.prod(shape[2:])
    planes = ops.arange(shape[0] * shape[1]).reshape(*shape[:2], *[1] * len(sizes))
    return flat + planes * image


@op("AveragePool")
def average_pool(
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    w = Window(x.shape[2:], kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    plain = set(w.dilation) == {1} and not any(w.extra)
    if plain and w.low == w.high and w.narrow:
        return MEANS[w.ndim](x, w.kernel, w.stride, w.low, False, bool(count_include_pad))
    total = window_sum(padded(x, w.low, w.end), w)
    counted = ops.ones((1, 1, *x.shape[2:]), dtype=x.dtype)
    if count_include_pad:
        counted = padded(padded(counted, w.low, w.high, 1.0), [0] * w.ndim, w.extra)
    else:
        counted = padded(counted, w.low, w.end)
    return total / window_sum(counted, w)


def window_sum(x: Tensor, w: Window) -> Tensor:
    """The sum of each window of a padded image: one of its elements after the other."""
    for i, (k, s, d) in enumerate(zip(w.kernel, w.stride, w.dilation, strict=True)):
        axis = i + 2
        count = (x.shape[axis] - d * (k - 1) - 1) // s + 1
        parts = []
        for tap in range(k):
            keys = [slice(None)] * x.ndim
            keys[axis] = slice(tap * d, tap * d + (count - 1) * s + 1, s)
            parts.append(x[tuple(keys)])
        x = sum(parts[1:], parts[0])
    return x


@op("LpPool")
def lp_pool(
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    p: float = 2,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    w = Window(x.shape[2:], kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    return window_sum(padded(x.abs().pow(p), w.low, w.end), w).pow(1 / p)


def spatial(x: Tensor) -> list[int]:
    return list(range(2, x.ndim))


@op("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    return x.mean(spatial(x), keepdim=True)


@op("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    return ops.amax(x, spatial(x), keepdim=True)


@op("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: float = 2) -> Tensor:
    return x.abs().pow(p).sum(spatial(x), keepdim=True).pow(1 / p)


@op("MaxUnpool", known=["output_shape"])
def max_unpool(
    x: Tensor,
    index: Tensor,
    output_shape: Any = None,
    *,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Elements go back to the places, in the whole result, that their maxima were found at."""
    ndim = len(kernel_shape)
    stride, amounts = list(strides or [1] * ndim), list(pads or [0] * (2 * ndim))
    least = [
        (n - 1) * s + k - low - high
        for n, s, k, low, high in zip(
            x.shape[2:], stride, kernel_shape, amounts[:ndim], amounts[ndim:], strict=True
        )
    ]
    inner = [*x.shape[:2], *least]
    result = ops.zeros(math.prod(inner), dtype=x.dtype)
    result = result.scatter(0, index.reshape(-1), x.reshape(-1)).reshape(inner)
    if output_shape is None:
        return result
    wanted = integers(output_shape)
    spare = [a - b for a, b in zip(wanted[2:], least, strict=True)]
    return padded(result, [0] * ndim, spare)


@op("MaxRoiPool")
def max_roi_pool(
    x: Tensor, rois: Tensor, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0
) -> Tensor:
    """The largest elements in the cells of each region: (image, left, top, right, bottom)."""
    y = x[rois[:, 0].to(dtypes.int64)]
    corners = ops.floor(rois[:, 1:] * spatial_scale + 0.5)
    for d, first, cells in ((-1, 0, pooled_shape[1]), (-2, 1, pooled_shape[0])):
        start, end = corners[:, first], corners[:, first + 2]
        size = ops.clamp(end - start + 1, min=1.0) / cells
        places = ops.arange(x.shape[d]).to(x.dtype)
        parts = []
        for cell in range(cells):
            low, high = [start + e for e in (ops.floor(cell * size), ops.ceil((cell + 1) * size))]
            inside = ops.logical_and(places >= low[:, None], places < high[:, None])
            inside = inside[:, None, None] if d == -1 else inside[:, None, :, None]
            parts.append(ops.amax(ops.where(inside, y, -math.inf), d))
        y = ops.stack(parts, d)
    return ops.where(y == -math.inf, 0.0, y)
