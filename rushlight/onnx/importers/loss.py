"""Losses of classification."""

from __future__ import annotations

from typing import Any

from rushlight import dtypes
from rushlight.nn import functional as F
from rushlight.onnx.importers.registry import op
from rushlight.ops import ops
from rushlight.tensor import Tensor

NEVER = -100  # the label that is ignored where none is named


@op("NegativeLogLikelihoodLoss")
def negative_log_likelihood(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    ignored = NEVER if ignore_index is None else ignore_index
    return F.nll_loss(x, target.to(dtypes.int64), weight, ignore_index=ignored, reduction=reduction)


@op("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
    outputs: int = 1,
) -> Any:
    log_prob = ops.log_softmax(scores, 1)
    loss = negative_log_likelihood(
        log_prob, labels, weights, ignore_index=ignore_index, reduction=reduction
    )
    return (loss, log_prob)[:outputs]
