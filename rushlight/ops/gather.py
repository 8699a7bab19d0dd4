"""Ops that collect elements, or rows of elements, by their positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.dims import Size, is_zero, known
from rushlight.kernels.accumulate import add_rows
from rushlight.kernels.indices import along, check_bounds, first_outside, places
from rushlight.ops.base import Op, axis, composite, into, need_tensor, ops
from rushlight.ops.elements import Refusal, looked_up, only, refusal, replaced, unflat
from rushlight.ops.indexing import at
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

UNREACHABLE = "out of range: tried to access index {} on a tensor of {} elements."
NO_ROW = "index out of range in self: "
POSITIONS = (dtypes.int64, dtypes.int32)
INT64, INT32 = (kind.numpy for kind in POSITIONS)


def vector(name: str, dim: int, index: Tensor, input: Tensor) -> int:
    """The dimension that a vector of positions goes along, counted from the front."""
    need_tensor(name, index, "index", 3)
    d = axis(dim, need_tensor(name, input)._array.ndim)
    if index._array.ndim > 1:
        raise IndexError(
            f"{name}(): Index is supposed to be a vector, but got shape {list(index.shape)}"
        )
    if index.dtype not in POSITIONS:
        raise RuntimeError(f"{name}(): Expected dtype int32 or int64 for index, got {index.dtype}")
    return d


class Gather(Op):
    """Elements collected along ``dim``: ``y[i][j] = x[i][index[i][j]]`` for ``dim=1`` of a matrix.

    Args:
        index: positions in ``dim``; in other dimensions it is no longer than ``input``.
        sparse_grad: accepted for compatibility; gradients are dense.

    >>> x = rl.tensor([[1, 2], [3, 4]])
    >>> x.gather(1, rl.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """

    fused = True
    samples = [
        S(T(3, 4), 1, at([0, 3, 3], [1, 1, 0])),
        S(T(3, 4), 0, at([0, 2, 1, 0])),
        S(T(2, 3, 2), -2, at([[2, 0]], [[1, 1]])),
        S(T(), 0, at(0, 0)),
        S(T(3, 4), 1, T(0, dtype=dtypes.int64)),
        S(T(5), 0, at(4, 0, 4), sparse_grad=True),
    ]
    errors = [
        Fails(RuntimeError, "index 4 is out of bounds for dimension 1 ", T(3, 4), 1, at([4])),
        Fails(RuntimeError, "index -1 is out of bounds for dimension 1", T(3, 4), 1, at([-1])),
        Fails(RuntimeError, "Expected dtype int32/int64 for index", T(3, 4), 1, T(1, 1)),
        Fails(RuntimeError, "same number of dimensions as input", T(3, 4), 1, at(0)),
        Fails(RuntimeError, r"no larger than input \[1, 4\] apart", T(1, 4), 1, at([0], [0])),
        Fails(IndexError, "range of", T(3, 4), 2, at([0])),
        Fails(TypeError, "'index' .* must be Tensor, not list", T(3, 4), 1, [[0]]),
    ]  # fmt: skip

    def check(self, input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Any:
        x = need_tensor("gather", input)
        d = axis(dim, x._array.ndim)
        check_index("gather", x, d, need_tensor("gather", index, "index", 3), "input")
        return (x, index), {"dim": d}

    def infer(self, arrays, attrs):
        x, index = arrays
        if not index.size:  # which may have any rank
            return np.empty(index.shape, x.dtype)
        sizes, limits = index.shape or (1,), x.shape or (1,)
        own = range(len(limits))[attrs["dim"]]
        pairs = zip(sizes, limits, strict=True)
        fits = all([n <= m for d, (n, m) in enumerate(pairs) if d != own])
        if not (fits and index.dtype in (INT64, INT32)):
            raise IndexError(f"places {index.dtype}{index.shape} among elements {x.shape}")
        return np.empty(index.shape, x.dtype)

    def eager(self, x, index, *, dim):
        if not index.size:
            return np.empty(index.shape, x.dtype)
        source = x if x.ndim else x.reshape(1)
        check_bounds(index, dim, source.shape[dim], RuntimeError)
        where = index if index.ndim else index.reshape(1)
        if source.flags.c_contiguous:
            y = source.reshape(-1).take(places(where, dim, source.shape))
        else:
            y = source[along(where, dim)]
        return y.reshape(index.shape)

    def at(self, b, i, x, index, *, dim):
        size = x.shape[dim] if x.ndim else 1
        place = b.checked(index[i], size, refusal(RuntimeError, dim, size))
        if not x.ndim:
            return only(b, x[()], place)
        return looked_up(b, x, replaced(i or (0,), (dim,), (place,)))

    def vjp(self, g, _y, _x, index, *, dim):
        return g.new_zeros(_x.shape).scatter_add_(dim, index, g), None


def check_index(name: str, x: Tensor, dim: int, index: Tensor, which: str) -> None:
    """An error unless ``index`` holds positions in ``dim`` and fits ``x`` elsewhere."""
    array, limits = index._array, x._array.shape
    if is_zero(array.size):
        return
    if array.dtype is not INT64 and array.dtype is not INT32:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index, got {index.dtype}")
    if (array.ndim or 1) != (len(limits) or 1):
        raise RuntimeError(
            f"{name}(): Index tensor must have the same number of dimensions as {which} tensor, "
            f"got shapes {list(array.shape)} and {list(limits)}"
        )
    for d, n in enumerate(array.shape):
        if d != dim and n > limits[d]:
            raise RuntimeError(
                f"{name}(): Size does not match at dimension {d}: expected index "
                f"{list(array.shape)} to be no larger than {which} {list(limits)} apart from "
                f"dimension {dim}"
            )


@composite(
    samples=[
        S(T(3, 4), at([0, 3], [1, -1], [2, 0]), 1),
        S(T(3, 4), at([0, 2, 1, 0]), dim=0),
        S(T(3, 4), at(11, 0)),
        S(T(2, 3), at([0, 1]), 1),
    ],
    errors=[
        Fails(RuntimeError, "index 4 is out of bounds for dimension 1", T(3, 4), at([4]), 1),
        Fails(RuntimeError, "same number of dimensions", T(3, 4), at(0), 1),
        Fails(RuntimeError, "should be Long but got Float", T(3, 4), T(1, 1), 1),
        Fails(RuntimeError, r"a \(3\) must match .* b \(2\)", T(3, 4), at([0], [0]), 1),
    ],
)
def take_along_dim(
    input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Elements at ``indices`` along ``dim``, the other dimensions broadcast: fits ``argsort``.

    Without ``dim`` both are taken as vectors.

    >>> x = rl.tensor([[3, 1, 2]])
    >>> rl.take_along_dim(x, x.argsort(dim=1), dim=1)
    tensor([[1, 2, 3]])
    """
    x = need_tensor("take_along_dim", input)
    index = need_tensor("take_along_dim", indices, "indices", 2)
    if index.dtype is not dtypes.int64:
        raise RuntimeError(
            f"take_along_dim(): dtype of indices should be Long but got {index.dtype.storage_name}"
        )
    if dim is None:
        x, index, dim = x.reshape(-1), index.reshape(-1), 0
    d = axis(dim, x.ndim)
    if x.ndim != index.ndim:
        raise RuntimeError(
            "take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {x.ndim} dimensions for input, and {index.ndim} dimensions for indices"
        )
    size = x.shape[d] if x.ndim else 1
    index = ops.where(index < 0, index + size, index)
    if x.ndim > 1 and x.shape[:d] + x.shape[d + 1 :] != index.shape[:d] + index.shape[d + 1 :]:
        _, index = ops.broadcast_tensors(x.narrow(d, 0, min(size, 1)), index)
        x = x.expand((*index.shape[:d], size, *index.shape[d + 1 :]))
    y = ops.gather(x, d, index)
    return y if out is None else into(out, y)


class Take(Op):
    """The elements at ``index``, counted as if all dimensions were one.

    >>> rl.tensor([[4, 3, 5], [6, 7, 8]]).take(rl.tensor([0, 2, -1]))
    tensor([4, 5, 8])
    """

    samples = [
        S(T(3, 4), at([0, 11], [-1, 5])),
        S(T(3), at(1, 1)),
        S(T(), at(0, 0)),
        S(T(3), T(0, 2, dtype=dtypes.int64)),
    ]
    errors = [
        Fails(IndexError, "tried to access index 12 on a tensor of 12 elements", T(3, 4), at(12)),
        Fails(IndexError, "tried to access index -13 on a tensor", T(3, 4), at(-13)),
        Fails(IndexError, "tried to take from an empty tensor", T(0), at(0)),
        Fails(RuntimeError, "Expected a long tensor for index, but got Float", T(3), T(2)),
    ]

    def check(self, input: Tensor, index: Tensor) -> Any:
        x = need_tensor("take", input)
        long_index("take", index, 2)
        if index._array.size and not x._array.size:
            raise IndexError("take(): tried to take from an empty tensor")
        return (x, index), {}

    def eager(self, x, index):
        if not index.size:
            return np.empty(index.shape, x.dtype)
        try:
            return x.take(index)
        except IndexError:
            raise inaccessible(index, x.size) from None

    def at(self, b, i, x, index):
        size = prod(x.shape)
        place = b.wrapped(index[i], size, out_of_reach(size))
        value = x[unflat(place, x.shape)]
        return only(b, value, place) if size == 1 else value

    def vjp(self, g, _y, _x, index):
        return g.new_zeros(_x.shape).put_(index, g, accumulate=True), None


def long_index(name: str, index: Any, position: int) -> None:
    """An error unless ``index`` is a tensor of int64."""
    kind = need_tensor(name, index, "index", position).dtype
    if kind is not dtypes.int64:
        raise RuntimeError(
            f"{name}(): Expected a long tensor for index, but got {kind.storage_name}"
        )


def inaccessible(index: np.ndarray, size: int) -> IndexError:
    wrong = first_outside(index, -size, size)
    return IndexError(UNREACHABLE.format(wrong, size))


def out_of_reach(size: int) -> Refusal:
    """:func:`inaccessible` for one position among ``size`` elements."""
    return Refusal(IndexError, UNREACHABLE, (size,), size)


class IndexSelect(Op):
    """The entries of dimension ``dim`` at the positions in the vector ``index``.

    >>> rl.tensor([[1, 2], [3, 4], [5, 6]]).index_select(0, rl.tensor([2, 0]))
    tensor([[5, 6],
            [1, 2]])
    """

    fused = True
    samples = [
        S(T(3, 4), 0, at(2, 0, 2)),
        S(T(3, 4), -1, at(1)),
        S(T(3, 4), 1, T(0, dtype=dtypes.int64)),
        S(T(3, 4), 0, T(values=1, dtype=dtypes.int32)),
        S(T(), 0, at(0)),
    ]
    errors = [
        Fails(IndexError, "index 3 is out of bounds for dimension 0 with size 3", T(3), 0, at(3)),
        Fails(IndexError, "index -1 is out of bounds for dimension 0", T(3), 0, at(-1)),
        Fails(IndexError, "Index is supposed to be a vector", T(3), 0, at([0])),
        Fails(RuntimeError, "Expected dtype int32 or int64 for index", T(3), 0, T(1)),
        Fails(RuntimeError, "scalar can have only 1 value, got 2", T(), 0, at(0, 0)),
    ]

    def check(self, input: Tensor, dim: int, index: Tensor) -> Any:
        d = vector("index_select", dim, index, input)
        if not input._array.ndim and index._array.size != 1:
            raise RuntimeError(
                "index_select(): Index to scalar can have only 1 value, "
                f"got {index._array.size} value(s)"
            )
        return (input, index), {"dim": d}

    def eager(self, x, index, *, dim):
        size = x.shape[dim] if x.ndim else 1
        check_bounds(index, dim, size, IndexError, NO_ROW)
        if not x.ndim:
            return x.copy()
        return x.take(index.reshape(-1), dim)

    def infer(self, arrays, attrs):
        x, index = arrays
        shape, dim = list(x.shape), attrs["dim"]
        shape[dim : dim + 1] = [index.size] if x.ndim else []
        return np.empty(shape, x.dtype)

    def at(self, b, i, x, index, *, dim):
        size = x.shape[dim] if x.ndim else 1
        wrong = refusal(IndexError, dim, size, NO_ROW)
        if not x.ndim:
            return only(b, x[()], b.checked(index[(0,) * index.ndim], 1, wrong))
        place = b.checked(index[(i[dim],) if index.ndim else ()], size, wrong)
        return looked_up(b, x, replaced(i, (dim,), (place,)))

    def vjp(self, g, _y, _x, index, *, dim):
        return g.new_zeros(_x.shape).index_add_(dim, index, g), None


class Embedding(Op):
    """The rows of ``weight`` at ``indices``: a table looked up.

    Args:
        weight: one row for each index.
        padding_idx: a row that receives no gradient; none if negative.
        scale_grad_by_freq: divide the gradient of a row by how often it is looked up.
        sparse: accepted for compatibility; gradients are dense.

    >>> rl.embedding(rl.tensor([[1.0, 2.0], [3.0, 4.0]]), rl.tensor([1, 0, 1]))
    tensor([[3., 4.],
            [1., 2.],
            [3., 4.]])
    """

    method = False
    arithmetic = True
    rowwise = {"weight": "indices"}
    samples = [
        S(T(4, 3), at([0, 3], [3, 1])),
        S(T(4, 3, grad=False), at(0, 3, 3), 3),
        S(T(4, 3, grad=False), at(0, 3, 3), scale_grad_by_freq=True),
        S(T(4, 3), T(values=2, dtype=dtypes.int32)),
        S(T(4, 3), T(0, dtype=dtypes.int64)),
    ]
    errors = [
        Fails(IndexError, "index 4 is out of bounds for dimension 0 with size 4", T(4, 3), at(4)),
        Fails(IndexError, "index -1 is out of bounds for dimension 0", T(4, 3), at(-1)),
        Fails(RuntimeError, "'weight' must be 2-D", T(4), at(0)),
        Fails(RuntimeError, "scalar types: Long, Int; but got Float", T(4, 3), T(2)),
    ]

    def check(
        self,
        weight: Tensor,
        indices: Tensor,
        padding_idx: int | None = -1,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Any:
        need_tensor("embedding", weight, "weight")
        need_tensor("embedding", indices, "indices", 2)
        if weight._array.ndim != 2:
            raise RuntimeError(f"'weight' must be 2-D, got shape {list(weight.shape)}")
        if indices.dtype not in POSITIONS:
            raise RuntimeError(
                "Expected tensor for argument #1 'indices' to have one of the following scalar "
                f"types: Long, Int; but got {indices.dtype.storage_name} instead (while checking "
                "arguments for embedding)"
            )
        padding = -1 if padding_idx is None else padding_idx
        return (weight, indices), {"padding": padding, "by_frequency": scale_grad_by_freq}

    def eager(self, weight, indices, *, padding, by_frequency):
        check_bounds(indices, 0, len(weight), IndexError, NO_ROW)
        return weight.take(indices, 0)

    def at(self, b, i, weight, indices, *, padding, by_frequency):
        wrong = refusal(IndexError, 0, weight.shape[0], NO_ROW)
        row = b.checked(indices[i[:-1]], weight.shape[0], wrong)
        return looked_up(b, weight, (row, i[-1]))

    def adds_up(self, attrs):
        return not attrs["by_frequency"]

    def vjp_weight(self, g, _y, _weight, indices, *, padding, by_frequency):
        if isinstance(g, np.ndarray):
            return sums_of_rows(g, _weight.shape, indices, padding, by_frequency)
        count, width = _weight.shape
        rows, index = g.reshape(indices.numel(), width), indices.reshape(-1)
        if padding >= 0:
            rows = rows.masked_fill((index == padding).unsqueeze(1), 0)
        if by_frequency:
            times = index.new_zeros(count).index_add_(0, index, ops.ones_like(index))
            rows = rows / times[index].unsqueeze(1)
        return g.new_zeros((count, width)).index_add_(0, index, rows)

    def vjp_indices(self, g, _y, _weight, _indices, *, padding, by_frequency):
        return None


def sums_of_rows(
    g: np.ndarray, shape: tuple[int, int], indices: np.ndarray, padding: int, by_frequency: bool
) -> np.ndarray:
    """The gradient of a table: the rows of ``g``, added up by their indices."""
    total = np.zeros(shape, g.dtype)
    rows, index = g.reshape(indices.size, shape[1]), indices.reshape(-1)
    if padding >= 0:
        kept = index != padding
        rows, index = rows[kept], index[kept]
    if by_frequency:
        rows = rows / np.bincount(index)[index, None].astype(g.dtype)
    add_rows(total, index, rows, shape[1])
    return total


@dataclass(frozen=True, slots=True)
class NoClass:
    """The error for a number that none of so many classes has."""

    classes: Size

    def __call__(self, position: int) -> RuntimeError:
        if position < 0:
            return RuntimeError(f"Class values must be non-negative, got {position}.")
        return RuntimeError(
            f"Class values must be smaller than num_classes, got {position} for {self.classes} "
            "classes."
        )

    def at(self, sizes: Mapping[str, int]) -> NoClass:
        """The error where symbols are these numbers."""
        return NoClass(known(self.classes, sizes))


class OneHot(Op):
    """For each class number a row of zeros with a one at its position.

    Args:
        num_classes: the length of the rows; one more than the largest number if -1.

    >>> rl.one_hot(rl.tensor([0, 2]), num_classes=3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """

    method = False
    differentiable = False
    samples = [
        S(at([0, 2], [1, 1])),
        S(at(0, 2), 5),
        S(T(0, dtype=dtypes.int64), 3),
        S(T(values=1, dtype=dtypes.int64)),
    ]
    errors = [
        Fails(RuntimeError, "Class values must be non-negative.*-1", at(0, -1)),
        Fails(RuntimeError, "smaller than num_classes.* 5 .* 3", at(0, 5), 3),
        Fails(RuntimeError, "index tensor of type LongTensor, got Float", T(2)),
        Fails(RuntimeError, "infer total number of classes from empty", T(0, dtype=dtypes.int64)),
    ]

    def check(self, input: Tensor, num_classes: int = -1) -> Any:
        x = need_tensor("one_hot", input)
        if x.dtype is not dtypes.int64:
            raise RuntimeError(
                "one_hot is only applicable to index tensor of type LongTensor, "
                f"got {x.dtype.storage_name}"
            )
        if not x._array.size and num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        if num_classes == -1:
            num_classes = max(int(x.max().item()) + 1, 1)
        return (x,), {"num_classes": num_classes}

    def infer(self, arrays, attrs):
        return np.empty((*arrays[0].shape, attrs["num_classes"]), np.int64)

    def eager(self, x, *, num_classes):
        refused = NoClass(num_classes)
        for limit in (max(num_classes, int(x.max(initial=0)) + 1), num_classes):
            wrong = first_outside(x, 0, limit)
            if wrong is not None:
                raise refused(wrong)
        y = np.zeros((*x.shape, num_classes), np.int64)
        np.put_along_axis(y, x[..., None], 1, -1)
        return y

    def at(self, b, i, x, *, num_classes):
        label = b.checked(x[i[:-1]], num_classes, NoClass(num_classes))
        return label.cast("i64").eq(
            b.position(i[-1]).cast("i64")
        )  # of one class, too, it is checked
