"""Histograms: how many elements lie in each of many bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.ops.base import Op, composite, into, need_tensor, registry
from rushlight.ops.results import result_type
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor, wrap


class Bincount(Op):
    """How often each number 0, 1, 2, … occurs, or the sum of the ``weights`` of its occurrences.

    >>> rl.tensor([1, 3, 1]).bincount(minlength=5)
    tensor([0, 2, 0, 1, 0])
    """

    differentiable = False
    dynamic = True
    samples = [
        S(T(values=[1, 3, 1], dtype=dtypes.int64)),
        S(T(values=[1, 3, 1], dtype=dtypes.int64), T(3), minlength=6),
        S(T(0, dtype=dtypes.int64)),
    ]
    errors = [
        Fails(RuntimeError, "1-d non-negative", T(values=[1, -1], dtype=dtypes.int64)),
        Fails(RuntimeError, "1-d non-negative", T(2, 2, dtype=dtypes.uint8)),
        Fails(NotImplementedError, "'Float'", T(3, dtype=dtypes.float32)),
        Fails(RuntimeError, "same length", T(3, dtype=dtypes.uint8), T(2)),
        Fails(RuntimeError, "minlength should be >= 0", T(3, dtype=dtypes.uint8), minlength=-1),
    ]

    def check(self, input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Any:
        x = need_tensor("bincount", input)
        if minlength < 0:
            raise RuntimeError(f"bincount(): minlength should be >= 0, got {minlength}")
        if x._array.dtype.kind not in "iu":
            raise NotImplementedError(f"\"bincount\" not implemented for '{x.dtype.storage_name}'")
        if x.ndim != 1:
            raise uncountable(x.shape)
        if weights is not None and weights.shape != x.shape:
            raise RuntimeError(
                "bincount(): weights should be 1-d and have the same length as input, got "
                f"{list(weights.shape)} and {list(x.shape)}"
            )
        return (x, weights), {"minlength": minlength}

    def eager(self, x, weights, *, minlength):
        if x.min(initial=0) < 0:
            raise uncountable(x.shape)
        y = np.bincount(x.astype(np.int64, copy=False), weights, minlength)
        if weights is not None and weights.dtype == np.float32:
            return y.astype(np.float32)
        return y


def uncountable(shape: Sequence[int]) -> RuntimeError:
    return RuntimeError(
        f"bincount only supports 1-d non-negative integral inputs, got shape {list(shape)}"
    )


class BinCounts(Op):
    """How many points lie in each bin of a grid, given its edges in each coordinate."""

    function = method = False
    differentiable = False
    library = "a search"
    samples = [
        S(T(6, 1), None, False, T(values=[-1.0, 0.0, 1.0])),
        S(T(6, 2), T(6), True, T(values=[-1.0, 0.0, 1.0]), T(values=[-2.0, 2.0])),
    ]
    errors = [Fails(TypeError, "must be Tensor, not list", [1.0], None, False)]

    def check(self, points: Tensor, weight: Tensor | None, density: bool, *edges: Tensor) -> Any:
        return (need_tensor("histogramdd", points), weight, *edges), {"density": density}

    def eager(self, points, weight, *edges, density):
        shape = [max(len(e) - 1, 0) for e in edges]
        inside, flat = np.ones(len(points), np.bool_), np.zeros(len(points), np.int64)
        for x, e, bins in zip(points.T, edges, shape, strict=True):
            inside &= (x >= e[0]) & (x <= e[-1])
            flat = flat * bins + bin_of(x, e)
        weight = weight[inside] if weight is not None else None
        count: Any = np.bincount(flat[inside], weight, math.prod(shape)).reshape(shape)
        count = count.astype(points.dtype)
        if density:
            count /= count.sum()
            for i, e in enumerate(edges):
                count /= np.diff(e).reshape([-1 if i == j else 1 for j in range(len(edges))])
        return count


def bin_of(x: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The number of the bin that holds each element between the outer edges."""
    last = len(edges) - 2
    width = (edges[-1] - edges[0]) / (last + 1)
    if last < 0 or not np.allclose(np.diff(edges), width, rtol=1e-3, atol=0):
        return np.minimum(np.searchsorted(edges, x, "right") - 1, last)
    guess = np.clip((x - edges[0]) / width, 0, last).astype(np.int64)
    guess -= x < edges[guess]
    guess += (x >= edges[guess + 1]) & (guess < last)
    return guess


bin_counts = registry["bin_counts"].call


def need_floats(op: str, x: Any) -> Tensor:
    x = need_tensor(op, x)
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(f"\"{op}\" not implemented for '{x.dtype.storage_name}'")
    return x


def even_edges(op: str, x: np.ndarray, bins: int, bounds: Any, margin: float = 0.5) -> Tensor:
    """The edges of bins of one width between ``bounds``, or the bounds of the data if None."""
    if bins <= 0:
        raise RuntimeError(f"{op}(): bins must be > 0, but got {bins}")
    if bounds is not None:
        low, high = map(float, bounds)
    else:
        low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 1.0)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"{op}(): range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"{op}(): max must be larger than min, got range [{low}, {high}]")
    if low == high:
        low, high = low - margin, high + margin
    return wrap(np.linspace(low, high, bins + 1, dtype=x.dtype))


