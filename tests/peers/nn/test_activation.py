"""Activations in PyTorch and here: values, slopes, second slopes, at kinks and far out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.scenarios import Scenarios, attempt, compare

pytest.importorskip("torch")

scenarios = Scenarios()
FUNCTIONS = [
    ("relu", {}), ("relu6", {}), ("elu", {"alpha": 0.7}), ("selu", {}), ("celu", {"alpha": 1.3}),
    ("leaky_relu", {"negative_slope": 0.2}), ("leaky_relu", {"negative_slope": 1.7}),
    ("rrelu", {}), ("gelu", {}), ("gelu", {"approximate": "tanh"}), ("silu", {}), ("mish", {}),
    ("hardtanh", {}), ("hardtanh", {"min_val": -3.0, "max_val": 3.0}), ("hardsigmoid", {}),
    ("hardswish", {}), ("hardshrink", {}), ("softshrink", {}), ("softshrink", {"lambd": 0.0}),
    ("tanhshrink", {}), ("softplus", {}), ("softplus", {"beta": 3.0, "threshold": 2.0}),
    ("softsign", {}), ("logsigmoid", {}), ("sigmoid", {}), ("tanh", {}),
    ("threshold", {"threshold": 0.5, "value": -1.0}),
]  # fmt: skip
NOT_TWICE = {"hardsigmoid", "mish"}  # PyTorch has no second slope, or NaN far out
SPECIAL = [0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 6.0, 20.0, -20.0, 90.0, -90.0, 1e4, -1e4]
INFINITE = [float("inf"), float("-inf"), float("nan")]
LAYERS = [
    ("ReLU", ()), ("ReLU", (True,)), ("ReLU6", ()), ("ReLU6", (True,)), ("ELU", (0.5, True)),
    ("SELU", (True,)), ("CELU", (2.0,)), ("LeakyReLU", ()), ("PReLU", (3,)), ("RReLU", ()),
    ("GLU", (1,)), ("GELU", ("tanh",)), ("SiLU", (True,)), ("Mish", ()), ("Hardtanh", (-2, 2)),
    ("Hardsigmoid", (True,)), ("Hardswish", (True,)), ("Hardshrink", (0.3,)), ("Softshrink", ()),
    ("Tanhshrink", ()), ("Softplus", (2, 10)), ("Softsign", ()), ("Softmin", (1,)),
    ("Softmax", ()), ("LogSoftmax", (0,)), ("Softmax2d", ()), ("LogSigmoid", ()), ("Sigmoid", ()),
    ("Tanh", ()), ("Threshold", (0.1, 20, True)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_and_slopes_of_two_orders(name: str, options: dict[str, Any], dtype: str) -> None:
    def body(lib: Any) -> Iterator[Any]:
        function = getattr(lib.nn.functional, name)
        x = lib.tensor(SPECIAL, dtype=getattr(lib, dtype), requires_grad=True)
        y = function(x, **options)
        yield y
        (slope,) = lib.autograd.grad(y.sum(), x, create_graph=True)
        yield slope
        yield slope.requires_grad
        yield function(lib.tensor(INFINITE, dtype=getattr(lib, dtype)), **options)
        if name not in NOT_TWICE:
            (curvature,) = lib.autograd.grad(slope.sum(), x)
            yield curvature

    compare(body, atol=2e-6 if dtype == "float32" else 1e-8)


@pytest.mark.parametrize(("name", "options"), FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types(name: str, options: dict[str, Any], dtype: str) -> None:
    def body(lib: Any) -> Iterator[Any]:
        x = (lib.arange(41) / 4 - 5).to(getattr(lib, dtype))
        y = getattr(lib.nn.functional, name)(x, **options)
        yield str(y.dtype).rpartition(".")[2]
        yield y.float()

    compare(body, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "arguments"), LAYERS)
def test_layers_print_and_compute_the_same(name: str, arguments: tuple[Any, ...]) -> None:
    def body(lib: Any) -> Iterator[Any]:
        lib.manual_seed(3)
        layer = getattr(lib.nn, name)(*arguments)
        yield repr(layer)
        yield list(layer.state_dict())
        x = lib.randn(4, 3, 2, 2) if name != "GLU" else lib.randn(2, 4, 3)
        yield layer(x)
        yield x

    compare(body)


@scenarios
def random_slopes(lib: Any) -> Iterator[Any]:
    lib.manual_seed(0)
    x = lib.randn(50, requires_grad=True)
    y = lib.nn.functional.rrelu(x, 0.1, 0.6, training=True)
    yield y
    y.sum().backward()
    yield x.grad
    yield lib.rand(2)


@scenarios
def gumbel_samples(lib: Any) -> Iterator[Any]:
    lib.manual_seed(0)
    x = lib.randn(5, 7, requires_grad=True)
    for options in ({}, {"tau": 0.3}, {"hard": True}, {"dim": 0, "hard": True}):
        y = lib.nn.functional.gumbel_softmax(x, **options)
        yield y
        yield lib.autograd.grad((y * lib.arange(7)).sum(), x)[0]


@scenarios
def softmax_of_infinities(lib: Any) -> Iterator[Any]:
    inf = float("inf")
    x = lib.tensor([[0.0, -inf], [-inf, -inf], [inf, 0.0]], requires_grad=True)
    for name in ("softmax", "log_softmax", "softmin"):
        y = getattr(lib.nn.functional, name)(x, 1)
        yield y
        yield lib.autograd.grad(y[0].sum(), x)[0]


@scenarios
def errors(lib: Any) -> Iterator[Any]:
    functional, whole = lib.nn.functional, lib.tensor([1, 2])
    for name in ("elu", "gelu", "softplus", "logsigmoid", "hardswish", "leaky_relu", "mish"):
        yield attempt(getattr(functional, name), whole)
    yield attempt(functional.glu, lib.zeros(3))
    yield attempt(functional.gelu, lib.zeros(3), approximate="erf")
    yield attempt(functional.softshrink, lib.zeros(3), -1.0)
    yield attempt(functional.hardtanh, lib.zeros(3), 1.0, -1.0)
    yield attempt(functional.prelu, lib.zeros(3, 4), lib.zeros(3))


@pytest.mark.parametrize("body", scenarios)
def test_scenario(body: Any) -> None:
    compare(body, rtol=1e-4, atol=1e-5)
