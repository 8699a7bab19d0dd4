"""Images that are resized: where each element lies in the old one, and what it is a sum of.

Places and weights are arrays if all sizes are known, and tensors if some may change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.dims import is_extent
from rushlight.onnx.errors import OnnxError
from rushlight.onnx.importers.registry import integers, op, tensor_of
from rushlight.ops import ops
from rushlight.ops.interpolation import at_most
from rushlight.tensor import Tensor

Numbers = Any
"""An array, or a tensor."""

ROUNDINGS: dict[str, Callable[[Numbers], Numbers]] = {
    "round_prefer_floor": lambda x: module_of(x).ceil(x - 0.5),
    "round_prefer_ceil": lambda x: module_of(x).floor(x + 0.5),
    "floor": lambda x: module_of(x).floor(x),
    "ceil": lambda x: module_of(x).ceil(x),
}


def module_of(x: Numbers) -> Any:
    """Whose functions are for ``x``."""
    return ops if isinstance(x, Tensor) else np


def held(x: Numbers, dtype: dtypes.dtype) -> Tensor:
    """Numbers as a tensor."""
    if isinstance(x, Tensor):
        return x.to(dtype)
    return tensor_of(np.ascontiguousarray(x, dtype.numpy))


@op("Resize", known=["roi", "scales", "sizes"], since=11)
def resize(
    x: Tensor,
    roi: Any = None,
    scales: Any = None,
    sizes: Any = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """One axis after the other: each element is a sum of a few of the axis, or one of them."""
    chosen = list(range(x.ndim)) if axes is None else [axis % x.ndim for axis in axes]
    lengths = [x.shape[axis] for axis in chosen]
    wanted, factors = targets(lengths, scales, sizes, keep_aspect_ratio_policy)
    crops = coordinate_transformation_mode == "tf_crop_and_resize"
    outside = np.zeros([1] * x.ndim, np.bool_)
    for i, axis in enumerate(chosen):
        if unchanged(lengths[i], wanted[i], factors[i]) and not crops:
            continue
        if mode == "nearest" and repeats(factors[i], coordinate_transformation_mode, nearest_mode):
            x = repeated(x, axis, int(factors[i]))
            continue
        region = (0.0, 1.0)
        if roi is not None and len(roi):
            region = float(roi[i]), float(roi[i + len(chosen)])
        where = coordinates(
            coordinate_transformation_mode, lengths[i], wanted[i], factors[i], region
        )
        if crops:
            shape = [1] * x.ndim
            shape[axis] = -1
            outside = outside | ((where < 0) | (where > lengths[i] - 1)).reshape(shape)
        if mode == "nearest":
            where = where.round(decimals=6)  # what only last bits keep from a whole or half number
            places = inside(ROUNDINGS[nearest_mode](where), lengths[i])
            x = x.index_select(axis, held(places, dtypes.int64))
        else:
            shrink = min(factors[i], 1.0) if antialias else 1.0
            taps, weights = kernel(
                where, lengths[i], mode, cubic_coeff_a, bool(exclude_outside), shrink
            )
            x = weighted(x, axis, taps, weights)
    if not outside.any():
        return x
    return ops.where(tensor_of(outside), extrapolation_value, x).to(x.dtype)


def targets(
    lengths: list[int], scales: Any, sizes: Any, policy: str
) -> tuple[list[int], list[Any]]:
    """The new length of each axis, and how many times the old one it is."""
    if sizes is not None and len(sizes):
        wanted = integers(sizes)
        factors = [n / old for n, old in zip(wanted, lengths, strict=True)]
        if policy != "stretch":
            factors = [min(factors) if policy == "not_larger" else max(factors)] * len(factors)
            wanted = [math.floor(n * factors[0] + 0.5) for n in lengths]
        return wanted, factors
    if scales is None or not len(scales):
        raise OnnxError("neither scales nor sizes are given")
    factors = [float(s) for s in scales]
    ratios = [s.as_integer_ratio() for s in factors]  # sizes that may change are whole numbers, too
    return [n * a // b for n, (a, b) in zip(lengths, ratios, strict=True)], factors


def unchanged(length: int, wanted: int, factor: Any) -> bool:
    """Whether an axis stays as it is; of sizes that may change, only a factor says so."""
    if is_extent(length) or is_extent(wanted):
        return type(factor) is float and factor == 1
    return factor == 1 and wanted == length


def repeats(factor: float, mode: str, nearest: str) -> bool:
    """Whether the nearest elements are all elements, each as often as the other."""
    if type(factor) is not float or factor != int(factor) or factor < 1:
        return False
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return nearest.startswith("round")
    return mode == "asymmetric" and nearest == "floor"


def repeated(x: Tensor, axis: int, count: int) -> Tensor:
    """Each element of an axis so many times, as a view that sizes of any kind allow."""
    before, length, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    y = x.unsqueeze(axis + 1).expand(*before, length, count, *after)
    return y.reshape(*before, length * count, *after)


def coordinates(
    mode: str, length: int, wanted: int, scale: float, region: tuple[float, float]
) -> Numbers:
    """Where in the input each element of the result lies."""
    changes = is_extent(length) or is_extent(wanted)
    i: Numbers = ops.arange(wanted).double() if changes else np.arange(wanted, dtype=np.float64)
    last, (start, end) = i * 0 + (wanted - 1), region
    match mode:
        case "half_pixel":
            return (i + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return ((i + 0.5) / scale - 0.5) * last.clip(None, 1)  # 0 if there is only one
        case "half_pixel_symmetric":
            adjustment = wanted / (length * scale)
            return length / 2 * (1 - adjustment) + (i + 0.5) / scale - 0.5
        case "align_corners":
            return i * (length - 1) / last.clip(1)
        case "asymmetric":
            return i / scale
        case "tf_half_pixel_for_nn":
            return (i + 0.5) / scale
        case "tf_crop_and_resize":
            if wanted > 1:
                return start * (length - 1) + i * (end - start) * (length - 1) / (wanted - 1)
            return i * 0 + 0.5 * (start + end) * (length - 1)
    raise OnnxError(f"the coordinates {mode!r} are not supported")


def kernel(
    where: Numbers, length: int, mode: str, a: float, exclude: bool, shrink: float
) -> tuple[Numbers, Numbers]:
    """The places that each element is a sum of, and their weights (result × taps)."""
    f = module_of(where)
    reach = (1 if mode == "linear" else 2) / shrink
    count = math.ceil(2 * reach) + (shrink < 1)
    taps = (f.floor(where - reach) + 1)[:, None] + f.arange(count)
    distance = f.abs((taps - where[:, None]) * shrink)
    if mode == "linear":
        weights = (1 - distance).clip(0)
    elif mode == "cubic":
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = a * (((distance - 5) * distance + 8) * distance - 4)
        weights = f.where(distance <= 1, near, f.where(distance < 2, far, 0.0))
    else:
        raise OnnxError(f"the mode {mode!r} is not supported")
    if exclude:
        weights = f.where((taps < 0) | (taps >= length), 0.0, weights)
    return inside(taps, length), weights / weights.sum(1)[:, None]


def inside(places: Numbers, length: int) -> Numbers:
    """The places of an axis that are nearest to these."""
    if isinstance(places, Tensor):
        return at_most(places.clip(0), length - 1)
    return places.clip(0, length - 1)


def weighted(x: Tensor, axis: int, taps: Numbers, weights: Numbers) -> Tensor:
    """Sums of elements along an axis."""
    kind = x.dtype if x.is_floating_point() else dtypes.float32
    shape = [1] * x.ndim
    shape[axis] = -1
    result = None
    for k in range(taps.shape[1]):
        weight = weights[:, k]
        if isinstance(weight, np.ndarray) and not weight.any():
            continue
        factor = held(weight, kind).reshape(shape)
        part = x.index_select(axis, held(taps[:, k], dtypes.int64)) * factor
        result = part if result is None else result + part
    assert result is not None
    return result if x.is_floating_point() else ops.round(result).to(x.dtype)


@op("Upsample", "Resize", known=["scales"])
def upsample(
    x: Tensor,
    scales: Any = None,
    *,
    mode: str = "nearest",
    height_scale: float | None = None,
    width_scale: float | None = None,
) -> Tensor:
    """Up to version 10: the first pixels of both images coincide."""
    if scales is None and height_scale is not None and width_scale is not None:
        scales = [1.0, 1.0, height_scale, width_scale]
    return resize(
        x,
        scales=np.asarray(scales),
        mode="nearest" if mode == "nearest" else "linear",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
