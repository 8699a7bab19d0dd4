"""PyTorch's name of what does not belong to the network: ``data``, ``checkpoint`` and more."""

import importlib
from typing import Any

from rushlight.utils import data

_LATER = ("checkpoint", "hooks", "tensorboard")  # loaded when first asked for


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
