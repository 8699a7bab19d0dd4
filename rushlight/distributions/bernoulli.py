"""Truth values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from rushlight.autograd import no_grad
from rushlight.distributions import constraints
from rushlight.distributions.categorical import ONE_OF_TWO
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import broadcast_all, logits_to_probs, probs_to_logits
from rushlight.nn import functional as F
from rushlight.ops import ops
from rushlight.tensor import Tensor

__all__ = ["Bernoulli"]


class Binary(ExponentialFamily):
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
        assert given is not None
        (parameter,) = broadcast_all(given)
        vars(self)[name] = parameter
        super().__init__(parameter.size(), validate_args=validate_args)

    @cached_property
    def logits(self) -> Tensor:
        """log(p / (1 - p))."""
        return probs_to_logits(self.probs, is_binary=True)

    @cached_property
    def probs(self) -> Tensor:
        """The probability of 1."""
        return logits_to_probs(self.logits, is_binary=True)


class Bernoulli(Binary):
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
