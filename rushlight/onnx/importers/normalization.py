"""Normalisation: by batches, channels, layers and neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import dtypes
from rushlight.nn import functional as F
from rushlight.onnx.errors import OnnxError
from rushlight.onnx.importers.conversion import element_named
from rushlight.onnx.importers.registry import op
from rushlight.ops import ops
from rushlight.tensor import Tensor


@op("BatchNormalization", statistics=["mean", "var"])
def batch_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
    is_test: int = 1,
    consumed_inputs: Sequence[int] = (),
    outputs: int = 1,
    training: bool = False,
) -> Any:
    """By the statistics of the file; after ``train()``, by those of the batch, which it learns.

    ``training_mode`` (since version 14) asks for the new statistics as further outputs.
    """
    if not spatial:
        raise OnnxError("statistics for each place (spatial = 0) are not supported")
    if training_mode:
        axes = [0, *range(2, x.ndim)]
        now, spread = x.mean(axes), x.var(axes, correction=0)
        y = F.batch_norm(x, None, None, scale, bias, True, 0.0, epsilon)
        kept = [old * momentum + new * (1 - momentum) for old, new in ((mean, now), (var, spread))]
        return (y, *[new.to(mean.dtype) for new in kept])[: max(outputs, 1)]
    if scale.dtype is not x.dtype or mean.dtype is not x.dtype:
        scale, bias, mean, var = [t.to(x.dtype) for t in (scale, bias, mean, var)]
    return F.batch_norm(x, mean, var, scale, bias, training, 1 - momentum, epsilon)


@op("InstanceNormalization")
def instance_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    epsilon: float = 1e-5,
    consumed_inputs: Sequence[int] = (),
) -> Tensor:
    return F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


@op("LayerNormalization")
def layer_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    outputs: int = 1,
) -> Any:
    shape = x.shape[axis:]
    if outputs == 1 and scale.shape == shape and (bias is None or bias.shape == shape):
        return F.layer_norm(x, shape, scale, bias, epsilon)
    axes = list(range(axis % x.ndim, x.ndim))
    z = x.to(dtypes.from_numpy(element_named(stash_type)))
    mean = z.mean(axes, keepdim=True)
    inverse = ((z - mean).square().mean(axes, keepdim=True) + epsilon).rsqrt()
    y = ((z - mean) * inverse).to(x.dtype) * scale
    return (y if bias is None else y + bias, mean, inverse)[:outputs]


@op("RMSNormalization")
def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    axes = list(range(axis % x.ndim, x.ndim))
    z = x.to(dtypes.from_numpy(element_named(stash_type)))
    return (z * (z.square().mean(axes, keepdim=True) + epsilon).rsqrt()).to(x.dtype) * scale


@op("GroupNormalization", since=21)
def group_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    epsilon: float = 1e-5,
    num_groups: int,
    stash_type: int = 1,
) -> Tensor:
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@op("GroupNormalization")
def group_normalization_18(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5, num_groups: int
) -> Tensor:
    """Version 18 has one scale and bias for each group."""
    per = x.shape[1] // num_groups
    return F.group_norm(
        x, num_groups, scale.repeat_interleave(per), bias.repeat_interleave(per), epsilon
    )


@op("LRN")
def local_response(
    x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    """Channels divided by a power of the sum of squares of ``size`` neighbours."""
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    squares = F.pad(x.square(), [*[0] * (2 * (x.ndim - 2)), before, after])
    channels = x.shape[1]
    total = squares.narrow(1, 0, channels)
    for i in range(1, size):
        total = total + squares.narrow(1, i, channels)
    return x / (bias + alpha / size * total).pow(beta)


@op("LpNormalization")
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    length = (
        x.abs().sum(axis, keepdim=True) if p == 1 else x.square().sum(axis, keepdim=True).sqrt()
    )
    return ops.where(length == 0, ops.zeros_like(x), x / ops.where(length == 0, 1.0, length))


@op("MeanVarianceNormalization")
def mean_variance_normalization(x: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    y = x - x.mean(list(axes), keepdim=True)
    return y / (y.square().mean(list(axes), keepdim=True).sqrt() + 1e-9)


@op("Dropout", known=["ratio", "training_mode"])
def dropout(
    x: Tensor,
    ratio: Any = None,
    training_mode: Any = None,
    *,
    seed: int | None = None,
    is_test: int = 0,
    consumed_inputs: Sequence[int] = (),
    training: bool = False,
    outputs: int = 1,
) -> Any:
    """Nothing at all, but in training: after ``train()``, or if the file asks for it."""
    p = 0.5 if ratio is None else float(ratio)
    asked = training_mode is not None and bool(training_mode)
    if p == 0 or not (training or asked):
        return (x, ops.ones_like(x, dtype=dtypes.bool_))[: max(outputs, 1)]
    kept = ops.rand(x.shape) >= p
    y = ops.where(kept, x / (1 - p) if p < 1 else x, 0.0)
    return (y.to(x.dtype), kept)[: max(outputs, 1)]
