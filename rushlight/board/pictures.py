"""Arrays as pictures: PNG bytes, and several images side by side."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

from rushlight.tensor import Tensor

COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}  # channels → PNG's colour type


def png(pixels: np.ndarray) -> bytes:
    """An (H, W, C) array of bytes as a PNG file."""
    height, width, channels = pixels.shape
    if channels not in COLOURS:
        raise ValueError(f"an image has 1 to 4 channels, got {channels} (shape {pixels.shape})")
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each row says: not filtered
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">2I5B", width, height, 8, COLOURS[channels], 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 6)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join([chunk(kind, data) for kind, data in chunks])


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


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
