"""Elements by their places: gathering, scattering, choosing and sorting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.onnx.importers.registry import integer, is_host, op, tensor_of
from rushlight.ops import ops
from rushlight.tensor import Tensor


def wrapped(index: Tensor, length: int) -> Tensor:
    """Places counted from the end as places counted from the beginning."""
    index = index.to(dtypes.int64)
    return ops.where(index < 0, index + length, index)


@op("Gather", host=True)
def gather(x: Any, indices: Any, *, axis: int = 0) -> Any:
    if is_host(x):
        return np.take(x, indices, axis)
    axis %= x.ndim
    places = wrapped(indices, x.shape[axis])
    y = x.index_select(axis, places.reshape(-1))
    return y.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


@op("GatherElements")
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    return ops.gather(x, axis, wrapped(indices, x.shape[axis]))


def flat_places(indices: Tensor, shape: list[int]) -> Tensor:
    """Tuples of places, the last dimension of ``indices``, as places in the flat tensor."""
    flat = ops.zeros(indices.shape[:-1], dtype=dtypes.int64)
    for k, n in enumerate(shape):
        flat = flat * n + wrapped(indices.select(-1, k), n)
    return flat


@op("GatherND")
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    shape, depth = list(x.shape), indices.shape[-1]
    batch = math.prod(shape[:batch_dims])
    inner = shape[batch_dims : batch_dims + depth]
    rest = shape[batch_dims + depth :]
    flat = flat_places(indices, inner).reshape(batch, -1)
    flat = flat + ops.arange(batch)[:, None] * math.prod(inner)
    table = x.reshape(batch * math.prod(inner), -1) if x.numel() else x.reshape(0, 1)
    return table.index_select(0, flat.reshape(-1)).reshape(*indices.shape[:-1], *rest)


REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@op("Scatter", "ScatterElements")
def scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    places = wrapped(indices, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, places, updates)
    return x.scatter_reduce(axis, places, updates, REDUCTIONS[reduction])


@op("ScatterND")
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    depth = indices.shape[-1]
    head, tail = list(x.shape[:depth]), list(x.shape[depth:])
    count = math.prod(tail)
    places = flat_places(indices, head).reshape(-1)
    table, given = x.reshape(math.prod(head), count), updates.reshape(-1, count)
    index = places[:, None].expand(given.shape)
    if reduction == "none":
        return table.scatter(0, index, given).reshape(x.shape)
    return table.scatter_reduce(0, index, given, REDUCTIONS[reduction]).reshape(x.shape)


@op("Compress", known=["condition"])
def compress(x: Tensor, condition: Any, *, axis: int | None = None) -> Tensor:
    places = tensor_of(np.flatnonzero(condition))
    return x.reshape(-1)[places] if axis is None else x.index_select(axis, places)


@op("NonZero", host=True)
def nonzero(x: Any) -> Any:
    if is_host(x):
        return np.array(np.nonzero(x), np.int64)
    return ops.nonzero(x).t()


@op("TopK", known=["k"])
def top_k(x: Tensor, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    """``k`` is an attribute in version 1."""
    y, places = ops.topk(x, integer(k), axis, bool(largest), True)
    return y, places


@op("OneHot", known=["depth"])
def one_hot(indices: Tensor, depth: Any, values: Tensor, *, axis: int = -1) -> Tensor:
    count = int(np.asarray(depth).reshape(-1)[0])
    places = indices.to(dtypes.int64)
    places = ops.where(places < 0, places + count, places)
    axis = axis if axis >= 0 else axis + indices.ndim + 1
    shape = [1] * (indices.ndim + 1)
    shape[axis] = count
    hot = places.unsqueeze(axis) == ops.arange(count).reshape(shape)
    return ops.where(hot, values[1], values[0])


@op("Unique")
def unique(x: Tensor, *, axis: int | None = None, sorted: int = 1) -> Any:
    """With the place of each one's first occurrence; unsorted they are in that order."""
    array = x.detach().numpy()
    y, first, inverse, counts = np.unique(array, True, True, True, axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        y = np.take(y, order, 0 if axis is None else axis)
        first, inverse, counts = first[order], rank[inverse], counts[order]
    return tuple(tensor_of(np.asarray(part)) for part in (y, first, inverse, counts))
