"""Modules that find out the shapes of their parameters."""

from rushlight.nn.lazy import LazyModuleMixin

__all__ = ["LazyModuleMixin"]
