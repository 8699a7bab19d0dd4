"""The names of PyTorch's code generator that programs use."""

from rushlight._inductor import config
