"""Losses that ask for a margin: between classes, between pairs, between triplets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.kernels.indices import within
from rushlight.ops.base import composite, need_tensor, ops
from rushlight.ops.classification_losses import label, labels, need_constant
from rushlight.ops.distances import pairwise_distance
from rushlight.ops.loss_reduction import REDUCTIONS, check_floating, chosen, reduced
from rushlight.ops.network_activations import logsigmoid
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.verified import verified
from rushlight.tensor import Tensor, wrap

SIGNS = T(values=[[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]], grad=False)
FEW_SIGNS = T(values=[1.0, -1.0, 1.0], grad=False)
BAD_REDUCTION = Fails(ValueError, "average is not a valid", T(3), T(3), reduction="average")
BAD_TARGET = Fails(TypeError, r"'target' \(position 2\) must be Tensor, not list", T(3), [1.0])


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        *(S(T(2, 3), SIGNS, reduction=reduction) for reduction in REDUCTIONS),
        S(T(2, 3), FEW_SIGNS),
        S(T(), T(grad=False)),
        S(T(0, 3), T(0, 3, grad=False), reduction="sum"),
    ],
    errors=[
        BAD_REDUCTION,
        BAD_TARGET,
        Fails(RuntimeError, r"tensor a \(3\) must match .* tensor b \(4\)", T(3), T(4)),
        Fails(RuntimeError, r"shape \[3\] .* broadcast shape \[2, 3\]", T(3), T(2, 3)),
    ],
)
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The logistic loss of two classes: mean of log(1 + exp(-target · input)), target 1 or -1.

    >>> import rushlight.nn.functional as F
    >>> F.soft_margin_loss(rl.tensor([2.0, 0.5]), rl.tensor([1.0, -1.0]))
    tensor(0.5505)
    """
    reduction = chosen(reduction, size_average, reduce)
    x = need_tensor("soft_margin_loss", input)
    t = need_constant("soft_margin_loss", target, "target", 2)
    if x.dtype.category < dtypes.FLOAT:
        raise RuntimeError(
            "soft_margin_loss: result type Float can't be cast to the desired output type "
            f"{x.dtype.storage_name}"
        )
    check_floating("soft_margin_loss", x._array.dtype)
    z = x * t
    if z.shape != x.shape:
        raise RuntimeError(
            f"output with shape {list(x.shape)} doesn't match the broadcast shape "
            f"{list(z.shape)}: the target is larger than the input"
        )
    return reduced(-logsigmoid(z).to(x.dtype), reduction)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        *(S(T(2, 3), T(2, 3, low=0, high=1), reduction=reduction) for reduction in REDUCTIONS),
        S(T(2, 3), T(2, 3, low=0, high=1), T(3)),
        S(T(3), T(3, low=0, high=1)),
    ],
    errors=[
        BAD_REDUCTION,
        BAD_TARGET,
        Fails(RuntimeError, "must match the size", T(2, 3), T(2, 2)),
        Fails(IndexError, "a 0-d input has no classes", T(), T()),
    ],
)
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The binary cross-entropies of sigmoid(input), averaged over the classes, the last dimension.

    Args:
        input: logits, of shape (N, C) or (C).
        target: 1 for each class that is there, 0 for the others; of the same shape.
        weight: of each class.
        reduction: of the losses of the N examples: ``"mean"``, ``"sum"`` or ``"none"``.

    >>> import rushlight.nn.functional as F
    >>> F.multilabel_soft_margin_loss(rl.tensor([[2.0, 0.5]]), rl.tensor([[1.0, 0.0]]))
    tensor(0.5505)
    """
    reduction = chosen(reduction, size_average, reduce)
    x = need_tensor("multilabel_soft_margin_loss", input)
    t = need_tensor("multilabel_soft_margin_loss", target, "target", 2)
    if not x.ndim:
        raise IndexError("multilabel_soft_margin_loss: a 0-d input has no classes")
    check_floating("multilabel_soft_margin_loss", x._array.dtype)
    loss = -(t * logsigmoid(x) + (1 - t) * logsigmoid(-x))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.sum(-1) / x.shape[-1], reduction)


def rows(name: str, x: Tensor) -> Tensor:
    """``x`` as a matrix of examples by classes."""
    if x.ndim > 2 or (x.ndim and not x.shape[-1]):
        raise RuntimeError(
            f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(x.shape)}"
        )
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(f"\"{name}\" not implemented for '{x.dtype.storage_name}'")
    return x if x.ndim == 2 else x.reshape(1, -1)


def need_labels(name: str, target: Tensor) -> None:
    if target.dtype is not dtypes.int64:
        raise RuntimeError(
            f"{name}: expected target of scalar type Long but found {target.dtype.storage_name}"
        )


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        *(S(T(2, 3), labels(0, 2), reduction=reduction) for reduction in REDUCTIONS),
        S(T(2, 3), labels(0, 2), 2, 0.5),
        S(T(2, 3), labels(0, 2), p=2, weight=T(3, low=0.5, grad=False), reduction="none"),
        S(T(3), label(1)),
        S(T(), label(0)),
    ],
    errors=[
        Fails(TypeError, "must be Tensor, not list", T(2, 3), [0, 1]),
        Fails(ValueError, "average is not a valid", T(3), label(0), reduction="average"),
        Fails(ValueError, "only p == 1 and p == 2 supported", T(3), label(0), 3),
        Fails(ValueError, "weight must be one-dimensional", T(3), label(0), weight=T(1, 3)),
        Fails(RuntimeError, "expected 3 but got", T(3), label(0), weight=T(2)),
        Fails(RuntimeError, "target out of range", T(3), label(3)),
        Fails(RuntimeError, r"Expected target size \[2\], but got \[1\]", T(2, 3), labels(0)),
        Fails(RuntimeError, "Long but found Float", T(2, 3), T(2)),
        Fails(RuntimeError, "Expected non-empty vector or matrix", T(1, 2, 3), labels(0)),
    ],
)
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The hinge loss of labelled classes: Σ max(0, margin - x[label] + x[i])ᵖ / C over i ≠ label.

    Args:
        input: scores x, of shape (N, C) or (C).
        target: labels, of shape (N) or ().
        p: 1 or 2.
        weight: of each class, multiplied with the hinge of its label before the power p.
        reduction: of the losses of the N examples: ``"mean"``, ``"sum"`` or ``"none"``.

    >>> import rushlight.nn.functional as F
    >>> F.multi_margin_loss(rl.tensor([[0.1, 0.2, 0.4, 0.8]]), rl.tensor([3]))
    tensor(0.3250)
    """
    reduction = chosen(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError(f"only p == 1 and p == 2 supported, got {p}")
    given = need_tensor("multi_margin_loss", input)
    t = need_tensor("multi_margin_loss", target, "target", 2)
    x = rows("multi_margin_loss", given)
    need_labels("multi_margin_loss", t)
    count, classes = x.shape
    if t.numel() != count or t.ndim > 1:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected target size [{count}], but got {list(t.shape)}. Input "
            f"has shape {list(given.shape)}."
        )
    message = f"target out of range: labels are 0 to {classes - 1}"
    label = verified(t, (t >= 0) & (t < classes), "RuntimeError", message).reshape(-1, 1)
    hinge = (margin - x.gather(1, label) + x).relu()
    loss = hinge if p == 1 else hinge * hinge
    if weight is not None:
        loss = loss * class_weight(weight, x).index_select(0, label.squeeze(1)).unsqueeze(1)
    loss = loss.scatter(1, label, 0).sum(1) / classes
    return reduced(loss if given.ndim == 2 else loss.squeeze(0), reduction)


