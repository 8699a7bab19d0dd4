"""Small programs run with PyTorch and with Rushlight."""

from __future__ import annotations

import copy
import pickle
import warnings
from types import ModuleType
from typing import Any

import numpy as np


def outcome(program: str, module: ModuleType) -> str:
    """What the last expression of a program prints, or the name of its error.

    Its statements are separated by ``; `` and find the package ``module`` as ``torch``.
    """
    names: dict[str, Any] = {"torch": module, "np": np, "copy": copy, "pickle": pickle}
    *statements, last = program.split("; ")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec("\n".join(statements), names)
            return repr(eval(last, names)).replace("rushlight.", "torch.")
        except Exception as error:
            return type(error).__name__
        finally:
            module.set_default_dtype(module.float32)
