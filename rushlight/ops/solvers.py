"""Linear equations: square, triangular, least squares."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.kernels import linalg as kernels
from rushlight.ops.base import Op, composite, into, need_tensor, ops, registry
from rushlight.ops.decompositions import TALL, WIDE
from rushlight.ops.linalg import (
    BATCH,
    SINGULAR_MATRIX,
    WELL,
    LinAlgError,
    adjoint,
    check_matrices,
    matrix_errors,
    sound,
)
from rushlight.ops.results import result_type
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

LOWER = [[2.0, 0.0, 0.0], [0.5, -1.5, 0.0], [-1.0, 0.7, 1.0]]


def check_equation(name: str, A: Tensor, B: Tensor, left: bool = True) -> None:
    """An error unless A·X = B (X·A = B if not ``left``) makes sense for matrices of one dtype."""
    check_matrices(name, A)
    need_tensor(name, B, "B", 2)
    if A._array.dtype is not B._array.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type "
            f"{A.dtype.storage_name} and B of type {B.dtype.storage_name} instead"
        )
    if B.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor B must have at least 2 dimensions.")
    n, (rows, columns) = A.shape[-1], B.shape[-2:]
    if n != (rows if left else columns):
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {equation} "
            f"({n}x{n} and {rows}x{columns})"
        )
    check_batch(A, B)


def check_batch(A: Tensor, B: Tensor) -> None:
    """The batches of two stacks of matrices must broadcast."""
    try:
        np.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    except ValueError:
        raise RuntimeError(
            f"The batch dimensions of shapes {list(A.shape)} and {list(B.shape)} do not broadcast"
        ) from None


def is_vector(A: Tensor, B: Tensor) -> bool:
    """Whether ``B`` is a batch of vectors, by PyTorch's rule, rather than of matrices."""
    return B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])


class SolveInfo(Op):
    """X with A·X = B, for matrices, and LAPACK's info."""

    function = method = False
    differentiable = (0,)
    library = "linear algebra"

    def check(self, A: Tensor, B: Tensor) -> Any:
        return (A, B), {}

    def eager(self, a, b):
        try:
            x = np.linalg.solve(a, b)
            return x, np.zeros(a.shape[:-2], np.int32)
        except np.linalg.LinAlgError:
            info = kernels.lu_factor(a)[2]
            bad = (info != 0)[..., None, None]
            x = np.linalg.solve(np.where(bad, np.eye(a.shape[-1], dtype=a.dtype), a), b)
            return np.where(bad, np.array(np.nan, a.dtype), x), info

    def vjp(self, g, y, a, _b):
        gb = solve_info(adjoint(a), g)[0]
        return -(gb @ adjoint(y[0])), gb


solve_info = registry["solve_info"].call
SolveEx = result_type("linalg_solve_ex", "result", "info")
UNSOLVED = "The solver failed because the input matrix is singular."


@composite(
    namespace="linalg",
    method=False,
    samples=[S(T(values=WELL), T(3, 2)), S(T(values=BATCH), T(2, 3, 2), left=False)],
    errors=[
        Fails(RuntimeError, r"AX = B \(3x3 and 2x1\)", T(3, 3), T(2)),
        Fails(LinAlgError, "singular", T(values=SINGULAR_MATRIX), T(2), check_errors=True),
    ],
)
def solve_ex(
    A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False, out: Any = None
) -> Any:
    """:func:`linalg.solve` that does not raise for singular matrices: ``info`` is then not 0.

    >>> rl.linalg.solve_ex(rl.eye(2), rl.ones(2)).result
    tensor([1., 1.])
    """
    need_tensor("linalg.solve", B, "B", 2)
    check_matrices("linalg.solve", A)
    vector = is_vector(A, B)
    if vector and not left:
        raise RuntimeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for "
            f"left=False, got shapes {list(A.shape)} and {list(B.shape)}"
        )
    b = B.unsqueeze(-1) if vector else B
    check_equation("linalg.solve", A, b, left)
    x, info = solve_info(A, b) if left else solve_info(A.mT, b.mT)
    if not left:
        x = x.mT
    if check_errors:
        (x,) = sound("linalg.solve", UNSOLVED, info, x)
    y = SolveEx(x.squeeze(-1) if vector else x, info)
    return y if out is None else into(out, y)


