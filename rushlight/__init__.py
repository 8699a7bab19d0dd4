"""Rushlight: tensors, autograd and neural networks as PyTorch users know them."""

from rushlight import autograd, dtypes, interop, printing
from rushlight.autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from rushlight.autograd.modes import is_inference_mode_enabled
from rushlight.config import config
from rushlight.device import device
from rushlight.dtypes import *  # noqa: F403 - replaced below
from rushlight.interop import from_numpy
from rushlight.literals import tensor
from rushlight.ops import ops
from rushlight.printing import set_printoptions
from rushlight.tensor import Size, Tensor

__version__ = "0.1.0"
globals().update(vars(ops))
