"""Layers of losses that ask for a margin."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.nn import functional as F
from rushlight.nn.distance import PairwiseDistance
from rushlight.nn.losses.base import _Loss, _WeightedLoss
from rushlight.tensor import Tensor


class SoftMarginLoss(_Loss):
    """The logistic loss of two classes: mean of log(1 + exp(-target · input)), target 1 or -1.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Shape:
        Two tensors of one shape (*); the result is a scalar, or (*) without reduction.

    >>> rl.nn.SoftMarginLoss()(rl.tensor([2.0, 0.5]), rl.tensor([1.0, -1.0]))
    tensor(0.5505)
    """

    __constants__ = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The binary cross-entropies of sigmoid(input), averaged over the classes.

    Args:
        weight: of each class.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Shape:
        Logits (N, C) and targets (N, C), 1 for each class that is there and 0 for the others; the
        result is a scalar, or (N) without reduction.

    >>> rl.nn.MultiLabelSoftMarginLoss()(rl.tensor([[2.0, 0.5]]), rl.tensor([[1.0, 0.0]]))
    tensor(0.5505)
    """

    __constants__ = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """The hinge loss of labelled classes: Σ max(0, margin - x[label] + x[i])ᵖ / C over i ≠ label.

    Args:
        p: 1 or 2.
        margin: by which the score of the label is to exceed the others.
        weight: of each class.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Shape:
        Scores x (N, C) or (C) and labels (N) or (); the result is a scalar, or of the shape of the
        labels without reduction.

    >>> rl.nn.MultiMarginLoss()(rl.tensor([[0.1, 0.2, 0.4, 0.8]]), rl.tensor([3]))
    tensor(0.3250)
    """

    __constants__ = ["margin", "p", "reduction"]
    margin: float
    p: int

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"only p == 1 and p == 2 supported, got {p}")
        if weight is not None and weight.dim() != 1:
            raise ValueError(
                "MultiMarginLoss: expected weight to be None or 1D tensor, got "
                f"{weight.dim()}D instead"
            )
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


class MultiLabelMarginLoss(_Loss):
    """The hinge loss of several labels: Σ max(0, 1 - x[j] + x[i]) / C, j labelled and i not.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Shape:
        Scores x (N, C) or (C) and labels of the same shape, of which those before the first -1
        count; the result is a scalar, or (N) without reduction.

    >>> rl.nn.MultiLabelMarginLoss()(rl.tensor([0.1, 0.2, 0.4, 0.8]), rl.tensor([3, 0, -1, 1]))
    tensor(0.8500)
    """

    __constants__ = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class HingeEmbeddingLoss(_Loss):
    """Distances to be small where the target is 1 and beyond ``margin`` where it is -1.

    The mean of ``input`` at the ones and of ``max(0, margin - input)`` at the others.

    Args:
        margin: how far apart is far enough.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Shape:
        Two tensors of one shape (*); the result is a scalar, or (*) without reduction.

    >>> rl.nn.HingeEmbeddingLoss()(rl.tensor([0.5, 0.25]), rl.tensor([1.0, -1.0]))
    tensor(0.6250)
    """

    __constants__ = ["margin", "reduction"]
    margin: float

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """The first input to be ranked above the second where the target is 1, below where it is -1.

    The mean of ``max(0, -target · (input1 - input2) + margin)``.

    Args:
        margin: by which one is to be above the other.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Shape:
        Three tensors of one shape (*); the result is a scalar, or (*) without reduction.

    >>> loss = rl.nn.MarginRankingLoss()
    >>> loss(rl.tensor([0.5, 2.0]), rl.tensor([1.0, 1.0]), rl.tensor([1.0, 1.0]))
    tensor(0.2500)
    """

    __constants__ = ["margin", "reduction"]
    margin: float

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """Vectors to point the same way where the target is 1, and not where it is -1.

    The mean of ``1 - cos`` at the ones and of ``max(0, cos - margin)`` at the others.

    Args:
        margin: from -1 to 1, the largest cosine of vectors that differ enough.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Shape:
        Vectors (N, D) or (D) and targets (N) or (); the result is a scalar, or of the shape of the
        targets without reduction.

    >>> x, y = rl.tensor([[1.0, 0.0], [1.0, 0.0]]), rl.tensor([[0.0, 1.0], [1.0, 0.0]])
    >>> rl.nn.CosineEmbeddingLoss(reduction="none")(x, y, rl.tensor([1.0, -1.0]))
    tensor([1., 1.])
    """

    __constants__ = ["margin", "reduction"]
    margin: float

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(
            input1, input2, target, self.margin, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """The anchor to be nearer to the positive than to the negative, by a margin.

    The mean of ``max(0, d(anchor, positive) - d(anchor, negative) + margin)``, where d is
    :class:`PairwiseDistance` with ``p`` and ``eps``.

    Args:
        margin: by which it is to be nearer.
        p: the norm of the distance.
        eps: added to the difference of two vectors.
        swap: the negative counts with its distance to the positive where that is smaller.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Shape:
        Three tensors (N, D) or (D); the result is a scalar, or (N) without reduction.

    >>> rl.nn.TripletMarginLoss()(rl.zeros(1, 2), rl.ones(1, 2), rl.tensor([[2.0, 0.0]]))
    tensor(0.4142)
    """

    __constants__ = ["eps", "margin", "p", "reduction", "swap"]
    margin: float
    p: float
    eps: float
    swap: bool

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """:class:`TripletMarginLoss` with a distance of one's own.

    Args:
        distance_function: of two tensors; by default a :class:`PairwiseDistance`.
        margin: by which the anchor is to be nearer to the positive than to the negative.
        swap: the negative counts with its distance to the positive where that is smaller.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Shape:
        Three tensors (N, *), as the distance takes them; the result is a scalar, or (N) without
        reduction.

    >>> distance = rl.nn.PairwiseDistance(p=1, eps=0)
    >>> loss = rl.nn.TripletMarginWithDistanceLoss(distance_function=distance)
    >>> loss(rl.zeros(1, 2), rl.ones(1, 2), rl.tensor([[2.0, 0.0]]))
    tensor(1.)
    """

    __constants__ = ["margin", "reduction", "swap"]
    margin: float
    swap: bool
    distance_function: Callable[[Tensor, Tensor], Tensor]

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(
                "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got "
                f"{margin} instead"
            )
        self.distance_function = distance_function or PairwiseDistance()
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
