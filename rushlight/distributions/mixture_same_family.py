"""A component that is drawn, then a sample of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rushlight.autograd import no_grad
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.distribution import Distribution
from rushlight.ops import ops
from rushlight.tensor import Tensor

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture: a category is drawn, then a sample of the component with that number.

    Args:
        mixture_distribution: the categories' probabilities.
        component_distribution: the components, along the last dimension of the batch.

    >>> weights = rl.distributions.Categorical(rl.ones(2))
    >>> peaks = rl.distributions.Normal(rl.tensor([-1.0, 1.0]), rl.ones(2))
    >>> rl.distributions.MixtureSameFamily(weights, peaks).mean
    tensor(0.)
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {}

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an instance of "
                "torch.distributions.Categorical"
            )
        components = component_distribution.batch_shape
        if not components or components[-1] != mixture_distribution.param_shape[-1]:
            raise ValueError(
                f"`mixture_distribution` has {mixture_distribution.param_shape[-1]} categories, "
                f"but the batch of `component_distribution` is {tuple(components)}"
            )
        ops.broadcast_shapes(mixture_distribution.batch_shape, components[:-1])
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        super().__init__(components[:-1], component_distribution.event_shape, validate_args)

    @property
    def mixture_distribution(self) -> Categorical:
        """The categories."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    @property
    def support(self) -> Constraint:
        return self._component_distribution.support

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self._component_distribution.mean).sum(self._axis())

    @property
    def variance(self) -> Tensor:
        component, weights, axis = self._component_distribution, self._weights(), self._axis()
        within = (weights * component.variance).sum(axis)
        between = (weights * (component.mean - self.mean.unsqueeze(axis)).pow(2)).sum(axis)
        return within + between

    def cdf(self, value: Tensor) -> Tensor:
        each = self._component_distribution.cdf(value.unsqueeze(self._axis()))
        return (each * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        each = self._component_distribution.log_prob(value.unsqueeze(self._axis()))
        weights = ops.log_softmax(self._mixture_distribution.logits, -1)
        return ops.logsumexp(each + weights, -1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            samples = self._component_distribution.sample(sample_shape)
            events = self._event_shape
            index = chosen.reshape((*chosen.shape, *[1] * (len(events) + 1)))
            index = index.expand((*chosen.shape, 1, *events))
            return samples.gather(samples.dim() + self._axis(), index).squeeze(self._axis())

    def _axis(self) -> int:
        """The components' dimension in a sample, from the right."""
        return -1 - len(self._event_shape)

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape((*probs.shape, *[1] * len(self._event_shape)))

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self._mixture_distribution!r},\n  "
            f"{self._component_distribution!r})"
        )
