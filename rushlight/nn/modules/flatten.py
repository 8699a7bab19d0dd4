"""Layers that change the shape alone."""

# ruff: noqa: F401

from rushlight.nn.shape import Flatten, Unflatten
