"""What the layers of losses have in common."""

from __future__ import annotations

from rushlight.nn.module import Module
from rushlight.ops.loss_reduction import legacy_reduction
from rushlight.tensor import Tensor


class _Loss(Module):
    """A layer that holds how the losses of all elements are reduced.

    Args:
        size_average: of PyTorch's past, like ``reduce``: False sums.
        reduce: False leaves the losses as they are.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    reduction: str

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = legacy_reduction(size_average, reduce)
        self.reduction = reduction


class _WeightedLoss(_Loss):
    """A loss with a weight for each class or element, which is a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
