"""Images: sampled at a grid or in regions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.nn import functional as F
from rushlight.onnx.importers.registry import known, op, tensor_of
from rushlight.ops import ops
from rushlight.tensor import Tensor


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
