"""Tensors brought to common shapes: broadcasting, grids, and the products made of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import errors as messages
from rushlight.dims import index
from rushlight.layouts import shape_of, whole
from rushlight.ops.base import composite, need_tensor, ops
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Size, Tensor, wrap


def several(tensors: tuple[Any, ...]) -> Sequence[Any]:
    """``f(a, b)`` and ``f([a, b])`` mean the same tensors."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        return tensors[0]
    return tensors


@composite(
    method=False,
    samples=[S((2, 1), (3,)), S((2, 3), 3, ()), S()],
    errors=[
        Fails(RuntimeError, r"length 4 at -1! .* is_expandable to \[2, 3\]", (2, 3), (4,)),
        Fails(ValueError, "a dimension with negative length", (-1,)),
        Fails(TypeError, "sizes must be ints or tuples of ints, not float", 2.5),
    ],
)
def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes are broadcast to.

    >>> rl.broadcast_shapes((2, 1), (3,))
    rushlight.Size([2, 3])
    """
    common: list[int] = []
    for i, shape in enumerate(shapes):
        try:
            sizes = [index(n) for n in (shape if isinstance(shape, (tuple, list)) else [shape])]
        except TypeError:
            raise TypeError(
                f"broadcast_shapes(): sizes must be ints or tuples of ints, not "
                f"{messages.kind(shape)}"
            ) from None
        common[:0] = [1] * (len(sizes) - len(common))
        for k in range(-1, -1 - len(sizes), -1):
            if sizes[k] < 0:
                raise ValueError("Attempting to broadcast a dimension with negative length!")
            if sizes[k] != 1 and common[k] not in (1, sizes[k]):
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {sizes[k]} at {k}! "
                    f"Mismatching argument at index {i} had {shape}; but expected shape should "
                    f"be is_expandable to {common}"
                )
            if sizes[k] != 1:
                common[k] = sizes[k]
    return Size(common)


@composite(
    method=False,
    samples=[S(T(3, 1), T(4)), S(T(), T(2)), S(T(2, 3))],
    errors=[Fails(RuntimeError, r"tensor a \(2\) must match .* tensor b \(3\)", T(2), T(3))],
)
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape, without copying.

    >>> rl.broadcast_tensors(rl.tensor([[1], [2]]), rl.tensor([3, 4]))
    (tensor([[1, 1],
             [2, 2]]), tensor([[3, 4],
             [3, 4]]))
    """
    given = several(tensors)
    shape: tuple[int, ...] = ()
    for i, t in enumerate(given):
        have = need_tensor("broadcast_tensors", t, "tensors", i + 1)._array.shape
        try:
            shape = broadcast_shapes(shape, have)
        except RuntimeError:
            pairs = zip(reversed(shape), reversed(have), strict=False)
            back, (a, b) = next((k, p) for k, p in enumerate(pairs) if p[0] != p[1] and 1 not in p)
            dim = max(len(shape), len(have)) - back - 1
            raise RuntimeError(
                f"The size of tensor a ({a}) must match the size of tensor b ({b}) at "
                f"non-singleton dimension {dim}. [broadcast_tensors: shapes {list(shape)} and "
                f"{list(have)}]"
            ) from None
    return tuple([t.expand(shape) for t in given])


