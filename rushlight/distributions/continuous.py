"""Distributions of one real number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from rushlight.autograd import no_grad
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    broadcast_all,
)
from rushlight.dtypes import finfo
from rushlight.ops import ops
from rushlight.tensor import Tensor

__all__ = ["Cauchy", "Exponential", "Laplace", "LogNormal", "Normal", "Uniform"]


def standard_normal(shape: Sequence[int], like: Tensor) -> Tensor:
    """Independent samples of the standard normal distribution."""
    return ops.normal(like.new_zeros(shape), like.new_ones(shape))


class Normal(ExponentialFamily):
    """The normal distribution: density exp(-(x - loc)² / (2·scale²)) / (scale·√(2π)).

    >>> rl.distributions.Normal(0.0, 1.0).log_prob(rl.tensor(0.0))
    tensor(-0.9189)
    """

    has_rsample = True
    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale**2

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ops.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = (value - self.loc) ** 2 / (2 * self.variance)
        return -distance - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * (1 + ops.erf((value - self.loc) / (self.scale * math.sqrt(2))))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * ops.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + ops.log(self.scale)


class LogNormal(Distribution):
    """The exponential of a normal distribution.

    >>> rl.distributions.LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    has_rsample = True
    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def base_dist(self) -> Normal:
        """The distribution of the logarithm."""
        return Normal(self.loc, self.scale, validate_args=self._validate_args)

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale**2
        return square.expm1() * (2 * self.loc + square).exp()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape).exp()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logarithm = value.log()
        return self.base_dist.log_prob(logarithm) - logarithm

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.base_dist.cdf(value.log())

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf(value).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class Uniform(Distribution):
    """The uniform distribution on [low, high).

    >>> rl.distributions.Uniform(0.0, 4.0).entropy()
    tensor(1.3863)
    """

    has_rsample = True
    arg_constraints: ClassVar = {"low": constraints.dependent, "high": constraints.dependent}

    def __init__(
        self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.size(), validate_args=validate_args)
        if self._validate_args and not ops.lt(self.low, self.high).all():
            raise ValueError("Uniform is not defined when low>= high")

    @property
    def support(self) -> Constraint:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return math.nan * self.high

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        share = ops.rand(self._extended_shape(sample_shape), dtype=self.low.dtype)
        return self.low + share * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        inside = self.low.le(value) & self.high.gt(value)
        return ops.log(inside.type_as(self.low)) - ops.log(self.high - self.low)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return ops.log(self.high - self.low)


class Exponential(ExponentialFamily):
    """The exponential distribution: density rate·exp(-rate·x) for x >= 0.

    >>> rl.distributions.Exponential(2.0).mean
    tensor(0.5000)
    """

    has_rsample = True
    arg_constraints: ClassVar = {"rate": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    stddev = mean

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.rate)

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = self.rate.new_empty(self._extended_shape(sample_shape)).exponential_()
        return noise / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 1 - ops.exp(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        return -ops.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - ops.log(self.rate)


class Laplace(Distribution):
    """The Laplace distribution: density exp(-|x - loc| / scale) / (2·scale).

    >>> rl.distributions.Laplace(0.0, 1.0).variance
    tensor(2.)
    """

    has_rsample = True
    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = self.loc.new_empty(shape).uniform_(finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * ops.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -ops.log(2 * self.scale) - ops.abs(value - self.loc) / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * ops.expm1(-distance.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * ops.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        return 1 + ops.log(2 * self.scale)


class Cauchy(Distribution):
    """The Cauchy distribution: density 1 / (π·scale·(1 + ((x - loc) / scale)²)).

    >>> rl.distributions.Cauchy(0.0, 1.0).cdf(rl.tensor(1.0))
    tensor(0.7500)
    """

    has_rsample = True
    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return ops.full_like(self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return ops.full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = ((value - self.loc) / self.scale) ** 2
        return -math.log(math.pi) - self.scale.log() - distance.log1p()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ops.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return ops.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
