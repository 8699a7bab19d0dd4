"""Order: sorting, the largest few, distinct elements, and search in sorted sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.dims import is_extent
from rushlight.kernels.order import order, pick, top
from rushlight.ops.base import Op, axis, composite, into, need_tensor, ops
from rushlight.ops.extrema import need_order
from rushlight.ops.reduce import in_float32, need_bool
from rushlight.ops.results import result_type, scattered
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor, wrap


class Ordered(Op, abstract=True):
    """Some elements of each line along ``dim`` in order, as (values, indices)."""

    differentiable = (0,)
    library = "sorts"

    def vjp(self, g, y, _x, *, dim, **attrs):
        return scattered(g, y[1], _x, dim)


class Sort(Ordered):
    """The elements in ascending (or ``descending``) order along ``dim``, and their indices.

    NaN counts as the largest value. Equal elements always keep their order.

    >>> values, indices = rl.tensor([3.0, 1.0, 2.0]).sort()
    >>> values, indices
    (tensor([1., 2., 3.]), tensor([1, 2, 0]))
    """

    result = result_type("sort", "values", "indices")
    samples = [
        S(T(3, 4, distinct=True)),
        S(T(5, 4, distinct=True), 0, True),
        S(T(2, 3, 4, distinct=True), dim=1, stable=True),
        S(T(20, 30, distinct=True), descending=True),
        S(T(values=[1.0, 0.0, 1.0, 0.0], grad=False)),
        S(T(0, 3)),
        S(T()),
    ]
    errors = [
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), 2),
        Fails(TypeError, "'descending' must be bool, not int", T(3, 4), 0, 1),
        Fails(NotImplementedError, "'ComplexFloat'", T(3, dtype=dtypes.complex64)),
    ]

    def check(
        self, input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False
    ) -> Any:
        x = need_order("sort", need_tensor("sort", input))
        descending = need_bool("descending", descending)
        return (x,), {"dim": axis(dim, x._array.ndim), "descending": descending}

    @in_float32
    def eager(self, x, *, dim, descending):
        return pick(x, dim, lambda lines: order(lines, descending))


@composite(
    samples=[S(T(3, 4, distinct=True)), S(T(5, 4, distinct=True), 0, True), S(T(4), stable=True)],
    errors=[Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), 2)],
)
def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> Tensor:
    """The indices that sort ``input`` along ``dim``.

    >>> rl.tensor([3.0, 1.0, 2.0]).argsort()
    tensor([1, 2, 0])
    """
    return ops.sort(input, dim, descending, stable=stable)[1]


@composite(
    samples=[S(T(5, 2, distinct=True)), S(T()), S(T(0, 3))],
    errors=[Fails(TypeError, "must be Tensor, not list", [1.0])],
)
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements in ascending order along the first dimension.

    >>> rl.tensor([3.0, 1.0, 2.0]).msort()
    tensor([1., 2., 3.])
    """
    y = ops.sort(input, 0)[0]
    return y if out is None else into(out, y)


class Topk(Ordered):
    """The ``k`` largest (or smallest) elements along ``dim``, in order, and their indices.

    >>> values, indices = rl.tensor([3.0, 1.0, 4.0, 2.0]).topk(2)
    >>> values, indices
    (tensor([4., 3.]), tensor([2, 0]))
    """

    result = result_type("topk", "values", "indices")
    samples = [
        S(T(3, 4, distinct=True), 2),
        S(T(6, 4, distinct=True), 2, 0, largest=False, sorted=False),
        S(T(10, 50, distinct=True), 3, largest=True),
        S(T(3, 4, distinct=True), k=0),
        S(T(3, 4, distinct=True), 4),
        S(T(), 1),
    ]
    errors = [
        Fails(RuntimeError, "selected index k out of range", T(3, 4), 5),
        Fails(RuntimeError, "selected index k out of range", T(3, 4), -1),
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), 1, 2),
    ]

    def check(
        self, input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
    ) -> Any:
        x = need_order("topk", need_tensor("topk", input))
        dim = axis(dim, x._array.ndim)
        size = x.shape[dim] if x.ndim else 1
        if not 0 <= k <= size:
            raise RuntimeError(
                f"topk(): selected index k out of range: k={k} of {size} elements along dim {dim}"
            )
        return (x,), {
            "dim": dim,
            "k": k if is_extent(k) else int(k),
            "largest": need_bool("largest", largest),
        }

    @in_float32
    def eager(self, x, *, dim, k, largest):
        return pick(x, dim, lambda lines: top(lines, k, largest))


