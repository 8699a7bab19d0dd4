"""Images: resized, sampled at a grid or in regions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.nn import functional as F
from rushlight.onnx.errors import OnnxError
from rushlight.onnx.importers.registry import integers, known, op, tensor_of
from rushlight.ops import ops
from rushlight.tensor import Tensor

ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


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
        if factors[i] == 1 and wanted[i] == lengths[i] and not crops:
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
            where = where.round(6)  # what only the last bits keep from a whole or half number
            places = ROUNDINGS[nearest_mode](where).clip(0, lengths[i] - 1)
            x = x.index_select(axis, tensor_of(places.astype(np.int64)))
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
    pairs = zip(lengths, factors, strict=True)
    return [n * int(s) if s == int(s) else math.floor(n * s) for n, s in pairs], factors


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
) -> np.ndarray:
    """Where in the input each element of the result lies."""
    i = np.arange(wanted, dtype=np.float64)
    start, end = region
    match mode:
        case "half_pixel":
            return (i + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (i + 0.5) / scale - 0.5 if wanted > 1 else i * 0
        case "half_pixel_symmetric":
            adjustment = wanted / (length * scale)
            return length / 2 * (1 - adjustment) + (i + 0.5) / scale - 0.5
        case "align_corners":
            return i * (length - 1) / (wanted - 1) if wanted > 1 else i * 0
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
    where: np.ndarray, length: int, mode: str, a: float, exclude: bool, shrink: float
) -> tuple[np.ndarray, np.ndarray]:
    """The places that each element is a sum of, and their weights (result × taps)."""
    reach = (1 if mode == "linear" else 2) / shrink
    first = np.floor(where - reach).astype(np.int64) + 1
    count = math.ceil(2 * reach) + (shrink < 1)
    taps = first[:, None] + np.arange(count)
    distance = np.abs((taps - where[:, None]) * shrink)
    if mode == "linear":
        weights = np.maximum(1 - distance, 0)
    elif mode == "cubic":
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = a * (((distance - 5) * distance + 8) * distance - 4)
        weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
    else:
        raise OnnxError(f"the mode {mode!r} is not supported")
    if exclude:
        weights = np.where((taps < 0) | (taps >= length), 0.0, weights)
    return taps.clip(0, length - 1), weights / weights.sum(1, keepdims=True)


def weighted(x: Tensor, axis: int, taps: np.ndarray, weights: np.ndarray) -> Tensor:
    """Sums of elements along an axis."""
    kind = x.dtype if x.is_floating_point() else dtypes.float32
    shape = [1] * x.ndim
    shape[axis] = -1
    result = None
    for column, weight in zip(taps.T, weights.T, strict=True):
        if not weight.any():
            continue
        factor = tensor_of(weight.astype(kind.numpy)).reshape(shape)
        part = x.index_select(axis, tensor_of(np.ascontiguousarray(column))) * factor
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


@op("GridSample")
def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
) -> Tensor:
    """``linear`` and ``cubic`` had the names of two dimensions up to version 19."""
    how = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return F.grid_sample(x, grid, how, padding_mode, bool(align_corners))


@op("RoiAlign", since=16)
def roi_align(
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Means (or maxima) of bilinear samples in the cells of each region."""
    half = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
    boxes = rois * spatial_scale - half
    height, width = x.shape[2:]
    sizes = [boxes[:, 3] - boxes[:, 1], boxes[:, 2] - boxes[:, 0]]
    if not half:
        sizes = [ops.clamp(s, min=1.0) for s in sizes]
    results = []
    counts = sampling_ratio, sampling_ratio
    for i in range(rois.shape[0]):
        if sampling_ratio <= 0:
            counts = (
                math.ceil(float(known(sizes[0][i])) / output_height),
                math.ceil(float(known(sizes[1][i])) / output_width),
            )
        places = []
        for start, size, cells, count in zip(
            (boxes[i, 1], boxes[i, 0]), (sizes[0][i], sizes[1][i]),
            (output_height, output_width), counts, strict=True,
        ):  # fmt: skip
            steps = (ops.arange(cells * count).to(x.dtype) + 0.5) / count
            places.append(start + steps * size / cells)
        image = x[batch_indices[i]]
        rows, columns = samples(places[0], height), samples(places[1], width)
        corners = [
            image.index_select(1, a).index_select(2, b) * (u[:, None] * v)
            for a, u in rows
            for b, v in columns
        ]
        shape = (x.shape[1], output_height, counts[0], output_width, counts[1])
        if mode == "max":
            parts = ops.stack([corner.reshape(shape) for corner in corners])
            results.append(ops.amax(parts, [0, 3, 5]))
        else:
            whole = corners[0] + corners[1] + corners[2] + corners[3]
            results.append(whole.reshape(shape).mean([2, 4]))
    return ops.stack(results)


