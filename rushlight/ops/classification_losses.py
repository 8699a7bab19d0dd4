"""Losses of labelled classes: negative log likelihoods and cross-entropies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.autograd.modes import local
from rushlight.dims import index
from rushlight.kernels import cross_entropy as kernels
from rushlight.ops.base import Op, composite, need_tensor, ops, registry
from rushlight.ops.elements import Refusal, flat, wide
from rushlight.ops.loss_reduction import REDUCTIONS, check_floating, chosen, reduced
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

INT64 = dtypes.int64.numpy


def labels(*values: Any) -> T:
    return T(values=list(values), dtype=dtypes.int64)


def label(value: int) -> T:
    return T(values=value, dtype=dtypes.int64)


LABELLED = [
    *(S(T(3, 4), labels(0, 3, 1), reduction=reduction) for reduction in REDUCTIONS),
    S(T(3, 4), labels(0, 3, 1), T(4, low=0.5, grad=False)),
    S(T(3, 4), labels(0, -100, 1), T(4, low=0.5, grad=False), reduction="none"),
    S(T(3, 4), labels(0, 2, 1), ignore_index=2),
    S(T(3, 4), labels(0, 2, 1), ignore_index=2, reduction="sum"),
    S(T(2, 3, 4), labels([0, 2, 1, 1], [0, 0, 2, 1])),
    S(T(2, 3, 2, 2), labels([[0, 2], [1, 1]], [[0, 0], [2, 1]]), reduction="none"),
    S(T(4), label(2)),
    S(T(4), label(2), reduction="none"),
    S(T(3, 4), T(values=[0, 3, 1], dtype=dtypes.uint8)),
    S(T(0, 4), T(0, dtype=dtypes.int64), reduction="sum"),
]
BAD_LABELS = [
    Fails(IndexError, r"Target 7 is out of bounds\.", T(3, 4), labels(0, 7, 1)),
    Fails(IndexError, r"Target -1 is out of bounds\.", T(3, 4), labels(0, -1, 1)),
    Fails(IndexError, r"Target 9 is out of bounds\.", T(1, 3, 2), labels([9, 0])),
    Fails(
        ValueError,
        r"input batch_size \(3\) to match target batch_size \(2\)",
        T(3, 4),
        labels(0, 1),
    ),
    Fails(
        RuntimeError,
        r"Expected target size \[2, 4\], got \[2, 3\]",
        T(2, 3, 4),
        labels([0, 1, 2], [0, 1, 2]),
    ),
    Fails(ValueError, "1D target must have size 1, but got target size: 2", T(4), labels(0, 1)),
    Fails(RuntimeError, "Long or Byte, but got Int", T(2, 4), T(2, dtype=dtypes.int32)),
    Fails(RuntimeError, r"for all 4 classes .* of shape: \[3\]", T(2, 4), labels(0, 1), T(3)),
    Fails(ValueError, "average is not a valid value", T(2, 4), labels(0, 1), reduction="average"),
    Fails(TypeError, r"'target' \(position 2\) must be Tensor, not list", T(2, 4), [0, 1]),
    Fails(TypeError, "'weight' .* must be Tensor, not list", T(2, 4), labels(0, 1), [1.0] * 4),
    Fails(
        TypeError, "'ignore_index' must be int, not float", T(2, 4), labels(0, 1), ignore_index=1.5
    ),
]


def fitting(
    name: str,
    logits: tuple[int, ...],
    kind: np.dtype,
    target: Tensor,
    weight: Any,
    ignore_index: int,
) -> Tensor:
    """The labels, in the shape that fits these logits, and checked but for their values."""
    t = target._array
    if len(logits) != 2 or t.shape != logits[:1]:
        target = target.reshape(label_shape(logits, t.shape))
    if t.dtype is not INT64:
        if target.dtype is not dtypes.uint8:
            raise RuntimeError(
                f"{name}: expected target dtype to be Long or Byte, but got "
                f"{target.dtype.storage_name}"
            )
        target = target.to(dtypes.int64)
    check_floating(name, kind)
    if weight is not None:
        check_weight(name, logits[kernels.class_dim(len(logits))], kind, weight)
    if type(ignore_index) is not int:
        check_ignore_index(name, ignore_index)
    return target


def label_shape(x: tuple[int, ...], t: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the labels of logits of shape ``x``, or the error that ``t`` does not fit."""
    if not x:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if len(x) == 1:
        if t not in ((), (1,)):
            raise ValueError(
                "For 1D input, 1D target must have size 1, but got target size: "
                f"{t[0] if len(t) == 1 else list(t)}"
            )
        return ()
    if t[:1] != x[:1]:
        raise ValueError(
            f"Expected input batch_size ({x[0]}) to match target batch_size "
            f"({t[0] if t else 'none: the target is 0-d'})."
        )
    if t != x[:1] + x[2:]:
        if len(x) == 2:
            raise RuntimeError(
                "0D or 1D target tensor expected, multi-target not supported: got target of shape "
                f"{list(t)} for input of shape {list(x)}"
            )
        raise RuntimeError(f"Expected target size {[x[0], *x[2:]]}, got {list(t)}")
    return t


