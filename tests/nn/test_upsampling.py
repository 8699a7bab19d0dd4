"""Resampling and grids: identities, infinities, dtypes, second derivatives, wrong arguments."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn

MODES = [
    {"mode": "nearest"},
    {"mode": "nearest-exact"},
    {"mode": "bilinear"},
    {"mode": "bilinear", "align_corners": True},
    {"mode": "bilinear", "antialias": True},
    {"mode": "bicubic"},
    {"mode": "bicubic", "align_corners": True},
    {"mode": "bicubic", "antialias": True},
    {"mode": "lanczos", "antialias": True},
    {"mode": "area"},
]
SMOOTH = [options for options in MODES if not options["mode"].startswith("nearest")]


@pytest.mark.parametrize("options", MODES)
def test_the_same_size_gives_a_copy(options: dict[str, Any]) -> None:
    x = rl.rand(1, 2, 5, 6)
    y = F.interpolate(x, size=(5, 6), **options)
    assert rl.allclose(x, y)
    y.zero_()
    assert x.sum() > 0


@pytest.mark.parametrize("options", MODES)
@pytest.mark.parametrize("size", [(3, 4), (9, 11), (70, 5)])
def test_a_constant_stays_constant(options: dict[str, Any], size: tuple[int, int]) -> None:
    y = F.interpolate(rl.full((1, 1, 5, 6), 2.5), size=size, **options)
    assert y.shape == (1, 1, *size)
    assert rl.allclose(y, rl.full_like(y, 2.5))


@pytest.mark.parametrize("options", SMOOTH)
def test_resampling_is_differentiable_twice(options: dict[str, Any]) -> None:
    x = rl.rand(1, 1, 3, 4, dtype=rl.float64, requires_grad=True)

    def function(t: rl.Tensor) -> rl.Tensor:
        return F.interpolate(t, size=(5, 3), **options) ** 2

    assert rl.autograd.gradcheck(function, (x,))
    assert rl.autograd.gradgradcheck(function, (x,))


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_what_is_not_finite_spreads_to_its_neighbours_alone(value: float) -> None:
    x = rl.ones(1, 1, 6, 6)
    x[0, 0, 0, 0] = value
    y = F.interpolate(x, scale_factor=2, mode="bilinear")
    assert not y[0, 0, 0, 0].isfinite()
    assert y[0, 0, 4:, :].isfinite().all()
    assert y[0, 0, :, 4:].isfinite().all()


def test_bytes_are_rounded_and_kept_in_range() -> None:
    x = rl.tensor([[[[0, 255], [255, 0]]]], dtype=rl.uint8)
    y = F.interpolate(x, size=(5, 5), mode="bicubic")
    assert y.dtype is rl.uint8
    assert y.min().item() == 0
    assert y.max().item() == 255


def test_the_scale_is_the_one_given_unless_it_shall_be_recomputed() -> None:
    x = rl.arange(5.0).reshape(1, 1, 5)
    given = F.interpolate(x, scale_factor=1.5, mode="linear")
    recomputed = F.interpolate(x, scale_factor=1.5, mode="linear", recompute_scale_factor=True)
    assert given.shape == recomputed.shape == (1, 1, 7)
    assert not rl.allclose(given, recomputed)
    assert rl.allclose(recomputed, F.interpolate(x, size=7, mode="linear"))


@pytest.mark.parametrize("name", ["upsample", "upsample_nearest", "upsample_bilinear"])
def test_former_names_warn(name: str) -> None:
    with pytest.warns(UserWarning, match=f"nn.functional.{name}` is deprecated"):
        getattr(F, name)(rl.ones(1, 1, 2, 2), scale_factor=2)


def test_layers_resample_and_print() -> None:
    x = rl.rand(1, 2, 3, 4)
    layer = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
    assert rl.equal(layer(x), nn.UpsamplingBilinear2d(scale_factor=2)(x))
    assert rl.equal(nn.Upsample(size=(6, 8))(x), nn.UpsamplingNearest2d(size=(6, 8))(x))
    assert repr(layer) == "Upsample(scale_factor=2.0, mode='bilinear')"
    assert repr(nn.Upsample(size=(6, 8))) == "Upsample(size=(6, 8), mode='nearest')"


def test_the_identity_grid_samples_the_input_itself() -> None:
    x = rl.rand(2, 3, 4, 5)
    theta = rl.eye(2, 3).expand(2, 2, 3)
    for aligned in (True, False):
        grid = F.affine_grid(theta, x.shape, align_corners=aligned)
        for mode in ("bilinear", "nearest", "bicubic"):
            y = F.grid_sample(x, grid, mode, "border", align_corners=aligned)
            assert rl.allclose(x, y, atol=1e-5)


def test_outside_are_zeros_the_border_or_its_reflection() -> None:
    x = rl.tensor([[[[1.0, 2.0, 3.0]]]])
    grid = rl.tensor([[[[2.0, 0.0]]]])  # one element and a half beyond the border
    found = {
        padding: F.grid_sample(x, grid, "nearest", padding, align_corners=False).item()
        for padding in ("zeros", "border", "reflection")
    }
    assert found == {"zeros": 0, "border": 3, "reflection": 2}


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_sampling_is_differentiable_twice(mode: str, padding: str) -> None:
    rl.manual_seed(1)
    x = rl.rand(2, 3, 3, 4, dtype=rl.float64, requires_grad=True)
    grid = (rl.rand(2, 2, 2, 2, dtype=rl.float64) * 2.6 - 1.3).requires_grad_()

    def function(a: rl.Tensor, b: rl.Tensor) -> rl.Tensor:
        return F.grid_sample(a, b, mode, padding, align_corners=False)

    assert rl.autograd.gradcheck(function, (x, grid))
    assert rl.autograd.gradgradcheck(function, (x, grid))


def test_many_small_images_and_few_large_ones_are_sampled_alike() -> None:
    x, grid = rl.rand(9, 2, 4, 4, requires_grad=True), rl.rand(9, 70, 70, 2) * 2 - 1
    small = grid[:, :3, :3].contiguous()
    whole = F.grid_sample(x, grid, align_corners=True)
    assert rl.allclose(F.grid_sample(x, small, align_corners=True), whole[:, :, :3, :3])
    some = F.grid_sample(x[:1], grid[:1], align_corners=True)
    assert rl.allclose(some, whole[:1])
    weight = rl.rand_like(some)
    (one,) = rl.autograd.grad(some, x, weight)
    (all_,) = rl.autograd.grad(whole[:1], x, weight)
    assert rl.allclose(one, all_, atol=1e-4)


def test_a_missing_alignment_warns() -> None:
    with pytest.warns(UserWarning, match="Default grid_sample and affine_grid behavior"):
        F.affine_grid(rl.ones(1, 2, 3), (1, 1, 2, 2))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"size": 0}, RuntimeError, r"greater than 0, but got input \[3, 3\] and output \[0, 0\]"),
        ({"size": (2, 2, 2)}, ValueError, "same number of spatial dimensions"),
        ({"scale_factor": -1.0}, RuntimeError, "greater than 0"),
        ({"size": 2, "mode": "cubic"}, NotImplementedError, r"bicubic .* \(got cubic\)"),
        ({"size": 1 << 62}, RuntimeError, "overflow"),
    ],
)
def test_impossible_sizes_are_refused(options: dict, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        F.interpolate(rl.ones(1, 1, 3, 3), **options)


def test_nothing_warns_about_values_that_are_not_finite() -> None:
    grid = rl.tensor([[[[math.nan, 0.0], [math.inf, 0.0]]]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for mode in ("bilinear", "nearest", "bicubic"):
            for padding in ("zeros", "border", "reflection"):
                F.grid_sample(rl.ones(1, 1, 2, 2), grid, mode, padding, align_corners=False)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("rank", [2, 3])
def test_grids_in_one_kernel_are_those_of_ops(rank: int, padding: str) -> None:
    plane, how = (3, 5, 4)[:rank], ("bilinear", padding)
    x, grid = rl.randn(2, 3, *plane), rl.randn(2, *(4,) * rank, rank) * 1.5
    grid.view(-1)[:3] = rl.tensor([math.nan, math.inf, 1.0])
    for aligned in (True, False):
        compiled = rl.compile(lambda x, g, a=aligned: F.grid_sample(x, g, *how, a), fullgraph=True)
        results = []
        for run in (compiled, lambda x, g, a=aligned: F.grid_sample(x, g, *how, a)):
            for strided in (grid.clone(), grid.transpose(1, 2).contiguous().transpose(1, 2)):
                u, g = x.clone().requires_grad_(), strided.requires_grad_()
                y = run(u, g)
                y.square().sum().backward()
                results.append((y, u.grad, g.grad))
        for found in results[1:]:
            for a, b in zip(results[0], found, strict=True):
                assert rl.allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True)


def test_the_nearest_element_gives_a_grid_a_gradient_of_zeros() -> None:
    grid = rl.zeros(1, 2, 2, 2, requires_grad=True)
    F.grid_sample(rl.ones(1, 1, 3, 3), grid, "nearest", align_corners=False).sum().backward()
    assert rl.equal(grid.grad, rl.zeros(1, 2, 2, 2))
