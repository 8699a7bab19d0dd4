"""Matrices as products of triangular ones: Cholesky, LU, LDL; and solving with the factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.kernels import linalg as kernels
from rushlight.ops.base import Op, composite, into, need_tensor, ops, registry
from rushlight.ops.decompositions import TALL, WIDE
from rushlight.ops.linalg import (
    BATCH,
    POSITIVE,
    WELL,
    LinAlgError,
    adjoint,
    check_matrices,
    matrix_errors,
    sound,
)
from rushlight.ops.results import result_type
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.solvers import LOWER, check_equation
from rushlight.ops.verified import verified
from rushlight.tensor import Tensor

NEGATIVE = [[1.0, 0.0], [0.0, -1.0]]


class CholeskyInfo(Op):
    """The Cholesky factor of each matrix, and LAPACK's info."""

    function = method = False
    differentiable = (0,)
    library = "linear algebra"

    def check(self, A: Tensor, upper: bool) -> Any:
        return (A,), {"upper": upper}

    def eager(self, a, *, upper):
        try:
            return np.linalg.cholesky(a, upper=upper), np.zeros(a.shape[:-2], np.int32)
        except np.linalg.LinAlgError:
            info = kernels.first_failure(a.conj().swapaxes(-1, -2) if upper else a)
            bad = (info != 0)[..., None, None]
            unit = np.eye(a.shape[-1], dtype=a.dtype)
            y = np.linalg.cholesky(np.where(bad, unit, a), upper=upper)
            return np.where(bad, np.triu(a) if upper else np.tril(a), y), info

    def vjp(self, g, y, _a, *, upper):
        if upper:
            h, g = y[0], adjoint(g)
            factor = adjoint(h)
        else:
            factor = y[0]
            h = adjoint(factor)
        lower = (h @ g).tril()
        inner = (lower + adjoint(lower.tril(-1))) / 2
        left = ops.linalg.solve_triangular(h, inner, upper=True)
        return ops.linalg.solve_triangular(factor, left, upper=False, left=False)


cholesky_info = registry["cholesky_info"].call
CholeskyEx = result_type("linalg_cholesky_ex", "L", "info")
NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the "
    "leading minor of order {} is not positive-definite)."
)


@composite(
    namespace="linalg",
    method=False,
    samples=[S(T(values=POSITIVE, grad=False)), S(T(values=NEGATIVE, grad=False)), S(T(0, 0))],
    errors=[
        *matrix_errors(),
        Fails(LinAlgError, "minor of order 2", T(values=NEGATIVE), check_errors=True),
    ],
)
def cholesky_ex(
    A: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None
) -> Any:
    """The Cholesky factor, and ``info``: 0, or the first leading minor that is not positive.

    >>> rl.linalg.cholesky_ex(rl.tensor([[4.0]])).L
    tensor([[2.]])
    """
    y = CholeskyEx(*cholesky_info(check_matrices("linalg.cholesky", A), upper))
    if check_errors:
        y = CholeskyEx(*sound("linalg.cholesky", NOT_POSITIVE, y.info, y.L), y.info)
    return y if out is None else into(out, y)


