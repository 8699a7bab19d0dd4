"""Networks: modules, their parameters, and the functions they are made of."""

from rushlight.nn import functional, init, modules, parallel, utils
from rushlight.nn.cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
from rushlight.nn.containers import (
    ModuleDict,
    ModuleList,
    ParameterDict,
    ParameterList,
    Sequential,
)
from rushlight.nn.linear import Bilinear, Identity, LazyLinear, Linear
from rushlight.nn.module import Module
from rushlight.nn.parallel import DataParallel
from rushlight.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)
from rushlight.nn.recurrent import GRU, LSTM, RNN, RNNBase
from rushlight.nn.shape import Flatten, Unflatten

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "Bilinear",
    "Buffer",
    "DataParallel",
    "Flatten",
    "GRUCell",
    "Identity",
    "LSTMCell",
    "LazyLinear",
    "Linear",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "RNNBase",
    "RNNCell",
    "RNNCellBase",
    "Sequential",
    "Unflatten",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "init",
    "modules",
    "parallel",
    "utils",
]
