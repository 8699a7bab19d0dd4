"""Larger images."""

# ruff: noqa: F401

from rushlight.nn.upsampling import Upsample, UpsamplingBilinear2d, UpsamplingNearest2d
