"""Shuffled channels."""

# ruff: noqa: F401

from rushlight.nn.shuffling import ChannelShuffle
