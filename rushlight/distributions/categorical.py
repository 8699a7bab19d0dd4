"""One of several categories, as its number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import logits_to_probs, probs_to_logits
from rushlight.dtypes import finfo
from rushlight.ops import ops
from rushlight.tensor import Size, Tensor

__all__ = ["Categorical"]

ONE_OF_TWO = "Either `probs` or `logits` must be specified, but not both."


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
        return probs_to_logits(self.probs)

    @cached_property
    def probs(self) -> Tensor:
        """The probabilities, which sum to one."""
        return logits_to_probs(self.logits)

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