@composite(
    namespace="linalg",
    method=False,
    samples=[
        S(T(values=POSITIVE, grad=False)),
        S(T(values=POSITIVE, grad=False), upper=True),
        S(T(values=[POSITIVE, POSITIVE], grad=False)),
        S(T(0, 0)),
    ],
    errors=[
        *matrix_errors(),
        Fails(LinAlgError, "minor of order 2 is not positive-definite", T(values=NEGATIVE)),
    ],
)
def cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """L with A = L·Lᴴ, lower triangular, for each positive definite matrix; Lᴴ if ``upper``.

    >>> rl.linalg.cholesky(rl.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    y = cholesky_ex(A, upper=upper, check_errors=True)[0]
    return y if out is None else into(out, y)


@composite(
    name="cholesky",
    samples=[S(T(values=POSITIVE, grad=False)), S(T(values=POSITIVE, grad=False), True)],
    errors=[Fails(LinAlgError, "not positive-definite", T(values=NEGATIVE))],
)
def old_cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """L with A = L·Lᴴ; the older form of :func:`linalg.cholesky`.

    >>> rl.cholesky(rl.tensor([[4.0]]))
    tensor([[2.]])
    """
    return cholesky(input, upper=upper, out=out)


class CholeskySolve(Op):
    """X with A·X = B, from the Cholesky factor of A: L·Lᴴ = A, or Uᴴ·U = A if ``upper``.

    The gradient takes A to be that product of all of L, though only one triangle of it is read.

    >>> rl.cholesky_solve(rl.tensor([[4.0]]), rl.tensor([[2.0]]))
    tensor([[1.]])
    """

    library = "linear algebra"
    samples = [
        S(T(3, 2), T(values=LOWER, grad=False)),
        S(T(3, 2), T(values=WELL, grad=False), upper=True),
        S(T(2, 3, 2), T(values=LOWER, grad=False)),
        S(T(0, 2), T(0, 0)),
    ]
    errors = [
        Fails(RuntimeError, "at least 2 dimensions", T(3), T(3, 3)),
        Fails(RuntimeError, r"2x2 and 3x2", T(3, 2), T(2, 2)),
    ]

    def check(self, B: Tensor, L: Tensor, upper: bool = False) -> Any:
        check_equation("cholesky_solve", L, B)
        return (B, L), {"upper": upper}

    def eager(self, b, factor, *, upper):
        h = factor.conj().swapaxes(-1, -2)
        lower, upper_factor = (h, factor) if upper else (factor, h)
        half = kernels.solve_triangular(lower, b, upper=False)
        return kernels.solve_triangular(upper_factor, half, upper=True)

    def vjp(self, g, y, _b, factor, *, upper):
        gb = ops.cholesky_solve(g, factor, upper)
        both = gb @ adjoint(y)
        both = both + adjoint(both)
        return gb, -(factor @ both if upper else both @ factor)


@composite(
    samples=[S(T(values=LOWER, grad=False)), S(T(values=WELL, grad=False), upper=True), S(T(0, 0))],
    errors=matrix_errors(),
)
def cholesky_inverse(L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """A⁻¹, from the Cholesky factor of A: L·Lᴴ = A, or Uᴴ·U = A if ``upper``.

    >>> rl.cholesky_inverse(rl.tensor([[2.0]]))
    tensor([[0.2500]])
    """
    check_matrices("cholesky_inverse", L, argument="L")
    y = ops.cholesky_solve(ops.eye(L.shape[-1], dtype=L.dtype).expand(L.shape), L, upper)
    return y if out is None else into(out, y)


class LuInfo(Op):
    """L and U of each matrix in one, LAPACK's pivots and info."""

    function = method = False
    differentiable = (0,)
    library = "linear algebra"

    def check(self, A: Tensor, pivot: bool) -> Any:
        return (A,), {"pivot": pivot}

    def eager(self, a, *, pivot):
        return kernels.lu_factor(a, pivot)

    def vjp(self, g, y, _a, *, pivot):
        lu, pivots, _ = y
        m, n = lu.shape[-2:]
        k = min(m, n)
        gl, l = g.tril(-1)[..., :k], lu.tril(-1)[..., :k]
        gu, u = g.triu()[..., :k, :], lu.triu()[..., :k, :]
        inner_l = gl[..., :k, :] + adjoint(l[..., :k, :]) @ gl[..., :k, :]
        inner_u = gu[..., :k] @ adjoint(u[..., :k])
        # Beside the square part A is L·U₂, below it L₂·U: products with one of its factors.
        if n > k:
            inner_l = inner_l - gu[..., k:] @ adjoint(u[..., k:])
        if m > k:
            inner_u = inner_u - adjoint(l[..., k:, :]) @ gl[..., k:, :]
        h = adjoint(lu[..., :k, :k])
        inner = ops.linalg.solve_triangular(
            h, inner_l.tril(-1) + inner_u.triu(), upper=False, left=False
        )
        if n > k:
            inner = ops.cat([inner, gu[..., k:]], -1)
        ga = ops.linalg.solve_triangular(h, inner, upper=True, unitriangular=True)
        if m > k:
            below = ops.linalg.solve_triangular(h, gl[..., k:, :], upper=False, left=False)
            ga = ops.cat([ga, below], -2)
        return permutation_matrix(pivots, m, ga.dtype) @ ga


class PermutationMatrix(Op):
    """P with A = P·L·U, from the pivots of an LU decomposition."""

    function = method = differentiable = False
    library = "linear algebra"

    def check(self, pivots: Tensor, size: int, dtype: dtypes.dtype) -> Any:
        return (pivots,), {"size": size, "dtype": dtype}

    def eager(self, pivots, *, size, dtype):
        order = kernels.permutation(pivots, size)
        return (order[..., None, :] == np.arange(size)[:, None]).astype(dtype.numpy)


