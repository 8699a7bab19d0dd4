"""Pictures of batches: several images in one, saved to a file."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Any, BinaryIO

from rushlight import dtypes
from rushlight.autograd.modes import no_grad
from rushlight.io.atomic import replacing
from rushlight.ops import ops
from rushlight.tensor import Tensor
from rushlight.vision.pillow import pillow
from rushlight.vision.png import png


@no_grad()
def make_grid(
    tensor: Tensor | Sequence[Tensor],
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:
    """A batch of images as one image, ``nrow`` in a row.

    Args:
        tensor: (B, C, H, W), or a list of images of one size.
        padding: pixels between images.
        normalize: shift and scale the pixels to [0, 1]: from ``value_range``, by default from the
            smallest and the largest pixel, of each image if ``scale_each``.
        pad_value: the colour between images.

    >>> rl.vision.utils.make_grid(rl.rand(10, 3, 4, 4), nrow=5).shape
    rushlight.Size([3, 14, 32])
    """
    images = tensor if isinstance(tensor, Tensor) else ops.stack(list(tensor), 0)
    if images.dim() == 2:
        images = images.unsqueeze(0)
    if images.dim() == 3:
        images = images.unsqueeze(0) if images.size(0) in (1, 3) else images.unsqueeze(1)
    if images.dim() != 4:
        raise ValueError(f"make_grid(): expected (B, C, H, W) or a list, got {list(images.shape)}")
    if images.size(1) == 1:
        images = images.expand(-1, 3, -1, -1)
    if normalize:
        parts = [scaled(i, value_range) for i in images] if scale_each else None
        images = ops.stack(parts, 0) if parts is not None else scaled(images, value_range)
    count, channels, height, width = images.shape
    if count == 1:
        return images[0]
    columns = min(nrow, count)
    rows = -(-count // columns)
    high, wide = height + padding, width + padding
    grid = images.new_full((channels, high * rows + padding, wide * columns + padding), pad_value)
    for i in range(count):
        top, left = i // columns * high + padding, i % columns * wide + padding
        grid[:, top : top + height, left : left + width] = images[i]
    return grid


def scaled(image: Tensor, value_range: tuple[float, float] | None) -> Tensor:
    """Pixels shifted and scaled to [0, 1]."""
    if value_range is None:
        low, high = image.min().item(), image.max().item()
    else:
        low, high = value_range
    return (image.clamp(low, high) - low) / max(high - low, 1e-5)


@no_grad()
def save_image(
    tensor: Tensor | Sequence[Tensor],
    fp: str | os.PathLike[str] | BinaryIO,
    format: str | None = None,
    **kwargs: Any,
) -> None:
    """Saves an image, or a batch as a grid, whose pixels are between 0 and 1.

    ``kwargs`` go to :func:`make_grid`. PNG files need nothing; other formats need Pillow.
    """
    grid = make_grid(tensor, **kwargs)
    pixels = grid.mul(255).add_(0.5).clamp_(0, 255).permute(1, 2, 0).to(dtypes.uint8).numpy()
    name = "" if not isinstance(fp, (str, os.PathLike)) else os.fspath(fp)
    kind = (format or os.path.splitext(name)[1].removeprefix(".") or "png").lower()
    memory = io.BytesIO()
    if kind == "png":
        memory.write(png(pixels))
    else:
        named = {"jpg": "jpeg", "tif": "tiff"}.get(kind, kind)
        try:
            pillow().fromarray(pixels).save(memory, format=named)
        except KeyError:
            raise ValueError(f"unknown image format {kind!r}; use png or jpg") from None
    if isinstance(fp, (str, os.PathLike)):
        with replacing(name) as file:
            file.write(memory.getvalue())
    else:
        fp.write(memory.getvalue())