@composite(
    namespace="linalg",
    method=False,
    samples=[
        S(T(values=WELL), T(3, 2)),
        S(T(values=WELL), T(3)),
        S(T(values=BATCH), T(2, 2)),
        S(T(values=BATCH), T(3, 1, 2, 4)),
        S(T(values=WELL), T(2, 3), left=False),
        S(T(0, 0), T(0, 2)),
    ],
    errors=[
        *matrix_errors(T(2)),
        Fails(RuntimeError, r"AX = B \(3x3 and 2x3\)", T(3, 3), T(2, 3)),
        Fails(LinAlgError, "singular", T(values=SINGULAR_MATRIX), T(2)),
        Fails(
            RuntimeError,
            "A of type Float and B of type Double",
            T(2, 2),
            T(2, dtype=dtypes.float64),
        ),
    ],
)
def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """X with A·X = B (X·A = B if not ``left``), for square A; B may be a vector.

    >>> rl.linalg.solve(rl.tensor([[2.0, 0.0], [0.0, 4.0]]), rl.tensor([1.0, 1.0]))
    tensor([0.5000, 0.2500])
    """
    y = solve_ex(A, B, left=left, check_errors=True)[0]
    return y if out is None else into(out, y)


@composite(
    namespace="linalg",
    method=False,
    samples=[
        S(T(2, 3, 6, distinct=True), T(2, 3)),
        S(T(2, 6, 3, distinct=True), T(2, 3), dims=(1,)),
    ],
    errors=[Fails(RuntimeError, "but got 3 != 2", T(2, 3), T(2))],
)
def tensorsolve(
    A: Tensor, B: Tensor, dims: tuple[int, ...] | None = None, *, out: Tensor | None = None
) -> Tensor:
    """X with ``tensordot(A, X, X.ndim) = B``, A's dimensions ``dims`` having been moved to its end.

    >>> rl.linalg.tensorsolve(rl.eye(6).reshape(2, 3, 6), rl.ones(2, 3)).shape
    rushlight.Size([6])
    """
    need_tensor("linalg.tensorsolve", A, "A")
    need_tensor("linalg.tensorsolve", B, "B", 2)
    if dims is not None:
        last = [d % A.ndim for d in dims]
        A = A.permute([i for i in range(A.ndim) if i not in last] + last)
    shape = A.shape[B.ndim :]
    rows = prod(A.shape[: B.ndim])
    if prod(shape) != rows:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {prod(shape)} != {rows}"
        )
    y = solve(A.reshape(rows, rows), B.reshape(rows)).reshape(shape)
    return y if out is None else into(out, y)


class SolveTriangular(Op):
    """X with A·X = B (X·A = B if not ``left``), for triangular A; only that triangle is read.

    Args:
        upper: whether A is upper triangular
        unitriangular: whether its diagonal is taken to be all ones

    >>> A = rl.tensor([[2.0, 0.0], [1.0, 1.0]])
    >>> rl.linalg.solve_triangular(A, rl.tensor([[2.0], [3.0]]), upper=False)
    tensor([[1.],
            [2.]])
    """

    namespace = "linalg"
    method = False
    library = "linear algebra"
    samples = [
        S(T(values=LOWER), T(3, 2), upper=False),
        S(T(values=WELL), T(3, 2), upper=True),
        S(T(values=WELL), T(2, 3), upper=True, left=False),
        S(T(values=WELL), T(2, 3, 1), upper=False, unitriangular=True),
        S(T(values=BATCH), T(2, 2), upper=True),
        S(T(0, 0), T(0, 2), upper=True),
    ]
    errors = [
        Fails(RuntimeError, r"AX = B \(3x3 and 2x3\)", T(3, 3), T(2, 3), upper=True),
        Fails(RuntimeError, "B must have at least 2 dimensions", T(3, 3), T(3), upper=True),
    ]

    def check(
        self,
        A: Tensor,
        B: Tensor,
        *,
        upper: bool,
        left: bool = True,
        unitriangular: bool = False,
    ) -> Any:
        check_equation("linalg.solve_triangular", A, B, left)
        return (A, B), {"upper": upper, "left": left, "unit": unitriangular}

    def eager(self, a, b, *, upper, left, unit):
        if left:
            return kernels.solve_triangular(a, b, upper, unit)
        turned = kernels.solve_triangular(a.swapaxes(-1, -2), b.swapaxes(-1, -2), not upper, unit)
        return turned.swapaxes(-1, -2)

    def vjp(self, g, y, a, _b, *, upper, left, unit):
        gb = ops.linalg.solve_triangular(
            adjoint(a), g, upper=not upper, left=left, unitriangular=unit
        )
        ga = -(gb @ adjoint(y) if left else adjoint(y) @ gb)
        return (ga.triu(int(unit)) if upper else ga.tril(-int(unit))), gb


