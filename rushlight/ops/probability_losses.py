"""Losses of probabilities: binary cross-entropies and the divergence of Kullback and Leibler."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.dims import inverse
from rushlight.kernels.activation import log1p_fraction
from rushlight.kernels.select import at_least, at_most
from rushlight.kernels.summation import add_up
from rushlight.ops.base import Op, composite, need_tensor, ops, registry
from rushlight.ops.elementwise import Formula, common_dtype
from rushlight.ops.families import Pointwise
from rushlight.ops.loss_reduction import REDUCTIONS, check_floating, chosen, reduced, warn
from rushlight.ops.network_activations import logsigmoid
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.verified import verified
from rushlight.tensor import Tensor


class LogisticLoss(Op):
    """(1 - t) · x - log(sigmoid(x)), the cross-entropy of sigmoid(x) and t; and its slope in x.

    With ``share`` the losses are summed, and the sum is multiplied by it.
    """

    function = method = False
    differentiable = (0,)
    library = "programs are made of its formula"

    def check(self, x: Tensor, t: Tensor, share: float | None = None) -> Any:
        return (x, t), {"share": share}

    def eager(self, x, t, *, share):
        if x.dtype in dtypes.HALF:
            loss, slope = self.eager(x.astype(np.float32), t.astype(np.float32), share=share)
            return loss.astype(x.dtype), slope
        e = np.exp(-np.abs(x))
        losses = log1p_fraction(e) + ((1 - t) * x - at_most(x, np.zeros((), x.dtype)))
        slope = np.asarray(1 - e)
        slope /= 1 + e
        np.copysign(slope, x, slope)  # tanh(x / 2), which is 2 sigmoid(x) - 1
        slope += 1
        slope *= 0.5
        slope -= t
        if share is None:
            return losses, slope
        slope *= share
        return add_up(losses) * x.dtype.type(share), slope

    def traced(self, operands: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """The formula in ops, of which a program makes one loop; the gradient needs no slope."""
        (x, t), share = operands, attrs["share"]
        kind = x.dtype
        if kind.numpy in dtypes.HALF:
            x, t = x.float(), t.float()
        losses = (1 - t) * x - logsigmoid(x)
        return (losses if share is None else losses.sum() * share).to(kind), None

    def vjp_x(self, g, y, x, t, *, share):
        return logistic_slope(g, y[1], x, t, 1 if share is None else share)

    def vjp_t(self, g, _y, x, _t, *, share):
        return -g * x if share is None else x * (g * -share)


class LogisticSlope(Pointwise):
    """The gradient of :class:`LogisticLoss`: ``g`` times the slope, (sigmoid(x) - t) · share."""

    function = method = False

    def check(self, g: Tensor, slope: Tensor, x: Tensor, t: Tensor, share: float) -> Any:
        return (g, slope, x, t), {"share": share}

    def eager(self, g, slope, x, t, *, share):
        return np.multiply(g, slope)

    def vjp(self, g, _y, outer, _slope, x, t, *, share):
        y = x.sigmoid()
        g = g * share
        return g * (y - t), None, g * outer * y * (1 - y), -g * outer


logistic_loss = registry["logistic_loss"].call
logistic_slope = registry["logistic_slope"].call
registry["logistic_loss"].node.__name__ = "BinaryCrossEntropyWithLogitsBackward0"


def logistic_losses(x: Tensor, t: Tensor) -> Tensor:
    """(1 - t) · x - log(sigmoid(x)), element by element."""
    kind = common_dtype((x, t))
    return logistic_loss(*ops.broadcast_tensors(x.to(kind), t.to(kind)))[0]


def share_of(x: Tensor, reduction: str) -> float:
    """By what the sum of the losses of all elements is multiplied."""
    if reduction == "sum":
        return 1.0
    return inverse(x._array.size)


PROBABLE = T(3, 4, low=0, high=1)
BINARY = [
    *(S(T(3, 4, low=0.1, high=0.9), PROBABLE, reduction=r) for r in REDUCTIONS),
    S(T(3, 4, low=0.1, high=0.9), PROBABLE, T(4, low=0.5, grad=False)),
    S(T(low=0.1, high=0.9), T(low=0, high=1)),
    S(T(0, 3), T(0, 3), reduction="sum"),
]
BAD_BINARY = [
    Fails(TypeError, r"'target' \(position 2\) must be Tensor, not list", T(3), [1.0]),
    Fails(
        ValueError, "average is not a valid value for reduction", T(3), T(3), reduction="average"
    ),
]


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        *BINARY,
        S(T(3, 4), PROBABLE, pos_weight=T(4, low=0.5, grad=False)),
        S(T(values=[math.inf], grad=False), T(values=[0.0], grad=False)),
    ],
    errors=[
        *BAD_BINARY,
        Fails(ValueError, r"Target size .*\[2, 3\].* same as input size .*\[3\]", T(3), T(2, 3)),
        Fails(RuntimeError, r"a \(3\) must match .* b \(2\)", T(3), T(3), T(2)),
        Fails(RuntimeError, r"shape \[3\] .* broadcast shape \[2, 3\]", T(3), T(3), T(2, 3)),
        Fails(RuntimeError, "can't be cast .* Long", T(3), T(3, dtype=dtypes.int64)),
        Fails(NotImplementedError, "not implemented for 'Long'", T(3, dtype=dtypes.int64), T(3)),
    ],
)
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """:func:`binary_cross_entropy` of sigmoid(input), without overflow.

    Args:
        input: logits of any shape.
        target: probabilities of the same shape.
        weight: of each element, broadcast.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        pos_weight: of the positive part ``target · log(sigmoid(input))``, broadcast.

    >>> import rushlight.nn.functional as F
    >>> F.binary_cross_entropy_with_logits(rl.tensor([0.0, 3.0]), rl.tensor([0.0, 1.0]))
    tensor(0.3709)
    """
    reduction = chosen(reduction, size_average, reduce)
    x = need_tensor("binary_cross_entropy_with_logits", input)
    t = need_tensor("binary_cross_entropy_with_logits", target, "target", 2)
    if x._array.shape != t._array.shape:
        raise ValueError(f"Target size ({t.shape}) must be the same as input size ({x.shape})")
    check_floating("binary_cross_entropy_with_logits", x._array.dtype)
    if not t.dtype.is_floating_point:
        raise RuntimeError(
            f"result type {x.dtype.storage_name} can't be cast to the desired output type "
            f"{t.dtype.storage_name}: the target must be of floating-point numbers"
        )
    if weight is pos_weight is None and reduction != "none" and x._array.dtype is t._array.dtype:
        return logistic_loss(x, t, share_of(x, reduction))[0]
    if pos_weight is None:
        loss = logistic_losses(x, t)
    else:
        loss = (1 - t) * x - (1 + (pos_weight - 1) * t) * logsigmoid(x)
    if weight is not None:
        loss = loss * weight
    if loss.shape != x.shape:
        raise RuntimeError(
            f"output with shape {list(x.shape)} doesn't match the broadcast shape "
            f"{list(loss.shape)}: weight or pos_weight is larger than the input"
        )
    return reduced(loss.to(t.dtype), reduction)


class BernoulliLoss(Formula):
    """-t · log(x) - (1 - t) · log(1 - x), the logarithms at least -100."""

    function = method = inplace = False
    kinds = "f"

    def check(self, x: Tensor, t: Tensor) -> Any:
        return (x, t), {}

    def eager(self, x, t):
        floor = np.array(-100, x.dtype)
        return (t - 1) * at_least(np.log1p(-x), floor) - t * at_least(np.log(x), floor)

    def vjp_x(self, g, _y, x, t):
        return g * (x - t) / ((1 - x) * x).clamp(min=1e-12)

    def vjp_t(self, g, _y, x, _t):
        return g * ((-x).log1p().clamp(min=-100) - x.log().clamp(min=-100))


bernoulli_loss = registry["bernoulli_loss"].call
registry["bernoulli_loss"].node.__name__ = "BinaryCrossEntropyBackward0"


def between_0_and_1(name: str, x: Tensor) -> Tensor:
    """``x``, an error if it is no probability."""
    message = f"all elements of {name} should be between 0 and 1"
    if name == "input":
        message += " (for logits there is binary_cross_entropy_with_logits)"
    return verified(x, (x >= 0) & (x <= 1), "RuntimeError", message)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[*BINARY, S(T(values=[0.0, 1.0], grad=False), T(values=[1.0, 1.0], grad=False))],
    errors=[
        *BAD_BINARY,
        Fails(ValueError, r"target size .*\[2, 3\].* different to the input size", T(3), T(2, 3)),
        Fails(
            RuntimeError, "all elements of input should be between 0 and 1", T(values=[2.0]), T(1)
        ),
        Fails(
            RuntimeError,
            "all elements of target should be between 0 and 1",
            T(values=[1.0]),
            T(values=[-1.0]),
        ),
        Fails(
            RuntimeError,
            "Found dtype Double but expected Float",
            T(2, low=0, high=1),
            T(2, low=0, high=1, dtype=dtypes.float64),
        ),
        Fails(
            RuntimeError,
            r"size of the tensor \(3\) must match .* \(2\)",
            T(3, low=0, high=1),
            T(3, low=0, high=1),
            T(2),
        ),
    ],
)
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The cross-entropy of probabilities of one class: mean of -t · log(x) - (1 - t) · log(1 - x).

    Logarithms are taken to be at least -100, so that the loss is finite.

    Args:
        input: predicted probabilities x, of any shape.
        target: true probabilities t of the same shape.
        weight: of each element, broadcast.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    >>> import rushlight.nn.functional as F
    >>> F.binary_cross_entropy(rl.tensor([0.5, 0.9]), rl.tensor([0.0, 1.0]))
    tensor(0.3993)
    """
    reduction = chosen(reduction, size_average, reduce)
    x = need_tensor("binary_cross_entropy", input)
    t = need_tensor("binary_cross_entropy", target, "target", 2)
    if x.shape != t.shape:
        raise ValueError(
            f"Using a target size ({t.shape}) that is different to the input size ({x.shape}) is "
            "deprecated. Please ensure they have the same size."
        )
    if x.dtype is not t.dtype:
        raise RuntimeError(
            f"Found dtype {t.dtype.storage_name} but expected {x.dtype.storage_name}"
        )
    loss = bernoulli_loss(between_0_and_1("input", x), between_0_and_1("target", t))
    if weight is not None:
        loss = (loss * weight.expand(x.shape)).to(x.dtype)
    return reduced(loss, reduction)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        *(S(T(3, 4), T(3, 4, low=0.1, high=1), reduction=r) for r in (*REDUCTIONS, "batchmean")),
        S(T(3, 4), T(3, 4), reduction="batchmean", log_target=True),
        S(T(3, 4), T(4, low=0.1, high=1), reduction="sum"),
        S(T(), T(low=0.1, high=1), reduction="batchmean"),
        S(T(3), T(values=[0.0, 0.5, 0.5], grad=False), reduction="sum"),
    ],
    errors=[
        *BAD_BINARY,
        Fails(RuntimeError, "Integral inputs not supported", T(3), T(3, dtype=dtypes.int64)),
        Fails(RuntimeError, "Complex inputs not supported", *[T(3, dtype=dtypes.complex64)] * 2),
    ],
)
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """The divergence of Kullback and Leibler: target · (log(target) - input), element by element.

    Args:
        input: logarithms of the predicted probabilities.
        target: the true probabilities, or their logarithms if ``log_target``.
        reduction: ``"batchmean"``, the divergence for each of the first dimension; ``"mean"``
            over all elements, ``"sum"`` or ``"none"``.

    >>> import rushlight.nn.functional as F
    >>> p, q = rl.tensor([[0.5, 0.5]]), rl.tensor([[0.9, 0.1]])
    >>> F.kl_div(p.log(), q, reduction="batchmean")
    tensor(0.3681)
    """
    if size_average is not None or reduce is not None:
        reduction = chosen(reduction, size_average, reduce)
    elif reduction == "mean":
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next major "
            "release."
        )
    elif reduction != "batchmean":
        reduction = chosen(reduction)
    loss = divergences(input, target, log_target)
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.ndim else loss.sum()
    return reduced(loss, reduction)


def divergences(input: Tensor, target: Tensor, log_target: bool) -> Tensor:
    """target · (log(target) - input), element by element."""
    x, t = need_tensor("kl_div", input), need_tensor("kl_div", target, "target", 2)
    for part in (x, t):
        if not part.dtype.is_floating_point:
            kind = "Complex" if part.dtype.is_complex else "Integral"
            raise RuntimeError(f"kl_div: {kind} inputs not supported.")
    return t.exp() * (t - x) if log_target else ops.xlogy(t, t) - t * x
