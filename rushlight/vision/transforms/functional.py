"""What can be done to one image: a PIL image, or a tensor (…, H, W)."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.errors import kind
from rushlight.interop import from_numpy
from rushlight.literals import as_tensor
from rushlight.nn import functional as F
from rushlight.ops import ops
from rushlight.tensor import Tensor
from rushlight.vision.pillow import is_pil, pillow, pillow_module


class InterpolationMode(enum.Enum):
    """How a resized image gets its pixels."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


PIL_FILTERS = {
    InterpolationMode.NEAREST: 0,
    InterpolationMode.NEAREST_EXACT: 0,
    InterpolationMode.LANCZOS: 1,
    InterpolationMode.BILINEAR: 2,
    InterpolationMode.BICUBIC: 3,
    InterpolationMode.BOX: 4,
    InterpolationMode.HAMMING: 5,
}
GREY = (0.2989, 0.587, 0.114)
LIMITS = {dtypes.uint8: 255, dtypes.int8: 127, dtypes.int16: 32767, dtypes.int32: 2**31 - 1}


def mode_of(interpolation: Any) -> InterpolationMode:
    if isinstance(interpolation, InterpolationMode):
        return interpolation
    for mode, number in PIL_FILTERS.items():
        if interpolation == number:
            return mode
    raise TypeError(f"interpolation should be an InterpolationMode, got {interpolation!r}")


def need_image(image: Any) -> None:
    if not is_pil(image) and not isinstance(image, Tensor):
        raise TypeError(f"img should be PIL Image or Tensor, got {kind(image)}")


def get_dimensions(img: Any) -> list[int]:
    """[channels, height, width]."""
    need_image(img)
    if is_pil(img):
        return [len(img.getbands()), img.height, img.width]
    channels = 1 if img.dim() == 2 else img.size(-3)
    return [channels, img.size(-2), img.size(-1)]


def get_image_size(img: Any) -> list[int]:
    """[width, height]."""
    return get_dimensions(img)[:0:-1]


def get_image_num_channels(img: Any) -> int:
    """The number of channels."""
    return get_dimensions(img)[0]


def to_tensor(pic: Any) -> Tensor:
    """A PIL image or an array (H, W, C) as a tensor (C, H, W); bytes become numbers in [0, 1].

    >>> to_tensor(np.full((2, 2, 3), 255, np.uint8)).shape
    rushlight.Size([3, 2, 2])
    """
    if isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        pixels = pic[:, :, None] if pic.ndim == 2 else pic
    elif is_pil(pic):
        pixels = pil_pixels(pic)
        if pic.mode == "1":
            pixels = pixels * np.uint8(255)
    else:
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    t = from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))
    return t.to(dtypes.get_default_dtype()).div_(255) if t.dtype is dtypes.uint8 else t


def pil_pixels(image: Any) -> np.ndarray:
    """The pixels of a PIL image, (H, W, C), writable."""
    types = {"I": np.int32, "I;16": np.int16, "F": np.float32}
    pixels = np.array(image, types.get(image.mode, np.uint8))
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def pil_to_tensor(pic: Any) -> Tensor:
    """A PIL image as a tensor (C, H, W), its pixels unchanged."""
    if not is_pil(pic):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    return from_numpy(np.ascontiguousarray(pil_pixels(pic).transpose(2, 0, 1)))


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """A tensor (C, H, W) or an array (H, W, C) as a PIL image."""
    if isinstance(pic, Tensor):
        if pic.dim() not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.dim()} dimensions.")
        t = pic.unsqueeze(0) if pic.dim() == 2 else pic
        if t.size(0) > 4:
            raise ValueError(f"pic should not have > 4 channels. Got {t.size(0)} channels.")
        if t.is_floating_point() and mode != "F":
            t = t.mul(255).to(dtypes.uint8)
        pixels = t.detach().numpy().transpose(1, 2, 0)
    elif isinstance(pic, np.ndarray):
        pixels = pic[:, :, None] if pic.ndim == 2 else pic
        if pixels.ndim != 3 or pixels.shape[2] > 4:
            raise ValueError(f"pic should be (H, W) or (H, W, C) with C <= 4, got {pic.shape}")
    else:
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
    pixels = np.ascontiguousarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    image = pillow().fromarray(pixels)
    return image if mode is None or image.mode == mode else image.convert(mode)