def check_weight(name: str, classes: int, kind: np.dtype, weight: Any) -> None:
    """An error unless ``weight`` has a number of this dtype for each class."""
    w = need_constant(name, weight)
    if w.shape != (classes,):
        raise wrong_weight(name, classes, w)
    if w._array.dtype is not kind:
        raise RuntimeError(
            f"{name}: expected scalar type {dtypes.from_numpy(kind).storage_name} but found "
            f"{w.dtype.storage_name} for argument 'weight'"
        )


def need_constant(name: str, weight: Any, argument: str = "weight", position: int = 3) -> Tensor:
    """``weight`` if it is a tensor that wants no gradient, which it would not get."""
    w = need_tensor(name, weight, argument, position)
    if local.state.grad and w.requires_grad:
        raise RuntimeError(
            f"The function '{name}' is not differentiable with respect to argument '{argument}'. "
            "This input cannot have requires_grad True."
        )
    return w


def wrong_weight(name: str, classes: int, weight: Tensor) -> RuntimeError:
    return RuntimeError(
        f"{name}: weight tensor should be defined either for all {classes} classes or no classes "
        f"but got weight tensor of shape: {list(weight.shape)}"
    )


def check_ignore_index(name: str, ignore_index: Any) -> None:
    try:
        index(ignore_index)
    except TypeError:
        raise TypeError(
            f"{name}(): argument 'ignore_index' must be int, not {messages.kind(ignore_index)}"
        ) from None


class CheckedLabels(Op):
    """The labels, 0 where they are to be ignored; an error if one is that of no class."""

    function = method = differentiable = False

    def check(self, target: Tensor, classes: int, ignore_index: int) -> Any:
        return (target,), {"classes": classes, "ignore_index": ignore_index}

    def infer(self, arrays, attrs):
        return np.empty(arrays[0].shape, arrays[0].dtype)

    def eager(self, target, *, classes, ignore_index):
        labels, _ = kernels.checked_labels(target.reshape(-1), classes, ignore_index)
        return labels.reshape(target.shape)

    def at(self, b, i, target, *, classes, ignore_index):
        label = b.where(target[i].eq(ignore_index), 0, target[i])
        message = kernels.no_label("{}", "{}", ignore_index)
        return b.checked(label, classes, Refusal(IndexError, message, (classes - 1,)))


checked_labels = registry["checked_labels"].call


def settled(
    losses: Tensor, labels: Tensor, ignored: Tensor, weight: Tensor | None, reduction: str
) -> tuple[Tensor, Tensor]:
    """``kernels.settle`` with ops: the losses reduced, and the share of each label in that."""
    shares = ops.ones_like(losses) if weight is None else weight.to(losses.dtype)[labels]
    shares = shares.masked_fill(ignored, 0)
    losses = (losses * shares).masked_fill(
        ignored, 0
    )  # times zero would not do for an infinite one
    if reduction == "none":
        return losses, shares.reshape(-1)
    loss = losses.sum()
    if reduction == "mean":
        total = shares.sum()
        loss, shares = loss / total, shares / total.masked_fill(total == 0, 1)
    return loss, shares.reshape(-1)


