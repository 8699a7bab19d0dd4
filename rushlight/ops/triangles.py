"""Matrices by their diagonals: triangular parts, and diagonals made into matrices."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.layouts import whole
from rushlight.ops.base import Op, axis, composite, into, need_tensor, registry
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.slices import embed
from rushlight.tensor import Tensor


class Triangle(Op, abstract=True):
    """The elements of matrices on one side of a diagonal, zeros elsewhere."""

    inplace = True
    fused = True
    inside: Callable[..., Any]  # of (column - row, diagonal)
    samples = [S(T(3, 4)), S(T(2, 3, 3), 1), S(T(4, 3), diagonal=-1), S(T(2, 2), 9), S(T(0, 3))]
    errors = [Fails(RuntimeError, "must have at least 2 dimensions", T(3))]

    def check(self, input: Tensor, diagonal: int = 0) -> Any:
        x = need_tensor(self.name, input)
        if x._array.ndim < 2:
            raise RuntimeError(
                f"{self.name}: input tensor must have at least 2 dimensions, got shape "
                f"{list(x.shape)}"
            )
        return (x,), {"diagonal": whole(diagonal, self.name, "diagonal")}

    def eager(self, x, *, diagonal):
        n, m = x.shape[-2:]
        rows = np.arange(diagonal, diagonal + n)[:, None]
        return np.where(self.inside(np.arange(m), rows), x, np.zeros((), x.dtype))

    def at(self, b, i, x, *, diagonal):
        return b.where(self.inside(b.position(i[-1]), i[-2] + diagonal), x[i], 0)

    def vjp(self, g, _y, _x, *, diagonal):
        return self.call(g, diagonal)


class Tril(Triangle):
    """The lower triangle of matrices: the elements on and below a diagonal, zeros above.

    >>> rl.ones(3, 3).tril()
    tensor([[1., 0., 0.],
            [1., 1., 0.],
            [1., 1., 1.]])
    """

    inside = operator.le


class Triu(Triangle):
    """The upper triangle of matrices: the elements on and above a diagonal, zeros below.

    >>> rl.ones(3, 3).triu(1)
    tensor([[0., 1., 1.],
            [0., 0., 1.],
            [0., 0., 0.]])
    """

    inside = operator.ge


@composite(
    samples=[S(T(3)), S(T(2, 3), 1, 0, 2), S(T(3), offset=-2), S(T(0))],
    errors=[
        Fails(RuntimeError, "diagonal dimensions cannot be identical 1, 1", T(2), 0, 1, 1),
        Fails(IndexError, r"range of \[-2, 1\], but got 5", T(2), 0, 0, 5),
        Fails(IndexError, "out of range", T()),
    ],
)
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zeros with the last dimension of ``input`` as the diagonal of two new dimensions.

    >>> rl.tensor([1, 2]).diag_embed()
    tensor([[1, 0],
            [0, 2]])
    """
    x = need_tensor("diag_embed", input)
    a, b = (axis(d, x._array.ndim + 1) for d in (dim1, dim2))
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    shape = list(x._array.shape)
    side = shape.pop() + abs(whole(offset, "diag_embed", "offset"))
    for d in sorted((a, b)):
        shape.insert(d, side)
    where = {"offset": offset, "dim1": a, "dim2": b}
    return embed(x, registry["diagonal"], tuple(shape), where)


@composite(
    samples=[S(T(3)), S(T(3), 1), S(T(3, 4), -1), S(T(2, 2)), S(T(0))],
    errors=[Fails(RuntimeError, "Supports 1D or 2D tensors. Got 3D", T(2, 2, 2))],
)
def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A vector as the diagonal of a matrix, or the diagonal of a matrix as a vector, copied.

    >>> rl.diag(rl.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    x = need_tensor("diag", input)
    if x._array.ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {x._array.ndim}D")
    y = x.diag_embed(diagonal) if x._array.ndim == 1 else x.diagonal(diagonal).clone()
    return y if out is None else into(out, y)


@composite(
    samples=[S(T(3)), S(T(2, 2), 1), S(T())],
    errors=[Fails(TypeError, "must be Tensor, not list", [1.0])],
)
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """All elements, in order, as the diagonal of a matrix.

    >>> rl.diagflat(rl.tensor([[1], [2]]))
    tensor([[1, 0],
            [0, 2]])
    """
    return need_tensor("diagflat", input).reshape(-1).diag_embed(offset)
