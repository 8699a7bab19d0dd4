"""Distributions of the exponential family."""

from rushlight.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution whose density is exp(⟨t(x), θ⟩ - F(θ) + k(x))."""
