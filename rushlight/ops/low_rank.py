"""Decompositions of matrices that are nearly of low rank, by random projection."""

from __future__ import annotations

from rushlight.ops.base import composite, need_tensor, ops
from rushlight.ops.decompositions import TALL
from rushlight.ops.linalg import WELL, adjoint, check_matrices
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor


@composite(
    method=False,
    samples=[S(T(values=WELL), 2), S(T(values=TALL), q=2, niter=1), S(T(values=WELL), 2, M=T(3))],
    errors=[Fails(RuntimeError, "at least 2 dimensions", T(3))],
)
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V) with A ≈ U·diag(S)·Vᴴ, keeping ``q`` singular values.

    A's columns are first projected onto q orthonormal directions that random combinations of
    them span, improved by ``niter`` power iterations (Halko, Martinsson and Tropp, 2009).

    Args:
        M: subtracted from A first

    >>> U, S, V = rl.svd_lowrank(rl.ones(5, 4), q=1)
    >>> S
    tensor([4.4721])
    """
    a = check_matrices("svd_lowrank", A, square=False)
    if M is not None:
        a = a - need_tensor("svd_lowrank", M, "M", 4)
    wide = a.shape[-2] < a.shape[-1]
    if wide:
        a = adjoint(a)
    basis = dominant_directions(a, 6 if q is None else q, 2 if niter is None else niter)
    u, s, vh = ops.linalg.svd(adjoint(basis) @ a, full_matrices=False)
    u, v = basis @ u, adjoint(vh)
    return (v, s, u) if wide else (u, s, v)


def dominant_directions(a: Tensor, count: int, iterations: int) -> Tensor:
    """Orthonormal columns that nearly span the main part of a's column space."""
    sketch = a @ ops.randn(a.shape[-1], count, dtype=a.dtype)
    basis = ops.linalg.qr(sketch)[0]
    for _ in range(iterations):
        rows = ops.linalg.qr(adjoint(a) @ basis)[0]
        basis = ops.linalg.qr(a @ rows)[0]
    return basis


@composite(
    method=False,
    samples=[S(T(values=WELL), 2), S(T(values=TALL), center=False)],
    errors=[
        Fails(ValueError, r"q\(=5\) must be non-negative integer and not greater", T(3, 4), 5),
        Fails(ValueError, r"niter\(=-1\) must be non-negative", T(3, 4), niter=-1),
    ],
)
def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Principal components: (U, S, V) of A (samples, features) less the mean of each feature.

    Columns of V are the principal directions; S² / (samples - 1) are the variances along them.

    >>> U, S, V = rl.pca_lowrank(rl.tensor([[1.0, 0.0], [-1.0, 0.0]]), q=1)
    >>> S
    tensor([1.4142])
    """
    a = check_matrices("pca_lowrank", A, square=False)
    limit = min(a.shape[-2:])
    q = min(6, limit) if q is None else q
    if not 0 <= q <= limit:
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={limit}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(a - a.mean(-2, keepdim=True) if center else a, q, niter)
