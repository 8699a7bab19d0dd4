"""Tiles that are computed again: what is special stays where plain sums have it."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.ops import channels_last

F = rl.nn.functional
SHAPE = (2, 32, 13, 10)  # of images: neither side is a multiple of a tile's
COLUMNS = 48


def step(x: rl.Tensor, w: rl.Tensor, g: rl.Tensor, padding: int = 1) -> Any:
    """A convolution, its result's own gradient 2 y g, and both gradients."""
    x, w = x.detach().requires_grad_(True), w.detach().requires_grad_(True)
    y = F.conv2d(x, w, padding=padding)
    (y * y * g).sum().backward()
    return y, x.grad, w.grad


def found(monkeypatch: Any, size: int, *operands: rl.Tensor, padding: int = 1) -> list[np.ndarray]:
    """The three results in tiles of a size; plain sums for 0."""
    monkeypatch.setattr(channels_last, "tile_of", lambda *_: size)
    compiled = rl.compile(lambda *xs: step(*xs, padding=padding), fullgraph=True)
    return [y.detach().numpy() for y in compiled(*operands)]


def operands(kind: str = "float32", padding: int = 1) -> list[rl.Tensor]:
    rl.manual_seed(0)
    images, channels, *sides = SHAPE
    result = (images, COLUMNS, *[side + 2 * padding - 2 for side in sides])
    shapes = (SHAPE, (COLUMNS, channels, 3, 3), result)
    return [rl.randn(*shape, dtype=getattr(rl, kind)) for shape in shapes]


def errors(ys: list[np.ndarray], wanted: list[np.ndarray]) -> list[float]:
    """The largest errors, relative to the largest value over channels at the same place."""
    pairs = zip(ys, wanted, (1, 1, 0), strict=True)
    found = []
    for y, z, axis in pairs:
        usual = np.isfinite(z) & np.isfinite(y)
        largest = np.abs(np.where(usual, z, 0)).max(axis, keepdims=True)
        apart = np.abs(np.where(usual, y, 0) - np.where(usual, z, 0))
        assert not apart[np.broadcast_to(largest == 0, apart.shape)].any()
        found.append(float((apart / np.where(largest > 0, largest, 1)).max()))
    return found


SPECIAL = {"nan": float("nan"), "infinity": float("inf"), "huge": 1e8}
VALUES = {**SPECIAL, "largest": 3e38}
PLACES = {
    "image": (0, [(0, 31, 12, 9), (1, 3, 5, 6), (1, 0, 0, 0)]),  # a corner each, and in the middle
    "weight": (1, [(40, 3, 2, 0)]),
    "gradient": (2, [(1, 7, 4, 9)]),
}
CASES = [*product(SPECIAL, PLACES), ("largest", "image")]


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(("value", "place"), CASES)
def test_special_values_stay_where_plain_sums_have_them(
    monkeypatch: Any, value: str, place: str, size: int
) -> None:
    xs = operands()
    which, places = PLACES[place]
    for index in places:
        xs[which][index] = VALUES[value]
    tiles, plain = [found(monkeypatch, tile, *xs) for tile in (size, 0)]
    for y, z in zip(tiles, plain, strict=True):
        np.testing.assert_array_equal(np.isnan(y), np.isnan(z))
        np.testing.assert_array_equal(np.where(np.isinf(y), y, 0), np.where(np.isinf(z), z, 0))
    exact = found(monkeypatch, 0, *[x.double() for x in xs])
    with np.errstate(over="ignore"):
        exact = [np.where(np.isfinite(z.astype(np.float32)), z, np.nan) for z in exact]
    assert max(errors(tiles, exact)) < 1e-4


@pytest.mark.parametrize("size", [2, 4])
def test_zeros_are_exact(monkeypatch: Any, size: int) -> None:
    xs = operands()
    xs[0][:, :, 6:] = 0  # places that see nothing else
    xs[0][:, :4] = 0
    xs[0][1, :4, 2, 2] = 1  # channels that are nearly dead
    xs[2][:, :, :, 5:] = 0
    tiles, exact = found(monkeypatch, size, *xs), found(monkeypatch, 0, *[x.double() for x in xs])
    assert not tiles[0][:, :, 7:].any()
    assert not tiles[1][..., 6:].any()
    assert max(errors(tiles, exact)) < 1e-4


@pytest.mark.parametrize("peak", [4, 30, 1e3])
def test_what_stands_beside_large_values_is_exact(monkeypatch: Any, peak: float) -> None:
    xs = operands()
    xs[0][:, :, 2::7, 3::7] *= peak
    tiles, exact = found(monkeypatch, 4, *xs), found(monkeypatch, 0, *[x.double() for x in xs])
    assert max(errors(tiles, exact)) < 1e-4


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_repairs_do_not_depend_on_threads(monkeypatch: Any, padding: int, kind: str) -> None:
    xs = operands(kind, padding)
    xs[0][:, ::3, 3:7, 1::5] = 1e9
    xs[0][0, 1] = 0
    xs[0][0, 1, 6, 6] = float("nan")
    before, results = rl.get_num_threads(), []
    try:
        for threads in (1, 2):
            rl.set_num_threads(threads)
            results.append(found(monkeypatch, 4, *xs, padding=padding))
    finally:
        rl.set_num_threads(before)
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)
    exact = found(monkeypatch, 0, *[x.double() for x in xs], padding=padding)
    assert max(errors(results[0], exact)) < (1e-4 if kind == "float32" else 1e-12)
    for y, z in zip(results[0], exact, strict=True):
        np.testing.assert_array_equal(np.isnan(y), np.isnan(z))


def test_groups_and_other_windows_are_plain_sums() -> None:
    rl.manual_seed(0)
    x, w = rl.randn(2, 64, 28, 28), rl.randn(64, 32, 3, 3)
    for options in ({"groups": 2}, {"groups": 2, "padding": 1}):
        f = rl.compile(lambda x, w, options=options: F.conv2d(x, w, **options), fullgraph=True)
        assert "winograd" not in str([s.function for s in f.explain(x, w).steps])
    f = rl.compile(lambda x, w: F.conv2d(x, w, padding=1), fullgraph=True)
    w = rl.randn(64, 64, 3, 3)
    assert "winograd" in str([s.function for s in f.explain(x, w).steps])
