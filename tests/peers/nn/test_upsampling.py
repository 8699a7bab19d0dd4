"""Resampling and grids against PyTorch: random sizes, every mode, places outside and not finite."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn

torch = pytest.importorskip("torch")

MODES = [
    (rank, {"mode": mode})
    for rank, mode in itertools.product((1, 2, 3), ("nearest", "nearest-exact", "area"))
]
MODES += [
    (rank, {"mode": mode, "align_corners": aligned})
    for (rank, mode), aligned in itertools.product(
        ((1, "linear"), (2, "bilinear"), (3, "trilinear"), (2, "bicubic")), (True, False)
    )
]
MODES += [
    (2, {"mode": mode, "antialias": True, "align_corners": aligned})
    for mode, aligned in itertools.product(("bilinear", "bicubic"), (True, False))
]
MODES += [(2, {"mode": "lanczos", "antialias": True})]


def both(x: np.ndarray, call: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The result of ``call(library, functions, tensor)`` and the gradient, in each library."""
    answers = []
    for lib, functions in ((torch, torch.nn.functional), (rl, F)):
        t = lib.tensor(x).requires_grad_()
        y = call(lib, functions, t)
        weight = np.random.default_rng(0).standard_normal(tuple(y.shape)).astype(x.dtype)
        (g,) = lib.autograd.grad(y, t, lib.tensor(weight))
        answers.append([y.detach().numpy(), g.numpy()])
    return answers[0], answers[1]


@pytest.mark.parametrize(("rank", "options"), MODES, ids=str)
def test_interpolation(rank: int, options: dict[str, Any]) -> None:
    choose = random.Random(str(options))
    for _ in range(12):
        plane = [choose.randint(2, 9 if rank < 3 else 5) for _ in range(rank)]
        x = np.random.default_rng(0).standard_normal((2, 3, *plane))
        least = 1 if "antialias" not in options else 2  # PyTorch is wrong in columns of width 1
        given: dict[str, Any] = {"size": [choose.randint(least, 12) for _ in plane]}
        if choose.random() < 0.5:
            given = {"scale_factor": [choose.uniform(least / n, 2.5) for n in plane]}
            given["recompute_scale_factor"] = choose.random() < 0.5
        given |= options
        theirs, mine = both(x, lambda _, f, t, given=given: f.interpolate(t, **given))
        if "scale_factor" in given and (options["mode"] == "nearest" or "antialias" in options):
            del theirs[1], mine[1]  # PyTorch's gradient may be that of another scale
        for a, b in zip(theirs, mine, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6, err_msg=str((plane, given)))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
def test_the_nearest_element_is_the_same(exact: bool, dtype: str) -> None:
    choose = random.Random(dtype)
    for _ in range(150):
        n, given = choose.randint(1, 60), {"size": choose.randint(1, 130)}
        if choose.random() < 0.5:
            given = {"scale_factor": choose.choice((choose.uniform(1 / n, 4), 1.0, 1.3, 2.0))}
        x = np.arange(n).astype(dtype).reshape(1, 1, n)
        mode = "nearest-exact" if exact else "nearest"
        expected = torch.nn.functional.interpolate(torch.tensor(x), mode=mode, **given)
        y = F.interpolate(rl.tensor(x), mode=mode, **given)
        np.testing.assert_array_equal(y.numpy(), expected.numpy(), err_msg=str((n, given)))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_bytes_differ_by_one_at_most(mode: str, antialias: bool) -> None:
    x = np.random.default_rng(0).integers(0, 256, (1, 3, 17, 13), np.uint8)
    options = {"size": (9, 20), "mode": mode, "antialias": antialias}
    expected = torch.nn.functional.interpolate(torch.tensor(x), **options).numpy()
    y = F.interpolate(rl.tensor(x), **options).numpy()
    assert y.dtype == np.uint8
    assert np.abs(y.astype(int) - expected.astype(int)).max() <= 1


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(
    ("mode", "rank"),
    [("bilinear", 2), ("nearest", 2), ("bicubic", 2), ("bilinear", 3), ("nearest", 3)],
)
def test_grid_sampling(mode: str, rank: int, padding: str, aligned: bool) -> None:
    draw = np.random.default_rng(rank)
    x = draw.standard_normal((2, 3, 4, 5, 3)[: rank + 2])
    grid = draw.uniform(-2.5, 2.5, (*(2, 3, 4, 2)[: rank + 1], rank))

    def input_gradient(lib: Any, f: Any, t: Any) -> Any:
        return f.grid_sample(t, lib.tensor(grid), mode, padding, aligned)

    def grid_gradient(lib: Any, f: Any, t: Any) -> Any:
        return f.grid_sample(lib.tensor(x), t, mode, padding, aligned)

    calls = [(x, input_gradient)] + [(grid, grid_gradient)] * (mode != "nearest")
    for values, call in calls:
        for a, b in zip(*both(values, call), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_places_that_are_not_finite(mode: str, padding: str) -> None:
    values = np.array([np.nan, np.inf, -np.inf, -1, 0.2], np.float32)
    grid = np.stack(np.meshgrid(values, values), -1)[None]
    x = np.random.default_rng(0).standard_normal((1, 2, 4, 5)).astype(np.float32)
    a = torch.nn.functional.grid_sample(torch.tensor(x), torch.tensor(grid), mode, padding, True)
    b = F.grid_sample(rl.tensor(x), rl.tensor(grid), mode, padding, True)
    np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("size", [(2, 1, 3, 4), (2, 1, 1, 5), (2, 1, 2, 3, 4)])
def test_affine_grids(size: tuple[int, ...], aligned: bool) -> None:
    rank = len(size) - 2
    if aligned and 1 in size[2:]:
        pytest.skip("PyTorch warns that this is not intended")
    theta = np.random.default_rng(0).standard_normal((2, rank, rank + 1))
    for a, b in zip(*both(theta, lambda _, f, t: f.affine_grid(t, size, aligned)), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Upsample", {"scale_factor": 2}),
        ("Upsample", {"scale_factor": (2, 1.5), "mode": "bilinear"}),
        ("Upsample", {"size": (5, 3), "mode": "bicubic", "align_corners": True}),
        ("UpsamplingNearest2d", {"scale_factor": 2}),
        ("UpsamplingBilinear2d", {"size": (5, 3)}),
        ("PixelShuffle", {"upscale_factor": 2}),
        ("PixelUnshuffle", {"downscale_factor": 2}),
        ("ChannelShuffle", {"groups": 2}),
        ("MaxPool2d", {"kernel_size": 2, "return_indices": True}),
    ],
)
def test_layers(name: str, arguments: dict[str, Any]) -> None:
    x = np.random.default_rng(0).standard_normal((2, 4, 4, 6)).astype(np.float32)
    theirs, mine = getattr(torch.nn, name)(**arguments), getattr(nn, name)(**arguments)
    assert repr(mine) == repr(theirs)
    a, b = theirs(torch.tensor(x)), mine(rl.tensor(x))
    if isinstance(a, tuple):
        pairs = [*zip(a, b, strict=True)]
        unpool = torch.nn.MaxUnpool2d(2), nn.MaxUnpool2d(2)
        assert repr(unpool[0]) == repr(unpool[1])
        pairs.append((unpool[0](*a), unpool[1](*b)))
    else:
        pairs = [(a, b)]
    for p, q in pairs:
        np.testing.assert_allclose(q.numpy(), p.numpy(), rtol=1e-5, atol=1e-6)
