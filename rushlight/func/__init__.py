"""Functions of functions: gradients, Jacobians and batches, freely nested."""

import importlib
from typing import Any

from rushlight.func.transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp
from rushlight.func.vmap import vmap

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp", "vmap"]

_OF_NETWORKS = ("functional_call", "stack_module_state")


def __getattr__(name: str) -> Any:
    if name in _OF_NETWORKS:  # networks are loaded when first asked for
        return getattr(importlib.import_module("rushlight.func.modules"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
