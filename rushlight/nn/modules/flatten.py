"""Layers that change the shape alone."""

from rushlight.nn.shape import Flatten, Unflatten

__all__ = ["Flatten", "Unflatten"]
