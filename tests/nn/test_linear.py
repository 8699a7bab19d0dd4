"""Linear layers and layers of shape."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn


def test_linear_is_an_affine_map() -> None:
    layer = nn.Linear(3, 2)
    x = rl.randn(5, 4, 3)
    y = x.numpy() @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
    np.testing.assert_allclose(layer(x).detach().numpy(), y, rtol=1e-5, atol=1e-6)


def test_linear_without_bias() -> None:
    layer = nn.Linear(3, 2, bias=False)
    assert layer.bias is None
    assert list(layer.state_dict()) == ["weight"]
    assert repr(layer) == "Linear(in_features=3, out_features=2, bias=False)"


def test_linear_says_what_does_not_fit() -> None:
    with pytest.raises(RuntimeError, match=r"cannot be multiplied \(5x4 and 3x2\)"):
        nn.Linear(3, 2)(rl.ones(5, 4))
    with pytest.raises(RuntimeError, match=r"should have 12 features, got 4: input.flatten\(1\)"):
        nn.Linear(12, 2)(rl.ones(5, 3, 4))
    with pytest.raises(RuntimeError, match="same dtype"):
        nn.Linear(3, 2)(rl.ones(5, 3, dtype=rl.float64))


def test_bilinear_is_linear_in_both() -> None:
    layer = nn.Bilinear(2, 3, 4)
    x, y = rl.randn(5, 2), rl.randn(5, 3)
    w, b = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    expected = np.einsum("bi,kij,bj->bk", x.numpy(), w, y.numpy()) + b
    np.testing.assert_allclose(layer(x, y).detach().numpy(), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="in1_features must be > 0"):
        nn.Bilinear(0, 3, 4)


def test_flatten_and_unflatten_are_inverse() -> None:
    x = rl.arange(24).reshape(2, 3, 4)
    flat = nn.Flatten()(x)
    assert flat.shape == (2, 12)
    assert rl.equal(nn.Unflatten(1, (3, -1))(flat), x)
    with pytest.raises(TypeError, match="found element of type float at pos 0"):
        nn.Unflatten(1, (2.0, 3))


def test_identity_takes_any_arguments() -> None:
    x = rl.ones(2)
    assert nn.Identity(1, two=2)(x) is x
