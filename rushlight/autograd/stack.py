"""Tensors joined along a new dimension, below the ops: for gradients computed one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rushlight.autograd.function import Function, FunctionCtx
from rushlight.tensor import Tensor, wrap


class Stack(Function):
    """Joins tensors of one shape along a new first dimension."""

    @staticmethod
    def forward(ctx: FunctionCtx, *tensors: Tensor) -> Tensor:
        return wrap(np.stack([t._array for t in tensors]))

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[Tensor, ...]:
        return tuple(g.unbind(0))


def stack(tensors: Sequence[Tensor], like: Tensor) -> Tensor:
    """``tensors``, each of the shape and dtype of ``like``, as the rows of one."""
    if tensors:
        return Stack.apply(*tensors)
    return wrap(np.zeros((0, *like._array.shape), like._array.dtype))
