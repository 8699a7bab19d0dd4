"""What all losses share: how a loss of many elements becomes one number, and their warnings."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

import numpy as np

from rushlight import dtypes
from rushlight.errors import PACKAGE
from rushlight.ops.base import ops
from rushlight.tensor import Tensor

REDUCTIONS = ("mean", "sum", "none")


def chosen(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """``"mean"``, ``"sum"`` or ``"none"``, also from the names and arguments of PyTorch's past."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce)
    if reduction in REDUCTIONS:
        return reduction
    if reduction == "elementwise_mean":
        warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.")
        return "mean"
    raise ValueError(
        f"{reduction} is not a valid value for reduction: expected 'mean', 'sum' or 'none'"
    )


def legacy_reduction(size_average: bool | None, reduce: bool | None) -> str:
    """The reduction that ``size_average`` and ``reduce`` stand for."""
    if reduce is None or reduce:
        reduction = "mean" if size_average is None or size_average else "sum"
    else:
        reduction = "none"
    warn(
        "size_average and reduce args will be deprecated, please use "
        f"reduction='{reduction}' instead."
    )
    return reduction


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The losses of all elements as their mean, their sum, or as they are."""
    if reduction == "mean":
        return loss.mean()
    return loss.sum() if reduction == "sum" else loss


def floored(x: Tensor, low: float) -> Tensor:
    """``x`` where it is at least ``low``, else ``low``; it has the slope of ``x`` everywhere."""
    return ops.where(x < low, x + (low - x).detach(), x)


def check_floating(name: str, kind: np.dtype) -> None:
    """An error unless it is a dtype of real floating-point numbers."""
    if kind.kind != "f" and kind not in dtypes.HALF:
        found = dtypes.from_numpy(kind).storage_name
        raise NotImplementedError(f"\"{name}\" not implemented for '{found}'")


def warn_of_broadcast(input: Tensor, target: Tensor) -> None:
    """The warning that target and input have different shapes."""
    warn(
        f"Using a target size ({target.shape}) that is different to the input size "
        f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
        "Please ensure they have the same size."
    )


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning that points at the user's line."""
    level = 1
    frame: FrameType | None = sys._getframe(0)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
