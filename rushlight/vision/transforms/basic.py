"""Transforms without chance: conversions, sizes, colours, and chains of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight import dtypes
from rushlight.errors import kind
from rushlight.nn.module import Module
from rushlight.tensor import Tensor
from rushlight.vision.transforms import functional as F
from rushlight.vision.transforms.functional import InterpolationMode, pair


class Compose:
    """One transform after the other.

    >>> from rushlight.vision import transforms
    >>> flip = transforms.Compose([transforms.ToTensor(), transforms.RandomHorizontalFlip(1.0)])
    >>> flip(np.array([[0, 255]], np.uint8))
    tensor([[[1., 0.]]])
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        lines = [f"    {transform}" for transform in self.transforms]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])


class ToTensor:
    """A PIL image or an array (H, W, C) as a tensor (C, H, W); bytes become numbers in [0, 1]."""

    def __call__(self, pic: Any) -> Tensor:
        return F.to_tensor(pic)

    def __repr__(self) -> str:
        return "ToTensor()"


class PILToTensor:
    """A PIL image as a tensor (C, H, W) of its bytes."""

    def __call__(self, pic: Any) -> Tensor:
        return F.pil_to_tensor(pic)

    def __repr__(self) -> str:
        return "PILToTensor()"


class ToPILImage:
    """A tensor (C, H, W) or an array (H, W, C) as a PIL image."""

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return F.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        return "ToPILImage()" if self.mode is None else f"ToPILImage(mode={self.mode})"


class Lambda:
    """A function as a transform."""

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd)!r}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return "Lambda()"


class ConvertImageDtype(Module):
    """Pixels in another dtype, scaled with it."""

    def __init__(self, dtype: dtypes.dtype) -> None:
        super().__init__()
        if not isinstance(dtype, dtypes.dtype):
            raise TypeError(f"Argument dtype should be of type dtype, got {kind(dtype)}")
        self.dtype = dtype

    def forward(self, image: Tensor) -> Tensor:
        return F.convert_image_dtype(image, self.dtype)


class Normalize(Module):
    """(x − mean) / std, channel by channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace

    def forward(self, tensor: Tensor) -> Tensor:
        return F.normalize(tensor, self.mean, self.std, self.inplace)

    def __repr__(self) -> str:
        return f"Normalize(mean={self.mean}, std={self.std})"


class Resize(Module):
    """The image in another size: (height, width), or a number for the shorter edge."""

    def __init__(
        self,
        size: int | Sequence[int],
        interpolation: Any = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        if not isinstance(size, (int, Sequence)):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        if isinstance(size, Sequence) and len(size) not in (1, 2):
            raise ValueError("If size is a sequence, it should have 1 or 2 values")
        self.size, self.max_size, self.antialias = size, max_size, antialias
        self.interpolation = F.mode_of(interpolation)

    def forward(self, img: Any) -> Any:
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)

    def __repr__(self) -> str:
        return (
            f"Resize(size={self.size}, interpolation={self.interpolation.value}, "
            f"max_size={self.max_size}, antialias={self.antialias})"
        )


class CenterCrop(Module):
    """The middle of the image."""

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__()
        self.size = pair(size)

    def forward(self, img: Any) -> Any:
        return F.center_crop(img, self.size)

    def __repr__(self) -> str:
        return f"CenterCrop(size={self.size})"


class Pad(Module):
    """The image with a border."""

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        modes = ("constant", "edge", "reflect", "symmetric")
        if padding_mode not in modes:
            raise ValueError(f"Padding mode should be one of {modes}, got {padding_mode!r}")
        F.edges(padding)
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def forward(self, img: Any) -> Any:
        return F.pad(img, self.padding, self.fill, self.padding_mode)

    def __repr__(self) -> str:
        return f"Pad(padding={self.padding}, fill={self.fill}, padding_mode={self.padding_mode})"


class FiveCrop(Module):
    """The four corners and the middle, as a tuple."""

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__()
        self.size = pair(size)

    def forward(self, img: Any) -> tuple[Any, ...]:
        return F.five_crop(img, self.size)

    def __repr__(self) -> str:
        return f"FiveCrop(size={self.size})"


class TenCrop(Module):
    """Five crops of the image and of its mirror image, as a tuple."""

    def __init__(self, size: int | Sequence[int], vertical_flip: bool = False) -> None:
        super().__init__()
        self.size, self.vertical_flip = pair(size), vertical_flip

    def forward(self, img: Any) -> tuple[Any, ...]:
        return F.ten_crop(img, self.size, self.vertical_flip)

    def __repr__(self) -> str:
        return f"TenCrop(size={self.size}, vertical_flip={self.vertical_flip})"


class Grayscale(Module):
    """Black and white, in one or three equal channels."""

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        return F.rgb_to_grayscale(img, self.num_output_channels)

    def __repr__(self) -> str:
        return f"Grayscale(num_output_channels={self.num_output_channels})"