@op("RoiAlign")
def roi_align_of_corners(x: Tensor, rois: Tensor, batch_indices: Tensor, **options: Any) -> Tensor:
    """Up to version 15: coordinates count from corners of pixels."""
    corners = "output_half_pixel"
    return roi_align(x, rois, batch_indices, coordinate_transformation_mode=corners, **options)


def samples(places: Tensor, length: int) -> list[tuple[Tensor, Tensor]]:
    """The two neighbours of each place, and their weights; zero outside."""
    inside = ops.logical_and(places >= -1, places <= length).to(places.dtype)
    at = ops.clamp(places, 0, length - 1)
    low = ops.floor(at)
    weight = at - low
    first = low.to(dtypes.int64)
    second = ops.clamp(first + 1, max=length - 1)
    return [(first, (1 - weight) * inside), (second, weight * inside)]


@op("NonMaxSuppression", known=["boxes", "scores", "limit", "iou_threshold", "score_threshold"])
def non_max_suppression(
    boxes: np.ndarray,
    scores: np.ndarray,
    limit: Any = None,
    iou_threshold: Any = None,
    score_threshold: Any = None,
    *,
    center_point_box: int = 0,
) -> np.ndarray:
    """The best boxes of each class that overlap no better one too far."""
    most = 0 if limit is None else int(limit.reshape(-1)[0])
    overlap = 0.0 if iou_threshold is None else float(iou_threshold.reshape(-1)[0])
    if center_point_box:
        middle, size = boxes[..., :2], boxes[..., 2:]
        low, high = middle - size / 2, middle + size / 2
    else:
        low = np.minimum(boxes[..., :2], boxes[..., 2:])
        high = np.maximum(boxes[..., :2], boxes[..., 2:])
    areas = (high - low).prod(-1)
    found = []
    for batch, kind in np.ndindex(*scores.shape[:2]):
        values = scores[batch, kind]
        order = np.argsort(-values, kind="stable")
        if score_threshold is not None:
            order = order[values[order] > float(score_threshold.reshape(-1)[0])]
        taken = 0
        while len(order) and taken < most:
            best, order = order[0], order[1:]
            found.append((batch, kind, best))
            taken += 1
            common = np.minimum(high[batch, best], high[batch, order])
            common = common - np.maximum(low[batch, best], low[batch, order])
            shared = np.maximum(common, 0).prod(-1)
            union = areas[batch, best] + areas[batch, order] - shared
            with np.errstate(all="ignore"):
                order = order[~(shared / union > overlap)]
    return np.array(found, np.int64).reshape(-1, 3)


@op("DeformConv")
def deform_conv(
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    b: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: Sequence[int] = (1, 1),
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    offset_group: int = 1,
    pads: Sequence[int] = (0, 0, 0, 0),
    strides: Sequence[int] = (1, 1),
) -> Tensor:
    """A convolution of two dimensions whose taps are shifted: sampled, then multiplied."""
    batch, channels, height, width = x.shape
    rows, columns = w.shape[2:]
    taps = rows * columns
    out = offset.shape[2:]
    shift = offset.reshape(batch, offset_group, taps, 2, *out)
    base_y = np.arange(rows)[:, None] * dilations[0] + np.zeros(columns, np.int64) - pads[0]
    base_x = np.arange(columns) * dilations[1] + np.zeros((rows, 1), np.int64) - pads[1]
    here_y = np.arange(out[0])[:, None] * strides[0] + np.zeros(out[1], np.int64)
    here_x = np.arange(out[1]) * strides[1] + np.zeros((out[0], 1), np.int64)
    y = shift[:, :, :, 0] + tensor_of(base_y.reshape(-1, 1, 1) + here_y).to(x.dtype)
    z = shift[:, :, :, 1] + tensor_of(base_x.reshape(-1, 1, 1) + here_x).to(x.dtype)
    grid = ops.stack([2 * z / max(width - 1, 1) - 1, 2 * y / max(height - 1, 1) - 1], -1)
    grid = grid.reshape(batch * offset_group, taps * out[0], out[1], 2)
    image = x.reshape(batch * offset_group, channels // offset_group, height, width)
    found = F.grid_sample(image, grid, "bilinear", "zeros", True)
    found = found.reshape(batch, offset_group, channels // offset_group, taps, *out)
    if mask is not None:
        found = found * mask.reshape(batch, offset_group, 1, taps, *out)
    found = found.reshape(batch, group, channels // group, taps, *out)
    weight = w.reshape(group, w.shape[0] // group, channels // group, taps)
    result = ops.einsum("bgctyx,goct->bgoyx", found, weight)
    result = result.reshape(batch, w.shape[0], *out)
    return result if b is None else result + b.reshape(-1, 1, 1)
