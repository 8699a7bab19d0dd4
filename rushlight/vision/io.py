"""torchvision's name of :mod:`rushlight.vision.image_files`."""

from rushlight.vision.image_files import ImageReadMode, read_image

__all__ = ["ImageReadMode", "read_image"]
