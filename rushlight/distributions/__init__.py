"""Probability distributions: samples, log-probabilities, entropies and divergences.

>>> policy = rl.distributions.Categorical(logits=rl.zeros(2, 4))
>>> action = policy.sample()
>>> policy.log_prob(action), policy.entropy()
(tensor([-1.3863, -1.3863]), tensor([1.3863, 1.3863]))
"""

from rushlight.distributions import constraints, kl
from rushlight.distributions.bernoulli import Bernoulli
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.cauchy import Cauchy
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.exponential import Exponential
from rushlight.distributions.geometric import Geometric
from rushlight.distributions.independent import Independent
from rushlight.distributions.kl import kl_divergence, register_kl
from rushlight.distributions.laplace import Laplace
from rushlight.distributions.log_normal import LogNormal
from rushlight.distributions.mixture_same_family import MixtureSameFamily
from rushlight.distributions.multivariate_normal import MultivariateNormal
from rushlight.distributions.normal import Normal
from rushlight.distributions.one_hot_categorical import (
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from rushlight.distributions.poisson import Poisson
from rushlight.distributions.uniform import Uniform

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