OldTriangularSolve = result_type("triangular_solve", "solution", "cloned_coefficient")


@composite(
    samples=[
        S(T(3, 2), T(values=WELL)),
        S(T(3, 2), T(values=LOWER), upper=False, transpose=True),
        S(T(3, 2), T(values=LOWER), upper=False, unitriangular=True),
    ],
    errors=[Fails(RuntimeError, "at least 2 dimensions", T(3), T(3, 3))],
)
def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    *,
    out: Any = None,
) -> Any:
    """X with A·X = input (Aᵀ·X if ``transpose``); the older form of linalg.solve_triangular.

    >>> rl.triangular_solve(rl.ones(2, 1), rl.eye(2)).solution
    tensor([[1.],
            [1.]])
    """
    check_equation("triangular_solve", A, input)
    a, upward = (A.mT, not upper) if transpose else (A, upper)
    x = ops.linalg.solve_triangular(a, input, upper=upward, unitriangular=unitriangular)
    y = OldTriangularSolve(x, A.clone())
    return y if out is None else into(out, y)


DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


class LeastSquares(Op):
    """X of least norm that minimises ‖A·X - B‖, the ranks of A, and its singular values."""

    function = method = False
    differentiable = (0,)
    library = "linear algebra"

    def check(self, A: Tensor, B: Tensor, rcond: float) -> Any:
        return (A, B), {"rcond": rcond}

    def eager(self, a, b, *, rcond):
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        (m, n), k = a.shape[-2:], b.shape[-1]
        count = prod(batch)
        matrices = np.broadcast_to(a, (*batch, m, n)).reshape(count, m, n)
        right = np.broadcast_to(b, (*batch, m, k)).reshape(count, m, k)
        x = np.zeros((count, n, k), a.dtype)
        ranks = np.zeros(count, np.int64)
        values = np.zeros((count, min(m, n)), a.real.dtype)
        for i in range(count if m and n else 0):
            x[i], _, ranks[i], values[i] = np.linalg.lstsq(matrices[i], right[i], rcond)
        return (
            x.reshape(*batch, n, k),
            ranks.reshape(batch),
            values.reshape(*batch, min(m, n)),
        )

    def vjp(self, g, _y, a, b, *, rcond):
        inverse = ops.linalg.pinv(a, rtol=rcond)
        return pinv_gradient(g @ adjoint(b), inverse, a), adjoint(inverse) @ g


least_squares = registry["least_squares"].call
Lstsq = result_type("linalg_lstsq", "solution", "residuals", "rank", "singular_values")


@composite(
    namespace="linalg",
    method=False,
    samples=[
        S(T(values=TALL), T(3, 2)),
        S(T(values=TALL), T(3)),
        S(T(values=WIDE), T(2, 2)),
        S(T(values=WIDE, grad=False), T(2, 2, grad=False), driver="gelsd"),
        S(T(values=WELL), T(2, 3, 1), driver="gels"),
        S(T(values=TALL, grad=False), T(3, 1, grad=False), rcond=0.1, driver="gelss"),
        S(T(2, 0, 0, grad=False), T(2, 0, 3, grad=False)),
    ],
    errors=[
        Fails(RuntimeError, "at least 2 dimensions", T(3), T(3)),
        Fails(RuntimeError, r"input.size\(-2\) should match other.size\(-1\)", T(3, 2), T(2)),
        Fails(RuntimeError, "should be one of", T(3, 2), T(3), driver="x"),
    ],
)
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """The least squares solution: X that minimises ‖A·X - B‖.

    Args:
        rcond: singular values below this times the largest count as zero; by default the
            precision times the larger size of A
        driver: "gelsy" (default), "gels", "gelsd" or "gelss": which of the results are computed.
            ``residuals`` come of all but "gelsy", for A taller than wide and of full rank;
            ``singular_values`` of "gelsd" and "gelss"

    >>> rl.linalg.lstsq(rl.tensor([[1.0], [1.0]]), rl.tensor([[1.0], [3.0]])).solution
    tensor([[2.]])
    """
    name = "linalg.lstsq"
    check_matrices(name, A, square=False)
    need_tensor(name, B, "B", 2)
    driver = "gelsy" if driver is None else driver
    if driver not in DRIVERS:
        raise RuntimeError(
            f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {driver}"
        )
    if A._array.dtype is not B._array.dtype:
        raise RuntimeError(f"{name}: input and other must have the same dtype")
    vector = is_vector(A, B)
    b = B.unsqueeze(-1) if vector else B
    if not B.ndim or A.shape[-2] != b.shape[-2]:
        dim = -1 if vector else -2
        raise RuntimeError(f"{name}: input.size(-2) should match other.size({dim})")
    check_batch(A, b)
    m, n = A.shape[-2:]
    cut = max(m, n) * float(np.finfo(A._array.dtype).eps) if rcond is None else rcond
    x, rank, values = least_squares(A, b, cut)
    full = m > n and driver != "gelsy" and bool((rank._array == n).all())
    if full:
        residuals = (A @ x - b).abs().square().sum(-2)
    else:
        residuals = x.reshape(-1).narrow(0, 0, 0).abs()
    return Lstsq(
        x.squeeze(-1) if vector else x,
        residuals,
        ops.empty(0, dtype=dtypes.int64) if driver == "gels" else rank,
        values if driver in ("gelsd", "gelss") else ops.empty(0, dtype=values.dtype),
    )


