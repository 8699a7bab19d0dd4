"""The Kullback–Leibler divergence of two distributions, ∫ p(x)·log(p(x) / q(x)) dx."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from rushlight import linalg
from rushlight.distributions.bernoulli import Bernoulli
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.cauchy import Cauchy
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.exponential import Exponential
from rushlight.distributions.geometric import Geometric
from rushlight.distributions.independent import Independent
from rushlight.distributions.laplace import Laplace
from rushlight.distributions.log_normal import LogNormal
from rushlight.distributions.multivariate_normal import MultivariateNormal, mahalanobis
from rushlight.distributions.normal import Normal
from rushlight.distributions.one_hot_categorical import OneHotCategorical
from rushlight.distributions.poisson import Poisson
from rushlight.distributions.uniform import Uniform
from rushlight.distributions.utils import sum_rightmost
from rushlight.nn import functional as F
from rushlight.ops import ops
from rushlight.tensor import Tensor

__all__ = ["kl_divergence", "register_kl"]

Formula = TypeVar("Formula", bound=Callable[..., Tensor])
FORMULAS: dict[tuple[type, type], Callable[..., Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """Decorates the formula of `kl_divergence` for two types and what derives from them."""
    for cls in (type_p, type_q):
        if not issubclass(cls, Distribution):
            raise TypeError(f"Expected a subclass of Distribution but got {cls}")

    def register(formula: Formula) -> Formula:
        FORMULAS[type_p, type_q] = formula
        return formula

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """How many nats it costs to expect ``q`` where ``p`` holds: E_p[log p(x) - log q(x)].

    >>> normal = rl.distributions.Normal
    >>> rl.distributions.kl_divergence(normal(0.0, 1.0), normal(1.0, 1.0))
    tensor(0.5000)
    """
    for left in type(p).__mro__:
        for right in type(q).__mro__:
            if (left, right) in FORMULAS:
                return FORMULAS[left, right](p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    distance = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + distance - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
def _log_normal(p: LogNormal, q: LogNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return result.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    distance = (p.loc - q.loc).abs()
    ratio = p.scale / q.scale
    return -ratio.log() + distance / q.scale + ratio * ops.exp(-distance / p.scale) - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    nearness = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return nearness.log() - (4 * p.scale * q.scale).log()


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    one = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    one = one.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    zero = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    zero = zero.masked_fill(q.probs == 1, math.inf).masked_fill(p.probs == 1, 0)
    return one + zero


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - ops.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = terms.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    return terms.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot "
            "be computed"
        )
    a, b = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    shape = (*ops.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *a.shape[-2:])
    trace = linalg.solve_triangular(b.expand(shape), a.expand(shape), upper=False)
    trace = trace.pow(2).sum((-2, -1))
    distance = mahalanobis(b, q.loc - p.loc)
    return q._half_log_det() - p._half_log_det() + 0.5 * (trace + distance - p.event_shape[0])


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "kl_divergence of Independent distributions with different reinterpreted_batch_ndims"
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)
