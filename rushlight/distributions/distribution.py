"""What all distributions share: shapes, sampling, and checks of parameters and values."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from rushlight.autograd import no_grad
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.utils import refuted
from rushlight.ops import ops
from rushlight.tensor import Size, Tensor

Self = TypeVar("Self", bound="Distribution")


class Distribution:
    """A batch of probability distributions.

    ``batch_shape`` counts distributions that are independent of each other, ``event_shape`` is the
    shape of one sample of one of them. `sample` of a shape returns a tensor of shape
    ``(*sample_shape, *batch_shape, *event_shape)``, and `log_prob` of it one number for each event.

    Args:
        validate_args: whether parameters and values are checked, by default that they are. A
            compiled function checks their shapes only.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    _validate_args = __debug__

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Sets whether distributions check what they are given unless told otherwise."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            # A parameter that is derived from another one is not in the instance yet.
            if name not in vars(self) or constraints.is_dependent(constraint):
                continue
            value = getattr(self, name)
            if refuted(constraint.check, value):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    def _validate_sample(self, value: Any) -> None:
        """Refuses a value that is not of this distribution's shape, or not in its support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        events = len(self._event_shape)
        if value.shape[value.dim() - events :] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {tuple(value.shape)} vs "
                f"{tuple(self._event_shape)}."
            )
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{tuple(value.shape)} vs {tuple(expected)}."
                )
        if constraints.is_dependent(self.support):
            return
        if refuted(self.support.check, value):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({self.support!r}) of the distribution {self!r}, but "
                f"found invalid values:\n{value}"
            )

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one sample of one distribution."""
        return self._event_shape

    @property
    def support(self) -> Constraint:
        """The set that samples lie in."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The most probable value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The expected squared distance from the mean."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def expand(self: Self, batch_shape: Sequence[int]) -> Self:
        """The same distributions, repeated to a larger batch without a copy."""
        new = copy.copy(self)
        new._batch_shape = Size(batch_shape)
        for name in self.arg_constraints:
            if name in vars(self):
                value = getattr(self, name)
                own = value.shape[len(self._batch_shape) :]
                setattr(new, name, value.expand(new._batch_shape + own))
        return new

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples that are differentiable functions of the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """``n`` samples."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, at a value."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a sample of at most ``value``."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`: which value is exceeded with probability ``1 - value``."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values there are, along a new first dimension."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The expected value of ``-log_prob``."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return ops.exp(self.entropy())

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in vars(self)]
        values = ((name, getattr(self, name)) for name in names)
        shown = (f"{name}: {v if v.numel() == 1 else v.size()}" for name, v in values)
        return f"{type(self).__name__}({', '.join(shown)})"
