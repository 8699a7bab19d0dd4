"""Tensors joined along a new dimension, below the ops: for gradients computed one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rushlight.tensor import Tensor


class Joining:
    """Where this layer finds the op, which is made of later ones; set by it."""

    stack: Callable[[Sequence[Tensor]], Tensor]


def stack(tensors: Sequence[Tensor], like: Tensor) -> Tensor:
    """``tensors``, each of the shape and dtype of ``like``, as the rows of one."""
    return Joining.stack(tensors) if tensors else like.new_zeros((0, *like.shape))
