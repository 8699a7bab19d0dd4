"""Convolutions in tiles: exact transforms, small errors, a model that knows when."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen import winograd
from rushlight.codegen.transforms import TRANSFORMS
from rushlight.ops import channels_last
from rushlight.ops.convolution import convolve_transposed

F = rl.nn.functional


@pytest.mark.parametrize("size", TRANSFORMS)
def test_transforms_give_correlations(size):
    b, g, a = TRANSFORMS[size]
    generator = np.random.default_rng(0)
    d, w = generator.normal(size=(size + 2, size + 2)), generator.normal(size=(3, 3))
    y = a @ ((g @ w @ g.T) * (b @ d @ b.T)) @ a.T
    windows = np.lib.stride_tricks.sliding_window_view(d, (3, 3))
    np.testing.assert_allclose(y, np.einsum("pqhw,hw->pq", windows, w), atol=1e-13)


def relative_error(found, wanted):
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("size", TRANSFORMS)
@pytest.mark.parametrize(
    ("images", "height", "width", "padding"),
    [(3, 8, 8, 1), (1, 7, 13, 1), (3, 6, 9, 0), (1, 5, 4, 2)],
)
def test_forward_and_gradient(monkeypatch, kind, size, images, height, width, padding):
    monkeypatch.setattr(channels_last, "tile_of", lambda *_: size)
    rl.manual_seed(0)
    dtype = getattr(rl, kind)
    x, w = rl.randn(images, 32, height, width, dtype=dtype), rl.randn(48, 32, 3, 3, dtype=dtype)

    def step(x, w):
        x, w = x.detach().requires_grad_(True), w.detach().requires_grad_(True)
        y = F.conv2d(x, w, padding=padding).relu()
        (y * y).sum().backward()
        return y, x.grad, w.grad

    limit = 1e-4 if kind == "float32" else 1e-12
    compiled = rl.compile(step, fullgraph=True)
    assert "winograd_slope" in str([s.function for s in compiled.explain(x, w).steps])
    for found, wanted in zip(compiled(x, w), step(x.double(), w.double()), strict=True):
        assert relative_error(found.detach().numpy(), wanted.detach().numpy()) < limit


@pytest.mark.parametrize("room", [1 << 12, 1 << 16])
def test_blocks_of_rows_of_large_images(monkeypatch, room):
    monkeypatch.setattr(winograd, "BLOCK", room)
    monkeypatch.setattr(channels_last, "tile_of", lambda *_: 4)
    rl.manual_seed(0)
    x, w = rl.randn(2, 16, 41, 30 + room % 7), rl.randn(16, 16, 3, 3)
    x[1, 3, 17, 5] = 1e3

    def step(x, w):
        x, w = x.detach().requires_grad_(True), w.detach().requires_grad_(True)
        y = F.conv2d(x, w, padding=1)
        (y * y).sum().backward()
        return y, x.grad, w.grad

    compiled = rl.compile(step, fullgraph=True)
    names = [s.function for s in compiled.explain(x, w).steps]
    assert sum(["winograd_output" in name for name in names]) > 4
    for found, wanted in zip(compiled(x, w), step(x.double(), w.double()), strict=True):
        assert relative_error(found.detach().numpy(), wanted.detach().numpy()) < 1e-4


def tile(images, size, channels, columns, geometry=channels_last.PLAIN, cost=channels_last.FORWARD):
    v = rl.empty(1).expand(images, size, size, 3, 3, channels)
    return channels_last.tile_of(v, columns, geometry, cost)


def test_the_model_weighs_products_against_memory(monkeypatch):
    monkeypatch.setattr(rl.config, "winograd", True)
    assert tile(8, 56, 64, 64) == 4
    assert tile(1, 14, 256, 256) == 2  # few tiles share a large weight
    assert tile(1, 7, 512, 512) == 2
    assert tile(1, 7, 512, 512, cost=channels_last.BACKWARD) == 0
    assert tile(1, 32, 16, 16) == 0  # few products for what is moved
    assert tile(8, 56, 3, 64) == 0
    assert tile(8, 56, 64, 64, channels_last.PLAIN._replace(stride=(2, 2))) == 0
    monkeypatch.setattr(rl.config, "winograd", False)
    assert tile(8, 56, 64, 64) == 0


def test_results_do_not_depend_on_threads():
    rl.manual_seed(0)
    x, w = rl.randn(2, 64, 28, 28), rl.randn(64, 64, 3, 3)
    before = rl.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            rl.set_num_threads(threads)
            f = rl.compile(lambda x, w: F.conv2d(x, w, padding=1), fullgraph=True)
            found.append(f(x, w).numpy())
    finally:
        rl.set_num_threads(before)
    np.testing.assert_array_equal(*found)


def test_windows_seen_from_their_end(monkeypatch):
    monkeypatch.setattr(channels_last, "tile_of", lambda *_: 4)
    rl.manual_seed(0)
    geometry = channels_last.PLAIN._replace(padding=(1, 1))
    y, w = rl.randn(2, 16, 10, 10), rl.randn(16, 32, 3, 3)
    f = rl.compile(lambda y, w: convolve_transposed(y, w, None, geometry, (10, 10)))
    wanted = convolve_transposed(y.double(), w.double(), None, geometry, (10, 10))
    assert relative_error(f(y, w).numpy(), wanted.numpy()) < 1e-5
