"""Image files as tensors."""

from __future__ import annotations

import enum
import os
from typing import Any

import numpy as np

from rushlight.interop import from_numpy
from rushlight.tensor import Tensor
from rushlight.vision.pillow import pillow


class ImageReadMode(enum.Enum):
    """Which channels to read: as they are, or converted."""

    UNCHANGED = None
    GRAY = "L"
    GRAY_ALPHA = "LA"
    RGB = "RGB"
    RGB_ALPHA = "RGBA"


def read_image(
    path: str | os.PathLike[str],
    mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
    apply_exif_orientation: bool = False,
) -> Tensor:
    """An image file as a tensor of bytes, (C, H, W)."""
    wanted = ImageReadMode[mode] if isinstance(mode, str) else mode
    with pillow().open(path) as image:
        picture: Any = image if wanted.value is None else image.convert(wanted.value)
        if picture.mode in ("P", "1"):
            picture = picture.convert("RGB")
        pixels = np.array(picture)
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    return from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))
