"""Layers that multiply by a matrix."""

# ruff: noqa: F401

from rushlight.nn.linear import (
    Bilinear,
    Identity,
    LazyLinear,
    Linear,
    NonDynamicallyQuantizableLinear,
)
