"""Kernels of the losses of labelled classes, with what backward needs of them."""

from __future__ import annotations

import numpy as np

from rushlight.kernels.indices import along, first_outside, within
from rushlight.kernels.summation import add_up

Key = tuple[np.ndarray, ...]


def class_dim(ndim: int) -> int:
    """The dimension of the classes: the second, or the only one."""
    return 1 if ndim > 1 else 0


def checked_labels(
    target: np.ndarray, classes: int, ignore_index: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """The labels, 0 where they are to be ignored, and where that is (None for nowhere)."""
    if within(target, classes) and not 0 <= ignore_index < classes:
        return target, None
    ignored = target == ignore_index
    wrong = first_outside(target[~ignored], 0, classes)
    if wrong is not None:
        raise IndexError(
            f"Target {wrong} is out of bounds. [labels from 0 to {classes - 1}, or "
            f"ignore_index={ignore_index}]"
        )
    return np.where(ignored, 0, target), ignored


def places_of(labels: np.ndarray, dim: int) -> Key:
    """The key of the labelled elements; ``labels`` has size 1 in the dimension of the classes."""
    return (np.arange(len(labels))[:, None], labels) if labels.ndim == 2 else along(labels, dim)


def settle(
    losses: np.ndarray,
    labels: np.ndarray,
    ignored: np.ndarray | None,
    weight: np.ndarray | None,
    reduction: str,
) -> tuple[np.ndarray, np.ndarray]:
    """The losses of all labels reduced, and the share of each in that (one for all if alike)."""
    kind = losses.dtype
    total = kind.type(labels.size)
    shares = np.ones((), kind)
    if weight is not None:
        shares = weight.take(labels).astype(kind, copy=False)
        losses *= shares
    if ignored is not None:
        losses[ignored] = 0  # times zero would not do: it may be infinite
        shares = np.where(ignored, kind.type(0), shares)
    if shares.ndim:
        total = add_up(shares)
    if reduction == "none":
        return losses, shares
    loss = add_up(losses)
    return (loss / total, shares / (total or 1)) if reduction == "mean" else (loss, shares)


def nll_loss(
    x: np.ndarray, target: np.ndarray, weight: np.ndarray | None, reduction: str, ignore_index: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """-x at the labels, reduced; the share of each label, and the labels."""
    dim = class_dim(x.ndim)
    labels, ignored = checked_labels(np.expand_dims(target, dim), x.shape[dim], ignore_index)
    losses = np.negative(x[places_of(labels, dim)])
    loss, shares = settle(losses, labels, ignored, weight, reduction)
    return (loss.reshape(target.shape) if reduction == "none" else loss), shares, labels


def cross_entropy(
    x: np.ndarray, target: np.ndarray, weight: np.ndarray | None, reduction: str, ignore_index: int
) -> tuple[np.ndarray, np.ndarray]:
    """-log softmax(x) at the labels, reduced, and its slope: softmax(x), less 1 at the labels.

    Both need the same exponentials; with the slope at hand, backward only scales it.
    """
    dim = class_dim(x.ndim)
    labels, ignored = checked_labels(np.expand_dims(target, dim), x.shape[dim], ignore_index)
    key = places_of(labels, dim)
    slope = np.subtract(x, np.maximum.reduce(x, dim, keepdims=True, initial=-np.inf))
    losses = np.negative(slope[key])
    np.exp(slope, slope)
    total = add_up(slope, (dim,), True)
    losses += np.log(total)
    loss, shares = settle(losses, labels, ignored, weight, reduction)
    slope *= shares / total
    slope[key] -= shares
    return (loss.reshape(target.shape) if reduction == "none" else loss), slope
