"""Sizes of matrices: norms, rank, condition."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.ops.base import Op, axis, composite, into, need_tensor, ops
from rushlight.ops.decompositions import TALL
from rushlight.ops.linalg import BATCH, WELL, check_matrices, inv_info, matrix_errors
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.solvers import cut_off, plain
from rushlight.tensor import Tensor

ORDERS = ("fro", "nuc", inf, -inf, 1, -1, 2, -2)


@composite(
    namespace="linalg",
    method=False,
    samples=[
        *[S(T(values=TALL), order) for order in ORDERS],
        S(T(values=BATCH), "nuc", keepdim=True),
        S(T(2, 3, 4), 1, dim=(0, 2), keepdim=True),
        S(T(2, 3, 4), 2, dim=(2, 0)),
        S(T(3, 4), dtype=dtypes.float64),
        S(T(0, 3)),
    ],
    errors=[
        *matrix_errors(square=False)[:2],
        Fails(RuntimeError, "Order x not supported", T(3, 3), "x"),
        Fails(RuntimeError, "Order 3 not supported", T(3, 3), 3),
        Fails(RuntimeError, "dims must be different", T(3, 3), dim=(0, 0)),
        Fails(RuntimeError, "dim must be a 2-tuple", T(3, 3), dim=(0,)),
    ],
)
def matrix_norm(
    A: Tensor,
    ord: str | float = "fro",
    dim: tuple[int, int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """A norm of each matrix.

    Args:
        ord: "fro" (root of the sum of squares), "nuc" (sum of singular values), 2 and -2 (largest
            and smallest singular value), inf and -inf (largest and smallest sum of a row's
            absolute values), 1 and -1 (of a column's)
        dim: which two dimensions are the matrices' rows and columns

    >>> rl.linalg.matrix_norm(rl.tensor([[3.0, 0.0], [4.0, 0.0]]))
    tensor(5.)
    """
    a = check_norm_input("linalg.matrix_norm", A, dim, dtype)
    rows, columns = axis(dim[0], a.ndim), axis(dim[1], a.ndim)
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got {tuple(dim)}")
    if ord not in ORDERS:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    if ord == "fro":
        y = ops.linalg.vector_norm(a, 2, (rows, columns), keepdim)
    elif ord in ("nuc", 2, -2):
        y = of_singular_values(a, ord, rows, columns, keepdim)
    else:
        y = of_sums(a, float(ord), rows, columns, keepdim)
    return y if out is None else into(out, y)


def check_norm_input(name: str, A: Tensor, dim: Any, dtype: dtypes.dtype | None) -> Tensor:
    """``A`` in the dtype that its norm is to be computed in."""
    a = need_tensor(name, A, "A")
    if not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {dim}")
    if a.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if a.dtype.category < dtypes.FLOAT:
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got "
            f"{a.dtype.storage_name}"
        )
    return a if dtype is None else a.to(dtype)


def of_singular_values(a: Tensor, ord: Any, rows: int, columns: int, keepdim: bool) -> Tensor:
    rest = [i for i in range(a.ndim) if i not in (rows, columns)]
    s = ops.linalg.svdvals(a.permute(*rest, rows, columns))
    if ord == "nuc":
        y = s.sum(-1)
    else:
        y = s.amax(-1) if ord == 2 else s.amin(-1)
    return restore(y, rows, columns) if keepdim else y


def of_sums(a: Tensor, ord: float, rows: int, columns: int, keepdim: bool) -> Tensor:
    """The largest (smallest, if ``ord`` is negative) sum of a column's or row's magnitudes."""
    along, across = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = a.abs().sum(along, keepdim=True)
    y = sums.amax(across, keepdim=True) if ord > 0 else sums.amin(across, keepdim=True)
    return y if keepdim else y.squeeze((rows, columns))


def restore(y: Tensor, rows: int, columns: int) -> Tensor:
    """``y`` with two dimensions of size 1 where the matrices were."""
    for d in sorted((rows, columns)):
        y = y.unsqueeze(d)
    return y


@composite(
    namespace="linalg",
    method=False,
    samples=[
        S(T(3, 4)),
        S(T(3)),
        S(T(2, 3, 4)),
        S(T(values=TALL), "nuc"),
        S(T(values=TALL), 2),
        S(T(4), 3),
        S(T(3, 4), 1, dim=1),
        S(T(2, 3, 4), inf, dim=(0, 1), keepdim=True),
    ],
    errors=[
        Fails(RuntimeError, "must be 1D or 2D. Got 3D", T(3, 3, 3), 2),
        Fails(RuntimeError, "dim must be a 2-tuple", T(3, 3), "fro", dim=0),
    ],
)
def norm(
    A: Tensor,
    ord: str | float | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """A norm of vectors or matrices: which of them, ``dim`` says, or A's rank.

    Without ``ord`` it is the root of the sum of squares over ``dim``, by default over everything;
    with it, :func:`linalg.vector_norm` over one dimension or :func:`linalg.matrix_norm` over two.

    >>> rl.linalg.norm(rl.tensor([3.0, 4.0]))
    tensor(5.)
    """
    a = need_tensor("linalg.norm", A, "A")
    if ord is None:
        y = ops.linalg.vector_norm(a, 2, dim, keepdim, dtype=dtype)
        return y if out is None else into(out, y)
    if dim is None:
        if a.ndim not in (1, 2):
            raise RuntimeError(
                "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
                f"{a.ndim}D."
            )
        dims = tuple(range(a.ndim))
    else:
        dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if isinstance(ord, str) or len(dims) == 2:
        y = matrix_norm(
            a, ord, dims if dim is None or len(dims) == 2 else dim, keepdim, dtype=dtype
        )
    else:
        y = ops.linalg.vector_norm(a, ord, dims, keepdim, dtype=dtype)
    return y if out is None else into(out, y)


@composite(
    namespace="linalg",
    method=False,
    samples=[
        S(T(values=WELL)),
        *[S(T(values=WELL), order) for order in ORDERS],
        S(T(values=TALL)),
        S(T(values=BATCH), 1),
        S(T(0, 0)),
    ],
    errors=[
        Fails(RuntimeError, "at least 2 dimensions", T(3)),
        Fails(RuntimeError, "invalid norm type: x", T(3, 3), "x"),
        Fails(RuntimeError, r"ord=1\): A must be batches of square", T(3, 2), 1),
    ],
)
def cond(A: Tensor, p: str | float | None = None, *, out: Tensor | None = None) -> Tensor:
    """The condition number of each matrix: ‖A‖·‖A⁻¹‖, inf if it is singular.

    Args:
        p: which norm, see :func:`linalg.matrix_norm`; by default 2, the ratio of the largest to
            the smallest singular value, which matrices that are not square have too

    >>> rl.linalg.cond(rl.tensor([[1.0, 0.0], [0.0, 4.0]]))
    tensor(4.)
    """
    a = check_matrices("linalg.cond", A, square=False)
    if p not in (None, *ORDERS):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if p in (None, 2, -2):
        s = ops.linalg.svdvals(a)
        if not s.shape[-1]:
            y = ops.zeros(s.shape[:-1], dtype=s.dtype)
        else:
            y = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    else:
        check_matrices(f"linalg.cond(ord={p})", a)
        inverse, info = inv_info(a)
        y = matrix_norm(a, p) * matrix_norm(inverse, p) if a.numel() else a.sum((-2, -1)).abs()
        y = y.masked_fill(info != 0, inf)
    return y if out is None else into(out, y)


class MatrixRank(Op):
    """The rank of each matrix: how many singular values are above max(atol, rtol·largest).

    Args:
        tol: ``atol``, with no relative tolerance
        rtol: by default the precision times the larger size of A, or 0 if ``atol`` is given
        hermitian: whether A is symmetric or Hermitian, which is quicker

    >>> rl.linalg.matrix_rank(rl.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """

    namespace = "linalg"
    method = differentiable = False
    library = "linear algebra"
    samples = [
        S(T(values=WELL)),
        S(T(values=TALL), 2.5),
        S(T(values=BATCH), atol=0.5, rtol=0.1),
        S(T(3, 3), hermitian=True),
        S(T(0, 3)),
    ]
    errors = matrix_errors(square=False)

    def check(
        self,
        A: Tensor,
        tol: Any = None,
        hermitian: bool = False,
        *,
        atol: Any = None,
        rtol: Any = None,
    ) -> Any:
        a = check_matrices("linalg.matrix_rank", A, square=hermitian)
        if tol is not None:
            atol, rtol = tol, 0.0
        return (a,), {"atol": plain(atol), "rtol": plain(rtol), "hermitian": hermitian}

    def eager(self, a, *, atol, rtol, hermitian):
        s = np.abs(np.linalg.eigvalsh(a)) if hermitian else np.linalg.svd(a, compute_uv=False)
        return (s > cut_off(s, a, atol, rtol)[..., None]).sum(-1)
