"""Distributions of truth values, of categories and of counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from rushlight.autograd import no_grad
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    broadcast_all,
    clamp_probs,
)
from rushlight.dtypes import finfo
from rushlight.nn import functional as F
from rushlight.ops import ops
from rushlight.tensor import Size, Tensor

__all__ = [
    "Bernoulli",
    "Categorical",
    "Geometric",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
]

ONE_OF_TWO = "Either `probs` or `logits` must be specified, but not both."


class _Binary(ExponentialFamily):
    """The parameter of truth values: a probability p, or its logit log(p / (1 - p))."""

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError(ONE_OF_TWO)
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        (parameter,) = broadcast_all(given)
        vars(self)[name] = parameter
        super().__init__(parameter.size(), validate_args=validate_args)

    @cached_property
    def logits(self) -> Tensor:
        """log(p / (1 - p))."""
        probs = clamp_probs(self.probs)
        return ops.log(probs) - ops.log1p(-probs)

    @cached_property
    def probs(self) -> Tensor:
        """The probability of 1."""
        return ops.sigmoid(self.logits)


class Bernoulli(_Binary):
    """1 with probability p, 0 with probability 1 - p.

    Args:
        probs: the probability of 1,
        logits: or log(p / (1 - p)).

    >>> rl.distributions.Bernoulli(rl.tensor([0.25])).log_prob(rl.tensor([1.0]))
    tensor([-1.3863])
    """

    has_enumerate_support = True
    support = constraints.boolean

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).to(self.probs)
        return mode.masked_fill(self.probs == 0.5, math.nan)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        parameter = self.probs
        values = ops.arange(2, dtype=parameter.dtype).view(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


class Geometric(_Binary):
    """The number of failures before the first success of probability p.

    >>> rl.distributions.Geometric(rl.tensor([0.25])).mean
    tensor([3.])
    """

    support = constraints.nonnegative_integer

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(probs, logits, validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            raise ValueError(
                f"Expected parameter probs (Tensor of shape {tuple(self.probs.shape)}) of "
                f"distribution {self!r} to be positive but found invalid values:\n{self.probs}"
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return ops.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            u = self.probs.new_empty(self._extended_shape(sample_shape))
            u.uniform_(finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        failure = ops.where((probs == 1) & (value == 0), 0, -probs)  # 0·log(0) is 0
        return value * failure.log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        entropy = F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return entropy / self.probs


class Poisson(ExponentialFamily):
    """Counts of independent events: probability rateᵏ·exp(-rate) / k!.

    >>> rl.distributions.Poisson(rl.tensor([4.0])).log_prob(rl.tensor([0.0]))
    tensor([-4.])
    """

    arg_constraints: ClassVar = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    variance = mean

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return ops.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()


class Categorical(Distribution):
    """One of K categories, numbered from 0.

    Args:
        probs: weights along the last dimension, which are divided by their sum,
        logits: or logarithms of such weights.

    >>> choice = rl.distributions.Categorical(rl.tensor([1.0, 1.0, 2.0]))
    >>> choice.probs, choice.log_prob(rl.tensor(2))
    (tensor([0.2500, 0.2500, 0.5000]), tensor(-0.6931))
    """

    has_enumerate_support = True
    arg_constraints: ClassVar = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError(ONE_OF_TWO)
        name, parameter = ("logits", logits) if probs is None else ("probs", probs)
        assert parameter is not None
        if parameter.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is None:
            parameter = parameter - parameter.logsumexp(-1, keepdim=True)
        else:
            parameter = parameter / parameter.sum(-1, keepdim=True)
        vars(self)[name] = parameter
        self._num_events = parameter.size(-1)
        super().__init__(parameter.size()[:-1], validate_args=validate_args)

    @cached_property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return ops.log(clamp_probs(self.probs))

    @cached_property
    def probs(self) -> Tensor:
        """The probabilities, which sum to one."""
        return ops.softmax(self.logits, -1)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter: the batch, and the number of categories."""
        return Size((*self._batch_shape, self._num_events))

    @property
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return self.probs.new_full(self._extended_shape(), math.nan)

    variance = mean

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        rows = self.probs.reshape(-1, self._num_events)
        drawn = ops.multinomial(rows.detach(), Size(sample_shape).numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, logits = ops.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)  # so that 0·log(0) is 0
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = ops.arange(self._num_events).view(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


class OneHotCategorical(Distribution):
    """One of K categories, as a vector of zeros with a single one.

    >>> choice = rl.distributions.OneHotCategorical(rl.tensor([0.0, 1.0]))
    >>> choice.sample()
    tensor([0., 1.])
    """

    has_enumerate_support = True
    arg_constraints: ClassVar = Categorical.arg_constraints
    support = constraints.one_hot

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int]) -> OneHotCategorical:
        new = super().expand(batch_shape)
        new._categorical = self._categorical.expand(batch_shape)
        return new

    @property
    def probs(self) -> Tensor:
        """The probabilities, which sum to one."""
        return self._categorical.probs

    mean = probs

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def mode(self) -> Tensor:
        return F.one_hot(self._categorical.mode, self._event_shape[0]).to(self.probs)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = self._categorical.sample(sample_shape)
        return F.one_hot(drawn, self._event_shape[0]).to(self.probs)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        size = self._event_shape[0]
        values = ops.eye(size, dtype=self.probs.dtype)
        values = values.view(size, *[1] * len(self._batch_shape), size)
        return values.expand(size, *self._batch_shape, size) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """Samples whose gradient is that of the probabilities.

    >>> probs = rl.tensor([0.0, 1.0], requires_grad=True)
    >>> rl.distributions.OneHotCategoricalStraightThrough(probs).rsample().requires_grad
    True
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
