"""Matrices as products of orthogonal, diagonal and triangular ones: QR, SVD, eigenvalues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.ops.base import Op, composite, into, ops
from rushlight.ops.families import conjugate
from rushlight.ops.linalg import (
    BATCH,
    POSITIVE,
    WELL,
    LinAlgError,
    adjoint,
    check_matrices,
    matrix_errors,
)
from rushlight.ops.results import result_type
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

TALL = [[2.0, 0.6], [-1.3, 1.5], [0.3, 0.8]]
WIDE = [[2.0, 0.6, -1.3], [-1.0, 1.5, 0.3]]
NAN = [[float("nan"), 1.0], [1.0, 1.0]]


def given(g: Tensor) -> bool:
    """Whether a gradient came at all: for results that nobody used the engine fills in zeros."""
    return g._history is not None or local.state.trace is not None or bool(g._array.any())


def scaled_columns(x: Tensor, d: Tensor) -> Tensor:
    """x·diag(d)."""
    return x * d.unsqueeze(-2)


def differences(d: Tensor, numerator: Tensor) -> Tensor:
    """dⱼ - dᵢ, to divide ``numerator`` by; 1 on the diagonal and wherever both are zero."""
    e = d.unsqueeze(-2) - d.unsqueeze(-1)
    diagonal = ops.eye(e.shape[-1], dtype=dtypes.bool_)
    return e.masked_fill(diagonal | ((e == 0) & (numerator == 0)), 1.0)


class Qr(Op):
    """A = Q·R for each matrix: Q has orthonormal columns, R is upper triangular.

    Args:
        mode: "reduced" for Q (m, k) and R (k, n) with k = min(m, n); "complete" for Q (m, m) and
            R (m, n); "r" for R alone, with an empty Q

    >>> Q, R = rl.linalg.qr(rl.tensor([[3.0, 1.0], [4.0, 1.0]]))
    >>> R
    tensor([[-5.0000, -1.4000],
            [ 0.0000, -0.2000]])
    """

    namespace = "linalg"
    method = False
    result = result_type("linalg_qr", "Q", "R")
    library = "linear algebra"
    samples = [
        S(T(values=WELL)),
        S(T(values=TALL)),
        S(T(values=WIDE)),
        S(T(values=BATCH)),
        S(T(values=WELL), mode="complete"),
        S(T(values=WIDE), mode="complete"),
        S(T(values=TALL, grad=False), mode="complete"),
        S(T(values=TALL, grad=False), mode="r"),
        S(T(2, 0)),
        S(T(0, 2, 3)),
    ]
    errors = [
        *matrix_errors(square=False),
        Fails(RuntimeError, "unrecognized mode 'x'", T(3, 3), mode="x"),
    ]

    def check(self, A: Tensor, mode: str = "reduced") -> Any:
        if mode not in ("reduced", "complete", "r"):
            raise RuntimeError(
                f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), "
                "'r', or 'complete'"
            )
        return (check_matrices("linalg.qr", A, square=False),), {"mode": mode}

    def eager(self, a, *, mode):
        if mode == "r":
            return np.empty(0, a.dtype), np.linalg.qr(a, "r")
        q, r = np.linalg.qr(a, mode)
        return q, r

    def vjp(self, g, y, _a, *, mode):
        q, r = y
        gq, gr = g
        m, n = r.shape[-2:]
        if mode == "r":
            raise RuntimeError(
                "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. "
                "Please use linalg.qr(A, mode='reduced') if you are going to require gradients."
            )
        if mode == "complete" and m > n:
            raise RuntimeError(
                "The QR decomposition is not differentiable when mode='complete' and nrows > ncols"
            )
        if m >= n:
            return qr_gradient(gq, gr, q, r)
        # A = Q·[R₁ R₂]: the last columns are Q·R₂, a product; the first are a square QR.
        gr2 = gr[..., m:]
        gq = gq + q @ r[..., m:] @ adjoint(gr2)
        return ops.cat([qr_gradient(gq, gr[..., :m], q, r[..., :m]), q @ gr2], -1)


def qr_gradient(gq: Tensor, gr: Tensor, q: Tensor, r: Tensor) -> Tensor:
    """The gradient of A = Q·R with square R: (gQ + Q·sym(triu(gR·Rᴴ - Qᴴ·gQ)))·R⁻ᴴ."""
    upper = (gr @ adjoint(r) - adjoint(q) @ gq).triu()
    symmetric = upper + adjoint(upper.triu(1))
    if symmetric.is_complex():
        symmetric = symmetric - ops.diag_embed(1j * upper.diagonal(dim1=-2, dim2=-1).imag)
    return ops.linalg.solve_triangular(adjoint(r), gq + q @ symmetric, upper=False, left=False)


@composite(
    samples=[S(T(values=WELL)), S(T(values=TALL, grad=False), some=False)],
    errors=matrix_errors(square=False),
)
def qr(input: Tensor, some: bool = True, *, out: Any = None) -> Any:
    """A = Q·R; the older name of :func:`linalg.qr`, complete unless ``some``.

    >>> rl.qr(rl.eye(2)).R
    tensor([[1., 0.],
            [0., 1.]])
    """
    y = OldQr(*ops.linalg.qr(input, "reduced" if some else "complete"))
    return y if out is None else into(out, y)


OldQr = result_type("qr", "Q", "R")


class Svd(Op):
    """A = U·diag(S)·Vᴴ for each matrix: U and V have orthonormal columns, S ≥ 0 is descending.

    Args:
        full_matrices: whether U is (m, m) and Vh (n, n), not (m, k) and (k, n), k = min(m, n)
        driver: of GPU libraries; nothing here depends on it

    The signs of the vectors are not determined, nor is their gradient where singular values meet.

    >>> rl.linalg.svd(rl.tensor([[0.0, 2.0], [1.0, 0.0]])).S
    tensor([2., 1.])
    """

    namespace = "linalg"
    method = False
    result = result_type("linalg_svd", "U", "S", "Vh")
    library = "linear algebra"
    samples = [
        S(T(values=WELL)),
        S(T(values=TALL), full_matrices=False),
        S(T(values=WIDE), full_matrices=False),
        S(T(values=BATCH)),
        S(T(values=TALL, grad=False)),
        S(T(0, 3), full_matrices=False),
        S(T(2, 3, 0)),
    ]
    errors = [
        *matrix_errors(square=False),
        Fails(LinAlgError, "failed to converge", T(values=NAN)),
    ]

    def check(self, A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> Any:
        return (check_matrices("linalg.svd", A, square=False),), {"full_matrices": full_matrices}

    def eager(self, a, *, full_matrices):
        try:
            u, s, vh = np.linalg.svd(a, full_matrices)
        except np.linalg.LinAlgError:
            raise LinAlgError(
                "linalg.svd: The algorithm failed to converge because the input matrix contained "
                "non-finite values."
            ) from None
        return u, s, vh

    def vjp(self, g, y, _a, *, full_matrices):
        gu, gs, gvh = g
        u, s, vh = y
        k = s.shape[-1]
        gu, u, gvh, vh = gu[..., :k], u[..., :k], gvh[..., :k, :], vh[..., :k, :]
        inner = ops.diag_embed(gs) if given(gs) else None
        ga = None
        if given(gu) or given(gvh):
            inner, ga = svd_vectors_gradient(gu, gvh, u, s, vh, inner)
        if inner is None:
            return ops.zeros(_a.shape, dtype=u.dtype)
        middle = u @ inner.to(u.dtype) @ vh
        return middle if ga is None else middle + ga


def svd_vectors_gradient(
    gu: Tensor, gvh: Tensor, u: Tensor, s: Tensor, vh: Tensor, inner: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """(X, Y) such that U·X·Vᴴ + Y is the gradient of A, X including ``inner``.

    X is the part within the spaces that U and V span, Y the part outside them.
    """
    left, right = adjoint(u) @ gu, gvh @ adjoint(vh)
    left, right = left - adjoint(left), adjoint(right) - right
    squares = s * s
    x = scaled_columns(left / differences(squares, left), s)
    x = x + s.unsqueeze(-1) * (right / differences(squares, right))
    if x.is_complex():
        x = x + ops.diag_embed(left.diagonal(dim1=-2, dim2=-1) / (2 * s))
    if inner is not None:
        x = x + inner
    y, k = None, s.shape[-1]
    if u.shape[-2] > k and given(gu):
        y = scaled_columns(gu - u @ (adjoint(u) @ gu), 1 / s) @ vh
    if vh.shape[-1] > k and given(gvh):
        y = scaled_columns(u, 1 / s) @ (gvh - (gvh @ adjoint(vh)) @ vh)
    return x, y


@composite(
    samples=[S(T(values=WELL)), S(T(values=TALL)), S(T(values=TALL, grad=False), some=False)],
    errors=matrix_errors(square=False),
)
def svd(input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> Any:
    """A = U·diag(S)·Vᴴ, giving V and not Vᴴ; the older form of :func:`linalg.svd`.

    Without ``compute_uv`` U and V are zeros.

    >>> rl.svd(rl.tensor([[0.0, 2.0], [1.0, 0.0]])).S
    tensor([2., 1.])
    """
    a = check_matrices("linalg.svd", input, square=False)
    if compute_uv:
        u, s, vh = ops.linalg.svd(a, full_matrices=not some)
        y = OldSvd(u, s, adjoint(vh))
    else:
        m, n = a.shape[-2:]
        zeros = [ops.zeros((*a.shape[:-2], k, k), dtype=a.dtype) for k in (m, n)]
        y = OldSvd(zeros[0], ops.linalg.svdvals(a), zeros[1])
    return y if out is None else into(out, y)


OldSvd = result_type("svd", "U", "S", "V")


class Svdvals(Op):
    """The singular values of each matrix, in descending order.

    >>> rl.linalg.svdvals(rl.tensor([[0.0, 2.0], [1.0, 0.0]]))
    tensor([2., 1.])
    """

    namespace = "linalg"
    method = False
    library = "linear algebra"
    samples = [S(T(values=WELL)), S(T(values=TALL)), S(T(values=BATCH)), S(T(0, 3))]
    errors = matrix_errors(square=False)

    def check(self, A: Tensor, *, driver: str | None = None) -> Any:
        return (check_matrices("linalg.svdvals", A, square=False),), {}

    def eager(self, a):
        try:
            return np.linalg.svd(a, compute_uv=False)
        except np.linalg.LinAlgError:
            raise unconverged("linalg.svdvals") from None

    def vjp(self, g, _y, a):
        u, _, vh = ops.linalg.svd(a, full_matrices=False)
        return scaled_columns(u, g) @ vh


class Eigh(Op):
    """A = V·diag(L)·Vᴴ for each symmetric or Hermitian matrix; L is real and ascending.

    Only one triangle of A is read: the lower one if ``UPLO`` is "L", the upper one if "U".

    >>> rl.linalg.eigh(rl.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """

    namespace = "linalg"
    method = False
    result = result_type("linalg_eigh", "eigenvalues", "eigenvectors")
    library = "linear algebra"
    samples = [
        S(T(values=POSITIVE, grad=False)),
        S(T(values=POSITIVE, grad=False), UPLO="U"),
        S(T(2, 3, 3, grad=False)),
        S(T(0, 0)),
    ]
    errors = [
        *matrix_errors(),
        Fails(RuntimeError, "'L' or 'U', but got x", T(2, 2), UPLO="x"),
        Fails(LinAlgError, "failed to converge", T(values=NAN)),
    ]

    def check(self, A: Tensor, UPLO: str = "L") -> Any:
        return (check_matrices("linalg.eigh", A),), {"UPLO": triangle(UPLO)}

    def eager(self, a, *, UPLO):
        values, vectors = of_hermitian(np.linalg.eigh, a, UPLO)
        return values, vectors

    def vjp(self, g, y, _a, *, UPLO):
        gl, gv = g
        values, v = y
        inner = ops.diag_embed(gl).to(v.dtype)
        if given(gv):
            turn = adjoint(v) @ gv
            turn = (turn - adjoint(turn)) / 2
            inner = inner + (turn / differences(values, turn)) * off_diagonal(turn)
        return v @ inner @ adjoint(v)


def triangle(UPLO: str) -> str:
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper()


def of_hermitian(solver: Callable[..., Any], a: np.ndarray, UPLO: str) -> Any:
    """``solver(a, UPLO)``, which for NaN would return anything."""
    name = f"linalg.{solver.__name__}"
    if not np.isfinite(a).all():
        raise unconverged(name)
    try:
        return solver(a, UPLO)
    except np.linalg.LinAlgError:
        raise unconverged(name) from None


def unconverged(name: str) -> LinAlgError:
    return LinAlgError(
        f"{name}: The algorithm failed to converge because the input matrix is ill-conditioned, "
        "has too many repeated eigenvalues, or has values that are not finite."
    )


def off_diagonal(x: Tensor) -> Tensor:
    """The mask, as numbers of x's dtype, that is zero on the diagonal of each matrix."""
    return 1 - ops.eye(x.shape[-1], dtype=x.dtype)


class Eigvalsh(Op):
    """The eigenvalues of each symmetric or Hermitian matrix, ascending.

    >>> rl.linalg.eigvalsh(rl.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([1., 2.])
    """

    namespace = "linalg"
    method = False
    library = "linear algebra"
    samples = [S(T(values=POSITIVE, grad=False)), S(T(2, 3, 3, grad=False), "U"), S(T(0, 0))]
    errors = [*matrix_errors(), Fails(RuntimeError, "'L' or 'U', but got x", T(2, 2), UPLO="x")]

    def check(self, A: Tensor, UPLO: str = "L") -> Any:
        return (check_matrices("linalg.eigvalsh", A),), {"UPLO": triangle(UPLO)}

    def eager(self, a, *, UPLO):
        return of_hermitian(np.linalg.eigvalsh, a, UPLO)

    def vjp(self, g, _y, a, *, UPLO):
        _, v = ops.linalg.eigh(a, UPLO)
        return scaled_columns(v, g) @ adjoint(v)


class Eig(Op):
    """A·V = V·diag(L) for each square matrix; L and V are complex, columns of V have norm 1.

    >>> rl.linalg.eig(rl.tensor([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues
    tensor([0.+1.j, 0.-1.j])
    """

    namespace = "linalg"
    method = False
    result = result_type("linalg_eig", "eigenvalues", "eigenvectors")
    library = "linear algebra"
    samples = [S(T(values=WELL)), S(T(values=BATCH)), S(T(0, 0))]
    errors = [
        *matrix_errors(),
        Fails(RuntimeError, "should not contain infs or NaNs", T(values=NAN)),
    ]

    def check(self, A: Tensor) -> Any:
        return (check_matrices("linalg.eig", A),), {}

    def eager(self, a):
        check_finite("linalg.eig", a)
        values, vectors = np.linalg.eig(a)
        kind = np.result_type(a.dtype, np.complex64)
        return values.astype(kind), vectors.astype(kind)

    def vjp(self, g, y, _a):
        gl, gv = g
        values, v = y
        h = adjoint(v)
        inner = ops.diag_embed(gl)
        if given(gv):
            turn = h @ gv
            lengths = turn.diagonal(dim1=-2, dim2=-1).real
            turn = turn - h @ scaled_columns(v, lengths)
            turn = turn / differences(conjugate(values), turn) * off_diagonal(turn)
            inner = inner + turn
        return ops.linalg.solve(h, inner @ h)


def check_finite(name: str, a: np.ndarray) -> None:
    if not np.isfinite(a).all():
        raise RuntimeError(f"{name}: input tensor should not contain infs or NaNs.")


class Eigvals(Op):
    """The eigenvalues of each square matrix, complex and in no particular order.

    >>> rl.linalg.eigvals(rl.tensor([[0.0, 1.0], [-1.0, 0.0]]))
    tensor([0.+1.j, 0.-1.j])
    """

    namespace = "linalg"
    method = False
    library = "linear algebra"
    samples = [S(T(values=WELL)), S(T(values=BATCH)), S(T(0, 0))]
    errors = matrix_errors()

    def check(self, A: Tensor) -> Any:
        return (check_matrices("linalg.eigvals", A),), {}

    def eager(self, a):
        check_finite("linalg.eigvals", a)
        return np.linalg.eigvals(a).astype(np.result_type(a.dtype, np.complex64))

    def vjp(self, g, _y, a):
        h = adjoint(ops.linalg.eig(a)[1])
        return ops.linalg.solve(h, g.unsqueeze(-1) * h)
