"""Counts of independent events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rushlight.autograd import no_grad
from rushlight.distributions import constraints
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import broadcast_all
from rushlight.ops import ops
from rushlight.tensor import Tensor

__all__ = ["Poisson"]


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
