"""The options of the fused linear layer and cross entropy."""

# ruff: noqa: F401

from rushlight.ops.linear_cross_entropy import LinearCrossEntropyOptions
