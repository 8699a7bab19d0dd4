"""Normalisation by channel: over a batch, or for each of its rows by itself."""

from __future__ import annotations

import math
from typing import Any

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.ops.base import composite, need_tensor, ops, registry
from rushlight.ops.elements import flat, unflat, wide
from rushlight.ops.filling import Overwrite
from rushlight.ops.normalization import SPACE, floating, parameters_fit, standardized, too_few
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor


def check_channels(x: Tensor, **parameters: Tensor | None) -> None:
    """An error unless the tensors, where given, have an element for each channel of ``x``."""
    if x.ndim < 2:
        raise messages.axis_range(1, x.ndim)
    channels = x._array.shape[1]
    for name, t in parameters.items():
        if t is not None and t._array.size != channels:
            raise RuntimeError(
                f"{name} should contain {channels} elements not {t.numel()}: expected an input "
                f"of {t.numel()} channels, got {channels}"
            )


def by_channel(t: Tensor | None, x: Tensor) -> Any:
    """A vector of one number for each channel, so that it broadcasts against ``x``."""
    return t if t is None or x.ndim == 2 else t.view(-1, *[1] * (x.ndim - 2))


class Follow(Overwrite):
    """Moves a running average by the share ``momentum`` towards ``factor * new``."""

    method = differentiable = False
    operands = ("x", "new")

    def check(self, x, new, momentum, factor=1.0):
        return (x, new), {"momentum": momentum, "factor": factor}

    def write(self, x, new, *, momentum, factor):
        x[...] = x * x.dtype.type(1 - momentum) + new.reshape(x.shape) * (momentum * factor)

    def at(self, b, i, x, new, *, momentum, factor):
        step = wide(new[unflat(flat(i, x.shape), new.shape)]) * (momentum * factor)
        return wide(x[i]) * (1 - momentum) + step.cast(wide(x[i]).kind)


follow = registry["follow"].call


