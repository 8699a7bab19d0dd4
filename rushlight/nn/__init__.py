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
from rushlight.nn.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from rushlight.nn.folding import Fold, Unfold
from rushlight.nn.lazy_convolution import (
    LazyConv1d,
    LazyConv2d,
    LazyConv3d,
    LazyConvTranspose1d,
    LazyConvTranspose2d,
    LazyConvTranspose3d,
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
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "DataParallel",
    "Flatten",
    "Fold",
    "GRUCell",
    "Identity",
    "LSTMCell",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
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
    "Unfold",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "init",
    "modules",
    "parallel",
    "utils",
]
