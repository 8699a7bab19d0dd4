"""Probability distributions: samples, log-probabilities, entropies and divergences.

>>> policy = rl.distributions.Categorical(logits=rl.zeros(2, 4))
>>> action = policy.sample()
>>> policy.log_prob(action), policy.entropy()
(tensor([-1.3863, -1.3863]), tensor([1.3863, 1.3863]))
"""

from rushlight.distributions import constraints, kl
from rushlight.distributions.composite import Independent, MixtureSameFamily
from rushlight.distributions.continuous import (
    Cauchy,
    Exponential,
    Laplace,
    LogNormal,
    Normal,
    Uniform,
)
from rushlight.distributions.discrete import (
    Bernoulli,
    Categorical,
    Geometric,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
)
from rushlight.distributions.distribution import Distribution, ExponentialFamily
from rushlight.distributions.kl import kl_divergence, register_kl
from rushlight.distributions.multivariate import MultivariateNormal

__all__ = [
    "Bernoulli",
    "Categorical",
    "Cauchy",
    "Distribution",
    "Exponential",
    "ExponentialFamily",
    "Geometric",
    "Independent",
    "Laplace",
    "LogNormal",
    "MixtureSameFamily",
    "MultivariateNormal",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
    "Uniform",
    "constraints",
    "kl",
    "kl_divergence",
    "register_kl",
]
