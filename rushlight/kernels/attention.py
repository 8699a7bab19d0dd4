"""Attention, block by block: a block of weights stays in cache while all is done with it.

For the gradient the weights of all blocks are kept, or else computed again: then memory grows with
the lengths of the sequences, not with their product.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.kernels.engine import matmul

Array = np.ndarray
Place = tuple[Any, ...]
BLOCK = 1 << 16  # weights in a block: a quarter of a MiB in float32


def blocks(batch: tuple[int, ...], rows: int, columns: int) -> Iterator[tuple[Place, Place]]:
    """Indices of (a part of the batch, rows in it) that cut weights of (*batch, rows, columns).

    >>> for part, place in blocks((2,), 3, 1 << 15):
    ...     print(part, place)
    (slice(0, 1, None),) (slice(0, 1, None), slice(0, 2, None))
    (slice(0, 1, None),) (slice(0, 1, None), slice(2, 4, None))
    (slice(1, 2, None),) (slice(1, 2, None), slice(0, 2, None))
    (slice(1, 2, None),) (slice(1, 2, None), slice(2, 4, None))
    """
    height = max(BLOCK // max(columns, 1), 1)
    axis, size = len(batch) - 1, max(rows, 1)
    while axis and 0 < size * batch[axis] <= height:
        size *= batch[axis]
        axis -= 1
    count = max(height // size, 1)
    rest = (slice(None),) * (len(batch) - 1 - axis)
    for lead in np.ndindex(*batch[:axis]):
        for first in range(0, batch[axis], count):
            part = (*lead, slice(first, first + count))
            for start in range(0, rows, height):
                yield part, (*part, *rest, slice(start, start + height))


def laid_out_as(x: Array, shape: tuple[int, ...]) -> Array:
    """An empty array of ``shape`` whose dimensions lie in memory in the order of those of ``x``."""
    if x.flags.c_contiguous or x.ndim != len(shape):
        return np.empty(shape, x.dtype)
    order = sorted(range(x.ndim), key=lambda d: -x.strides[d])
    y = np.empty([shape[d] for d in order], x.dtype)
    return y.transpose([order.index(d) for d in range(x.ndim)])


def broadcast(x: Array | None, shape: tuple[int, ...]) -> Any:
    return x if x is None or x.shape == shape else np.broadcast_to(x, shape)


def spread(
    batch: tuple[int, ...], q: Array, k: Array, v: Array, bias: Array | None, noise: Array | None
) -> list[Any]:
    """Views of all arrays with one batch."""
    weights = (*batch, q.shape[-2], k.shape[-2])
    matrices = [broadcast(x, (*batch, *x.shape[-2:])) for x in (q, k, v)]
    return [*matrices, broadcast(bias, weights), broadcast(noise, weights)]


def summed(x: Array, shape: tuple[int, ...]) -> Array:
    """The sum over the dimensions that were broadcast from ``shape``."""
    own = (1,) * (x.ndim - len(shape)) + shape
    axes = tuple([d for d, n in enumerate(own) if n == 1 and x.shape[d] > 1])
    return x.sum(axes, keepdims=True).reshape(shape) if axes else x.reshape(shape)


def batch_of(q: Array, k: Array, v: Array) -> tuple[int, ...]:
    """The shape before the matrices, broadcast."""
    a, b, c = q.shape[:-2], k.shape[:-2], v.shape[:-2]
    return a if a == b == c else np.broadcast_shapes(a, b, c)


def scores(
    q: Array, k: Array, bias: Array | None, scale: float, first: int | None, out: Array | None
) -> Array:
    """scale q kᵀ + bias; with ``first``, the number of the first row, -inf in later columns."""
    p = matmul(q * scale, k.mT, out)
    if bias is not None:
        p += bias
    if first is not None:
        p += np.triu(np.full(p.shape[-2:], -np.inf, p.dtype), 1 + first)
    return p


def attention(
    scale: float,
    keep: bool,
    causal: bool,
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None,
    noise: Array | None,
) -> tuple[Array, ...]:
    """softmax(scale q kᵀ + bias) v, the weights multiplied by ``noise``; 0 where all are -inf.

    If ``causal``, rows see no columns after their own number. For the gradient: the largest score
    of each row, the sum of its exp(score - largest), and, if they are to be kept, all
    exp(score - largest).
    """
    batch = batch_of(q, k, v)
    rows, columns = q.shape[-2], k.shape[-2]
    y = laid_out_as(q, (*batch, rows, v.shape[-1]))
    tops, totals = np.empty((2, *batch, rows, 1), q.dtype)
    kept = np.empty((*batch, rows, columns) if keep else 0, q.dtype)
    ones = np.ones(columns, q.dtype)
    q, k, v, bias, noise = spread(batch, q, k, v, bias, noise)
    for part, place in blocks(batch, rows, columns):
        out = kept[place] if keep else None
        own, first = None if bias is None else bias[place], place[-1].start if causal else None
        p = scores(q[place], k[part], own, scale, first, out)
        top, total = tops[place], totals[place]
        np.maximum.reduce(p, -1, out=top, keepdims=True, initial=-np.inf)
        top[top == -np.inf] = 0  # nothing but -inf, which then gives 0 rather than NaN
        p -= top
        np.exp(p, p)
        np.matmul(p, ones, out=total[..., 0])
        total[total == 0] = 1
        weights = p if noise is None else p * noise[place]
        np.divide(matmul(weights, v[part]), total, y[place])
    return y, tops, totals, kept


def attention_gradient(
    scale: float,
    causal: bool,
    of_bias: bool,
    g: Array,
    y: Array,
    tops: Array,
    totals: Array,
    kept: Array,
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None,
    noise: Array | None,
) -> tuple[Array, ...]:
    """The gradients of q, k, v and, if wanted, bias, for the whole batch of the result."""
    batch, (rows, columns) = y.shape[:-2], (q.shape[-2], k.shape[-2])
    dq, dk, dv = [laid_out_as(x, (*batch, *x.shape[-2:])) for x in (q, k, v)]
    dk[...], dv[...] = 0, 0
    d_bias = np.empty((*batch, rows, columns) if of_bias else 0, q.dtype)
    q, k, v, bias, noise = spread(batch, q, k, v, bias, noise)
    for part, place in blocks(batch, rows, columns):
        if kept.size:
            p = kept[place]
        else:
            own, first = None if bias is None else bias[place], place[-1].start if causal else None
            p = scores(q[place], k[part], own, scale, first, None)
            p -= tops[place]
            np.exp(p, p)
        dy = g[place] / totals[place]
        dp = matmul(dy, v[part].mT)
        weights = p
        if noise is not None:
            dp *= noise[place]
            weights = p * noise[place]
        dv[part] += matmul(weights.mT, dy)
        dp -= np.add.reduce(dy * y[place], -1, keepdims=True)
        dp *= p
        if of_bias:
            d_bias[place] = dp
        dp *= scale
        matmul(dp, k[part], dq[place])
        dk[part] += matmul(dp.mT, q[place])
    return dq, dk, dv, d_bias
