"""Images: transforms, datasets, grids. ``rushlight run`` serves it as ``torchvision``."""

from rushlight.vision import datasets, io, transforms, utils

__all__ = ["datasets", "io", "transforms", "utils"]