lu_info, permutation_matrix = registry["lu_info"].call, registry["permutation_matrix"].call
LuFactor = result_type("linalg_lu_factor", "LU", "pivots")
LuFactorEx = result_type("linalg_lu_factor_ex", "LU", "pivots", "info")
Lu = result_type("linalg_lu", "P", "L", "U")
LuUnpack = result_type("lu_unpack", "P", "L", "U")
LU_SAMPLES = [
    S(T(values=WELL)),
    S(T(values=TALL)),
    S(T(values=WIDE)),
    S(T(values=BATCH)),
    S(T(0, 3)),
    S(T(0, 2, 2)),
]
ZERO_PIVOT = (
    "U[{0},{0}] is zero and using it on lu_solve would result in a division by zero. If you still "
    "want to perform the factorization, consider calling linalg.lu(A, pivot) or "
    "linalg.lu_factor_ex(A, pivot)"
)


@composite(
    namespace="linalg",
    method=False,
    samples=[*LU_SAMPLES, S(T(values=WELL), pivot=False)],
    errors=[
        *matrix_errors(square=False),
        Fails(LinAlgError, r"U\[1,1\] is zero", T(values=[[0.0]]), check_errors=True),
    ],
)
def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Any = None
) -> Any:
    """:func:`linalg.lu_factor` that does not raise for a zero pivot: ``info`` is its number.

    >>> rl.linalg.lu_factor_ex(rl.tensor([[2.0, 1.0], [1.0, 1.0]])).LU
    tensor([[2.0000, 1.0000],
            [0.5000, 0.5000]])
    """
    y = LuFactorEx(*lu_info(check_matrices("linalg.lu_factor", A, square=False), pivot))
    if check_errors:
        y = LuFactorEx(*sound("linalg.lu_factor", ZERO_PIVOT, y.info, y.LU, y.pivots), y.info)
    return y if out is None else into(out, y)


@composite(
    namespace="linalg",
    method=False,
    samples=LU_SAMPLES,
    errors=[
        *matrix_errors(square=False),
        Fails(LinAlgError, r"U\[1,1\] is zero", T(values=[[0.0]])),
    ],
)
def lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:
    """L and U of A = P·L·U in one matrix, and P as pivots: row i was swapped with pivots[i] - 1.

    >>> rl.linalg.lu_factor(rl.tensor([[1.0, 1.0], [2.0, 1.0]])).pivots
    tensor([2, 2], dtype=rushlight.int32)
    """
    y = LuFactor(*lu_factor_ex(A, pivot=pivot, check_errors=True)[:2])
    return y if out is None else into(out, y)


