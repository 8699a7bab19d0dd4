"""Layers of distances and similarities."""

from __future__ import annotations

from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.tensor import Tensor


class PairwiseDistance(Module):
    """The distances between vectors of the last dimension: the p-norm of x1 - x2 + eps.

    Args:
        p: the norm; may be negative.
        eps: added to the differences, so that no distance is zero.
        keepdim: whether the last dimension stays, as size 1.

    Shape:
        Two tensors (N, D) or (D); the result is (N) or ().

    >>> rl.nn.PairwiseDistance()(rl.tensor([[0.0, 0.0], [1.0, 1.0]]), rl.tensor([[3.0, 4.0]]))
    tensor([5.0000, 3.6056])
    """

    __constants__ = ["eps", "keepdim", "norm"]
    norm: float
    eps: float
    keepdim: bool

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along ``dim``: x1 · x2 / (‖x1‖ ‖x2‖).

    Args:
        dim: the dimension of the vectors.
        eps: the least that a norm counts.

    Shape:
        Two tensors that broadcast to (*₁, D, *₂), with D at ``dim``; the result is (*₁, *₂).

    >>> rl.nn.CosineSimilarity()(rl.tensor([[1.0, 0.0], [1.0, 1.0]]), rl.tensor([[1.0, 1.0]]))
    tensor([0.7071, 1.0000])
    """

    __constants__ = ["dim", "eps"]
    dim: int
    eps: float

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