def class_weight(weight: Any, x: Tensor) -> Tensor:
    """The weights of the classes of ``multi_margin_loss``, checked."""
    w = need_constant("multi_margin_loss", weight)
    if w.ndim != 1:
        raise ValueError(f"weight must be one-dimensional, got {w.ndim} dimensions")
    if w.numel() != x.shape[1]:
        raise RuntimeError(
            f"inconsistent weight size, expected {x.shape[1]} but got {list(w.shape)}"
        )
    if w.dtype is not x.dtype:
        raise RuntimeError(
            f"expected scalar type {x.dtype.storage_name} for weight but found "
            f"{w.dtype.storage_name}"
        )
    return w


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        *(S(T(2, 3), labels([2, 0, -1], [1, -1, 0]), reduction=r) for r in REDUCTIONS),
        S(T(3), labels(1, 1, -1)),
        S(T(2, 3), labels([-1, 0, 1], [0, 1, 2])),
        S(T(), label(0)),
    ],
    errors=[
        Fails(TypeError, "must be Tensor, not list", T(2, 3), [0, 1]),
        Fails(ValueError, "average is not a valid", T(1), labels(0), reduction="average"),
        Fails(RuntimeError, "'target' is out of range", T(2), labels(0, 2)),
        Fails(RuntimeError, "'target' is out of range", T(2), labels(0, -2)),
        Fails(
            RuntimeError, r"inconsistent target size: \[2\] for input .* \[3\]", T(3), labels(0, 1)
        ),
        Fails(RuntimeError, "Long but found Float", T(2, 3), T(2, 3)),
        Fails(RuntimeError, "Expected non-empty vector or matrix", T(1, 2, 3), labels([[0]])),
    ],
)
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The hinge loss of several labels: Σ max(0, 1 - x[j] + x[i]) / C, j labelled and i not.

    Args:
        input: scores x, of shape (N, C) or (C).
        target: of the same shape; its labels are those before the first -1.
        reduction: of the losses of the N examples: ``"mean"``, ``"sum"`` or ``"none"``.

    >>> import rushlight.nn.functional as F
    >>> F.multilabel_margin_loss(rl.tensor([0.1, 0.2, 0.4, 0.8]), rl.tensor([3, 0, -1, 1]))
    tensor(0.8500)
    """
    reduction = chosen(reduction, size_average, reduce)
    given = need_tensor("multilabel_margin_loss", input)
    t = need_tensor("multilabel_margin_loss", target, "target", 2)
    x = rows("multilabel_margin_loss", given)
    need_labels("multilabel_margin_loss", t)
    if t.shape != given.shape and t.numel() != x.shape[1]:
        raise RuntimeError(
            f"inconsistent target size: {list(t.shape)} for input of size: {list(given.shape)}"
        )
    count, classes = x.shape
    chosen_labels = t._array.reshape(count, classes)
    if not within(chosen_labels + 1, classes + 1):
        raise RuntimeError(
            f"argument #2 'target' is out of range: labels are 0 to {classes - 1}, and -1 ends them"
        )
    valid = np.logical_and.accumulate(chosen_labels >= 0, axis=1)
    most = int(valid.sum(1).max(initial=0))
    valid, chosen_labels = valid[:, :most], np.where(valid, chosen_labels, 0)[:, :most]
    others = np.ones(x.shape, bool)
    others[np.nonzero(valid)[0], chosen_labels[valid]] = False
    hinge = (1 - x.gather(1, wrap(chosen_labels)).unsqueeze(2) + x.unsqueeze(1)).relu()
    counted = wrap(valid[:, :, None] & others[:, None, :])
    loss = hinge.masked_fill(~counted, 0).sum((1, 2)) / classes
    return reduced(loss if given.ndim == 2 else loss.squeeze(0), reduction)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        *(S(T(2, 3), SIGNS, reduction=reduction) for reduction in REDUCTIONS),
        S(T(2, 3), FEW_SIGNS, 0.5),
        S(T(), T(values=1.0, grad=False)),
    ],
    errors=[BAD_REDUCTION, BAD_TARGET],
)
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Distances to be small where ``target`` is 1 and beyond ``margin`` where it is -1.

    The mean of ``input`` at the ones and of ``max(0, margin - input)`` at the others.

    >>> import rushlight.nn.functional as F
    >>> F.hinge_embedding_loss(rl.tensor([0.5, 0.25]), rl.tensor([1.0, -1.0]))
    tensor(0.6250)
    """
    reduction = chosen(reduction, size_average, reduce)
    x = need_tensor("hinge_embedding_loss", input)
    t = need_tensor("hinge_embedding_loss", target, "target", 2)
    zero = ops.zeros_like(x)
    near = ops.where(t != -1, x, zero)
    far = ops.where(t != 1, (margin - x).clamp(min=0), zero)
    return reduced(near + far, reduction)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        *(S(T(2, 3), T(2, 3), SIGNS, reduction=reduction) for reduction in REDUCTIONS),
        S(T(3), T(3), FEW_SIGNS, 0.5),
        S(T(2, 3), T(1, 3), SIGNS, margin=0.25),
    ],
    errors=[
        Fails(TypeError, r"'target' \(position 3\) must be Tensor", T(3), T(3), [1.0]),
        Fails(ValueError, "average is not a valid", T(3), T(3), T(3), reduction="average"),
        Fails(RuntimeError, r"same dimension .* target: .*\[1, 3\]", T(3), T(3), T(1, 3)),
        Fails(RuntimeError, r"a \(3\) must match .* b \(2\)", T(3), T(2), T(3)),
    ],
)
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The first to be ranked above the second where ``target`` is 1, below where it is -1.

    The mean of ``max(0, -target · (input1 - input2) + margin)``.

    >>> import rushlight.nn.functional as F
    >>> F.margin_ranking_loss(rl.tensor([0.5, 2.0]), rl.tensor([1.0, 1.0]), rl.tensor([1.0, 1.0]))
    tensor(0.2500)
    """
    reduction = chosen(reduction, size_average, reduce)
    a = need_tensor("margin_ranking_loss", input1, "input1")
    b = need_tensor("margin_ranking_loss", input2, "input2", 2)
    t = need_tensor("margin_ranking_loss", target, "target", 3)
    if not a.ndim == b.ndim == t.ndim:
        raise RuntimeError(
            "margin_ranking_loss: All input tensors should have same dimension but got sizes: "
            f"input1: {a.shape}, input2: {b.shape}, target: {t.shape}"
        )
    return reduced((-t * (a - b) + float(margin)).clamp(min=0), reduction)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        *(S(T(3, 4), T(3, 4), FEW_SIGNS, reduction=reduction) for reduction in REDUCTIONS),
        S(T(3, 4), T(3, 4), FEW_SIGNS, 0.25),
        S(T(4), T(4), T(values=1.0, grad=False)),
    ],
    errors=[
        Fails(TypeError, r"'target' \(position 3\) must be Tensor", T(3), T(3), [1.0]),
        Fails(ValueError, "average is not a valid", T(3), T(3), T(), reduction="average"),
        Fails(RuntimeError, "1D target tensor expects 2D input tensors", T(3), T(3), T(3)),
        Fails(RuntimeError, "0D target tensor expects 1D input tensors", T(2, 3), T(2, 3), T()),
        Fails(RuntimeError, "multi-target not supported", T(2, 3), T(2, 3), T(2, 3)),
    ],
)
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Vectors to point the same way where ``target`` is 1, and not where it is -1.

    The mean of ``1 - cos`` at the ones and of ``max(0, cos - margin)`` at the others.

    >>> import rushlight.nn.functional as F
    >>> x, y = rl.tensor([[1.0, 0.0], [1.0, 0.0]]), rl.tensor([[0.0, 1.0], [1.0, 0.0]])
    >>> F.cosine_embedding_loss(x, y, rl.tensor([1.0, -1.0]), reduction="none")
    tensor([1., 1.])
    """
    reduction = chosen(reduction, size_average, reduce)
    a = need_tensor("cosine_embedding_loss", input1, "input1")
    b = need_tensor("cosine_embedding_loss", input2, "input2", 2)
    t = need_tensor("cosine_embedding_loss", target, "target", 3)
    if t.ndim > 1:
        raise RuntimeError(
            "0D or 1D target tensor expected, multi-target not supported: got shape "
            f"{list(t.shape)}"
        )
    if not a.ndim == b.ndim == t.ndim + 1:
        raise RuntimeError(
            f"{t.ndim}D target tensor expects {t.ndim + 1}D input tensors, but found inputs with "
            f"sizes {list(a.shape)} and {list(b.shape)}."
        )
    size = ((a * a).sum(-1) + 1e-12) * ((b * b).sum(-1) + 1e-12)
    cosine = (a * b).sum(-1) / size.sqrt()
    zero = ops.zeros_like(cosine)
    near = ops.where(t == 1, 1 - cosine, zero)
    far = ops.where(t == -1, (cosine - margin).clamp(min=0), zero)
    return reduced(near + far, reduction)