@composite(
    fused=True,
    namespace=SPACE,
    method=False,
    samples=[
        S(T(4, 3), None, None, training=True),
        S(T(2, 3, 2, 2), None, None, T(3), T(3), True),
        S(T(4, 3), T(3, grad=False), T(3, low=1, grad=False)),
        S(T(2, 3, 4), T(3, grad=False), T(3, low=1, grad=False), T(3), T(3)),
        S(T(3, 2, 2), T(2, grad=False), T(2, low=1, grad=False), None, None, True, 0.3, 0.1),
        S(T(4, 3), None, None, T(3), None, True),
        S(T(4, 3), None, None, None, T(3), True),
        S(T(0, 3), T(3, grad=False), T(3, low=1, grad=False)),
    ],
    errors=[
        Fails(ValueError, "more than 1 value per channel", T(1, 3), None, None, training=True),
        Fails(ValueError, "more than 1 value per channel", T(1, 4), T(1), T(1), training=True),
        Fails(
            RuntimeError,
            "running_mean should contain 3 elements not 2: expected .* 2 channels, got 3",
            *(T(4, 3), T(2), T(2), T(2), T(2)),
        ),
        Fails(RuntimeError, "weight should contain 3 elements not 2", T(4, 3), T(3), T(3), T(2)),
        Fails(RuntimeError, "running_mean must be defined in evaluation", T(4, 3), None, None),
        Fails(ValueError, "eps must be positive", T(4, 3), None, None, training=True, eps=0.0),
        Fails(ValueError, "eps must be non-negative", T(4, 3), T(3), T(3), eps=-1.0),
        Fails(IndexError, "Dimension out of range", T(4), T(4), T(4)),
    ],
)
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` for each channel (dimension 1).

    Args:
        running_mean, running_var: the mean and variance unless ``training``; in training, those of
            the batch are used, and these move towards them by the share ``momentum``

    >>> x = rl.tensor([[1.0, 5.0], [3.0, 7.0]])
    >>> rl.nn.functional.batch_norm(x, None, None, training=True)
    tensor([[-1.0000, -1.0000],
            [ 1.0000,  1.0000]])
    """
    shape = need_tensor("batch_norm", input)._array.shape
    if training and shape and math.prod((shape[0], *shape[2:])) == 1:
        raise too_few("value per channel", shape)
    if eps < 0 or (training and eps == 0):
        allowed = "positive during training" if training else "non-negative"
        raise ValueError(f"batch_norm eps must be {allowed}, but got {eps}")
    x = floating("batch_norm", input)
    if shape == (0,):
        return x.clone()  # PyTorch lets an empty vector pass
    check_channels(x, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    parameters_fit(weight, bias, x, "batch_norm")
    if training:
        return of_batch(x, weight, bias, running_mean, running_var, momentum, eps)[0]
    return of_running(x, weight, bias, running_mean, running_var, eps)


def of_batch(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """``x`` normalised by its own mean and variance, which are returned too."""
    dims = (0, *range(2, x.ndim))
    y, mean, variance = standardized(x, by_channel(weight, x), by_channel(bias, x), dims, eps)
    if x._array.size:
        track(
            running_mean, running_var, mean, variance, x._array.size // mean._array.size, momentum
        )
    return y, mean, variance


def track(
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    count: int,
    momentum: float | Tensor,
) -> None:
    """Moves running averages, where there are, towards the statistics of ``count`` elements."""
    unbiased = count / (count - 1 if count > 1 else 1)
    for average, new, factor in ((running_mean, mean, 1.0), (running_var, variance, unbiased)):
        if average is None:
            continue
        if isinstance(momentum, Tensor) or type(factor) is not float:  # inside a trace
            step = new.detach().reshape(average.shape) * (momentum * factor)
            average.copy_(average * (1 - momentum) + step)
        else:
            follow(average, new, momentum, factor)


def of_running(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    variance: Tensor | None,
    eps: float,
) -> Tensor:
    """``x`` normalised by a given mean and variance: one factor and one shift for each channel."""
    if mean is None or variance is None:
        name = "running_mean" if mean is None else "running_var"
        raise RuntimeError(f"{name} must be defined in evaluation mode")
    kind = dtypes.float32 if x._array.dtype in dtypes.HALF else x.dtype
    scale = (variance.detach().to(kind) + eps).rsqrt()
    if weight is not None:
        scale = scale * weight
    shift = -mean.detach().to(kind) * scale
    if bias is not None:
        shift = shift + bias
    y = ops.addcmul(by_channel(shift, x), x.to(kind), by_channel(scale, x))
    return y.to(x.dtype)


@composite(
    namespace=SPACE,
    method=False,
    samples=[
        S(T(2, 3, 4)),
        S(T(2, 3, 2, 2), weight=T(3), bias=T(3), eps=0.1),
        S(T(2, 3, 4), T(3, grad=False), T(3, low=1, grad=False), T(3), None, momentum=0.5),
        S(T(2, 3, 4), T(3, grad=False), T(3, low=1, grad=False), use_input_stats=False),
    ],
    errors=[
        Fails(ValueError, "more than 1 spatial element when training", T(2, 3, 1)),
        Fails(
            RuntimeError, "to be defined when use_input_stats", T(2, 3, 4), use_input_stats=False
        ),
        Fails(RuntimeError, "weight should contain 3 elements not 2", T(2, 3, 4), weight=T(2)),
        Fails(ValueError, "more than 1 spatial element", T(4), weight=T(2)),
        Fails(IndexError, "Dimension out of range", T(4), T(4), T(4), use_input_stats=False),
    ],
)
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """:func:`batch_norm` with a mean and a variance for each channel of each row by itself.

    Args:
        use_input_stats: whether to normalise by the mean and variance of ``input`` (and to move
            ``running_mean`` and ``running_var`` towards their average), or by the running ones

    >>> rl.nn.functional.instance_norm(rl.tensor([[[1.0, 3.0], [5.0, 9.0]]]))
    tensor([[[-1.0000,  1.0000],
             [-1.0000,  1.0000]]])
    """
    shape = need_tensor("instance_norm", input)._array.shape
    if use_input_stats and math.prod(shape[2:]) == 1:
        raise too_few("spatial element", shape)
    x = floating("instance_norm", input)
    check_channels(x, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    parameters_fit(weight, bias, x, "instance_norm")
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "Expected running_mean and running_var to be defined when use_input_stats is false"
            )
        return of_running(x, weight, bias, running_mean, running_var, eps)
    dims = tuple(range(2, x.ndim))
    y, mean, variance = standardized(x, by_channel(weight, x), by_channel(bias, x), dims, eps)
    if running_mean is not None or running_var is not None:
        count = math.prod(x.shape[2:])
        track(running_mean, running_var, mean.mean(0), variance.mean(0), count, momentum)
    return y
