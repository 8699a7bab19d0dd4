"""Shuffles: where elements go, that they come back, and how the layers print."""

from __future__ import annotations

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn


def test_a_channel_becomes_a_place() -> None:
    x = rl.rand(2, 3, 8, 4, 5)
    y = F.pixel_shuffle(x, 2)
    assert y.shape == (2, 3, 2, 8, 10)
    assert rl.equal(y[..., 1, 1::2, 0::2], x[:, :, 4 + 2])


@pytest.mark.parametrize("r", [1, 2, 3])
def test_unshuffling_undoes_shuffling(r: int) -> None:
    x = rl.rand(2, 9 * 4, 2, 3, dtype=rl.float64, requires_grad=True)
    assert rl.equal(F.pixel_unshuffle(F.pixel_shuffle(x, r), r), x)
    assert rl.equal(F.channel_shuffle(F.channel_shuffle(x, 3), 12), x)


def test_gradients_go_the_way_back() -> None:
    x = rl.rand(1, 4, 2, 2, requires_grad=True)
    weight = rl.rand(1, 1, 4, 4)
    (F.pixel_shuffle(x, 2) * weight).sum().backward()
    assert rl.equal(x.grad, F.pixel_unshuffle(weight, 2))


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (nn.PixelShuffle(2), "PixelShuffle(upscale_factor=2)"),
        (nn.PixelUnshuffle(2), "PixelUnshuffle(downscale_factor=2)"),
        (nn.ChannelShuffle(2), "ChannelShuffle(groups=2)"),
    ],
)
def test_layers_print_their_factor(layer: nn.Module, text: str) -> None:
    assert repr(layer) == text
    assert layer(rl.rand(1, 4, 2, 2)).numel() == 16