@composite(
    samples=[S(T(3, 4)), S(T(20), 5), S(T(20), bins=4, min=-1, max=1), S(T(0), 3), S(T(), 2)],
    errors=[
        Fails(RuntimeError, "bins must be > 0, but got 0", T(3), 0),
        Fails(RuntimeError, "max must be larger than min", T(3), 3, 2, 1),
        Fails(RuntimeError, "is not finite", T(values=[float("nan"), 1.0]), 3),
        Fails(NotImplementedError, "'Long'", T(3, dtype=dtypes.int64), 3),
    ],
)
def histc(
    input: Tensor, bins: int = 100, min: float = 0, max: float = 0, *, out: Tensor | None = None
) -> Tensor:
    """Counts of the elements in ``bins`` intervals of one width between ``min`` and ``max``.

    With ``min = max`` the bounds are those of the data. What lies outside is not counted.

    >>> rl.tensor([1.0, 2.0, 1.0]).histc(bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    x = need_tensor("histc", input).detach()
    points = need_floats("histc", x.to(dtypes.float32) if x._array.dtype in dtypes.HALF else x)
    bounds = None if min == max else (min, max)
    edges = even_edges("histc", points._array, bins, bounds, margin=1)
    y = bin_counts(points.reshape(-1, 1), None, False, edges).to(x.dtype)
    return y if out is None else into(out, y)


histogram_result = result_type("histogram", "hist", "bin_edges")
histogramdd_result = result_type("histogramdd", "hist", "bin_edges")


@composite(
    samples=[
        S(T(3, 4), 3),
        S(T(20), bins=4, range=(-1.0, 1.0), density=True),
        S(T(6), T(values=[-1.0, 0.0, 1.0]), weight=T(6)),
    ],
    errors=[
        Fails(RuntimeError, "bins must be > 0", T(3), 0),
        Fails(RuntimeError, "max must be larger than min", T(3), 2, range=(2.0, 1.0)),
        Fails(RuntimeError, "weight tensor .* same shape", T(3), 2, weight=T(4)),
        Fails(NotImplementedError, "'Long'", T(3, dtype=dtypes.int64), 3),
    ],
)
def histogram(
    input: Tensor,
    bins: int | Tensor = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Any = None,
) -> Any:
    """The number of elements in each bin (or the sum of their ``weight``), and the bins' edges.

    Args:
        bins: the number of bins of one width, or all edges in ascending order
        range: the lowest and the highest edge; by default those of the data
        density: whether to divide so that the integral over the bins is 1

    >>> rl.tensor([1.0, 2.0, 1.0]).histogram(bins=4, range=(0.0, 3.0))
    rushlight.return_types.histogram(
    hist=tensor([0., 2., 1., 0.]),
    bin_edges=tensor([0.0000, 0.7500, 1.5000, 2.2500, 3.0000]))
    """
    x = need_floats("histogram", input)
    points = x.detach().reshape(-1, 1)
    y, (edges,) = grid_histogram("histogram", points, [bins], range, flat(x, weight), density)
    result = histogram_result(y, edges)
    return result if out is None else into(out, result)


@composite(
    method=False,
    samples=[
        S(T(6, 2), [3, 2]),
        S(T(6, 2), 3, range=[-2.0, 2.0, -1.0, 1.0], density=True),
        S(T(3, 2, 1), [T(values=[-1.0, 0.0, 1.0])], weight=T(3, 2)),
    ],
    errors=[
        Fails(RuntimeError, "one for each of 2 coordinates", T(6, 2), [3]),
        Fails(RuntimeError, "at least 2 dimensions", T(6), [3]),
        Fails(RuntimeError, "bins must be > 0", T(6, 1), [0]),
    ],
)
def histogramdd(
    input: Tensor,
    bins: Any,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """A histogram of points, whose coordinates are the last dimension of ``input``.

    Args:
        bins: the number of bins in all coordinates, or in each, or the edges in each
        range: the lowest and the highest edge in each coordinate, one after the other
        weight: what each point counts
        density: whether to divide so that the integral over the bins is 1

    >>> rl.histogramdd(rl.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), [2, 2]).hist
    tensor([[0., 1.],
            [1., 1.]])
    """
    x = need_floats("histogramdd", input)
    if x.ndim < 2:
        raise RuntimeError(
            f"histogramdd(): input tensor should have at least 2 dimensions, but got {x.ndim}"
        )
    size = x.shape[-1]
    bins = [bins] * size if isinstance(bins, int) else bins
    if len(bins) != size:
        raise RuntimeError(
            f"histogramdd(): bins should be one for each of {size} coordinates, got {len(bins)}"
        )
    points, weight = x.detach().reshape(-1, size), flat(x.select(-1, 0), weight)
    return histogramdd_result(*grid_histogram("histogramdd", points, bins, range, weight, density))


def flat(x: Tensor, weight: Tensor | None) -> Tensor | None:
    if weight is None:
        return None
    if weight.shape != x.shape:
        raise RuntimeError(
            "histogram: if weight tensor is provided it should have the same shape as the points: "
            f"got {list(weight.shape)} for {list(x.shape)}"
        )
    return weight.detach().reshape(-1)


def grid_histogram(
    op: str, points: Tensor, bins: Any, bounds: Any, weight: Tensor | None, density: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The counts of ``points``, and the edges, where only the numbers of bins are given."""
    edges = []
    for i, b in enumerate(bins):
        if not isinstance(b, Tensor):
            ends = None if bounds is None else bounds[2 * i : 2 * i + 2]
            b = even_edges(op, points._array[:, i], b, ends)
        elif b.ndim != 1 or b.dtype is not points.dtype:
            raise RuntimeError(
                f"{op}(): bins tensor should have one dimension and the dtype of the input, got "
                f"shape {list(b.shape)} of {b.dtype} for {points.dtype}"
            )
        edges.append(b.detach())
    return bin_counts(points, weight, density, *edges), tuple(edges)