def convert_image_dtype(image: Tensor, dtype: dtypes.dtype = dtypes.float32) -> Tensor:
    """Pixels in another dtype, scaled so that full brightness stays full brightness."""
    source = image.dtype
    if source is dtype:
        return image
    floating = dtype.is_floating_point
    if source.is_floating_point:
        if floating:
            return image.to(dtype)
        limit = LIMITS.get(dtype, 2**63 - 1)
        return image.mul(limit + 1 - 1e-3).to(dtype)
    if floating:
        return image.to(dtype) / LIMITS.get(source, 2**63 - 1)
    ratio = (LIMITS[source] + 1) // (LIMITS[dtype] + 1)
    if ratio > 1:
        return image.div(ratio, rounding_mode="floor").to(dtype)
    return image.to(dtype).mul((LIMITS[dtype] + 1) // (LIMITS[source] + 1))


def normalize(
    tensor: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False
) -> Tensor:
    """(x − mean) / std, channel by channel."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(tensor)}")
    if not tensor.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {tensor.dtype}.")
    if tensor.dim() < 3:
        raise ValueError(
            "Expected tensor to be a tensor image of size (..., C, H, W). Got "
            f"tensor.size() = {list(tensor.shape)}"
        )
    m, s = [as_tensor(v, dtype=tensor.dtype).reshape(-1, 1, 1) for v in (mean, std)]
    channels = tensor.size(-3)
    for name, v in (("mean", m), ("std", s)):
        if len(v) not in (1, channels):
            raise ValueError(f"{len(v)} values of {name} for an image of {channels} channels")
    if (s == 0).any():
        raise ValueError("std evaluated to zero after conversion, leading to division by zero.")
    y = tensor if inplace else tensor.clone()
    return y.sub_(m).div_(s)


def sizes(height: int, width: int, size: Any, longest: int | None) -> tuple[int, int]:
    """(height, width) of a resized image: given, or from that of the shorter edge."""
    if isinstance(size, (list, tuple)) and len(size) == 2:
        return int(size[0]), int(size[1])
    edge = int(size[0] if isinstance(size, (list, tuple)) else size)
    short, long = sorted((height, width))
    new_long = int(edge * long / short)
    new_short = edge
    if longest is not None and new_long > longest:
        new_short, new_long = int(longest * new_short / new_long), longest
    return (new_short, new_long) if height <= width else (new_long, new_short)


def resize(
    img: Any,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """The image in another size: (height, width), or a number for the shorter edge."""
    _, height, width = get_dimensions(img)
    mode = mode_of(interpolation)
    target = sizes(height, width, size, max_size)
    if target == (height, width):
        return img
    if is_pil(img):
        return img.resize(target[::-1], PIL_FILTERS[mode])
    smooth = mode in (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC)
    options: dict[str, Any] = (
        {"align_corners": False, "antialias": bool(antialias)} if smooth else {}
    )
    return through_float(img, lambda x: F.interpolate(x, list(target), mode=mode.value, **options))


def through_float(img: Tensor, work: Any) -> Tensor:
    """``work`` on a batch of floating-point images, the result in the image's shape and dtype."""
    lead = img.shape[:-3]
    batch = img.reshape(-1, *img.shape[-3:]) if img.dim() > 2 else img[None, None]
    exact = batch.is_floating_point()
    y = work(batch if exact else batch.float())
    if not exact:
        y = y.round().clamp(0, LIMITS.get(img.dtype, 255)).to(img.dtype)
    return y.reshape(*lead, *y.shape[1:]) if img.dim() > 2 else y[0, 0]


def edges(padding: Any) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) from one, two or four numbers."""
    given = [padding] if isinstance(padding, int) else list(padding)
    if len(given) not in (1, 2, 4):
        raise ValueError(
            f"Padding must be an int or a 1, 2, or 4 element tuple, got {len(given)} elements"
        )
    left, top, right, bottom = (given * 4)[:4] if len(given) < 4 else given
    return left, top, right, bottom


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """The image with a border: constant, or of its own pixels (edge, reflect, symmetric)."""
    left, top, right, bottom = edges(padding)
    if is_pil(img):
        if padding_mode == "constant":
            size = (img.width + left + right, img.height + top + bottom)
            frame = pillow().new(img.mode, size, colour(img, fill))
            frame.paste(img, (left, top))
            return frame
        pixels = np.asarray(img)
        widths = ((top, bottom), (left, right), *[(0, 0)] * (pixels.ndim - 2))
        return pillow().fromarray(np.pad(pixels, widths, mode=padding_mode))  # type: ignore[call-overload]
    need_image(img)
    if padding_mode == "constant":
        value = fill if isinstance(fill, (int, float)) else fill[0]
        return F.pad(img, (left, right, top, bottom), value=value)
    array = img.detach().numpy()
    widths = ((0, 0),) * (array.ndim - 2) + ((top, bottom), (left, right))
    return from_numpy(np.pad(array, widths, mode=padding_mode))  # type: ignore[call-overload]


def colour(img: Any, fill: Any) -> Any:
    bands = len(img.getbands())
    if isinstance(fill, (int, float)):
        return fill if bands == 1 else (fill,) * bands
    return tuple(fill)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """The rectangle at (top, left); what lies outside the image is black."""
    if is_pil(img):
        return img.crop((left, top, left + width, top + height))
    _, high, wide = get_dimensions(img)
    part = img[..., max(top, 0) : max(top + height, 0), max(left, 0) : max(left + width, 0)]
    missing = (
        max(min(-left, width), 0),
        max(min(left + width - wide, width), 0),
        max(min(-top, height), 0),
        max(min(top + height - high, height), 0),
    )
    return F.pad(part, missing) if any(missing) else part


def pair(size: Any) -> tuple[int, int]:
    if isinstance(size, (list, tuple)):
        return (int(size[0]), int(size[0])) if len(size) == 1 else (int(size[0]), int(size[1]))
    return int(size), int(size)


def center_crop(img: Any, output_size: Any) -> Any:
    """The middle of the image."""
    height, width = pair(output_size)
    _, high, wide = get_dimensions(img)
    if width > wide or height > high:
        left, top = max((width - wide) // 2, 0), max((height - high) // 2, 0)
        right, bottom = max((width - wide + 1) // 2, 0), max((height - high + 1) // 2, 0)
        img = pad(img, (left, top, right, bottom))
        _, high, wide = get_dimensions(img)
        if (height, width) == (high, wide):
            return img
    top, left = round((high - height) / 2.0), round((wide - width) / 2.0)
    return crop(img, top, left, height, width)


def resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """A rectangle of the image in another size."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def hflip(img: Any) -> Any:
    """Left and right exchanged."""
    need_image(img)
    return img.transpose(0) if is_pil(img) else img.flip(-1)


