"""The number of failures before a success."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.autograd import no_grad
from rushlight.distributions import constraints
from rushlight.distributions.bernoulli import Binary
from rushlight.distributions.utils import broadcast_all, refuted
from rushlight.dtypes import finfo
from rushlight.nn import functional as F
from rushlight.ops import ops
from rushlight.tensor import Tensor

__all__ = ["Geometric"]


class Geometric(Binary):
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
        given = self._validate_args and probs is not None
        if given and refuted(constraints.positive.check, self.probs):
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
