"""Dropout: probabilities, training and evaluation, in place, whole channels."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn

LAYERS = {
    nn.Dropout: (4, 5),
    nn.Dropout1d: (2, 3, 4),
    nn.Dropout2d: (2, 3, 4, 5),
    nn.Dropout3d: (2, 3, 2, 2, 2),
    nn.AlphaDropout: (4, 5),
    nn.FeatureAlphaDropout: (2, 3, 4),
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_a_probability_outside_0_to_1_is_refused(layer: Any, p: float) -> None:
    with pytest.raises(ValueError, match="probability has to be between 0 and 1, but got"):
        layer(p)


@pytest.mark.parametrize(("layer", "shape"), LAYERS.items())
def test_evaluation_returns_the_input_itself(layer: Any, shape: tuple[int, ...]) -> None:
    x = rl.randn(shape)
    for inplace in (False, True):
        assert layer(0.5, inplace).eval()(x) is x
    assert x._version == 0


@pytest.mark.parametrize(("layer", "shape"), LAYERS.items())
def test_inplace_gives_the_same_as_a_new_tensor(layer: Any, shape: tuple[int, ...]) -> None:
    x = rl.randn(shape)
    rl.manual_seed(1)
    expected = layer(0.5)(x)
    rl.manual_seed(1)
    assert layer(0.5, inplace=True)(x) is x
    assert rl.equal(x, expected)


def test_the_gradient_has_the_zeros_of_the_result() -> None:
    x = rl.ones(1000, requires_grad=True)
    y = F.dropout(x, 0.3)
    y.sum().backward()
    assert rl.equal(x.grad, y.detach())
    assert set(y.detach().unique().tolist()) == {0.0, rl.tensor(1 / 0.7).item()}
    assert abs(y.detach().mean().item() - 1) < 0.1


@pytest.mark.parametrize("name", ["dropout1d", "dropout2d", "dropout3d"])
def test_whole_channels_are_dropped(name: str) -> None:
    shape = (10, 8) + (3,) * int(name[-2])
    y = getattr(F, name)(rl.ones(shape)).flatten(2)
    assert (y == y[:, :, :1]).all()
    assert set(y.unique().tolist()) == {0.0, 2.0}


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    rl.manual_seed(0)
    y = F.alpha_dropout(rl.randn(100_000), 0.4, training=True)
    assert abs(y.mean().item()) < 0.02
    assert abs(y.var().item() - 1) < 0.02


def test_unusual_sizes_warn() -> None:
    with pytest.warns(UserWarning, match=r"3D input is taken as \(N, C, L\)"):
        F.dropout2d(rl.ones(2, 3, 4))
    with pytest.warns(UserWarning, match="Received a 2-D input to dropout2d"):
        F.dropout2d(rl.ones(2, 3))
    with pytest.warns(UserWarning, match="Received a 3-D input to dropout3d"):
        F.dropout3d(rl.ones(2, 3, 4))


def test_p_of_one_drops_all() -> None:
    assert rl.equal(F.dropout(rl.ones(3), 1.0), rl.zeros(3))
