"""Layers that multiply by a matrix."""

from rushlight.nn.linear import (
    Bilinear,
    Identity,
    LazyLinear,
    Linear,
    NonDynamicallyQuantizableLinear,
)

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear", "NonDynamicallyQuantizableLinear"]
