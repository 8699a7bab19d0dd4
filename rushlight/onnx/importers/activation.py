"""Activations: functions of networks, element by element or along an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.nn import functional as F
from rushlight.onnx.importers.registry import op
from rushlight.ops import ops
from rushlight.tensor import Tensor


@op("LeakyRelu")
def leaky_relu(x: Tensor, *, alpha: float = 0.01, consumed_inputs: Sequence[int] = ()) -> Tensor:
    return F.leaky_relu(x, alpha)


@op("Elu")
def elu(x: Tensor, *, alpha: float = 1.0, consumed_inputs: Sequence[int] = ()) -> Tensor:
    return F.elu(x, alpha)


@op("Celu")
def celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.celu(x, alpha)


@op("Selu", since=6)
def selu(
    x: Tensor,
    *,
    alpha: float = 1.67326319217681884765625,
    gamma: float = 1.05070102214813232421875,
) -> Tensor:
    return gamma * F.elu(x, alpha)


@op("Selu")
def selu_of_few_digits(
    x: Tensor, *, alpha: float = 1.6732, gamma: float = 1.0507, consumed_inputs: Sequence[int] = ()
) -> Tensor:
    """Up to version 5."""
    return selu(x, alpha=alpha, gamma=gamma)


@op("HardSigmoid")
def hard_sigmoid(
    x: Tensor, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: Sequence[int] = ()
) -> Tensor:
    return ops.clamp(alpha * x + beta, 0, 1)


@op("HardSwish")
def hard_swish(x: Tensor) -> Tensor:
    return F.hardswish(x)


@op("Softplus")
def softplus(x: Tensor) -> Tensor:
    return F.softplus(x, threshold=math.inf)


@op("Softsign")
def softsign(x: Tensor) -> Tensor:
    return F.softsign(x)


@op("ThresholdedRelu")
def thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.threshold(x, alpha, 0.0)


@op("PRelu")
def prelu(x: Tensor, slope: Tensor, *, consumed_inputs: Sequence[int] = ()) -> Tensor:
    """Up to version 6 the slope is one number or one for each channel."""
    if slope.ndim == 1 and x.ndim > 2 and slope.shape[0] == x.shape[1] != x.shape[-1]:
        slope = slope.reshape(-1, *[1] * (x.ndim - 2))
    return ops.where(x < 0, slope * x, x)


@op("Gelu")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    return F.gelu(x, approximate=approximate)


@op("Mish")
def mish(x: Tensor) -> Tensor:
    return F.mish(x)


@op("Swish")
def swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.silu(x) if alpha == 1 else x * ops.sigmoid(alpha * x)


@op("Shrink")
def shrink(x: Tensor, *, lambd: float = 0.5, bias: float = 0.0) -> Tensor:
    zero = ops.zeros_like(x)
    return ops.where(x < -lambd, x + bias, ops.where(x > lambd, x - bias, zero)).to(x.dtype)


def hardmax_of(x: Tensor, axis: int) -> Tensor:
    """One where the first of the largest elements is, and zero elsewhere."""
    largest = ops.argmax(x, axis, keepdim=True)
    return ops.zeros_like(x).scatter(axis, largest, 1.0)


ALONG_AXIS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "Softmax": ops.softmax,
    "LogSoftmax": ops.log_softmax,
    "Hardmax": hardmax_of,
}


def along(function: Callable[[Tensor, int], Tensor]) -> Callable[..., Any]:
    """Version 13: along one axis."""

    def apply(x: Tensor, *, axis: int = -1) -> Tensor:
        return function(x, axis)

    return apply


def along_the_rest(function: Callable[[Tensor, int], Tensor]) -> Callable[..., Any]:
    """Versions 1 to 12: along all axes from one on, as if they were one."""

    def apply(x: Tensor, *, axis: int = 1) -> Tensor:
        rows = math.prod(x.shape[: axis % max(x.ndim, 1)])
        return function(x.reshape(rows, math.prod(x.shape) // max(rows, 1)), 1).reshape(x.shape)

    return apply


for name, function in ALONG_AXIS.items():
    op(name, since=13)(along(function))
    op(name)(along_the_rest(function))
