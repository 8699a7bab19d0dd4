"""PyTorch's name of what does not belong to the network: ``data`` and ``tensorboard``."""

import importlib
from typing import Any

from rushlight.utils import data


def __getattr__(name: str) -> Any:
    if name == "tensorboard":  # loaded when first asked for
        return importlib.import_module("rushlight.utils.tensorboard")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
