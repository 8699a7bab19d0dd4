"""Losses of predicted numbers: how far they are from the true ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.dims import inverse
from rushlight.kernels.engine import inner
from rushlight.kernels.select import between
from rushlight.ops.base import Op, composite, need_tensor, ops, registry
from rushlight.ops.elements import wide
from rushlight.ops.elementwise import Formula, common_dtype
from rushlight.ops.loss_reduction import check_floating, chosen, floored, reduced, warn_of_broadcast
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.verified import verified
from rushlight.tensor import Tensor

PAIRS = [
    S(T(3, 4), T(3, 4)),
    S(T(3, 4), T(3, 4), reduction="sum"),
    S(T(3, 4), T(3, 4), reduction="none"),
    S(T(3, 4), T(4)),
    S(T(), T()),
    S(T(0, 3), T(0, 3), reduction="sum"),
]
WEIGHTED = [
    S(T(3, 4), T(3, 4), weight=T(3, 4, low=0.5), reduction=reduction)
    for reduction in ("mean", "sum", "none")
]
BAD_PAIRS = [
    Fails(TypeError, r"'target' \(position 2\) must be Tensor, not list", T(3), [1.0]),
    Fails(TypeError, r"'input' \(position 1\) must be Tensor, not float", 1.0, T(3)),
    Fails(
        ValueError, "average is not a valid value for reduction", T(3), T(3), reduction="average"
    ),
    Fails(RuntimeError, "must match the size of tensor b", T(3, 4), T(3, 3)),
]
BAD_WEIGHT = Fails(ValueError, r"same size, got shapes \[2\] and \[3\]", T(3), T(3), weight=T(2))
LOG_2_PI = math.log(2 * math.pi)


def pair(name: str, input: Any, target: Any) -> tuple[Tensor, Tensor]:
    """The two tensors of a loss, of one dtype, with a warning if their shapes differ."""
    x, t = need_tensor(name, input), need_tensor(name, target, "target", 2)
    if x._array.shape != t._array.shape:
        warn_of_broadcast(x, t)
        x, t = ops.broadcast_tensors(x, t)
    if x._array.dtype is not t._array.dtype:
        kind = common_dtype((x, t))
        x, t = x.to(kind), t.to(kind)
    return x, t


def floating_pair(name: str, input: Any, target: Any) -> tuple[Tensor, Tensor]:
    """:func:`pair`, of floating-point numbers."""
    x, t = pair(name, input, target)
    check_floating(name, x._array.dtype)
    return x, t


def weighted(loss: Tensor, weight: Tensor, input: Tensor) -> Tensor:
    """The losses of all elements times their weights."""
    if weight.shape != input.shape:
        raise ValueError(
            "Weights and input must have the same size, got shapes "
            f"{list(weight.shape)} and {list(input.shape)}"
        )
    return loss * weight


def weighted_mean(loss: Tensor, weight: Tensor, reduction: str) -> Tensor:
    """Weighted losses reduced; their mean is per unit of weight."""
    return loss.sum() / weight.sum() if reduction == "mean" else reduced(loss, reduction)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[S(T(3, 4, distinct=True), T(3, 4)), *PAIRS, *WEIGHTED],
    errors=[*BAD_PAIRS, BAD_WEIGHT],
)
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The mean absolute error: mean of abs(input - target).

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: of each element; the mean is then Σ weight · error / Σ weight.

    >>> import rushlight.nn.functional as F
    >>> F.l1_loss(rl.tensor([1.0, 2.0]), rl.tensor([0.0, 5.0]))
    tensor(2.)
    """
    reduction = chosen(reduction, size_average, reduce)
    x, t = pair("l1_loss", input, target)
    loss = (x - t).abs()
    if weight is None:
        return reduced(loss, reduction)
    return weighted_mean(weighted(loss, weight, x), weight, reduction)


