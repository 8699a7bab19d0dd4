"""Automatic differentiation of the dynamic graph."""

import importlib
from typing import Any

from rushlight.autograd import functional, graph
from rushlight.autograd.backward import backward, grad
from rushlight.autograd.function import Function
from rushlight.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from rushlight.autograd.modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from rushlight.autograd.variable import Variable

__all__ = [
    "Function",
    "GradcheckError",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]


def __getattr__(name: str) -> Any:
    if name == "profiler":  # it watches compiled programs too, so much is loaded with it
        return importlib.import_module("rushlight.autograd.profiler")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
