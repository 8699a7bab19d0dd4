"""Kernels of the losses of labelled classes, with what backward needs of them.

Labels are in one row here, and the *places* of what they point at are counted as if all
dimensions were one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.kernels.engine import apply
from rushlight.kernels.indices import along, first_outside, places, within
from rushlight.kernels.summation import ROW, add_up

ADD: Any = np.add
NARROW = 32  # classes up to which rows are compared column by column


def class_dim(ndim: int) -> int:
    """The dimension of the classes: the second, or the only one."""
    return 1 if ndim > 1 else 0


def no_label(label: int | str, last: int | str, ignore_index: int) -> str:
    return (
        f"Target {label} is out of bounds. [labels from 0 to {last}, or "
        f"ignore_index={ignore_index}]"
    )


def checked_labels(
    target: np.ndarray, classes: int, ignore_index: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """The labels, 0 where they are to be ignored, and where that is (None for nowhere)."""
    if within(target, classes) and not 0 <= ignore_index < classes:
        return target, None
    ignored = target == ignore_index
    wrong = first_outside(target[~ignored], 0, classes)
    if wrong is not None:
        raise IndexError(no_label(wrong, classes - 1, ignore_index))
    return np.where(ignored, 0, target), ignored


def places_of(labels: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Where the labelled elements of an array of this shape are."""
    if len(shape) == 2:
        return np.arange(labels.size) * shape[1] + labels
    if len(shape) == 1:
        return labels
    return places(labels.reshape(shape[0], 1, *shape[2:]), 1, shape).reshape(-1)


def settle(
    losses: np.ndarray, labels: np.ndarray, ignored: Any, weight: Any, reduction: str
) -> tuple[Any, Any]:
    """The losses of all labels reduced, and the share of each in that (one for all if alike)."""
    kind = losses.dtype
    shares: Any = kind.type(1)
    if weight is not None:
        shares = weight.take(labels).astype(kind, copy=False)
        losses *= shares
    if ignored is not None:
        losses[ignored] = 0  # times zero would not do: it may be infinite
        shares = np.where(ignored, kind.type(0), shares)
    if reduction == "none":
        return losses, shares
    loss = ADD.reduce(losses)
    if reduction == "sum":
        return loss, shares
    total = ADD.reduce(shares) if shares.ndim else kind.type(labels.size)
    return loss / total, shares / (total or kind.type(1))


def nll_loss(
    x: np.ndarray, target: np.ndarray, weight: np.ndarray | None, reduction: str, ignore_index: int
) -> tuple[Any, Any, np.ndarray]:
    """-x at the labels, reduced; the share of each label, and its place."""
    dim = class_dim(x.ndim)
    labels, ignored = checked_labels(target.reshape(-1), x.shape[dim], ignore_index)
    spots = places_of(labels, x.shape)
    if x.flags.c_contiguous:
        losses = np.negative(x.reshape(-1).take(spots))
    else:
        key = along(np.expand_dims(labels.reshape(target.shape), dim), dim)
        losses = np.negative(x[key]).reshape(-1)
    loss, shares = settle(losses, labels, ignored, weight, reduction)
    return (loss.reshape(target.shape) if reduction == "none" else loss), shares, spots


def cross_entropy(
    x: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray | None,
    reduction: str,
    ignore_index: int,
    smoothing: float = 0.0,
) -> tuple[Any, np.ndarray]:
    """-log softmax(x) at the labels, reduced, and its slope: softmax(x), less 1 at the labels.

    Both need the same exponentials; with the slope at hand, backward only scales it. ``smoothing``
    moves that part of each label evenly to all classes; it goes without weights.
    """
    dim = class_dim(x.ndim)
    classes = x.shape[dim]
    labels, ignored = checked_labels(target.reshape(-1), classes, ignore_index)
    slope = np.subtract(x, largest(x, dim), order="C")
    flat, spots = slope.reshape(-1), places_of(labels, slope.shape)
    losses = np.negative(flat.take(spots))
    if smoothing:
        losses *= 1 - smoothing
        losses -= (smoothing / classes) * add_up(slope, (dim,)).reshape(-1)
    np.exp(slope, slope)
    total = sum_classes(slope, dim)
    losses += np.log(total).reshape(-1)
    loss, shares = settle(losses, labels, ignored, weight, reduction)
    slope *= (shares.reshape(total.shape) if shares.ndim else shares) / total
    if smoothing:
        slope -= (smoothing / classes) * (shares.reshape(total.shape) if shares.ndim else shares)
    flat[spots] -= (1 - smoothing) * shares
    return (loss.reshape(target.shape) if reduction == "none" else loss), slope


def largest(x: np.ndarray, dim: int) -> np.ndarray:
    """The maximum over the classes, which stay as size 1; -inf if there are none."""
    if x.ndim == 2 and 0 < x.shape[1] <= NARROW:  # NumPy takes long for each short row
        return np.maximum.reduce(np.ascontiguousarray(x.T), 0)[:, None]
    return np.maximum.reduce(x, dim, keepdims=True, initial=-np.inf)


def sum_classes(x: np.ndarray, dim: int) -> np.ndarray:
    """The sum over the classes, which stay as size 1."""
    if x.ndim == 2 and x.shape[1] <= ROW:
        return apply(x, np.ones(x.shape[1], x.dtype))[:, None]
    return add_up(x, (dim,), True)
