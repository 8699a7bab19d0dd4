"""PyTorch's name of the module of ``save`` and ``load``."""

from rushlight.io import load, save

__all__ = ["load", "save"]
