"""Transforms of images: PIL images and tensors give the same pictures."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight.vision import transforms as T
from rushlight.vision.transforms import functional as F
from rushlight.vision.transforms import v2

image_module = pytest.importorskip("PIL.Image")

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 17, 3), dtype=np.uint8)
PICTURE = image_module.fromarray(PIXELS)
TENSOR = rl.from_numpy(PIXELS.transpose(2, 0, 1).copy())


def pixels(image: object) -> np.ndarray:
    return F.pil_to_tensor(image).numpy() if not isinstance(image, rl.Tensor) else image.numpy()


def test_to_tensor_scales_bytes_and_goes_back() -> None:
    t = T.ToTensor()(PICTURE)
    assert t.shape == (3, 12, 17)
    assert t.dtype is rl.float32
    assert np.allclose(t.numpy(), PIXELS.transpose(2, 0, 1) / 255)
    assert np.array_equal(np.asarray(T.ToPILImage()(TENSOR)), PIXELS)
    assert T.ToTensor()(np.zeros((4, 5))).dtype is rl.float64
    assert T.PILToTensor()(PICTURE).dtype is rl.uint8
    assert T.ToTensor()(PICTURE.convert("1")).max() <= 1


EXACT = {
    "crop": lambda x: F.crop(x, 2, 3, 5, 6),
    "crop over the border": lambda x: F.crop(x, -2, 10, 8, 12),
    "center crop": lambda x: F.center_crop(x, 7),
    "center crop of more": lambda x: F.center_crop(x, (20, 21)),
    "hflip": F.hflip,
    "vflip": F.vflip,
    "pad": lambda x: F.pad(x, (1, 2, 3, 4), fill=7),
    "pad two": lambda x: F.pad(x, (1, 2)),
    "pad reflect": lambda x: F.pad(x, 3, padding_mode="reflect"),
    "pad symmetric": lambda x: F.pad(x, 3, padding_mode="symmetric"),
    "pad edge": lambda x: F.pad(x, 2, padding_mode="edge"),
    "invert": F.invert,
    "solarize": lambda x: F.solarize(x, 100),
    "posterize": lambda x: F.posterize(x, 3),
    "nearest": lambda x: F.resize(x, (24, 34), T.InterpolationMode.NEAREST),
    "brightness": lambda x: F.adjust_brightness(x, 1.5),
    "rotate 90": lambda x: F.rotate(x, 90, expand=True),
}
NEAR = {
    "resize": (lambda x: F.resize(x, 8), 1),
    "resize larger": (lambda x: F.resize(x, (30, 20)), 1),
    "resize bicubic": (lambda x: F.resize(x, (9, 9), T.InterpolationMode.BICUBIC), 2),
    "contrast": (lambda x: F.adjust_contrast(x, 1.4), 2),
    "saturation": (lambda x: F.adjust_saturation(x, 0.3), 2),
    "grey": (F.rgb_to_grayscale, 2),
    "gamma": (lambda x: F.adjust_gamma(x, 2.2), 1),
    "blur": (lambda x: F.gaussian_blur(x, 3, 1.0), 1),
}


@pytest.mark.parametrize("name", EXACT)
def test_pictures_and_tensors_agree(name: str) -> None:
    assert np.array_equal(pixels(EXACT[name](PICTURE)), EXACT[name](TENSOR).numpy())


@pytest.mark.parametrize("name", NEAR)
def test_pictures_and_tensors_nearly_agree(name: str) -> None:
    work, most = NEAR[name]
    a, b = pixels(work(PICTURE)).astype(int), work(TENSOR).numpy().astype(int)
    assert a.shape == b.shape
    assert np.abs(a - b).max() <= most


def test_hue_turns_red_into_green() -> None:
    red = rl.tensor([1.0, 0, 0]).reshape(3, 1, 1)
    assert rl.allclose(F.adjust_hue(red, 1 / 3).flatten(), rl.tensor([0.0, 1, 0]), atol=1e-6)
    grey = rl.full((3, 2, 2), 0.5)
    assert rl.allclose(F.adjust_hue(grey, 0.5), grey)


def test_rotation_by_a_small_angle_is_counter_clockwise() -> None:
    dot = rl.zeros(1, 21, 21)
    dot[0, 10, 18] = 1
    turned = F.rotate(dot, 90)
    assert turned[0, 2, 10] == 1


def test_normalize() -> None:
    y = T.Normalize((0.5, 0.5, 0.5), (0.25, 0.5, 1.0))(rl.ones(3, 2, 2))
    assert y[:, 0, 0].tolist() == [2, 1, 0.5]


@pytest.mark.parametrize("size", [8, (8,), (8, 9), [5, 4]])
def test_sizes_of_resize(size: object) -> None:
    wide = {8: (8, 11), (8,): (8, 11), (8, 9): (8, 9)}.get(
        tuple(size) if isinstance(size, list) else size, (5, 4)
    )
    assert T.Resize(size)(TENSOR).shape[1:] == wide
    assert T.Resize(size)(PICTURE).size[::-1] == wide


def test_chance_comes_from_the_seed() -> None:
    train = T.Compose(
        [
            T.RandomResizedCrop(8),
            T.RandomHorizontalFlip(),
            T.RandomVerticalFlip(),
            T.ColorJitter(0.2, 0.2, 0.2, 0.1),
            T.RandomRotation(10),
            T.RandomGrayscale(0.5),
            T.RandomAffine(5, (0.1, 0.1), (0.9, 1.1), 5),
            T.GaussianBlur(3),
            T.ToTensor(),
            T.RandomErasing(1.0, value="random"),
        ]
    )
    rl.manual_seed(3)
    a = train(PICTURE)
    rl.manual_seed(3)
    b = train(PICTURE)
    assert rl.equal(a, b)
    assert a.shape == (3, 8, 8)
    assert not rl.equal(a, train(PICTURE))


def test_crops_stay_inside() -> None:
    for _ in range(50):
        assert T.RandomCrop((5, 6))(TENSOR).shape == (3, 5, 6)
        assert T.RandomCrop(16, padding=4)(TENSOR).shape == (3, 16, 16)
        assert T.RandomCrop(30, pad_if_needed=True)(PICTURE).size == (30, 30)
    assert len(T.FiveCrop(4)(PICTURE)) == 5
    assert len(T.TenCrop(4)(TENSOR)) == 10


def test_chains_of_chance() -> None:
    assert T.RandomApply([T.Lambda(lambda x: 1)], p=1.0)(0) == 1
    assert T.RandomApply([T.Lambda(lambda x: 1)], p=0.0)(0) == 0
    assert T.RandomChoice([lambda x: x + 1, lambda x: x + 1])(1) == 2
    assert T.RandomOrder([lambda x: x + 1, lambda x: x * 1])(1) == 2


def test_the_second_names() -> None:
    chain = v2.Compose([v2.ToImage(), v2.ToDtype(rl.float32, scale=True), v2.Resize(8)])
    assert chain(PICTURE).max() <= 1
    assert chain(PIXELS).shape == (3, 8, 11)


def test_texts() -> None:
    chain = T.Compose([T.ToTensor(), T.Normalize((0.5,), (0.5,))])
    assert repr(chain) == "Compose(\n    ToTensor()\n    Normalize(mean=(0.5,), std=(0.5,))\n)"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: T.ToTensor()([1]), TypeError, "PIL Image or ndarray"),
        (lambda: T.Normalize((0.5,), (0.0,))(rl.ones(1, 2, 2)), ValueError, "division by zero"),
        (lambda: T.Normalize((0.5,), (0.5,))(TENSOR), TypeError, "should be a float tensor"),
        (lambda: T.Normalize((0.5,), (0.5,))(PICTURE), TypeError, "should be Tensor Image"),
        (lambda: T.RandomCrop(99)(TENSOR), ValueError, r"crop size \(99, 99\) is larger"),
        (lambda: T.RandomHorizontalFlip(2), ValueError, "between 0 and 1, got 2"),
        (lambda: T.Resize("a")(TENSOR), ValueError, "invalid literal"),
        (lambda: T.Pad((1, 2, 3)), ValueError, "1, 2, or 4 element"),
        (lambda: T.Pad(1, padding_mode="x"), ValueError, "Padding mode should be one of"),
        (lambda: T.ColorJitter(hue=0.7), ValueError, "hue values should be between"),
        (lambda: T.GaussianBlur(3, -1), ValueError, "sigma values should be positive"),
        (lambda: F.gaussian_blur(TENSOR, 4), ValueError, "odd and positive"),
        (lambda: F.hflip(3), TypeError, "PIL Image or Tensor, got int"),
        (lambda: T.Lambda(3), TypeError, "should be callable"),
        (lambda: F.adjust_hue(TENSOR, 0.6), ValueError, "not in"),
    ],
)
def test_bad_arguments_are_errors(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
