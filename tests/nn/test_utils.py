"""Clipping, vectors, weight and spectral norms, parametrizations, pruning, functional calls."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import utils
from rushlight.nn.utils import parametrizations, parametrize, prune


def with_gradients() -> list[nn.Parameter]:
    ps = [nn.Parameter(rl.zeros(2)), nn.Parameter(rl.zeros(2)), nn.Parameter(rl.zeros(1))]
    ps[0].grad, ps[1].grad = rl.tensor([3.0, 0.0]), rl.tensor([0.0, -4.0])
    return ps


def test_gradients_are_scaled_to_a_norm() -> None:
    ps = with_gradients()
    assert utils.clip_grad_norm_(iter(ps), 1.0).item() == pytest.approx(5)
    assert utils.get_total_norm([p.grad for p in ps[:2]]).item() == pytest.approx(1)
    assert utils.clip_grad_norm_(ps, 10.0).item() == pytest.approx(1)
    assert ps[0].grad[0].item() == pytest.approx(0.6)


def test_gradients_that_are_not_finite_are_told() -> None:
    ps = with_gradients()
    ps[0].grad[0] = float("nan")
    with pytest.raises(RuntimeError, match=r"order 2\.0 for gradients .* is non-finite"):
        utils.clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)


def test_gradients_are_limited_by_value() -> None:
    ps = with_gradients()
    utils.clip_grad_value_(ps, 1.0)
    np.testing.assert_array_equal(ps[1].grad.numpy(), [0, -1])


def test_parameters_as_one_vector() -> None:
    layer = nn.Linear(2, 3)
    vector = utils.parameters_to_vector(layer.parameters())
    assert vector.shape == (9,)
    assert vector.requires_grad
    utils.vector_to_parameters(rl.arange(9.0), layer.parameters())
    assert layer.bias.tolist() == [6, 7, 8]
    assert layer.weight.requires_grad
    with pytest.raises(TypeError, match=r"expected rushlight.Tensor, but got: list"):
        utils.vector_to_parameters([1.0], layer.parameters())


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated")
def test_weight_norm_keeps_the_weight_until_it_learns() -> None:
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    utils.weight_norm(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight_g", "weight_v"]
    assert rl.allclose(layer.weight, before)
    layer(rl.ones(1, 3)).sum().backward()
    assert layer.weight_g.grad is not None
    utils.remove_weight_norm(layer)
    assert rl.allclose(layer.weight, before)
    assert isinstance(layer.weight, nn.Parameter)
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found"):
        utils.remove_weight_norm(layer)


def test_spectral_norm_makes_the_largest_singular_value_one() -> None:
    layer = utils.spectral_norm(nn.Linear(4, 5), n_power_iterations=40)
    layer(rl.ones(1, 4)).sum().backward()
    assert rl.linalg.matrix_norm(layer.weight, 2).item() == pytest.approx(1, abs=1e-3)
    assert layer.weight_orig.grad is not None
    u = layer.weight_u.clone()
    layer.eval()(rl.ones(1, 4))
    assert rl.equal(layer.weight_u, u)
    utils.remove_spectral_norm(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight"]


class Square(nn.Module):
    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return x * x

    def right_inverse(self, x: rl.Tensor) -> rl.Tensor:
        return x.sqrt()


def test_a_parametrized_tensor_is_computed_and_assigned() -> None:
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Square())
    layer.weight = rl.full((2, 2), 9.0)
    assert layer.weight.tolist() == [[9, 9], [9, 9]]
    assert layer.parametrizations.weight.original.tolist() == [[3, 3], [3, 3]]
    layer(rl.ones(1, 2)).sum().backward()
    assert layer.parametrizations.weight.original.grad.tolist() == [[6, 6], [6, 6]]
    assert isinstance(layer, nn.Linear)
    assert type(layer).__name__ == "ParametrizedLinear"
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear
    assert layer.weight.tolist() == [[9, 9], [9, 9]]


def test_copies_lose_their_parametrizations_alone() -> None:
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Square())
    twin = copy.deepcopy(layer)
    parametrize.remove_parametrizations(twin, "weight")
    assert parametrize.is_parametrized(layer, "weight")
    assert rl.allclose(layer.weight, twin.weight, equal_nan=True)


def test_a_parametrization_must_keep_the_shape() -> None:
    class Row(nn.Module):
        def forward(self, x: rl.Tensor) -> rl.Tensor:
            return x[0]

    layer = nn.Linear(2, 3)
    with pytest.raises(ValueError, match="may not change the shape"):
        parametrize.register_parametrization(layer, "weight", Row())
    assert not parametrize.is_parametrized(layer)
    assert layer.weight.shape == (3, 2)
    with pytest.raises(ValueError, match="does not have a parameter"):
        parametrize.register_parametrization(layer, "nope", Row())


@pytest.mark.parametrize("shape", [(3, 3), (5, 2), (2, 5)])
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_stays_orthogonal(shape: tuple[int, int], kind: str) -> None:
    layer = nn.Linear(*shape, dtype=rl.float64)
    parametrizations.orthogonal(layer, orthogonal_map=kind)
    with rl.no_grad():
        layer.parametrizations.weight.original.add_(
            rl.randn(*layer.weight.shape, dtype=rl.float64).tril(-1)
        )
    w = layer.weight if shape[0] >= shape[1] else layer.weight.T
    np.testing.assert_allclose((w @ w.T).detach().numpy(), np.eye(len(w)), atol=1e-9)


def test_pruned_weights_stay_zero_and_learn_elsewhere() -> None:
    layer = prune.l1_unstructured(nn.Linear(4, 4), "weight", 0.5)
    assert (layer.weight == 0).sum().item() == 8
    assert prune.is_pruned(layer)
    layer(rl.ones(1, 4)).sum().backward()
    assert ((layer.weight_orig.grad == 0) == (layer.weight_mask == 0)).all()
    prune.l1_unstructured(layer, "weight", 4)
    assert (layer.weight == 0).sum().item() == 12
    prune.remove(layer, "weight")
    assert (layer.weight == 0).sum().item() == 12
    assert not prune.is_pruned(layer)


@pytest.mark.parametrize(
    ("amount", "error", "message"),
    [
        (-1, ValueError, "amount=-1 should either be a float in the range"),
        (1.5, ValueError, "amount=1.5 should either be"),
        ("x", TypeError, "Invalid type for amount: x"),
        (100, ValueError, "amount=100 should be smaller than the number of parameters"),
    ],
)
def test_a_wrong_amount_prunes_nothing(amount, error: type, message: str) -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(error, match=message):
        prune.l1_unstructured(layer, "weight", amount)
    assert list(layer.state_dict()) == ["weight", "bias"]
    assert not prune.is_pruned(layer)


def test_functional_calls_leave_the_module_as_it_was() -> None:
    layer = nn.Linear(2, 1)
    weight = layer.weight
    w = rl.full((1, 2), 2.0, requires_grad=True)
    y = rl.func.functional_call(
        layer,
        parameter_and_buffer_dicts=({"weight": w}, {"bias": rl.zeros(1)}),
        args=rl.ones(1, 2),
    )
    y.backward()
    assert y.item() == 4
    assert w.grad.tolist() == [[1, 1]]
    assert layer.weight is weight
    assert weight.grad is None
    with pytest.raises(ValueError, match="weight appeared in multiple dictionaries"):
        rl.func.functional_call(layer, ({"weight": w}, {"weight": w}), rl.ones(1, 2))
    with pytest.raises(RuntimeError, match=r"Missing key\(s\): 'bias'"):
        utils.stateless.functional_call(
            layer, parameters_and_buffers={"weight": w}, args=rl.ones(1, 2), strict=True
        )


def test_an_error_in_a_functional_call_leaves_the_module_as_it_was() -> None:
    layer = nn.Linear(2, 1)
    weight = layer.weight
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        utils.stateless.functional_call(layer, {"weight": rl.ones(1, 3)}, rl.ones(1, 2))
    assert layer.weight is weight


def test_states_of_several_models_are_stacked() -> None:
    models = [nn.Linear(2, 3) for _ in range(4)]
    params, buffers = rl.func.stack_module_state(models)
    assert params["weight"].shape == (4, 3, 2)
    assert params["bias"].requires_grad
    assert not buffers

    def call(params, x):
        return utils.stateless.functional_call(models[0], params, (x,))

    x = rl.ones(5, 2)
    y = rl.vmap(call, in_dims=(0, None))(params, x)
    assert rl.allclose(y, rl.stack([m(x) for m in models]))


def test_skipped_initialisation_leaves_the_stream_alone() -> None:
    rl.manual_seed(3)
    a = rl.rand(1)
    rl.manual_seed(3)
    assert utils.skip_init(nn.Linear, 4, 5).weight.shape == (5, 4)
    assert rl.equal(a, rl.rand(1))
    with pytest.raises(RuntimeError, match="must support a 'device' arg"):
        utils.skip_init(nn.Flatten)