def distinct(x: np.ndarray, sort: bool, inverse: bool, counts: bool, dim: int | None) -> Any:
    """The distinct slices along ``dim`` (or elements), and the extras asked for."""
    if dim is None:
        rows = (x if inverse or not sort else np.sort(x, None)).reshape(-1, 1)
        sort = sort and inverse
    else:
        lines = np.moveaxis(x, dim, 0)
        rows = lines.reshape(len(lines), lines[:1].size)
    n = len(rows)
    ranks = (row_order(rows) if dim is not None else order(rows[:, 0])) if sort else np.arange(n)
    rows = rows[ranks]
    first = np.ones(n, np.bool_)
    np.any(rows[1:] != rows[:-1], axis=1, out=first[1:])
    if dim is None:
        results = [rows[first, 0]]
    else:
        values = rows[first].reshape(-1, *lines.shape[1:])
        results = [np.ascontiguousarray(np.moveaxis(values, 0, dim))]
    if inverse:
        where = np.empty(n, np.int64)
        where[ranks] = np.cumsum(first) - 1
        results.append(where.reshape(x.shape) if dim is None else where)
    if counts:
        results.append(np.diff(np.flatnonzero(first), append=n))
    return tuple(results) if len(results) > 1 else results[0]


def row_order(rows: np.ndarray) -> np.ndarray:
    """The indices that sort rows by their first elements, then their second ones, …"""
    return np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))


