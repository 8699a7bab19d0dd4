"""Batch dimensions that together are one event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import sum_rightmost
from rushlight.tensor import Tensor

__all__ = ["Independent"]


class Independent(Distribution):
    """A distribution whose last batch dimensions together are one event.

    >>> normal = rl.distributions.Normal(rl.zeros(5, 2), rl.ones(5, 2))
    >>> vectors = rl.distributions.Independent(normal, 1)
    >>> vectors.batch_shape, vectors.event_shape
    (rushlight.Size([5]), rushlight.Size([2]))
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = len(base_distribution.batch_shape)
        if reinterpreted_batch_ndims > batch:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {batch}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        split = batch - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.has_rsample = base_distribution.has_rsample
        self.has_enumerate_support = (
            reinterpreted_batch_ndims == 0 and base_distribution.has_enumerate_support
        )
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:split], shape[split:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int]) -> Independent:
        inner = self.event_shape[: self.reinterpreted_batch_ndims]
        base = self.base_dist.expand((*batch_shape, *inner))
        return Independent(base, self.reinterpreted_batch_ndims, self._validate_args)

    @property
    def support(self) -> Constraint:
        base = self.base_dist.support
        count = self.reinterpreted_batch_ndims
        return constraints.independent(base, count) if count else base

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"
