"""One of several categories, as a vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rushlight.distributions import constraints
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.distribution import Distribution
from rushlight.nn import functional as F
from rushlight.ops import ops
from rushlight.tensor import Tensor

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


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