class PickedLoss(Op):
    """-x at the labels, reduced; the share of each label in that, and its place."""

    function = method = False
    differentiable = (0,)

    def check(
        self, x: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int
    ) -> Any:
        return (x, target, weight), {"reduction": reduction, "ignore_index": ignore_index}

    def eager(self, x, target, weight, *, reduction, ignore_index):
        return in_float32(kernels.nll_loss, x, target, weight, reduction, ignore_index)

    def decompose(self, x, target, weight, *, reduction, ignore_index):
        dim = kernels.class_dim(x.ndim)
        classes = x.shape[dim]
        if not classes:  # a condition of programs for all sizes
            return NotImplemented
        u = x.float() if x._array.dtype in dtypes.HALF else x
        labels = checked_labels(target, classes, ignore_index)
        losses = -u.gather(dim, labels.unsqueeze(dim)).squeeze(dim)
        loss, shares = settled(losses, labels, target == ignore_index, weight, reduction)
        inner = math.prod(x.shape[2:])
        after = ops.arange(inner).reshape(x.shape[2:])
        before = ops.arange(x.shape[0] if x.ndim > 1 else 1) * (classes * inner)
        places = labels * inner + after + before.reshape(-1, *[1] * (target.ndim - 1))
        return loss.to(x.dtype), shares, places.reshape(-1)

    def vjp(self, g, y, _x, target, weight, **attrs):
        _, shares, places = y
        return picked_slope(g, shares, places, target, weight, _x.shape, attrs), None, None


class PickedSlope(Op):
    """The gradient of :class:`PickedLoss`, which is linear: so is this, and each is the adjoint
    of the other."""

    function = method = False

    def check(
        self,
        g: Tensor,
        shares: Tensor,
        places: Tensor,
        target: Tensor,
        weight: Tensor | None,
        shape: tuple[int, ...],
        attrs: dict[str, Any],
    ) -> Any:
        return (g, shares, places, target, weight), {"shape": shape, **attrs}

    def infer(self, arrays, attrs):
        return np.empty(attrs["shape"], arrays[0].dtype)

    def eager(self, g, shares, places, target, weight, *, shape, reduction, ignore_index):
        y = np.zeros(shape, g.dtype)
        y.reshape(-1)[places] = -g.reshape(-1) * shares
        return y

    def at(self, b, i, g, shares, places, target, weight, *, shape, reduction, ignore_index):
        dim = kernels.class_dim(len(shape))
        own = (*i[:dim], *i[dim + 1 :])
        share = shares[flat(own, target.shape)] if shares.ndim else shares[()]
        value = -wide(g[own if reduction == "none" else ()]) * wide(share)
        return b.where(b.position(target[own]).eq(i[dim]), value, 0)

    def vjp(self, g, _y, _outer, _shares, _places, target, weight, *, shape, **attrs):
        return picked_loss(g, target, weight, **attrs)[0], None, None, None, None


def in_float32(kernel: Callable[..., Any], x: np.ndarray, *args: Any) -> Any:
    """``kernel(x, …)``, computed in float32 for half types; its first result is of x's dtype."""
    if x.itemsize != 2:
        return kernel(x, *args)
    loss, *rest = kernel(x.astype(np.float32), *args)
    return loss.astype(x.dtype), *rest


picked_loss = registry["picked_loss"].call
picked_slope = registry["picked_slope"].call
registry["picked_loss"].node.__name__ = "NllLossBackward0"


