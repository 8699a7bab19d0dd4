"""The memory order of the weights of convolutions."""

from __future__ import annotations

from typing import TypeVar

from rushlight.layouts import memory_format as Format
from rushlight.nn.convolution import (
    Conv2d,
    Conv3d,
    ConvTranspose2d,
    ConvTranspose3d,
    _ConvNd,
)
from rushlight.nn.module import Module

M = TypeVar("M", bound=Module)


def convert_conv2d_weight_memory_format(module: M, memory_format: Format) -> M:
    """Puts the weights of all 2-d convolutions in a module into another memory order, in place."""
    return converted(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: M, memory_format: Format) -> M:
    """Puts the weights of all 3-d convolutions in a module into another memory order, in place."""
    return converted(module, memory_format, (Conv3d, ConvTranspose3d))


def converted(module: M, memory_format: Format, classes: tuple[type[_ConvNd], ...]) -> M:
    for layer in module.modules():
        if isinstance(layer, classes):
            layer.weight.data = layer.weight.data.clone(memory_format=memory_format)
    return module