class Pinv(Op):
    """The pseudo-inverse of each matrix: V·diag(1/s)·Uᴴ, leaving out singular values near zero.

    Args:
        atol, rtol: those up to max(atol, rtol·s₁) are left out; by default rtol is the precision
            times the larger size of A, or 0 if ``atol`` is given
        hermitian: whether A is symmetric or Hermitian, which is quicker

    >>> rl.linalg.pinv(rl.tensor([[1.0, 0.0], [0.0, 0.0]]))
    tensor([[1., 0.],
            [0., 0.]])
    """

    namespace = "linalg"
    method = False
    library = "linear algebra"
    samples = [
        S(T(values=WELL)),
        S(T(values=TALL)),
        S(T(values=WIDE)),
        S(T(values=BATCH), atol=0.0, rtol=0.01),
        S(T(values=WELL), rcond=1e-5),
        S(T(0, 3)),
        S(T(2, 3, 0)),
    ]
    errors = matrix_errors(square=False)

    def check(
        self,
        A: Tensor,
        rcond: Any = None,
        hermitian: bool = False,
        *,
        atol: Any = None,
        rtol: Any = None,
    ) -> Any:
        a = check_matrices("linalg.pinv", A, square=hermitian)
        return (a,), {
            "atol": plain(atol),
            "rtol": plain(rtol if rcond is None else rcond),
            "hermitian": hermitian,
        }

    def eager(self, a, *, atol, rtol, hermitian):
        if not a.size:
            return np.zeros(a.swapaxes(-1, -2).shape, a.dtype)
        u, s, vh = np.linalg.svd(a, full_matrices=False, hermitian=hermitian)
        kept = s > cut_off(s, a, atol, rtol)[..., None]
        inverse = np.where(kept, 1 / np.where(kept, s, 1), 0)
        y = (vh.conj().swapaxes(-1, -2) * inverse[..., None, :]) @ u.conj().swapaxes(-1, -2)
        return y.astype(a.dtype)

    def vjp(self, g, y, a, *, atol, rtol, hermitian):
        return pinv_gradient(g, y, a)


def plain(tolerance: Any) -> Any:
    """A tolerance as an array or a number."""
    return tolerance._array if isinstance(tolerance, Tensor) else tolerance


def cut_off(s: np.ndarray, a: np.ndarray, atol: Any, rtol: Any) -> np.ndarray:
    """Below which singular values count as zero: max(atol, rtol·largest)."""
    atol = np.asarray(0.0 if atol is None else atol)
    if rtol is None:
        rtol = np.where(atol > 0, 0.0, max(a.shape[-2:]) * np.finfo(a.dtype).eps)
    return np.maximum(atol, np.asarray(rtol, s.dtype) * s.max(-1, initial=0))


def pinv_gradient(g: Tensor, y: Tensor, a: Tensor) -> Tensor:
    """The gradient of the pseudo-inverse y of ``a`` where its rank is constant."""
    gh, yh = adjoint(g), adjoint(y)
    m, n = a.shape[-2:]
    if m <= n:
        k = gh @ y
        kyh = k @ yh
        return kyh - adjoint(y @ k) - (a @ y) @ kyh + (yh @ y) @ (gh - k @ a)
    k = y @ gh
    yhk = yh @ k
    return (gh - a @ k) @ (y @ yh) + yhk - adjoint(k @ y) - (yhk @ y) @ a


@composite(
    samples=[S(T(values=WELL)), S(T(values=TALL), 1e-5)],
    errors=matrix_errors(square=False),
)
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The pseudo-inverse of each matrix; the older name of :func:`linalg.pinv`.

    >>> rl.pinverse(rl.tensor([[2.0]]))
    tensor([[0.5000]])
    """
    return ops.linalg.pinv(input, rcond)
