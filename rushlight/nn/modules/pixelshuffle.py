"""Channels as pixels, and back."""

# ruff: noqa: F401

from rushlight.nn.shuffling import PixelShuffle, PixelUnshuffle