@composite(
    method=False,
    samples=[
        S(T(2), T(3), indexing="ij"),
        S(T(2), T(3), T(4), indexing="xy"),
        S(T(), T(2), indexing="ij"),
        S([T(2), T(0)]),
    ],
    errors=[
        Fails(RuntimeError, "Expected 0D or 1D tensor", T(2), T(2, 2), indexing="ij"),
        Fails(RuntimeError, 'one of "xy" or "ij", but received: x', T(2), T(3), indexing="x"),
        Fails(RuntimeError, "meshgrid expects a non-empty TensorList"),
    ],
)
def meshgrid(*tensors: Tensor, indexing: str | None = None) -> tuple[Tensor, ...]:
    """The coordinates of all points of a grid, one tensor per axis.

    With ``indexing="ij"`` (the default) the k-th axis runs along dimension k; with ``"xy"`` the
    first two are swapped.

    >>> x, y = rl.meshgrid(rl.tensor([1, 2]), rl.tensor([3, 4]), indexing="ij")
    >>> x
    tensor([[1, 1],
            [2, 2]])
    """
    given = list(several(tensors))
    if not given:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for i, t in enumerate(given):
        if need_tensor("meshgrid", t, "tensors", i + 1)._array.ndim > 1:
            raise RuntimeError(
                f"meshgrid: Expected 0D or 1D tensor in the tensor list but got shape "
                f"{list(t.shape)}"
            )
        if t._array.dtype != given[0]._array.dtype:
            raise RuntimeError(
                "meshgrid expects all tensors to have the same dtype, got "
                f"{given[0].dtype} and {t.dtype}"
            )
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(
            f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    order = list(range(len(given)))
    if indexing == "xy" and len(given) > 1:
        order[:2] = 1, 0
    shape = [given[k]._array.size for k in order]
    grids = []
    for k, t in enumerate(given):
        line = [1] * len(shape)
        line[order.index(k)] = -1
        grids.append(t.reshape(line).expand(shape))
    return tuple(grids)


@composite(
    method=False,
    samples=[S(T(2), T(3)), S(T(2), T(1), T(2)), S(T(3))],
    errors=[Fails(RuntimeError, r"Expect a 1D vector, but got shape \[2, 2\]", T(2, 2))],
)
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element from each vector, as rows.

    >>> rl.cartesian_prod(rl.tensor([1, 2]), rl.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    given = several(tensors)
    for i, t in enumerate(given):
        if need_tensor("cartesian_prod", t, "tensors", i + 1)._array.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(t.shape)}")
    if len(given) == 1:
        return given[0]
    return ops.stack(ops.meshgrid(*given), -1).reshape(-1, len(given))


@composite(
    samples=[S(T(4)), S(T(4), 3), S(T(3), 2, True), S(T(2), 3), S(T(3), 0)],
    errors=[
        Fails(RuntimeError, r"Expect a 1D vector, but got shape \[2, 2\]", T(2, 2)),
        Fails(RuntimeError, "Expect a non-negative number, but got -1", T(2), -1),
    ],
)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All ways to take ``r`` elements of a vector, in order, as rows.

    >>> rl.combinations(rl.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    x = need_tensor("combinations", input)
    if x._array.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(x.shape)}")
    if whole(r, "combinations", "r") < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return ops.empty(0, dtype=x.dtype)
    n = x._array.size
    count = math.comb(n + r - 1, r) if with_replacement and n else math.comb(n, r)
    shape_of("combinations", (count, r), np.dtype(np.int64))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(range(n), r)), np.int64).reshape(-1, r)
    return x.index_select(0, wrap(rows.ravel())).reshape(rows.shape)


def at_least(name: str, tensors: tuple[Any, ...], raised: Any) -> Any:
    """``raised`` of one tensor, or of each in a sequence of them."""
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return raised(tensors[0])
    given = several(tensors)
    return tuple([raised(need_tensor(name, t, "tensors", i + 1)) for i, t in enumerate(given)])


def one(t: Tensor) -> Tensor:
    return t if t._array.ndim else t.reshape(1)


def two(t: Tensor) -> Tensor:
    return t if t._array.ndim > 1 else t.reshape(1, -1)


def three(t: Tensor) -> Tensor:
    if t._array.ndim > 2:
        return t
    return t.unsqueeze(-1) if t._array.ndim == 2 else t.reshape(1, -1, 1)


@composite(
    method=False,
    samples=[S(T()), S(T(2, 3)), S([T(), T(2)])],
    errors=[Fails(TypeError, "must be Tensor, not float", 1.0)],
)
def atleast_1d(*tensors: Any) -> Any:
    """Scalars as vectors of one element, others as they are.

    >>> rl.atleast_1d(rl.tensor(3))
    tensor([3])
    """
    return at_least("atleast_1d", tensors, one)


@composite(
    method=False,
    samples=[S(T()), S(T(2, 3)), S(T(0)), S([T(), T(2)])],
    errors=[Fails(TypeError, "must be Tensor, not float", 1.0)],
)
def atleast_2d(*tensors: Any) -> Any:
    """Scalars and vectors as matrices of one row, others as they are.

    >>> rl.atleast_2d(rl.tensor([1, 2]))
    tensor([[1, 2]])
    """
    return at_least("atleast_2d", tensors, two)


@composite(
    method=False,
    samples=[S(T()), S(T(2)), S(T(2, 3)), S(T(1, 2, 3)), S([T(), T(2)])],
    errors=[Fails(TypeError, "must be Tensor, not float", 1.0)],
)
def atleast_3d(*tensors: Any) -> Any:
    """Vectors of n elements as (1, n, 1), matrices as (n, m, 1), others as they are.

    >>> rl.atleast_3d(rl.tensor([1, 2])).shape
    rushlight.Size([1, 2, 1])
    """
    return at_least("atleast_3d", tensors, three)
