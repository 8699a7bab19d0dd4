"""Losses."""

# ruff: noqa: F401

from rushlight.nn.losses.base import _Loss, _WeightedLoss
from rushlight.nn.losses.classification import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    CTCLoss,
    KLDivLoss,
    LinearCrossEntropyLoss,
    NLLLoss,
    NLLLoss2d,
)
from rushlight.nn.losses.margin import (
    CosineEmbeddingLoss,
    HingeEmbeddingLoss,
    MarginRankingLoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from rushlight.nn.losses.regression import (
    GaussianNLLLoss,
    HuberLoss,
    L1Loss,
    MSELoss,
    PoissonNLLLoss,
    SmoothL1Loss,
)
