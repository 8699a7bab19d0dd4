"""Parameters that wait for their shape."""

from __future__ import annotations

import copy
import pickle

import pytest

import rushlight as rl
from rushlight import nn


def test_the_first_input_decides() -> None:
    layer = nn.LazyLinear(2)
    assert layer.has_uninitialized_params()
    assert layer(rl.ones(3, 5)).shape == (3, 2)
    assert type(layer) is nn.Linear
    assert type(layer.weight) is nn.Parameter
    assert layer.weight.shape == (2, 5)
    assert layer.weight.requires_grad
    assert not layer._forward_pre_hooks


def test_a_seed_gives_the_weights_of_the_usual_layer() -> None:
    rl.manual_seed(0)
    usual = nn.Linear(5, 2)
    lazy = nn.LazyLinear(2)
    rl.manual_seed(0)
    lazy(rl.ones(1, 5))
    assert rl.equal(usual.weight, lazy.weight)
    assert rl.equal(usual.bias, lazy.bias)


def test_nothing_can_be_computed_before() -> None:
    layer = nn.LazyLinear(2)
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        layer.weight * 2
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized"):
        _ = layer.weight.shape


def test_conversion_before_counts() -> None:
    layer = nn.LazyLinear(2).double()
    assert layer.weight.dtype is rl.float64
    assert layer(rl.ones(1, 3, dtype=rl.float64)).dtype is rl.float64


def test_a_loaded_state_decides_too() -> None:
    layer, usual = nn.LazyLinear(2), nn.Linear(4, 2)
    layer.load_state_dict(usual.state_dict())
    assert rl.equal(layer.weight, usual.weight)
    assert layer(rl.ones(1, 4)).shape == (1, 2)


@pytest.mark.parametrize(
    "twin_of", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))]
)
def test_copies_wait_too(twin_of) -> None:
    layer = nn.LazyLinear(2, dtype=rl.float64)
    twin = twin_of(layer)
    twin(rl.ones(1, 3, dtype=rl.float64))
    assert layer.has_uninitialized_params()
    assert type(twin) is nn.Linear


def test_a_half_initialized_module_is_refused() -> None:
    class Half(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.UninitializedParameter()

        def initialize_parameters(self, x: rl.Tensor) -> None:
            pass

    with pytest.raises(RuntimeError, match="module Half has not been fully initialized"):
        Half()(rl.ones(1))