@composite(
    namespace="nn.functional",
    method=False,
    samples=LABELLED,
    errors=[
        *BAD_LABELS,
        Fails(ValueError, r"Expected 1 or more dimensions \(got 0\)", T(), label(0)),
        Fails(NotImplementedError, "for 'Long'", T(2, 4, dtype=dtypes.int64), labels(0, 1)),
    ],
)
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The negative log likelihood of the labelled classes: mean of -input[n, target[n]].

    Args:
        input: log-probabilities, of shape (N, C), (C) or (N, C, d₁, …).
        target: the labels, from 0 to C - 1, of shape (N), () or (N, d₁, …).
        weight: of each class; the mean is then Σ weight · loss / Σ weight of the labels.
        ignore_index: a label that does not count.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    >>> import rushlight.nn.functional as F
    >>> F.nll_loss(rl.tensor([[-0.1, -2.4], [-1.0, -0.5]]), rl.tensor([0, 1]))
    tensor(0.3000)
    """
    reduction = chosen(reduction, size_average, reduce)
    x = need_tensor("nll_loss", input)
    t = need_tensor("nll_loss", target, "target", 2)
    a = x._array
    t = fitting("nll_loss", a.shape, a.dtype, t, weight, ignore_index)
    return picked_loss(x, t, weight, reduction, ignore_index)[0]


class LabelCrossEntropy(Op):
    """-log softmax(x) at the labels, reduced, and the slope of that in x."""

    function = method = False
    differentiable = (0,)

    def check(
        self,
        x: Tensor,
        target: Tensor,
        weight: Tensor | None,
        reduction: str,
        ignore_index: int,
        smoothing: float,
    ) -> Any:
        attrs = {"reduction": reduction, "ignore_index": ignore_index, "smoothing": smoothing}
        return (x, target, weight), attrs

    def eager(self, x, target, weight, *, reduction, ignore_index, smoothing):
        how = reduction, ignore_index, smoothing
        return in_float32(kernels.cross_entropy, x, target, weight, *how)

    def decompose(self, x, target, weight, *, reduction, ignore_index, smoothing):
        dim = kernels.class_dim(x.ndim)
        classes = x.shape[dim]
        if not classes:  # a condition of programs for all sizes
            return NotImplemented
        u = x.float() if x._array.dtype in dtypes.HALF else x
        labels = checked_labels(target, classes, ignore_index)
        place = labels.unsqueeze(dim)
        e = u - u.amax(dim, keepdim=True)
        total = e.exp().sum(dim, keepdim=True)
        losses = total.log() - (1 - smoothing) * e.gather(dim, place)
        if smoothing:
            losses = losses - smoothing / classes * e.sum(dim, keepdim=True)
        ignored = target == ignore_index
        loss, shares = settled(losses.squeeze(dim), labels, ignored, weight, reduction)
        share = shares.reshape(total.shape)
        numbers = ops.arange(classes).reshape(-1, *[1] * (x.ndim - dim - 1))
        hot = (place == numbers).to(u.dtype)
        slope = share * (e.exp() / total - (1 - smoothing) * hot - smoothing / classes)
        return loss.to(x.dtype), slope

    def vjp(self, g, y, x, target, weight, **attrs):
        return cross_entropy_slope(g, y[1], x, target, weight, attrs), None, None


class CrossEntropySlope(Op):
    """The gradient of :class:`LabelCrossEntropy`: ``g`` times the slope, a function of ``x``."""

    function = method = False

    def check(
        self,
        g: Tensor,
        slope: Tensor,
        x: Tensor,
        target: Tensor,
        weight: Tensor | None,
        attrs: dict[str, Any],
    ) -> Any:
        return (g, slope, x, target, weight), attrs

    def eager(self, g, slope, x, target, weight, *, reduction, ignore_index, smoothing):
        if reduction == "none":
            g = np.expand_dims(g, kernels.class_dim(x.ndim))
        return np.multiply(slope, g)

    def decompose(self, g, slope, x, target, weight, *, reduction, **attrs):
        if not g._array.dtype == slope._array.dtype == x._array.dtype:
            return NotImplemented
        return slope * (g.unsqueeze(kernels.class_dim(x.ndim)) if reduction == "none" else g)

    def at(self, b, i, g, slope, x, target, weight, *, reduction, **attrs):
        dim = kernels.class_dim(len(i))
        own = (*i[:dim], *i[dim + 1 :]) if reduction == "none" else ()
        return wide(slope[i]) * wide(g[own])

    def vjp(self, g, _y, outer, _slope, x, target, weight, *, reduction, ignore_index, smoothing):
        dim = kernels.class_dim(x.ndim)
        p = x.softmax(dim)
        mean = (g * p).sum(dim, keepdim=True)
        part = (1 - smoothing) * g + smoothing * g.mean(dim, keepdim=True) if smoothing else g
        along_outer, shares, _ = picked_loss(part - mean, target, weight, reduction, ignore_index)
        if reduction == "none":
            outer = outer.unsqueeze(dim)
        if shares.ndim:
            shares = shares.reshape(mean.shape)
        return along_outer, None, outer * shares * p * (g - mean), None, None


label_cross_entropy = registry["label_cross_entropy"].call
cross_entropy_slope = registry["cross_entropy_slope"].call
registry["label_cross_entropy"].node.__name__ = "NllLossBackward0"


@composite(
    fused=True,
    namespace="nn.functional",
    method=False,
    samples=[
        *LABELLED,
        *(S(T(3, 4), labels(0, 3, 1), label_smoothing=0.2, reduction=r) for r in REDUCTIONS),
        S(T(3, 4), labels(0, 3, 1), T(4, low=0.5, grad=False), label_smoothing=0.2, ignore_index=3),
        *(S(T(3, 4), T(3, 4, low=0, high=1), reduction=r) for r in REDUCTIONS),
        S(T(2, 3, 2), T(2, 3, 2, low=0, high=1), T(3, low=0.5), label_smoothing=0.2),
        S(T(4), T(4, low=0, high=1)),
        S(T(3, 4, low=-200, high=200), labels(0, 3, 1)),
    ],
    errors=[
        *BAD_LABELS,
        Fails(
            RuntimeError,
            "floating point type for target with class probabilities, got Long",
            T(2, 2),
            labels([0, 1], [1, 0]),
        ),
        Fails(RuntimeError, "not supported for floating point", T(3), T(3), ignore_index=2),
        Fails(RuntimeError, "between 0.0 and 1.0. Got: 1.5", T(3), label(0), label_smoothing=1.5),
        Fails(RuntimeError, r"for all 3 classes .* of shape: \[2\]", T(3), T(3), T(2)),
    ],
)
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """The cross-entropy of logits and true classes: mean of -log softmax(input)[n, target[n]].

    A target of the shape of ``input`` holds a probability q for each class instead of a label:
    mean of -Σ q · log softmax(input).

    Args:
        input: logits, of shape (N, C), (C) or (N, C, d₁, …).
        target: labels from 0 to C - 1, of shape (N), () or (N, d₁, …), or probabilities.
        weight: of each class; with labels the mean is Σ weight · loss / Σ weight of the labels.
        ignore_index: a label that does not count.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        label_smoothing: what part of each probability is spread evenly over all classes.

    >>> import rushlight.nn.functional as F
    >>> logits = rl.tensor([[2.0, 0.0], [0.0, 0.0]])
    >>> F.cross_entropy(logits, rl.tensor([0, 1]))
    tensor(0.4100)
    >>> F.cross_entropy(logits, rl.tensor([[0.5, 0.5], [1.0, 0.0]]))
    tensor(0.9100)
    """
    reduction = chosen(reduction, size_average, reduce)
    x = need_tensor("cross_entropy", input)
    t = need_tensor("cross_entropy", target, "target", 2)
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    a = x._array
    if a.shape == t._array.shape:
        return soft_cross_entropy(x, t, weight, ignore_index, reduction, label_smoothing)
    t = fitting("cross_entropy", a.shape, a.dtype, t, weight, ignore_index)
    if label_smoothing and weight is not None:
        return smoothed_cross_entropy(x, t, weight, reduction, ignore_index, label_smoothing)
    return label_cross_entropy(x, t, weight, reduction, ignore_index, label_smoothing)[0]


def soft_cross_entropy(
    x: Tensor,
    q: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    label_smoothing: float,
) -> Tensor:
    """-Σ q · log softmax(x) over the classes, reduced."""
    if not q.dtype.is_floating_point:
        raise RuntimeError(
            "Expected floating point type for target with class probabilities, got "
            f"{q.dtype.storage_name}"
        )
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    if not x.ndim:
        raise ValueError("cross_entropy: expected 1 or more dimensions (got 0)")
    dim = kernels.class_dim(x.ndim)
    classes = x.shape[dim]
    if label_smoothing:
        q = q * (1 - label_smoothing) + label_smoothing / classes
    losses = x.log_softmax(dim) * q
    if weight is not None:
        losses = losses * per_class("cross_entropy", weight, x)
    return reduced(-losses.sum(dim), reduction)


def per_class(name: str, weight: Any, x: Tensor) -> Tensor:
    """The weights of the classes, shaped to be multiplied with ``x``."""
    w = need_tensor(name, weight, "weight", 3)
    dim = kernels.class_dim(x.ndim)
    if w.shape != (x.shape[dim],):
        raise wrong_weight(name, x.shape[dim], w)
    return w.reshape([1] * dim + [-1] + [1] * (x.ndim - dim - 1))


def smoothed_cross_entropy(
    x: Tensor,
    target: Tensor,
    weight: Tensor,
    reduction: str,
    ignore_index: int,
    smoothing: float,
) -> Tensor:
    """The weighted cross-entropy with labels, of which a part is that with all classes alike."""
    dim = kernels.class_dim(x.ndim)
    p = x.log_softmax(dim)
    loss = picked_loss(p, target, weight, reduction, ignore_index)[0]
    even = (
        -(p * per_class("cross_entropy", weight, x)).sum(dim).masked_fill(target == ignore_index, 0)
    )
    if reduction == "mean":
        weights = picked_loss(p.detach(), target, weight, "sum", ignore_index)[1]
        even = even.sum() / weights.sum()
    else:
        even = reduced(even, reduction)
    return (1 - smoothing) * loss + smoothing / x.shape[dim] * even
