"""Pillow, the optional extra for image files and PIL images."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def pillow() -> Any:
    """The module ``PIL.Image``, or an error that says how to get it."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("images need Pillow: pip install pillow") from None
    return Image


def pillow_module(name: str) -> Any:
    """Another module of Pillow's, such as ``ImageOps``."""
    pillow()
    return importlib.import_module(f"PIL.{name}")


def is_pil(image: Any) -> bool:
    """Whether ``image`` is a PIL image; Pillow need not be installed to ask."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(image, module.Image)
