"""A layer and the batch normalisation after it as one layer, for inference."""

from __future__ import annotations

import copy
from typing import Any

from rushlight.nn.parameter import Parameter
from rushlight.ops import ops
from rushlight.tensor import Tensor


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that computes what ``conv`` and then ``bn`` do in evaluation mode.

    Args:
        conv: the convolution.
        bn: the batch normalisation after it.
        transpose: whether ``conv`` is a transposed one, whose output channels come second.
    """
    fused = copied_for_fusion(conv, bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        *(fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias),
        transpose=transpose,
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the convolution that :func:`fuse_conv_bn_eval` makes."""
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    scale = ops.rsqrt(bn_rv + bn_eps)
    if bn_w is not None:
        scale = scale * bn_w
    weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
    return parameters(conv_w, conv_b, weight, fused_bias(conv_b, bn_rm, scale, bn_b))


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that computes what ``linear`` and then ``bn`` do in evaluation mode.

    >>> layer, norm = rl.nn.Linear(2, 3).eval(), rl.nn.BatchNorm1d(3).eval()
    >>> x = rl.ones(4, 2)
    >>> rl.nn.utils.fuse_linear_bn_eval(layer, norm)(x).allclose(norm(layer(x)))
    True
    """
    fused = copied_for_fusion(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the layer that :func:`fuse_linear_bn_eval` makes."""
    scale = bn_w * ops.rsqrt(bn_rv + bn_eps)
    weight = linear_w * scale.unsqueeze(-1).to(linear_w.dtype)
    return parameters(linear_w, linear_b, weight, fused_bias(linear_b, bn_rm, scale, bn_b))


def copied_for_fusion(layer: Any, bn: Any) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    return copy.deepcopy(layer)


def fused_bias(bias: Tensor | None, mean: Tensor, scale: Tensor, shift: Tensor | None) -> Tensor:
    moved = (-mean if bias is None else bias - mean) * scale
    return moved if shift is None else moved + shift


def parameters(
    old_weight: Tensor, old_bias: Tensor | None, weight: Tensor, bias: Tensor
) -> tuple[Parameter, Parameter]:
    """New parameters that want gradients, and have the dtype, that the old ones did."""
    if old_bias is None:
        return Parameter(weight, old_weight.requires_grad), Parameter(
            bias.to(old_weight.dtype), False
        )
    return Parameter(weight, old_weight.requires_grad), Parameter(
        bias.to(old_bias.dtype), old_bias.requires_grad
    )