def vflip(img: Any) -> Any:
    """Top and bottom exchanged."""
    need_image(img)
    return img.transpose(1) if is_pil(img) else img.flip(-2)


def five_crop(img: Any, size: Any) -> tuple[Any, ...]:
    """The four corners and the middle."""
    height, width = pair(size)
    _, high, wide = get_dimensions(img)
    if width > wide or height > high:
        raise ValueError(f"Requested crop size {(height, width)} is bigger than {(high, wide)}")
    corners = [(0, 0), (0, wide - width), (high - height, 0), (high - height, wide - width)]
    parts = [crop(img, top, left, height, width) for top, left in corners]
    return (*parts, center_crop(img, (height, width)))


def ten_crop(img: Any, size: Any, vertical_flip: bool = False) -> tuple[Any, ...]:
    """Five crops of the image and of its mirror image."""
    mirrored = vflip(img) if vertical_flip else hflip(img)
    return five_crop(img, size) + five_crop(mirrored, size)


def blend(a: Tensor, b: Tensor, ratio: float) -> Tensor:
    limit = 1.0 if a.is_floating_point() else 255.0
    return (ratio * a + (1.0 - ratio) * b).clamp(0, limit).to(a.dtype)


def enhanced(img: Any, name: str, factor: float) -> Any:
    """A PIL image through one of Pillow's enhancers."""
    return getattr(pillow_module("ImageEnhance"), name)(img).enhance(factor)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """0 gives black, 1 the image, 2 twice its brightness."""
    if is_pil(img):
        return enhanced(img, "Brightness", brightness_factor)
    return blend(img, ops.zeros_like(img), brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """0 gives plain grey, 1 the image, 2 twice its contrast."""
    if is_pil(img):
        return enhanced(img, "Contrast", contrast_factor)
    grey = rgb_to_grayscale(img) if get_dimensions(img)[0] == 3 else img
    mean = grey.float().mean((-3, -2, -1), keepdim=True)
    return blend(img, mean, contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """0 gives black and white, 1 the image, 2 twice its saturation."""
    if is_pil(img):
        return enhanced(img, "Color", saturation_factor)
    return img if img.size(-3) == 1 else blend(img, rgb_to_grayscale(img), saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """The hue turned by ``hue_factor`` of a circle, from −0.5 to 0.5."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    if is_pil(img):
        if img.mode in ("L", "1", "I", "F"):
            return img
        hue, saturation, value = img.convert("HSV").split()
        turned = np.asarray(hue, np.uint8) + np.uint8(int(hue_factor * 255) % 256)
        hue = pillow().fromarray(turned)
        return pillow().merge("HSV", (hue, saturation, value)).convert(img.mode)
    if img.size(-3) == 1:
        return img
    exact = img.is_floating_point()
    hue, saturation, value = rgb_to_hsv(img if exact else img.float() / 255)
    y = hsv_to_rgb((hue + hue_factor) % 1.0, saturation, value)
    return y if exact else convert_image_dtype(y, img.dtype)


def rgb_to_hsv(img: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r, g, b = img.unbind(-3)
    value, low = img.amax(-3), img.amin(-3)
    spread = value - low
    safe = ops.where(spread == 0, ops.ones_like(spread), spread)
    saturation = ops.where(value == 0, ops.zeros_like(value), spread / value.clamp(min=1e-12))
    sector = ops.where(
        value == r,
        (g - b) / safe,
        ops.where(value == g, 2.0 + (b - r) / safe, 4.0 + (r - g) / safe),
    )
    hue = ops.where(spread == 0, ops.zeros_like(sector), sector / 6.0 % 1.0)
    return hue, saturation, value


def hsv_to_rgb(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    parts = []
    for shift in (5, 3, 1):
        k = (hue * 6 + shift) % 6
        wave = ops.minimum(k, 4 - k).clamp(0, 1)
        parts.append(value - value * saturation * wave)
    return ops.stack(parts, -3)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """gain · x^gamma, of pixels in [0, 1]."""
    if gamma < 0:
        raise ValueError("Gamma should be a non-negative real number")
    if is_pil(img):
        table = [int((255 + 1 - 1e-3) * gain * (i / 255.0) ** gamma) for i in range(256)]
        return img.point([min(max(v, 0), 255) for v in table] * len(img.getbands()))
    exact = img.is_floating_point()
    y = (gain * convert_image_dtype(img, dtypes.float32) ** gamma).clamp(0, 1)
    return y if exact else convert_image_dtype(y, img.dtype)


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Black and white, in one or three equal channels."""
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    if is_pil(img):
        grey = img.convert("L")
        return grey if num_output_channels == 1 else pillow().merge("RGB", (grey,) * 3)
    if img.size(-3) == 1:
        y = img
    else:
        r, g, b = img.unbind(-3)
        y = (GREY[0] * r + GREY[1] * g + GREY[2] * b).to(img.dtype).unsqueeze(-3)
    return y.expand(*y.shape[:-3], 3, *y.shape[-2:]) if num_output_channels == 3 else y


to_grayscale = rgb_to_grayscale


def invert(img: Any) -> Any:
    """Light and dark exchanged."""
    if is_pil(img):
        return pillow_module("ImageOps").invert(img)
    return (1.0 if img.is_floating_point() else 255) - img


def solarize(img: Any, threshold: float) -> Any:
    """Pixels from the threshold on inverted."""
    if is_pil(img):
        return pillow_module("ImageOps").solarize(img, int(threshold))
    return ops.where(img >= threshold, invert(img), img)


def posterize(img: Any, bits: int) -> Any:
    """So many bits a channel."""
    if is_pil(img):
        return pillow_module("ImageOps").posterize(img, bits)
    return img & (256 - 2 ** (8 - bits))


def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Tensor:
    """The rectangle at (i, j) overwritten with ``v``."""
    y = img if inplace else img.clone()
    y[..., i : i + h, j : j + w] = v
    return y


def gaussian_blur(img: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """The image convolved with a Gaussian of ``sigma`` pixels."""
    if is_pil(img):
        return to_pil_image(gaussian_blur(pil_to_tensor(img), kernel_size, sigma), img.mode)
    width, height = pair(kernel_size)[::-1] if isinstance(kernel_size, int) else pair(kernel_size)
    for n in (width, height):
        if n <= 0 or n % 2 == 0:
            raise ValueError(
                f"kernel_size should have odd and positive integers. Got {kernel_size}"
            )
    if sigma is None:
        spread = [0.3 * ((n - 1) * 0.5 - 1) + 0.8 for n in (width, height)]
    else:
        spread = [float(sigma)] * 2 if isinstance(sigma, (int, float)) else [*sigma, *sigma][:2]
    x, y = [gaussian(n, s) for n, s in zip((width, height), spread, strict=True)]

    def blur(batch: Tensor) -> Tensor:
        channels = batch.size(1)
        kernel = (y[:, None] * x[None, :]).to(batch.dtype).expand(channels, 1, height, width)
        border = (width // 2, width // 2, height // 2, height // 2)
        return F.conv2d(F.pad(batch, border, mode="reflect"), kernel, groups=channels)

    return through_float(img, blur)


def gaussian(count: int, sigma: float) -> Tensor:
    half = (count - 1) * 0.5
    weights = (-0.5 * (ops.linspace(-half, half, count) / sigma) ** 2).exp()
    return weights / weights.sum()


def rotate(
    img: Any,
    angle: float,
    interpolation: Any = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Any = None,
) -> Any:
    """The image turned counter-clockwise by ``angle`` degrees around its centre."""
    mode = mode_of(interpolation)
    if is_pil(img):
        shade = None if fill is None else colour(img, fill)
        return img.rotate(angle, PIL_FILTERS[mode], expand, center, fillcolor=shade)
    _, height, width = get_dimensions(img)
    turn = math.radians(angle)
    c, s = math.cos(turn), math.sin(turn)
    shape = (height, width)
    if expand:
        shape = (
            math.ceil(abs(width * s) + abs(height * c) - 1e-9),
            math.ceil(abs(width * c) + abs(height * s) - 1e-9),
        )
    middle = (width * 0.5, height * 0.5) if center is None else center
    return warped(img, (c, -s, s, c), (0.0, 0.0), middle, shape, mode, fill)


def affine(
    img: Any,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Any,
    interpolation: Any = InterpolationMode.NEAREST,
    fill: Any = None,
    center: Sequence[float] | None = None,
) -> Any:
    """The image turned, moved, scaled and sheared around its centre."""
    mode = mode_of(interpolation)
    if is_pil(img):
        return to_pil_image(
            affine(pil_to_tensor(img), angle, translate, scale, shear, mode, fill, center), img.mode
        )
    _, height, width = get_dimensions(img)
    slant = [shear, 0.0] if isinstance(shear, (int, float)) else [*shear, 0.0][:2]
    turn, sx, sy = math.radians(angle), math.radians(slant[0]), math.radians(slant[1])
    a = math.cos(turn - sy) / math.cos(sy)
    b = -math.cos(turn - sy) * math.tan(sx) / math.cos(sy) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -math.sin(turn - sy) * math.tan(sx) / math.cos(sy) + math.cos(turn)
    inverse = (d / scale, -b / scale, -c / scale, a / scale)
    middle = (width * 0.5, height * 0.5) if center is None else center
    return warped(img, inverse, tuple(translate), middle, (height, width), mode, fill)


def warped(
    img: Tensor,
    matrix: Sequence[float],
    move: Sequence[float],
    middle: Sequence[float],
    shape: tuple[int, int],
    mode: InterpolationMode,
    fill: Any,
) -> Tensor:
    """The image read at ``matrix · (pixel − middle − move) + middle`` for each pixel."""
    _, height, width = get_dimensions(img)
    a, b, c, d = matrix
    rows = ops.arange(shape[0], dtype=dtypes.float32) + 0.5 - shape[0] * 0.5
    columns = ops.arange(shape[1], dtype=dtypes.float32) + 0.5 - shape[1] * 0.5
    off_x, off_y = middle[0] - width * 0.5, middle[1] - height * 0.5
    y, x = rows[:, None] - move[1] - off_y, columns[None, :] - move[0] - off_x
    u = (a * x + b * y + off_x) / (width * 0.5)
    v = (c * x + d * y + off_y) / (height * 0.5)
    grid = ops.stack([u, v], -1).unsqueeze(0)

    def sample(batch: Tensor) -> Tensor:
        places = grid.to(batch.dtype).expand(batch.size(0), -1, -1, -1)
        found = F.grid_sample(batch, places, mode=mode.value, align_corners=False)
        if fill is None or fill == 0:
            return found
        inside = F.grid_sample(ops.ones_like(batch), places, mode=mode.value, align_corners=False)
        shade = as_tensor(fill, dtype=batch.dtype).reshape(-1, 1, 1)
        return found + (1 - inside) * shade

    return through_float(img, sample)
