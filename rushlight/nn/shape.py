"""Layers that change the shape alone."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.errors import kind
from rushlight.nn.module import Module
from rushlight.tensor import Tensor


class Flatten(Module):
    """Makes the dimensions from ``start_dim`` to ``end_dim`` one.

    Args:
        start_dim: the first of them; 1 leaves out that of the batch.
        end_dim: the last of them.

    Shape:
        (*, s₁, …, sₙ, *) to (*, s₁·…·sₙ, *).

    >>> rl.nn.Flatten()(rl.zeros(32, 1, 5, 5)).shape
    rushlight.Size([32, 25])
    """

    __constants__ = ["start_dim", "end_dim"]
    start_dim: int
    end_dim: int

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Makes several dimensions of one.

    Args:
        dim: the dimension to be taken apart.
        unflattened_size: the sizes that it gives; one may be -1.

    Shape:
        (*, s₁·…·sₙ, *) to (*, s₁, …, sₙ, *).

    >>> rl.nn.Unflatten(1, (2, 5))(rl.zeros(3, 10)).shape
    rushlight.Size([3, 2, 5])
    """

    __constants__ = ["dim", "unflattened_size"]
    dim: int
    unflattened_size: Sequence[int]

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {kind(unflattened_size)}"
            )
        for place, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{kind(size)} at pos {place}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
