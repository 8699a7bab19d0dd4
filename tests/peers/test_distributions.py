"""Distributions beside PyTorch's: the same samples of one seed, the same numbers and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

Make = Callable[[Any], Any]
COVARIANCE = [[2.0, 0.5], [0.5, 1.0]]

CASES: dict[str, Make] = {
    "normal": lambda t: t.distributions.Normal(t.tensor([0.5, -1.0]), t.tensor([1.0, 2.5])),
    "normal of numbers": lambda t: t.distributions.Normal(0.5, 2.0),
    "normal of many": lambda t: t.distributions.Normal(t.zeros(5, 1), t.ones(7)),
    "normal in double": lambda t: t.distributions.Normal(t.tensor(1.0, dtype=t.float64), 2),
    "log normal": lambda t: t.distributions.LogNormal(t.tensor([0.5, -1.0]), 0.7),
    "uniform": lambda t: t.distributions.Uniform(t.tensor([-1.0, 0.0]), t.tensor([1.0, 4.0])),
    "exponential": lambda t: t.distributions.Exponential(t.tensor([0.5, 3.0])),
    "laplace": lambda t: t.distributions.Laplace(t.tensor([0.5, 3.0]), t.tensor([1.0, 0.1])),
    "cauchy": lambda t: t.distributions.Cauchy(t.tensor([0.5, 3.0]), 2.0),
    "bernoulli": lambda t: t.distributions.Bernoulli(t.tensor([0.2, 0.5, 0.9])),
    "bernoulli of logits": lambda t: t.distributions.Bernoulli(logits=t.tensor([-2.0, 3.0])),
    "geometric": lambda t: t.distributions.Geometric(t.tensor([0.2, 0.5, 0.9])),
    "poisson": lambda t: t.distributions.Poisson(t.tensor([0.2, 5.0, 30.0])),
    "categorical": lambda t: t.distributions.Categorical(t.tensor([[1.0, 2.0, 1], [0, 1, 3]])),
    "categorical of logits": lambda t: t.distributions.Categorical(
        logits=t.tensor([0.5, -1.0, 2.0, 0.0])
    ),
    "one-hot": lambda t: t.distributions.OneHotCategorical(t.tensor([[1.0, 2.0, 1], [5, 1, 3]])),
    "straight-through": lambda t: t.distributions.OneHotCategoricalStraightThrough(
        logits=t.tensor([[1.0, 2.0, 1], [0, 1, 3]])
    ),
    "multivariate": lambda t: t.distributions.MultivariateNormal(
        t.tensor([[0.0, 1.0], [2.0, 3.0]]), t.tensor(COVARIANCE)
    ),
    "multivariate by precision": lambda t: t.distributions.MultivariateNormal(
        t.zeros(2), precision_matrix=t.tensor(COVARIANCE)
    ),
    "multivariate by triangle": lambda t: t.distributions.MultivariateNormal(
        t.zeros(3, 2), scale_tril=t.tensor([[1.0, 0.0], [0.5, 2.0]])
    ),
    "independent": lambda t: t.distributions.Independent(
        t.distributions.Normal(t.zeros(3, 2), t.ones(3, 2)), 1
    ),
    "independent of truth": lambda t: t.distributions.Independent(
        t.distributions.Bernoulli(t.tensor([0.2, 0.9])), 0
    ),
    "mixture": lambda t: t.distributions.MixtureSameFamily(
        t.distributions.Categorical(t.tensor([1.0, 3.0])),
        t.distributions.Normal(t.tensor([-2.0, 2.0]), t.tensor([1.0, 0.5])),
    ),
    "mixture of vectors": lambda t: t.distributions.MixtureSameFamily(
        t.distributions.Categorical(t.tensor([[1.0, 3.0], [2.0, 2.0]])),
        t.distributions.Independent(
            t.distributions.Normal(t.arange(12.0).reshape(2, 2, 3), t.ones(2, 2, 3)), 1
        ),
    ),
}  # fmt: skip

everyone = pytest.mark.parametrize("make", CASES.values(), ids=CASES)


def close(ours: Any, theirs: Any) -> None:
    assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    assert tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(
        ours.detach().numpy(), theirs.detach().numpy(), rtol=2e-6, atol=1e-6, equal_nan=True
    )


@everyone
@pytest.mark.parametrize("shape", [(), (4,), (3, 7)], ids=str)
def test_samples_and_what_is_said_of_them(make: Make, shape: tuple[int, ...]) -> None:
    ours, theirs = make(rl), make(torch)
    rl.manual_seed(3)
    torch.manual_seed(3)
    drawn, expected = ours.sample(shape), theirs.sample(shape)
    close(drawn, expected)
    assert not drawn.requires_grad
    close(ours.log_prob(drawn), theirs.log_prob(expected))
    if theirs.has_rsample:
        close(ours.rsample(shape), theirs.rsample(shape))


@everyone
@pytest.mark.parametrize("name", ["mean", "mode", "variance", "stddev", "entropy", "perplexity"])
def test_moments(make: Make, name: str) -> None:
    ours, theirs = make(rl), make(torch)
    try:
        expected = getattr(theirs, name)
        expected = expected() if callable(expected) else expected
    except NotImplementedError:
        return
    found = getattr(ours, name)
    close(found() if callable(found) else found, expected)


@everyone
def test_shapes_and_text(make: Make) -> None:
    ours, theirs = make(rl), make(torch)
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(ours.event_shape) == tuple(theirs.event_shape)
    assert ours.has_rsample == theirs.has_rsample
    assert ours.has_enumerate_support == theirs.has_enumerate_support
    if type(theirs).__name__ not in ("LogNormal", "MixtureSameFamily"):  # ours say more
        assert str(ours) == str(theirs).replace("torch.Size", "rushlight.Size")


@everyone
def test_a_larger_batch(make: Make) -> None:
    ours, theirs = make(rl), make(torch)
    if "Mixture" in type(theirs).__name__:
        return
    shape = (2, *theirs.batch_shape)
    ours, theirs = ours.expand(shape), theirs.expand(shape)
    rl.manual_seed(5)
    torch.manual_seed(5)
    drawn, expected = ours.sample(), theirs.sample()
    close(drawn, expected)
    close(ours.log_prob(drawn), theirs.log_prob(expected))


CONTINUOUS = ["normal", "log normal", "uniform", "exponential", "laplace", "cauchy"]


@pytest.mark.parametrize("name", CONTINUOUS)
def test_cumulative_probabilities(name: str) -> None:
    ours, theirs = CASES[name](rl), CASES[name](torch)
    share = [[0.1, 0.25], [0.5, 0.9]]
    value = ours.icdf(rl.tensor(share))
    close(value, theirs.icdf(torch.tensor(share)))
    close(ours.cdf(value), theirs.cdf(torch.tensor(value.tolist())))


@pytest.mark.parametrize("name", ["bernoulli", "categorical", "one-hot", "independent of truth"])
@pytest.mark.parametrize("expand", [True, False])
def test_all_values(name: str, expand: bool) -> None:
    close(CASES[name](rl).enumerate_support(expand), CASES[name](torch).enumerate_support(expand))


PAIRS: dict[str, Callable[..., Any]] = {
    "normal": lambda t, d, a, b: d.Normal(a, b),
    "log normal": lambda t, d, a, b: d.LogNormal(a, b),
    "uniform": lambda t, d, a, b: d.Uniform(a - 3, a + b),
    "exponential": lambda t, d, a, b: d.Exponential(b),
    "laplace": lambda t, d, a, b: d.Laplace(a, b),
    "cauchy": lambda t, d, a, b: d.Cauchy(a, b),
    "bernoulli": lambda t, d, a, b: d.Bernoulli(logits=a),
    "geometric": lambda t, d, a, b: d.Geometric(logits=a),
    "poisson": lambda t, d, a, b: d.Poisson(b),
    "categorical": lambda t, d, a, b: d.Categorical(logits=a),
    "one-hot": lambda t, d, a, b: d.OneHotCategorical(probs=b),
    "independent": lambda t, d, a, b: d.Independent(d.Normal(a, b), 1),
    "multivariate": lambda t, d, a, b: d.MultivariateNormal(a, t.diag_embed(b)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_divergences_and_their_gradients(name: str) -> None:
    make = PAIRS[name]
    draws = np.random.default_rng(0)
    values = draws.standard_normal((4, 2, 3)).astype(np.float32)
    found = []
    for t in (rl, torch):
        a, c = (t.tensor(v.tolist(), requires_grad=True) for v in values[:2])
        b, d = (t.tensor(v.tolist(), requires_grad=True) for v in abs(values[2:]) + 0.1)
        p, q = make(t, t.distributions, a, b), make(t, t.distributions, c, d)
        divergence = t.distributions.kl_divergence(p, q)
        finite = t.where(t.isfinite(divergence), divergence, t.zeros_like(divergence))
        finite.sum().backward()
        found.append([divergence, *(leaf.grad for leaf in (a, b, c, d))])
    for ours, theirs in zip(*found, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(
                ours.detach().numpy(), theirs.detach().numpy(), rtol=3e-5, atol=2e-6
            )


@pytest.mark.parametrize("name", ["normal", "laplace", "multivariate", "independent", "uniform"])
def test_gradients_through_samples(name: str) -> None:
    found = []
    for t in (rl, torch):
        a = t.tensor([[0.5, -1.0, 2.0]], requires_grad=True)
        b = t.tensor([[1.5, 1.0, 0.5]], requires_grad=True)
        t.manual_seed(1)
        distribution = PAIRS[name](t, t.distributions, a, b)
        sample = distribution.rsample((4,))
        (sample.pow(2).sum() + distribution.log_prob(sample).sum()).backward()
        found.append((a.grad, b.grad))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "a negative scale": lambda t, d: d.Normal(0.0, t.tensor([1.0, -1.0])),
    "not a number": lambda t, d: d.Normal(t.tensor(float("nan")), 1.0),
    "a probability above one": lambda t, d: d.Bernoulli(1.5),
    "two parameters": lambda t, d: d.Bernoulli(0.5, 0.5),
    "no parameter": lambda t, d: d.Categorical(),
    "negative weights": lambda t, d: d.Categorical(t.tensor([-1.0, 2.0])),
    "a scalar of categories": lambda t, d: d.Categorical(t.tensor(1.0)),
    "an empty interval": lambda t, d: d.Uniform(1.0, 0.0),
    "not positive definite": lambda t, d: d.MultivariateNormal(t.zeros(2), -t.eye(2)),
    "no covariance": lambda t, d: d.MultivariateNormal(t.zeros(2)),
    "a value outside": lambda t, d: d.Bernoulli(0.5).log_prob(t.tensor(0.5)),
    "a category too many": lambda t, d: d.Categorical(t.ones(3)).log_prob(t.tensor(3)),
    "a value of another shape": lambda t, d: d.Normal(t.zeros(2), 1.0).log_prob(t.zeros(3)),
    "a value that is no tensor": lambda t, d: d.Normal(0.0, 1.0).log_prob(0.0),
    "too many dimensions": lambda t, d: d.Independent(d.Normal(t.zeros(2), 1.0), 2),
    "a parameter of text": lambda t, d: d.Normal("a", 1.0),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        REFUSED[name](torch, torch.distributions)
    with pytest.raises(ValueError, match=r"\w"):
        REFUSED[name](rl, rl.distributions)


def test_checks_can_be_left_out() -> None:
    loose = rl.distributions.Normal(rl.tensor(0.0), rl.tensor(-1.0), validate_args=False)
    assert loose.log_prob(rl.tensor(float("nan"))).isnan()


def test_an_unknown_divergence() -> None:
    pair = rl.distributions.Normal(0.0, 1.0), rl.distributions.Bernoulli(0.5)
    with pytest.raises(NotImplementedError, match="p type Normal and q type Bernoulli"):
        rl.distributions.kl_divergence(*pair)


def test_a_policy_learns_as_in_pytorch() -> None:
    """REINFORCE on a bandit: sampled actions, their log-probabilities and an entropy bonus."""
    curves = []
    for t in (rl, torch):
        t.manual_seed(0)
        policy = t.nn.Sequential(t.nn.Linear(3, 8), t.nn.Tanh(), t.nn.Linear(8, 4))
        optimizer = t.optim.Adam(policy.parameters(), lr=0.05)
        curve = []
        for _ in range(30):
            choice = t.distributions.Categorical(logits=policy(t.randn(16, 3)))
            action = choice.sample()
            reward = (action == 2).float() - 0.25
            loss = -(choice.log_prob(action) * reward).mean() - 0.01 * choice.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            curve.append(reward.mean().item())
        curves.append(curve)
    assert curves[0] == curves[1]
    assert np.mean(curves[0][-5:]) > np.mean(curves[0][:5])
