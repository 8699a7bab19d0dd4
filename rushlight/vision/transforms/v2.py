"""torchvision's second names for the same transforms, and the few that are new there."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.interop import from_numpy
from rushlight.nn.module import Module
from rushlight.tensor import Tensor
from rushlight.vision.pillow import is_pil
from rushlight.vision.transforms import functional
from rushlight.vision.transforms.basic import (
    CenterCrop,
    Compose,
    ConvertImageDtype,
    FiveCrop,
    Grayscale,
    Lambda,
    Normalize,
    Pad,
    PILToTensor,
    Resize,
    TenCrop,
    ToPILImage,
    ToTensor,
)
from rushlight.vision.transforms.chance import (
    ColorJitter,
    GaussianBlur,
    RandomAffine,
    RandomApply,
    RandomChoice,
    RandomCrop,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomInvert,
    RandomOrder,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
)
from rushlight.vision.transforms.functional import InterpolationMode

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ConvertImageDtype",
    "FiveCrop",
    "GaussianBlur",
    "Grayscale",
    "Identity",
    "InterpolationMode",
    "Lambda",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandomAffine",
    "RandomApply",
    "RandomChoice",
    "RandomCrop",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomOrder",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomVerticalFlip",
    "Resize",
    "TenCrop",
    "ToDtype",
    "ToImage",
    "ToPILImage",
    "ToTensor",
    "functional",
]


class ToImage(Module):
    """A PIL image or an array (H, W, C) as a tensor (C, H, W), its pixels unchanged."""

    def forward(self, inpt: Any) -> Tensor:
        if isinstance(inpt, Tensor):
            return inpt
        if is_pil(inpt):
            return functional.pil_to_tensor(inpt)
        pixels = inpt[:, :, None] if inpt.ndim == 2 else inpt
        return from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


class ToDtype(Module):
    """Another dtype; with ``scale`` the pixels are scaled with it."""

    def __init__(self, dtype: dtypes.dtype, scale: bool = False) -> None:
        super().__init__()
        self.dtype, self.scale = dtype, scale

    def forward(self, inpt: Tensor) -> Tensor:
        if self.scale:
            return functional.convert_image_dtype(inpt, self.dtype)
        return inpt.to(self.dtype)


class Identity(Module):
    """The input, unchanged."""

    def forward(self, inpt: Any) -> Any:
        return inpt
