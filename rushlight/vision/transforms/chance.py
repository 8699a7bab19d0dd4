"""Transforms by chance. They draw from the default generator, as torchvision's do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.literals import as_tensor
from rushlight.nn.containers import ModuleList
from rushlight.nn.module import Module
from rushlight.ops import ops
from rushlight.tensor import Tensor
from rushlight.vision.transforms import functional as F
from rushlight.vision.transforms.functional import InterpolationMode, pair


def happens(p: float) -> bool:
    return ops.rand(1).item() < p


def whole(low: int, high: int) -> int:
    return int(ops.randint(low, high, (1,)).item())


def number(low: float, high: float) -> float:
    return float(ops.empty(1).uniform_(low, high).item())


def probability(p: float) -> float:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"p should be a probability between 0 and 1, got {p}")
    return p


class RandomApply(Module):
    """All of some transforms, or none."""

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.transforms, self.p = transforms, probability(p)

    def forward(self, img: Any) -> Any:
        if self.p < ops.rand(1).item():
            return img
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        items = (
            self.transforms if not isinstance(self.transforms, ModuleList) else [*self.transforms]
        )
        return "\n".join(["RandomApply(", f"    p={self.p}", *[f"    {t}" for t in items], ")"])


class RandomChoice:
    """One of some transforms."""

    def __init__(
        self, transforms: Sequence[Callable[[Any], Any]], p: Sequence[float] | None = None
    ) -> None:
        self.transforms, self.p = transforms, p

    def __call__(self, img: Any) -> Any:
        shares = [1.0] * len(self.transforms) if self.p is None else list(self.p)
        chosen = ops.multinomial(as_tensor(shares), 1)
        return self.transforms[int(chosen.item())](img)

    def __repr__(self) -> str:
        return f"RandomChoice(p={self.p})"


class RandomOrder:
    """Some transforms, in an order of chance."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for i in ops.randperm(len(self.transforms)).tolist():
            img = self.transforms[i](img)
        return img


class RandomHorizontalFlip(Module):
    """Left and right exchanged with probability ``p``."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = probability(p)

    def forward(self, img: Any) -> Any:
        return F.hflip(img) if happens(self.p) else img

    def __repr__(self) -> str:
        return f"RandomHorizontalFlip(p={self.p})"


class RandomVerticalFlip(Module):
    """Top and bottom exchanged with probability ``p``."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = probability(p)

    def forward(self, img: Any) -> Any:
        return F.vflip(img) if happens(self.p) else img

    def __repr__(self) -> str:
        return f"RandomVerticalFlip(p={self.p})"


