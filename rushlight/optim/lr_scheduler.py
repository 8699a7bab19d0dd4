"""Learning rate schedules."""

from rushlight.optim.schedules.base import LRScheduler
from rushlight.optim.schedules.combined import ChainedScheduler, SequentialLR
from rushlight.optim.schedules.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from rushlight.optim.schedules.cyclic import CyclicLR, OneCycleLR
from rushlight.optim.schedules.factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from rushlight.optim.schedules.plateau import ReduceLROnPlateau

_LRScheduler = LRScheduler  # PyTorch's former name

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