class Unique(Op):
    """The distinct elements in ascending order, or the distinct slices along ``dim``.

    Args:
        return_inverse: also where each element went
        return_counts: also how often each occurred

    >>> rl.tensor([3, 1, 3, 2]).unique(return_counts=True)
    (tensor([1, 2, 3]), tensor([1, 1, 2]))
    """

    differentiable = False
    dynamic = True
    samples = [
        S(T(3, 4)),
        S(T(values=[2.0, 1.0, 2.0, 3.0, 1.0]), return_inverse=True, return_counts=True),
        S(T(values=[[1.0, 2.0], [0.0, 5.0], [1.0, 2.0]]), return_inverse=True, dim=0),
        S(T(0, 3)),
        S(T(), return_inverse=True),
    ]
    errors = [
        Fails(TypeError, "must be Tensor, not list", [1.0]),
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), dim=2),
    ]

    def check(
        self,
        input: Tensor,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        x = need_order("unique", need_tensor("unique", input))
        dim = None if dim is None else axis(dim, x._array.ndim)
        return (x,), {"inverse": return_inverse, "counts": return_counts, "dim": dim}

    @in_float32
    def eager(self, x, *, inverse, counts, dim):
        return distinct(x, True, inverse, counts, dim if x.ndim else None)


class UniqueConsecutive(Op):
    """The elements (or slices along ``dim``) without immediate repetitions.

    >>> rl.tensor([1, 1, 2, 2, 1]).unique_consecutive(return_counts=True)
    (tensor([1, 2, 1]), tensor([2, 2, 1]))
    """

    differentiable = False
    dynamic = True
    samples = [
        S(T(3, 4)),
        S(T(values=[1.0, 1.0, 2.0, 1.0]), return_inverse=True, return_counts=True),
        S(T(values=[[1.0, 2.0], [1.0, 2.0], [0.0, 5.0]]), return_counts=True, dim=0),
        S(T(0)),
    ]
    errors = [
        Fails(TypeError, "must be Tensor, not list", [1.0]),
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), dim=2),
    ]

    def check(
        self,
        input: Tensor,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        x = need_tensor("unique_consecutive", input)
        dim = None if dim is None else axis(dim, x._array.ndim)
        return (x,), {"inverse": return_inverse, "counts": return_counts, "dim": dim}

    def eager(self, x, *, inverse, counts, dim):
        return distinct(x, False, inverse, counts, dim if x.ndim else None)


class Searchsorted(Op):
    """Where each value would be inserted into a sorted sequence to keep it sorted.

    With several sequences (the lines of the last dimension), each has its own line of values.

    Args:
        right: whether equal elements come before the value; ``side="right"`` says the same
        sorter: indices that sort the sequence, if it is not sorted

    >>> rl.searchsorted(rl.tensor([1, 3, 5]), rl.tensor([0, 3, 6]), right=True)
    tensor([0, 2, 3])
    """

    method = False
    differentiable = False
    library = "a search"
    samples = [
        S(T(values=[1.0, 2.0, 3.0]), T(2, 3)),
        S(T(values=[1.0, 2.0, 3.0]), 2.0, right=True),
        S(T(values=[[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]), T(2, 4, low=0, high=7), side="right"),
        S(T(values=[1.0, 2.0, 3.0]), T(4), out_int32=True),
        S(T(values=[3.0, 1.0]), T(4), sorter=T(values=[1, 0], dtype=dtypes.int64)),
        S(T(0), T(3)),
    ]
    errors = [
        Fails(RuntimeError, "side can only be 'left' or 'right'", T(3), T(3), side="up"),
        Fails(RuntimeError, "opposites", T(3), T(3), side="left", right=True),
        Fails(RuntimeError, "first N-1 dimensions", T(2, 3), T(3, 3)),
        Fails(RuntimeError, "scalar only when", T(2, 3), 1.0),
    ]

    def check(
        self,
        sorted_sequence: Tensor,
        input: Tensor | float,
        *,
        out_int32: bool = False,
        right: bool = False,
        side: str | None = None,
        sorter: Tensor | None = None,
    ) -> Any:
        sequence = need_tensor("searchsorted", sorted_sequence, "sorted_sequence")
        if side not in (None, "left", "right"):
            raise RuntimeError(f"searchsorted(): side can only be 'left' or 'right' but got {side}")
        if side == "left" and right:
            raise RuntimeError(
                "searchsorted(): side and right can't be set to opposites, got side of left while "
                "right was True"
            )
        values = search_values("searchsorted", sequence, input)
        if sorter is not None:
            sequence = sequence.gather(-1, need_sorter(sorter, sequence))
        return (sequence, values), {"right": right or side == "right", "out_int32": out_int32}

    def eager(self, sequence, values, *, right, out_int32):
        if sequence.ndim == 1:
            found = np.searchsorted(sequence, values, "right" if right else "left")
        else:
            found = search_lines(sequence, values, right)
        return np.asarray(found, np.int32 if out_int32 else np.int64)


def search_values(op: str, sequence: Tensor, input: Any) -> Tensor:
    """The values to look up, checked to suit the sequence."""
    shape = sequence._array.shape
    if not isinstance(input, Tensor):
        values = wrap(np.array(input, np.result_type(sequence._array.dtype, input)))
    else:
        values = input
    if len(shape) == 1:
        return values
    if not values.ndim:
        raise RuntimeError(
            f"{op}(): input value can be a scalar only when boundaries tensor dimension is 1, "
            f"got boundaries of shape {list(shape)}"
        )
    if not shape or shape[:-1] != values._array.shape[:-1]:
        raise RuntimeError(
            f"{op}(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
            f"boundaries tensor and input value tensor must match, but we got boundaries tensor "
            f"{list(shape)} and input value tensor {list(values.shape)}"
        )
    return values


def need_sorter(sorter: Tensor, sequence: Tensor) -> Tensor:
    need_tensor("searchsorted", sorter, "sorter")
    if sorter.shape != sequence.shape:
        raise RuntimeError(
            "searchsorted(): boundary and sorter must have the same size, but got boundary tensor "
            f"{list(sequence.shape)} and sorter tensor {list(sorter.shape)}"
        )
    if sorter.dtype is not dtypes.int64:
        raise RuntimeError(
            f"searchsorted(): sorter must be a tensor of long dtype but got dtype {sorter.dtype}"
        )
    return sorter


def search_lines(sequence: np.ndarray, values: np.ndarray, right: bool) -> np.ndarray:
    """Binary search of all values at once, each in its own line."""
    n = sequence.shape[-1]
    low, high = np.zeros(values.shape, np.int64), np.full(values.shape, n)
    for _ in range(n.bit_length()):
        middle = (low + high) >> 1
        found = np.take_along_axis(sequence, np.minimum(middle, n - 1), -1)
        after = (found <= values if right else found < values) | (values != values)
        after &= low < high
        low, high = np.where(after, middle + 1, low), np.where(after, high, middle)
    return low


@composite(
    method=False,
    samples=[
        S(T(2, 3), T(values=[-1.0, 0.0, 1.0])),
        S(2.0, T(values=[1.0, 2.0]), right=True),
        S(T(3), T(values=[0.0, 1.0]), out_int32=True),
    ],
    errors=[Fails(RuntimeError, r"must be 1 dimension, but got dim\(2\)", T(3), T(2, 3))],
)
def bucketize(
    input: Tensor | float,
    boundaries: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The index of the interval between ``boundaries`` in which each element lies.

    >>> rl.bucketize(rl.tensor([3, 6, 9]), rl.tensor([1, 3, 5, 7, 9]))
    tensor([1, 3, 4])
    """
    if need_tensor("bucketize", boundaries, "boundaries", 2).ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return ops.searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


class Isin(Op):
    """Whether each of ``elements`` is among ``test_elements``.

    >>> rl.isin(rl.tensor([1, 2, 3]), rl.tensor([2, 5]))
    tensor([False,  True, False])
    """

    method = False
    differentiable = False
    library = "a search"
    samples = [
        S(T(values=[1.0, 2.0, 3.0]), T(values=[2.0, 4.0])),
        S(T(values=[[1, 2], [3, 4]]), 2, invert=True),
        S(2, T(values=[1, 2])),
        S(T(3), T(0), assume_unique=True),
    ]
    errors = [
        Fails(TypeError, "must be Tensor", 1, 2),
        Fails(NotImplementedError, "Complex", T(3, dtype=dtypes.complex64), 1),
    ]

    def check(
        self,
        elements: Tensor | float,
        test_elements: Tensor | float,
        *,
        assume_unique: bool = False,
        invert: bool = False,
    ) -> Any:
        if not isinstance(test_elements, Tensor):
            need_order("isin", need_tensor("isin", elements, "elements"))
        pair = [
            t if isinstance(t, Tensor) else wrap(np.array(t)) for t in (elements, test_elements)
        ]
        return pair, {"invert": need_bool("invert", invert)}

    def eager(self, elements, test_elements, *, invert):
        return np.isin(elements, test_elements, invert=invert)