@composite(
    namespace="linalg",
    method=False,
    samples=[*LU_SAMPLES, S(T(values=WELL), pivot=False)],
    errors=matrix_errors(square=False),
)
def lu(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:
    """A = P·L·U: a permutation, a lower triangular matrix with ones, and an upper triangular one.

    >>> rl.linalg.lu(rl.tensor([[1.0, 1.0], [2.0, 1.0]])).U
    tensor([[2.0000, 1.0000],
            [0.0000, 0.5000]])
    """
    packed, pivots, _ = lu_info(check_matrices("linalg.lu", A, square=False), pivot)
    y = Lu(*lu_unpack(packed, pivots, unpack_pivots=pivot))
    return y if out is None else into(out, y)


@composite(
    name="lu",
    samples=[S(T(values=WELL)), S(T(values=WELL), get_infos=True), S(T(values=TALL), pivot=False)],
    errors=matrix_errors(square=False),
)
def old_lu(input: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """The packed L and U, the pivots and, if ``get_infos``, info; see :func:`linalg.lu_factor`.

    >>> rl.lu(rl.tensor([[1.0, 1.0], [2.0, 1.0]]))[1]
    tensor([2, 2], dtype=rushlight.int32)
    """
    packed, pivots, info = lu_factor_ex(input, pivot=pivot, check_errors=not get_infos)
    y = (packed, pivots, info) if get_infos else (packed, pivots)
    return y if out is None else into(out, y)


PIVOTS = T(values=[2, 3, 3], dtype=dtypes.int32)


@composite(
    method=False,
    samples=[
        S(T(values=WELL), PIVOTS),
        S(T(values=WELL), PIVOTS, unpack_pivots=False),
        S(T(values=WELL), PIVOTS, unpack_data=False),
        S(T(3, 5), PIVOTS),
        S(T(4, 3), PIVOTS),
    ],
    errors=[Fails(RuntimeError, "of rushlight.int32 dtype", T(3, 3), T(3))],
)
def lu_unpack(
    LU_data: Tensor,
    LU_pivots: Tensor,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
    *,
    out: Any = None,
) -> Any:
    """P, L and U from what :func:`linalg.lu_factor` returns; empty where not asked for.

    >>> rl.lu_unpack(*rl.linalg.lu_factor(rl.tensor([[1.0, 1.0], [2.0, 1.0]]))).L
    tensor([[1.0000, 0.0000],
            [0.5000, 1.0000]])
    """
    packed = need_tensor("lu_unpack", LU_data, "LU_data")
    LU_pivots = check_pivots("lu_unpack", LU_pivots)
    (m, n), empty = packed.shape[-2:], ops.empty(0, dtype=packed.dtype)
    k = min(m, n)
    permutation = lower = upper = empty
    if unpack_pivots:
        permutation = permutation_matrix(LU_pivots, m, packed.dtype)
    if unpack_data:
        lower = packed[..., :k].tril(-1) + ops.eye(m, k, dtype=packed.dtype)
        upper = packed[..., :k, :].triu()
    y = LuUnpack(permutation, lower, upper)
    return y if out is None else into(out, y)


def check_pivots(name: str, pivots: Any) -> Tensor:
    if need_tensor(name, pivots, "pivots", 2).dtype is not dtypes.int32:
        raise RuntimeError(
            f"{name}: pivots should be a Tensor of rushlight.int32 dtype, got {pivots.dtype}"
        )
    message = (
        f"{name}: Pivots must all be greater or equal to 1. Did you properly pass the result of "
        "lu_factor?"
    )
    return verified(pivots, pivots >= 1, "RuntimeError", message)


@composite(
    namespace="linalg",
    method=False,
    samples=[
        S(T(values=WELL), PIVOTS, T(3, 2)),
        S(T(values=WELL), PIVOTS, T(2, 3), left=False),
        S(T(values=WELL), PIVOTS, T(3, 2), adjoint=True),
        S(T(values=WELL), PIVOTS, T(2, 3, 1)),
    ],
    errors=[
        Fails(RuntimeError, r"AX = B \(3x3 and 2x3\)", T(3, 3), PIVOTS, T(2, 3)),
        Fails(RuntimeError, "int32", T(3, 3), T(3), T(3, 2)),
    ],
)
def lu_solve(
    LU: Tensor,
    pivots: Tensor,
    B: Tensor,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """X with A·X = B, from what ``lu_factor(A)`` returns.

    Args:
        left: if False, solves X·A = B
        adjoint: if True, solves Aᴴ·X = B (or X·Aᴴ = B)

    >>> A = rl.tensor([[1.0, 1.0], [2.0, 1.0]])
    >>> rl.linalg.lu_solve(*rl.linalg.lu_factor(A), rl.tensor([[2.0], [3.0]]))
    tensor([[1.],
            [1.]])
    """
    check_equation("linalg.lu_solve", LU, B, left)
    pivots = check_pivots("linalg.lu_solve", pivots)
    y = solve_packed(LU, pivots, B, adjoint) if left else solve_right(LU, pivots, B, adjoint)
    return y if out is None else into(out, y)


def solve_packed(lu: Tensor, pivots: Tensor, b: Tensor, turned: bool) -> Tensor:
    """A⁻¹·b = U⁻¹·L⁻¹·Pᵀ·b, or A⁻ᴴ·b = P·L⁻ᴴ·U⁻ᴴ·b."""
    p = permutation_matrix(pivots, lu.shape[-1], lu.dtype)
    solve = ops.linalg.solve_triangular
    if turned:
        h = adjoint(lu)
        return p @ solve(h, solve(h, b, upper=False), upper=True, unitriangular=True)
    return solve(lu, solve(lu, p.mT @ b, upper=False, unitriangular=True), upper=True)


def solve_right(lu: Tensor, pivots: Tensor, b: Tensor, turned: bool) -> Tensor:
    """b·A⁻¹ = (A⁻ᴴ·bᴴ)ᴴ, or b·A⁻ᴴ."""
    return adjoint(solve_packed(lu, pivots, adjoint(b), not turned))


@composite(
    name="lu_solve",
    samples=[S(T(3, 2), T(values=WELL), PIVOTS)],
    errors=[Fails(RuntimeError, "AX = B", T(2, 3), T(3, 3), PIVOTS)],
)
def old_lu_solve(
    b: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """X with A·X = b; :func:`linalg.lu_solve` with its arguments in the older order.

    >>> rl.lu_solve(rl.ones(2, 1), *rl.linalg.lu_factor(rl.eye(2)))
    tensor([[1.],
            [1.]])
    """
    return lu_solve(LU_data, LU_pivots, b, out=out)


class LdlInfo(Op):
    """What LAPACK's sytrf (hetrf) returns."""

    function = method = differentiable = False
    library = "linear algebra"

    def check(self, A: Tensor, hermitian: bool) -> Any:
        return (A,), {"hermitian": hermitian}

    def eager(self, a, *, hermitian):
        return kernels.ldl_factor(a, hermitian)


ldl_info = registry["ldl_info"].call
LdlFactor = result_type("linalg_ldl_factor", "LD", "pivots")
LdlFactorEx = result_type("linalg_ldl_factor_ex", "LD", "pivots", "info")
SYMMETRIC = [[0.0, 1.0, 2.0], [1.0, 0.0, -1.0], [2.0, -1.0, 3.0]]


@composite(
    namespace="linalg",
    method=False,
    samples=[S(T(values=SYMMETRIC)), S(T(values=POSITIVE), hermitian=True), S(T(0, 0))],
    errors=[
        *matrix_errors(),
        Fails(LinAlgError, "zero", T(values=[[0.0]]), check_errors=True),
    ],
)
def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Any = None
) -> Any:
    """:func:`linalg.ldl_factor` that does not raise for a zero pivot: ``info`` is its number.

    >>> rl.linalg.ldl_factor_ex(rl.tensor([[2.0, 1.0], [1.0, 1.0]])).LD
    tensor([[2.0000, 0.0000],
            [0.5000, 0.5000]])
    """
    y = LdlFactorEx(*ldl_info(check_matrices("linalg.ldl_factor", A), hermitian))
    if check_errors:
        text = "D[{0},{0}] is zero, so it cannot be solved with."
        y = LdlFactorEx(*sound("linalg.ldl_factor", text, y.info, y.LD, y.pivots), y.info)
    return y if out is None else into(out, y)


@composite(
    namespace="linalg",
    method=False,
    samples=[S(T(values=SYMMETRIC)), S(T(values=POSITIVE), hermitian=True)],
    errors=matrix_errors(),
)
def ldl_factor(A: Tensor, *, hermitian: bool = False, out: Any = None) -> Any:
    """A = L·D·Lᵀ of each symmetric matrix (Lᴴ of each ``hermitian`` one), which may be indefinite.

    D has blocks of size 1 and 2; it and L are packed, with pivots, as LAPACK's sytrf does. Only
    the lower triangle of A is read.

    >>> rl.linalg.ldl_factor(rl.tensor([[2.0, 1.0], [1.0, 1.0]])).pivots
    tensor([1, 2], dtype=rushlight.int32)
    """
    y = LdlFactor(*ldl_factor_ex(A, hermitian=hermitian, check_errors=True)[:2])
    return y if out is None else into(out, y)


class LdlSolve(Op):
    """X with A·X = B, from what :func:`linalg.ldl_factor` returns.

    >>> A = rl.tensor([[2.0, 1.0], [1.0, 1.0]])
    >>> rl.linalg.ldl_solve(*rl.linalg.ldl_factor(A), rl.tensor([[3.0], [2.0]]))
    tensor([[1.],
            [1.]])
    """

    namespace = "linalg"
    method = differentiable = False
    library = "linear algebra"
    samples = [
        S(T(values=POSITIVE), T(values=[1, 2, 3], dtype=dtypes.int32), T(3, 2)),
        S(
            T(values=POSITIVE),
            T(values=[1, -3, -3], dtype=dtypes.int32),
            T(2, 3, 1),
            hermitian=True,
        ),
    ]
    errors = [
        Fails(RuntimeError, "AX = B", T(3, 3), T(values=[1, 2, 3], dtype=dtypes.int32), T(2, 3))
    ]

    def check(self, LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Any:
        check_equation("linalg.ldl_solve", LD, B)
        if need_tensor("linalg.ldl_solve", pivots, "pivots", 2).dtype.category != dtypes.INT:
            raise RuntimeError(f"linalg.ldl_solve: pivots must be integers, got {pivots.dtype}")
        return (LD, pivots, B), {"hermitian": hermitian}

    def eager(self, ld, pivots, b, *, hermitian):
        return kernels.ldl_solve(ld, pivots, b, hermitian and ld.dtype.kind == "c")