class SquaredError(Op):
    """Σ (x - t)² in one pass, or its mean."""

    function = method = False

    def check(self, x: Tensor, t: Tensor, mean: bool) -> Any:
        return (x, t), {"mean": mean}

    def eager(self, x, t, *, mean):
        kind = x.dtype
        if kind in dtypes.HALF:
            x, t = x.astype(np.float32), t.astype(np.float32)
        d = np.subtract(x, t).ravel("K")
        y = inner(d, d)
        return (y / d.dtype.type(d.size) if mean else y).astype(kind, copy=False)

    def at(self, b, i, x, t, *, mean):
        def square(*k):
            d = wide(x[k]) - wide(t[k])
            return d * d

        total = b.sum(x.shape, square)
        return total / math.prod(x.shape) if mean else total

    def folded(self, attrs, x, t):
        return tuple(range(len(x)))

    def vjp_x(self, g, _y, x, t, *, mean):
        d = x - t
        return d * (g * (2 * inverse(d.numel()) if mean else 2))

    def vjp_t(self, g, _y, x, t, *, mean):
        return self.vjp_x(-g, _y, x, t, mean=mean)


squared_error = registry["squared_error"]
squared_error.node.__name__ = "MseLossBackward0"


@composite(
    namespace="nn.functional",
    method=False,
    samples=[*PAIRS, *WEIGHTED],
    errors=[
        *BAD_PAIRS,
        BAD_WEIGHT,
        Fails(NotImplementedError, "not implemented for 'Long'", *[T(3, dtype=dtypes.int64)] * 2),
    ],
)
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The mean squared error: mean of (input - target)².

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: of each element; the mean is then Σ weight · error / Σ weight.

    >>> import rushlight.nn.functional as F
    >>> F.mse_loss(rl.tensor([1.0, 2.0]), rl.tensor([0.0, 5.0]))
    tensor(5.)
    """
    reduction = chosen(reduction, size_average, reduce)
    x, t = floating_pair("mse_loss", input, target)
    if weight is None and reduction != "none":
        return squared_error.call(x, t, reduction == "mean")
    loss = (x - t).square()
    if weight is None:
        return loss
    return weighted_mean(weighted(loss, weight, x), weight, reduction)


class HuberError(Formula):
    """c · (d - c / 2) with d = x - t and c = d clamped to [-delta, delta], which is its slope."""

    function = method = inplace = False
    kinds = "f"

    def check(self, x: Tensor, t: Tensor, delta: float) -> Any:
        return (x, t), {"delta": delta}

    def eager(self, x, t, *, delta):
        d = x - t
        limit = np.array(delta, d.dtype)
        c = between(d, -limit, limit)
        d -= c / 2
        d *= c
        return d

    def vjp_x(self, g, _y, x, t, *, delta):
        return g * (x - t).clamp(-delta, delta)

    def vjp_t(self, g, _y, x, t, *, delta):
        return g * (t - x).clamp(-delta, delta)


huber_error = registry["huber_error"]
huber_error.node.__name__ = "HuberLossBackward0"


@composite(
    namespace="nn.functional",
    method=False,
    samples=[*PAIRS, S(T(3, 4), T(3, 4), beta=0.5), S(T(3, 4, distinct=True), T(3, 4), beta=0)],
    errors=[*BAD_PAIRS, Fails(RuntimeError, "negative values for beta", T(3), T(3), beta=-1.0)],
)
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Squared below ``beta``, absolute above: mean of d² / (2 beta), or abs(d) - beta / 2.

    >>> import rushlight.nn.functional as F
    >>> F.smooth_l1_loss(rl.tensor([1.0, 5.0]), rl.zeros(2), reduction="none")
    tensor([0.5000, 4.5000])
    """
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}")
    if beta == 0:
        return l1_loss(input, target, size_average, reduce, reduction)
    reduction = chosen(reduction, size_average, reduce)
    x, t = floating_pair("smooth_l1_loss", input, target)
    loss = huber_error.call(x, t, beta)
    return reduced(loss if beta == 1 else loss / beta, reduction)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        *PAIRS,
        S(T(3, 4), T(3, 4), delta=0.5),
        S(T(3, 4), T(3, 4), weight=T(3, 4)),
        S(T(3, 4), T(3, 4), "none", 2.0, T(3, 4)),
    ],
    errors=[
        *BAD_PAIRS,
        BAD_WEIGHT,
        Fails(RuntimeError, "non-positive values for delta, got 0", T(3), T(3), delta=0),
    ],
)
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Squared below ``delta``, absolute above: mean of d² / 2, or delta · (abs(d) - delta / 2).

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: of each element.

    >>> import rushlight.nn.functional as F
    >>> F.huber_loss(rl.tensor([1.0, 5.0]), rl.zeros(2), reduction="none", delta=2.0)
    tensor([0.5000, 8.0000])
    """
    reduction = chosen(reduction)
    if delta <= 0:
        raise RuntimeError(
            f"huber_loss does not support non-positive values for delta, got {delta}"
        )
    x, t = floating_pair("huber_loss", input, target)
    loss = huber_error.call(x, t, delta).to(input.dtype)
    return reduced(loss if weight is None else weighted(loss, weight, x), reduction)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        *PAIRS,
        S(T(3, 4, low=0.5), T(3, 4, low=0.5, high=4), log_input=False),
        S(T(3, 4), T(3, 4, low=1.5, high=4), full=True),
        S(T(3, 4), T(3, 4, low=0.2, high=0.8), full=True, reduction="none"),
    ],
    errors=BAD_PAIRS,
)
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The negative log likelihood of counts that follow a Poisson law, up to a constant.

    Args:
        input: the logarithm of the rate, or the rate itself if not ``log_input``.
        target: the counts.
        full: adds Stirling's approximation of log(target!), the constant, where target > 1.
        eps: keeps log(rate + eps) finite.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    >>> import rushlight.nn.functional as F
    >>> F.poisson_nll_loss(rl.tensor([0.0, 1.0]), rl.tensor([1.0, 3.0]))
    tensor(0.3591)
    """
    reduction = chosen(reduction, size_average, reduce)
    x = need_tensor("poisson_nll_loss", input)
    t = need_tensor("poisson_nll_loss", target, "target", 2)
    loss = x.exp() - t * x if log_input else x - t * (x + eps).log()
    if full:
        stirling = t * t.log() - t + 0.5 * (2 * math.pi * t).log()
        loss = loss + stirling.masked_fill(t <= 1, 0)
    return reduced(loss, reduction)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        S(T(3, 4), T(3, 4), T(3, 4, low=0.5)),
        S(T(3, 4), T(3, 4), T(3, 1, low=0.5), full=True),
        S(T(3, 4), T(3, 4), T(3, low=0.5), eps=1e-3, reduction="sum"),
        S(T(3, 4), T(3, 4), 0.5, reduction="none"),
        S(T(), T(), T(low=0.5)),
    ],
    errors=[
        Fails(TypeError, r"'target' \(position 2\) must be Tensor", T(3), [1.0], 1.0),
        Fails(ValueError, "var has negative entry/entries", T(3), T(3), -1.0),
        Fails(ValueError, "var has negative", T(2), T(2), T(values=[1.0, -1.0])),
        Fails(ValueError, r"var is of incorrect size \[2\]", T(3), T(3), T(2, low=0)),
        Fails(ValueError, "average is not a valid value", T(3), T(3), 1.0, reduction="average"),
    ],
)
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """The negative log likelihood of numbers that follow a normal law, up to a constant.

    ``(log(var) + (input - target)² / var) / 2``, with ``var`` at least ``eps``.

    Args:
        input: the expected values.
        var: the variances: of each element, of each row of the last dimension, or one for all.
        full: adds the constant log(2π) / 2.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    >>> import rushlight.nn.functional as F
    >>> F.gaussian_nll_loss(rl.tensor([1.0, 3.0]), rl.tensor([0.0, 5.0]), rl.tensor([1.0, 4.0]))
    tensor(0.8466)
    """
    reduction = chosen(reduction)
    x = need_tensor("gaussian_nll_loss", input)
    t = need_tensor("gaussian_nll_loss", target, "target", 2)
    variance = floored(variance_of(x, var), eps)
    loss = 0.5 * (variance.log() + (x - t).square() / variance)
    return reduced(loss + 0.5 * LOG_2_PI if full else loss, reduction)


def variance_of(x: Tensor, var: Tensor | float) -> Tensor:
    """``var`` as a tensor that broadcasts to ``x``, not negative."""
    v = var if isinstance(var, Tensor) else ops.full_like(x, var)
    v = verified(v, (v < 0).logical_not(), "ValueError", "var has negative entry/entries")
    if v.shape == x.shape:
        return v
    if v.shape == x.shape[:-1]:
        return v.unsqueeze(-1)
    unlike = [b for a, b in zip(x.shape, v.shape, strict=False) if a != b]
    if v.ndim == x.ndim and unlike == [1]:
        return v
    raise ValueError(
        f"var is of incorrect size {list(v.shape)} for an input of shape {list(x.shape)}"
    )