TRIPLET = [T(3, 4), T(3, 4), T(3, 4)]
BAD_TRIPLETS = [
    Fails(TypeError, r"'negative' \(position 3\) must be Tensor", T(3), T(3), [1.0]),
    Fails(ValueError, "average is not a valid", *TRIPLET, reduction="average"),
    Fails(ValueError, "margin must be greater than 0, got 0", *TRIPLET, margin=0),
    Fails(RuntimeError, "anchor 2D, positive 2D, and negative 1D", T(2, 3), T(2, 3), T(3)),
]


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        *(S(*TRIPLET, reduction=reduction) for reduction in REDUCTIONS),
        S(*TRIPLET, 2.0, 1, 1e-3, True),
        S(T(4), T(4), T(4)),
    ],
    errors=BAD_TRIPLETS,
)
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The anchor to be nearer to the positive than to the negative, by a margin.

    The mean of ``max(0, d(anchor, positive) - d(anchor, negative) + margin)``, where d is
    :func:`pairwise_distance` with ``p`` and ``eps``.

    Args:
        swap: the negative counts with its distance to the positive where that is smaller.

    >>> import rushlight.nn.functional as F
    >>> F.triplet_margin_loss(rl.zeros(1, 2), rl.ones(1, 2), rl.tensor([[2.0, 0.0]]))
    tensor(0.4142)
    """
    reduction = chosen(reduction, size_average, reduce)

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_distance(a, b, p, eps)

    triplet = check_triplet("triplet_margin_loss", anchor, positive, negative, margin)
    return triplet_loss(*triplet, distance, margin, swap, reduction)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        *(S(*TRIPLET, reduction=reduction) for reduction in REDUCTIONS),
        S(*TRIPLET, distance_function=lambda a, b: (a - b).square().sum(-1), margin=0.5, swap=True),
    ],
    errors=BAD_TRIPLETS,
)
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """:func:`triplet_margin_loss` with a distance of one's own.

    Args:
        distance_function: of two tensors; by default :func:`pairwise_distance`.
        swap: the negative counts with its distance to the positive where that is smaller.

    >>> import rushlight.nn.functional as F
    >>> triplet = rl.zeros(1, 2), rl.ones(1, 2), rl.tensor([[2.0, 0.0]])
    >>> F.triplet_margin_with_distance_loss(*triplet, distance_function=F.cosine_similarity)
    tensor(1.)
    """
    reduction = chosen(reduction)
    name = "triplet_margin_with_distance_loss"
    triplet = check_triplet(name, anchor, positive, negative, margin)
    return triplet_loss(*triplet, distance_function or pairwise_distance, margin, swap, reduction)


def check_triplet(
    name: str, anchor: Any, positive: Any, negative: Any, margin: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Three tensors of as many dimensions, or the error that explains why not."""
    a, p = need_tensor(name, anchor, "anchor"), need_tensor(name, positive, "positive", 2)
    n = need_tensor(name, negative, "negative", 3)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not a.ndim == p.ndim == n.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {a.ndim}D, positive {p.ndim}D, and negative {n.ndim}D "
            "inputs"
        )
    return a, p, n


def triplet_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return reduced((margin + near - far).clamp(min=0), reduction)
