"""Networks: modules, their parameters, and the functions they are made of."""

from rushlight.nn import functional, init, modules
from rushlight.nn.containers import (
    ModuleDict,
    ModuleList,
    ParameterDict,
    ParameterList,
    Sequential,
)
from rushlight.nn.linear import Bilinear, Identity, LazyLinear, Linear
from rushlight.nn.module import Module
from rushlight.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)
from rushlight.nn.shape import Flatten, Unflatten

__all__ = [
    "Bilinear",
    "Buffer",
    "Flatten",
    "Identity",
    "LazyLinear",
    "Linear",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "Sequential",
    "Unflatten",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "init",
    "modules",
]
