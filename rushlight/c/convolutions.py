"""Convolutions that the engine has no product for: of integers, of nothing, with gaps both ways."""

from __future__ import annotations

from typing import Any

from rushlight.kernels.windows import Geometry
from rushlight.ops import channels_last
from rushlight.ops.base import ops
from rushlight.tensor import Tensor


def plus_mm(input: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return input + a.mm(b)


def convolve(x: Tensor, w: Tensor, bias: Any, *, geometry: Geometry, count: Any) -> Tensor:
    if not (x.numel() and w.numel()):
        return biased(ops.zeros((x.shape[0], w.shape[0], *count), dtype=x.dtype), bias)
    return biased(channels_last.convolution(x, w, geometry, count), bias)


def convolve_weight(x: Tensor, y: Tensor, *, geometry: Geometry, kernel: Any) -> Tensor:
    if not (x.numel() and y.numel()):
        channels = x.shape[1] // geometry.groups
        return ops.zeros((y.shape[1], channels, *kernel), dtype=x.dtype)
    return channels_last.convolution_weight(x, y, geometry, kernel)


def convolve_transposed(
    y: Tensor, w: Tensor, bias: Any, *, geometry: Geometry, size: Any
) -> Tensor:
    """A convolution with the weight turned round, of places between which zeros are put.

    xᵢ = Σₖ y_p wₖ with i = p · stride − padding + k · dilation.
    """
    groups, kernel = geometry.groups, w.shape[2:]
    if not (y.numel() and w.numel()):
        return biased(ops.zeros((y.shape[0], w.shape[1] * groups, *size), dtype=y.dtype), bias)
    pads: list[int] = []
    for d, (n, k, s, gap, pad) in enumerate(
        zip(size, kernel, geometry.stride, geometry.dilation, geometry.padding, strict=True), 2
    ):
        y = spread(y, d, s)
        before = (k - 1) * gap - pad
        pads = [before, n + (k - 1) * gap - before - y.shape[d], *pads]
    y = ops.constant_pad_nd(y, pads, 0)
    parts = w.view(groups, w.shape[0] // groups, *w.shape[1:]).transpose(1, 2)
    turned = parts.reshape(-1, w.shape[0] // groups, *kernel).flip(*range(2, w.ndim))
    ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
    plain = geometry._replace(stride=ones, padding=zeros)
    return biased(channels_last.convolution(y, turned, plain, size), bias)


def spread(x: Tensor, dim: int, step: int) -> Tensor:
    """Zeros between neighbours along a dimension, so that they are ``step`` apart."""
    if step == 1:
        return x
    gaps = [ops.zeros_like(x) for _ in range(step - 1)]
    wide = ops.stack([x, *gaps], dim + 1).flatten(dim, dim + 1)
    return wide.narrow(dim, 0, wide.shape[dim] - step + 1)


def biased(y: Tensor, bias: Any) -> Tensor:
    return y if bias is None else y + bias.view(-1, *[1] * (y.ndim - 2))


FORMULAS = {
    "plus_mm": plus_mm,
    "convolve": convolve,
    "convolve_weight": convolve_weight,
    "convolve_transposed": convolve_transposed,
}
