"""Images of any order of dimensions as arrays of bytes, a batch of them side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.tensor import Tensor


def as_array(value: Any) -> np.ndarray:
    return value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value)


def as_bytes(image: np.ndarray) -> np.ndarray:
    """Pixels from 0 to 255; floating-point ones are between 0 and 1."""
    if image.dtype == np.uint8:
        return image
    scale = 255.0 if image.dtype.kind == "f" else 1.0
    return np.clip(np.nan_to_num(image.astype(np.float32)) * scale, 0, 255).astype(np.uint8)


def as_hwc(image: Any, order: str) -> np.ndarray:
    """An image, or a batch of them as a grid, in the order height, width, channels."""
    array, order = as_array(image), order.upper()
    if len(order) != array.ndim or len(set(order)) != len(order) or not set(order) <= set("NCHW"):
        raise ValueError(
            f"dataformats {order!r} does not name the {array.ndim} dimensions of shape "
            f"{array.shape}; use the letters N, C, H, W"
        )
    if "N" in order:
        return as_hwc(grid(array.transpose([order.index(c) for c in "NCHW"])), "CHW")
    if order in ("HW", "WH"):
        array, order = array[..., None], order + "C"
    array = array.transpose([order.index(c) for c in "HWC"])
    return np.repeat(array, 3, 2) if array.shape[2] == 1 else array


def grid(images: np.ndarray, columns: int = 8) -> np.ndarray:
    """A batch (N, C, H, W) as one image (C, rows·H, columns·W)."""
    count, channels, height, width = images.shape
    columns = min(count, columns)
    rows = -(-count // max(columns, 1))
    full = np.zeros((rows * columns, channels, height, width), images.dtype)
    full[:count] = images
    table = full.reshape(rows, columns, channels, height, width)
    return table.transpose(2, 0, 3, 1, 4).reshape(channels, rows * height, columns * width)
