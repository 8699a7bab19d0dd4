"""Layer, group and local normalisation."""

# ruff: noqa: F401

from rushlight.nn.normalization import (
    CrossMapLRN2d,
    GroupNorm,
    LayerNorm,
    LocalResponseNorm,
    RMSNorm,
)
