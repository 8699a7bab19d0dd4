"""Distributions in compiled functions: the samples, densities and gradients of dynamic mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import distributions as D
from rushlight import nn

Make = Callable[[Any], Any]

CASES: dict[str, Make] = {
    "normal": lambda m: D.Normal(m, m.exp()),
    "log normal": lambda m: D.LogNormal(m, m.exp()),
    "uniform": lambda m: D.Uniform(m, m + 2),
    "exponential": lambda m: D.Exponential(m.exp()),
    "laplace": lambda m: D.Laplace(m, m.exp()),
    "cauchy": lambda m: D.Cauchy(m, m.exp()),
    "bernoulli": lambda m: D.Bernoulli(m.sigmoid()),
    "bernoulli of logits": lambda m: D.Bernoulli(logits=m),
    "geometric": lambda m: D.Geometric(m.sigmoid()),
    "poisson": lambda m: D.Poisson(m.exp()),
    "categorical": lambda m: D.Categorical(m.exp()),
    "categorical of logits": lambda m: D.Categorical(logits=m),
    "one-hot": lambda m: D.OneHotCategorical(logits=m),
    "straight-through": lambda m: D.OneHotCategoricalStraightThrough(logits=m),
    "multivariate": lambda m: D.MultivariateNormal(m, m.exp().diag_embed()),
    "multivariate by triangle": lambda m: D.MultivariateNormal(m, scale_tril=m.exp().diag_embed()),
    "independent": lambda m: D.Independent(D.Normal(m, m.exp()), 1),
    "mixture": lambda m: D.MixtureSameFamily(D.Categorical(logits=m), D.Normal(m, m.exp())),
}
NO_KL = ("mixture",)


def results(function: Callable[[rl.Tensor], Any]) -> list[rl.Tensor]:
    """What a function of parameters returns, and the gradient of its sum."""
    rl.manual_seed(0)
    m = rl.tensor([[0.3, -0.2, 0.5], [0.1, 0.7, -0.4]], requires_grad=True)
    found = function(m)
    tracked = [t.sum() for t in found if t.requires_grad]
    if tracked:
        sum(tracked).backward()
    return [*found, rl.zeros(()) if m.grad is None else m.grad]


def assert_equal_when_compiled(function: Callable[[rl.Tensor], Any]) -> None:
    expected, compiled = results(function), rl.compile(function, fullgraph=True)
    for _ in range(2):
        for a, b in zip(results(compiled), expected, strict=True):
            assert a.requires_grad == b.requires_grad
            assert rl.allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_samples_and_their_probabilities(name: str) -> None:
    def function(m):
        q = CASES[name](m)
        x = q.rsample((2,)) if q.has_rsample else q.sample((2,))
        return x, q.log_prob(x)

    assert_equal_when_compiled(function)


@pytest.mark.parametrize("name", [name for name in CASES if name not in NO_KL])
def test_divergences(name: str) -> None:
    assert_equal_when_compiled(
        lambda m: (D.kl_divergence(CASES[name](m), CASES[name](m.detach() / 2)),)
    )


def test_a_prior_from_outside() -> None:
    normal, categories = D.Normal(0.0, 1.0), D.Categorical(logits=rl.tensor([0.5, 0.0, 1.0]))

    def function(m):
        return (
            D.kl_divergence(D.Normal(m, m.exp()), normal),
            D.kl_divergence(D.Categorical(logits=m), categories),
        )

    assert_equal_when_compiled(function)


def test_a_step_of_policy_gradients() -> None:
    def losses(compile: Callable[[Any], Any]) -> rl.Tensor:
        rl.manual_seed(1)
        net = nn.Linear(3, 4)
        optimizer = rl.optim.SGD(net.parameters(), lr=0.1)

        def step(x):
            policy = D.Categorical(logits=net(x))
            action = policy.sample()
            loss = (
                -(policy.log_prob(action) * (action == 2)).mean() - 0.01 * policy.entropy().mean()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        run = compile(step)
        return rl.stack([run(rl.randn(16, 3)).detach() for _ in range(5)])

    compiled = losses(lambda step: rl.compile(step, fullgraph=True))
    assert rl.allclose(compiled, losses(lambda step: step), atol=1e-5)


def test_values_are_checked_in_dynamic_mode_and_shapes_always() -> None:
    def density(scale, value):
        return D.Normal(rl.zeros(3), scale).log_prob(value)

    compiled = rl.compile(density, fullgraph=True)
    assert compiled(-rl.ones(3), rl.ones(3)).isnan().all()
    with pytest.raises(ValueError, match=r"parameter scale .* found invalid values"):
        density(-rl.ones(3), rl.ones(3))
    for function in (density, compiled):
        with pytest.raises(ValueError, match="not broadcastable"):
            function(rl.ones(3), rl.ones(2))
