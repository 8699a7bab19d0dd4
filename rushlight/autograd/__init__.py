"""Automatic differentiation of the dynamic graph."""

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
