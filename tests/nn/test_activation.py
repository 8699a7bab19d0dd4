"""Activations: in place, at their kinks, along implied dimensions; how the layers print."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn

IN_PLACE = [
    "relu", "relu6", "elu", "selu", "celu", "leaky_relu", "rrelu", "silu", "mish", "hardtanh",
    "hardsigmoid", "hardswish",
]  # fmt: skip
PIECEWISE_LINEAR = ["relu", "relu6", "leaky_relu", "hardtanh", "hardsigmoid", "hardshrink"]


@pytest.mark.parametrize("name", IN_PLACE)
def test_inplace_writes_over_the_input_and_keeps_the_gradient(name: str) -> None:
    function = getattr(F, name)
    x = rl.linspace(-4, 7, 12, requires_grad=True)
    expected = function(x)
    (gradient,) = rl.autograd.grad(expected.sum(), x)
    y = x * 1
    assert function(y, inplace=True) is y
    assert rl.equal(y, expected)
    assert rl.allclose(rl.autograd.grad(y.sum(), x)[0], gradient)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        function(x, inplace=True)


@pytest.mark.parametrize("name", ["relu", "elu", "leaky_relu", "selu", "celu", "hardtanh"])
def test_functions_in_place_have_their_underscore(name: str) -> None:
    x = rl.tensor([-2.0, 3.0])
    expected = getattr(F, name)(x)
    assert getattr(F, f"{name}_")(x) is x
    assert rl.equal(x, expected)


@pytest.mark.parametrize("name", PIECEWISE_LINEAR)
def test_the_slope_of_a_piecewise_linear_function_has_the_derivative_zero(name: str) -> None:
    x = rl.tensor([-4.0, -0.5, 0.5, 7.0], requires_grad=True)
    (slope,) = rl.autograd.grad(getattr(F, name)(x).sum(), x, create_graph=True)
    assert slope.requires_grad
    (curvature,) = rl.autograd.grad(slope.sum(), x)
    assert rl.equal(curvature, rl.zeros(4))


def test_relu_lets_the_gradient_of_nan_pass() -> None:
    x = rl.tensor([math.nan, 0.0, 1.0], requires_grad=True)
    F.relu(x).sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, 1.0]


@pytest.mark.parametrize("name", ["elu", "selu", "celu", "softplus", "logsigmoid", "mish", "gelu"])
def test_nothing_overflows_far_out(name: str) -> None:
    x = rl.tensor([-1e4, -200.0, 200.0, 1e4], requires_grad=True)
    y = getattr(F, name)(x)
    (slope,) = rl.autograd.grad(y.sum(), x, create_graph=True)
    (curvature,) = rl.autograd.grad(slope.sum(), x)
    for t in (y, slope, curvature):
        assert t.isfinite().all()


def test_compiled_gelu_is_exact_and_its_tail_goes_to_zero() -> None:
    x = rl.linspace(-12, 12, 24_001)
    y = rl.compile(F.gelu, fullgraph=True)(x)
    exact = [v * math.erfc(-v / math.sqrt(2)) / 2 for v in x.tolist()]
    expected = rl.tensor(exact, dtype=rl.float64)
    error = (y.double() - expected).abs()
    assert (error < 1e-7 + 3e-7 * expected.abs()).all()
    assert (error < 2e-3 * expected.abs())[(x > -5.4) & (x != 0)].all()
    falling = y[x < -0.76]
    assert (falling[1:] <= falling[:-1]).all()
    ends = rl.compile(F.gelu)(rl.tensor([-1e30, -10.0, 0.0, 1e30, math.inf, math.nan])).tolist()
    assert ends[:5] == [0, 0, 0, float(rl.tensor(1e30)), math.inf]
    assert math.isnan(ends[5])


def test_the_slope_of_compiled_gelu_is_exact() -> None:
    @rl.compile(fullgraph=True)
    def slope(x: rl.Tensor) -> rl.Tensor:
        x = x.detach().requires_grad_()
        return rl.autograd.grad(F.gelu(x).sum(), x)[0]

    x = rl.linspace(-12, 12, 24_001)
    exact = [
        math.erfc(-v / math.sqrt(2)) / 2 + v * math.exp(-v * v / 2) / math.sqrt(2 * math.pi)
        for v in x.tolist()
    ]
    error = (slope(x).double() - rl.tensor(exact, dtype=rl.float64)).abs()
    assert error.max() < 3e-7


@pytest.mark.parametrize(
    ("shape", "dim"), [((3,), 0), ((2, 3), 1), ((2, 3, 4), 0), ((1, 2, 3, 4), 1)]
)
def test_a_softmax_without_dim_warns_and_chooses_as_pytorch_does(shape: Any, dim: int) -> None:
    x = rl.arange(math.prod(shape)).reshape(shape).float()
    for name in ("softmax", "log_softmax", "softmin"):
        function = getattr(F, name)
        with pytest.warns(UserWarning, match=f"Implicit dimension choice for {name}") as caught:
            y = function(x)
        assert caught[0].filename == __file__
        assert rl.equal(y, function(x, dim))
    with pytest.warns(UserWarning, match="Implicit dimension choice") as caught:
        nn.Softmax()(x)
    assert caught[0].filename == __file__


def test_hard_gumbel_samples_are_one_hot_and_have_gradients() -> None:
    logits = rl.zeros(20, 5, requires_grad=True)
    y = F.gumbel_softmax(logits, hard=True)
    assert rl.equal(y.detach().sort(1).values, rl.tensor([[0.0, 0, 0, 0, 1]]).expand(20, 5))
    (y * rl.arange(5)).sum().backward()
    assert logits.grad.abs().sum() > 0
    with pytest.warns(UserWarning, match="`eps` parameter is deprecated"):
        F.gumbel_softmax(logits, eps=0.1)


def test_rrelu_draws_slopes_in_training_alone() -> None:
    x = -rl.ones(100)
    layer = nn.RReLU(0.1, 0.3)
    slopes = -layer(x)
    assert ((slopes >= 0.1) & (slopes <= 0.3)).all()
    assert slopes.std() > 0.01
    assert rl.equal(layer.eval()(x), x * 0.2)


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (nn.ReLU(), "ReLU()"),
        (nn.ReLU(inplace=True), "ReLU(inplace=True)"),
        (nn.LeakyReLU(0.2, True), "LeakyReLU(negative_slope=0.2, inplace=True)"),
        (nn.ELU(), "ELU(alpha=1.0)"),
        (nn.GELU(), "GELU(approximate='none')"),
        (nn.Softmax(dim=1), "Softmax(dim=1)"),
        (nn.PReLU(3), "PReLU(num_parameters=3)"),
        (nn.Threshold(0.1, 20), "Threshold(threshold=0.1, value=20)"),
        (nn.Hardtanh(-2, 2), "Hardtanh(min_val=-2, max_val=2)"),
        (nn.Softplus(), "Softplus(beta=1.0, threshold=20.0)"),
        (nn.Hardshrink(), "Hardshrink(0.5)"),
        (nn.Tanh(), "Tanh()"),
    ],
)
def test_layers_print_their_parameters(layer: nn.Module, text: str) -> None:
    assert repr(layer) == text


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(AssertionError, match="max_val must be larger than min_val"):
        nn.Hardtanh(2, -2)
    with pytest.warns(FutureWarning, match="`max_value` is deprecated and rename to `max_val`"):
        assert nn.Hardtanh(max_value=3.0).max_val == 3.0
    with pytest.raises(ValueError, match="expected input to be 3D or 4D, got 2D"):
        nn.Softmax2d()(rl.zeros(2, 2))
    with pytest.raises(TypeError, match="unexpected keyword argument 'dim'"):
        nn.Sigmoid(dim=1)


@pytest.mark.parametrize("name", ["elu", "selu", "celu", "hardsigmoid"])
def test_slopes_at_nan(name: str) -> None:
    function = getattr(F, name)
    x = rl.tensor([math.nan, 1.0], requires_grad=True)
    slope = rl.autograd.grad(function(x).sum(), x)[0]
    assert slope[0] == (0 if name == "hardsigmoid" else slope[1])


@pytest.mark.parametrize("name", ["relu_", "selu_", "celu_", "rrelu_", "threshold_", "elu_"])
def test_functions_in_place_are_pickled(name: str) -> None:
    function = getattr(F, name)
    assert pickle.loads(pickle.dumps(function)) is function