class RandomCrop(Module):
    """A rectangle of a given size, somewhere in the image."""

    def __init__(
        self,
        size: int | Sequence[int],
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size, self.padding, self.pad_if_needed = pair(size), padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """(top, left, height, width) of a crop."""
        _, height, width = F.get_dimensions(img)
        high, wide = output_size
        if height < high or width < wide:
            raise ValueError(
                f"Required crop size {(high, wide)} is larger than input image size "
                f"{(height, width)}"
            )
        if (width, height) == (wide, high):
            return 0, 0, height, width
        return whole(0, height - high + 1), whole(0, width - wide + 1), high, wide

    def forward(self, img: Any) -> Any:
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        _, height, width = F.get_dimensions(img)
        if self.pad_if_needed and width < self.size[1]:
            img = F.pad(img, [self.size[1] - width, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and height < self.size[0]:
            img = F.pad(img, [0, self.size[0] - height], self.fill, self.padding_mode)
        return F.crop(img, *self.get_params(img, self.size))

    def __repr__(self) -> str:
        return f"RandomCrop(size={self.size}, padding={self.padding})"


class RandomResizedCrop(Module):
    """A rectangle of some share and shape of the image, in a given size."""

    def __init__(
        self,
        size: int | Sequence[int],
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size, self.scale, self.ratio = pair(size), scale, ratio
        self.interpolation, self.antialias = F.mode_of(interpolation), antialias

    @staticmethod
    def get_params(
        img: Any, scale: Sequence[float], ratio: Sequence[float]
    ) -> tuple[int, int, int, int]:
        """(top, left, height, width) of a crop."""
        _, height, width = F.get_dimensions(img)
        shapes = math.log(ratio[0]), math.log(ratio[1])
        for _ in range(10):
            area = height * width * number(scale[0], scale[1])
            shape = math.exp(number(*shapes))
            w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if 0 < w <= width and 0 < h <= height:
                return whole(0, height - h + 1), whole(0, width - w + 1), h, w
        shape = width / height
        w, h = width, height
        if shape < min(ratio):
            h = round(w / min(ratio))
        elif shape > max(ratio):
            w = round(h * max(ratio))
        return (height - h) // 2, (width - w) // 2, h, w

    def forward(self, img: Any) -> Any:
        place = self.get_params(img, self.scale, self.ratio)
        return F.resized_crop(img, *place, self.size, self.interpolation, self.antialias)

    def __repr__(self) -> str:
        scale, ratio = [tuple([round(v, 4) for v in r]) for r in (self.scale, self.ratio)]
        return (
            f"RandomResizedCrop(size={self.size}, scale={scale}, ratio={ratio}, "
            f"interpolation={self.interpolation.value}, antialias={self.antialias})"
        )


class ColorJitter(Module):
    """Brightness, contrast, saturation and hue changed by chance, in an order of chance."""

    def __init__(
        self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0
    ) -> None:
        super().__init__()
        self.brightness = self.bounds("brightness", brightness)
        self.contrast = self.bounds("contrast", contrast)
        self.saturation = self.bounds("saturation", saturation)
        self.hue = self.bounds("hue", hue, 0.0, (-0.5, 0.5))

    @staticmethod
    def bounds(
        name: str, value: Any, middle: float = 1.0, limits: tuple[float, float] = (0, math.inf)
    ) -> tuple[float, float] | None:
        if isinstance(value, (int, float)):
            if value < 0:
                raise ValueError(f"If {name} is a single number, it must be non negative.")
            low, high = middle - value, middle + value
            low = max(low, 0.0) if middle else low
        else:
            low, high = value
        if not limits[0] <= low <= high <= limits[1]:
            raise ValueError(f"{name} values should be between {limits}, but got {(low, high)}.")
        return None if low == high == middle else (float(low), float(high))

    def forward(self, img: Any) -> Any:
        order = ops.randperm(4).tolist()
        ranges = (self.brightness, self.contrast, self.saturation, self.hue)
        factors = [None if r is None else number(*r) for r in ranges]
        steps = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for i in order:
            factor = factors[i]
            if factor is not None:
                img = steps[i](img, factor)
        return img

    def __repr__(self) -> str:
        return (
            f"ColorJitter(brightness={self.brightness}, contrast={self.contrast}, "
            f"saturation={self.saturation}, hue={self.hue})"
        )


class RandomRotation(Module):
    """The image turned by an angle of chance, from −degrees to degrees."""

    def __init__(
        self,
        degrees: Any,
        interpolation: Any = InterpolationMode.NEAREST,
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.degrees = symmetric("degrees", degrees)
        self.interpolation, self.expand = F.mode_of(interpolation), expand
        self.center, self.fill = center, fill

    def forward(self, img: Any) -> Any:
        angle = number(*self.degrees)
        return F.rotate(img, angle, self.interpolation, self.expand, self.center, self.fill)

    def __repr__(self) -> str:
        return f"RandomRotation(degrees={list(self.degrees)})"


def symmetric(name: str, value: Any) -> tuple[float, float]:
    """(−value, value), or the two bounds given."""
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be positive.")
        return -float(value), float(value)
    low, high = value
    return float(low), float(high)


class RandomAffine(Module):
    """The image turned, moved, scaled and sheared by chance."""

    def __init__(
        self,
        degrees: Any,
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: Any = None,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = 0,
        center: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.degrees, self.translate, self.scale = symmetric("degrees", degrees), translate, scale
        self.shear = None if shear is None else self.slants(shear)
        self.interpolation, self.fill, self.center = F.mode_of(interpolation), fill, center

    @staticmethod
    def slants(shear: Any) -> tuple[float, ...]:
        if isinstance(shear, (int, float)):
            return symmetric("shear", shear)
        return tuple([float(v) for v in shear])

    def forward(self, img: Any) -> Any:
        _, height, width = F.get_dimensions(img)
        angle = number(*self.degrees)
        move = (0, 0)
        if self.translate is not None:
            far = self.translate[0] * width, self.translate[1] * height
            move = (round(number(-far[0], far[0])), round(number(-far[1], far[1])))
        size = 1.0 if self.scale is None else number(self.scale[0], self.scale[1])
        slant = (0.0, 0.0)
        if self.shear is not None:
            x = number(self.shear[0], self.shear[1])
            slant = (x, number(self.shear[2], self.shear[3]) if len(self.shear) == 4 else 0.0)
        return F.affine(img, angle, move, size, slant, self.interpolation, self.fill, self.center)


class RandomGrayscale(Module):
    """Black and white with probability ``p``."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        self.p = probability(p)

    def forward(self, img: Any) -> Any:
        if not happens(self.p):
            return img
        return F.rgb_to_grayscale(img, F.get_dimensions(img)[0])

    def __repr__(self) -> str:
        return f"RandomGrayscale(p={self.p})"


class RandomErasing(Module):
    """A rectangle of the tensor overwritten with probability ``p``."""

    def __init__(
        self,
        p: float = 0.5,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
    ) -> None:
        super().__init__()
        self.p, self.scale, self.ratio = probability(p), scale, ratio
        self.value, self.inplace = value, inplace

    def forward(self, img: Tensor) -> Tensor:
        if not happens(self.p):
            return img
        channels, height, width = img.shape[-3:]
        shapes = math.log(self.ratio[0]), math.log(self.ratio[1])
        for _ in range(10):
            area = height * width * number(*self.scale)
            shape = math.exp(number(*shapes))
            h, w = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if h < height and w < width:
                if self.value == "random":
                    value: Any = ops.empty(channels, h, w).normal_()
                else:
                    value = as_tensor(self.value).reshape(-1, 1, 1)
                top, left = whole(0, height - h + 1), whole(0, width - w + 1)
                return F.erase(img, top, left, h, w, value, self.inplace)
        return img

    def __repr__(self) -> str:
        return f"RandomErasing(p={self.p}, scale={self.scale}, ratio={self.ratio})"


class GaussianBlur(Module):
    """The image blurred by a Gaussian whose width is chosen by chance."""

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)) -> None:
        super().__init__()
        self.kernel_size = pair(kernel_size)
        self.sigma = (float(sigma),) * 2 if isinstance(sigma, (int, float)) else tuple(sigma)
        if not 0 < self.sigma[0] <= self.sigma[1]:
            raise ValueError(f"sigma values should be positive and of the form (min, max), {sigma}")

    def forward(self, img: Any) -> Any:
        sigma = number(self.sigma[0], self.sigma[1])
        return F.gaussian_blur(img, self.kernel_size, [sigma, sigma])

    def __repr__(self) -> str:
        return f"GaussianBlur(kernel_size={self.kernel_size}, sigma={self.sigma})"


class RandomInvert(Module):
    """Light and dark exchanged with probability ``p``."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = probability(p)

    def forward(self, img: Any) -> Any:
        return F.invert(img) if happens(self.p) else img
