"""Leaves that a compiled function makes itself, and their gradients."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.symbol import TraceError

rl.manual_seed(0)
weight = nn.Parameter(rl.randn(3))


def of_an_argument(x):
    y = x.detach().requires_grad_()
    (y * y).sum().backward()
    return y.grad


def of_a_parameter(x):
    y = weight.detach().requires_grad_()
    (y * y * x).sum().backward()
    return y.grad


def of_data(x):
    y = weight.data.requires_grad_()
    (y.exp() * x).sum().backward()
    return y.grad


def twice(x):
    y = x.detach().requires_grad_()
    assert y.grad is None
    (y * 3).sum().backward()
    (y * y).sum().backward()
    first, y.grad = y.grad, None
    (y * 2).sum().backward()
    return first, y.grad


def ascent(x):
    """The sign of the gradient, step by step, as who looks for hard examples follows it."""
    x = x.detach().requires_grad_()
    for _ in range(3):
        (x * weight).tanh().sum().backward()
        x = (x + 0.1 * x.grad.sign()).detach().requires_grad_()
    return x.detach()


@pytest.mark.parametrize("function", [of_an_argument, of_a_parameter, of_data, twice, ascent])
def test_gradients_of_leaves_made_inside(function):
    compiled = rl.compile(function, fullgraph=True)
    for seed in range(3):
        rl.manual_seed(seed)
        x, weight.grad = rl.randn(3), None
        got, arrived = compiled(x), weight.grad
        weight.grad = None
        rl.testing.assert_close(got, function(x))
        rl.testing.assert_close(arrived, weight.grad)
        assert x.grad is None
        assert not x.requires_grad
        assert list(compiled.made.values()) == [1]


def test_a_result_that_depends_on_a_leaf_made_inside_is_refused():
    with pytest.raises(TraceError, match=r"a leaf .* that is made inside"):
        rl.compile(lambda x: x.detach().requires_grad_() * 2, fullgraph=True)(rl.ones(3))


def test_a_detached_parameter_shares_its_memory():
    detached = rl.compile(lambda x: weight.detach(), fullgraph=True)
    y = detached(rl.ones(1))
    assert y.data_ptr() == weight.data_ptr()
    assert not y.requires_grad
    assert y is not detached(rl.ones(1))
