"""Orthogonal matrices as products of Householder reflections: H = 1 - τ·v·vᴴ."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.ops.base import Op, composite, into, need_tensor, ops
from rushlight.ops.decompositions import TALL, WIDE
from rushlight.ops.families import conjugate
from rushlight.ops.linalg import WELL, adjoint, also, check_matrices, matrix_errors, zeros_of
from rushlight.ops.results import result_type
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor


class Geqrf(Op):
    """The QR decomposition as LAPACK keeps it: R above the diagonal, the reflections below it.

    >>> rl.geqrf(rl.tensor([[3.0], [4.0]])).a
    tensor([[-5.0000],
            [ 0.5000]])
    """

    differentiable = False
    result = result_type("geqrf", "a", "tau")
    library = "linear algebra"
    samples = [S(T(values=WELL)), S(T(values=TALL)), S(T(values=WIDE)), S(T(2, 3, 2)), S(T(0, 3))]
    errors = matrix_errors(square=False)

    def check(self, input: Tensor) -> Any:
        return (check_matrices("geqrf", input, square=False, argument="input"),), {}

    def eager(self, a):
        h, tau = np.linalg.qr(a, "raw")
        return h.swapaxes(-1, -2), tau


def check_reflections(name: str, a: Tensor, tau: Tensor) -> None:
    """``tau`` must hold one number for each of a's first columns, in a's dtype."""
    check_matrices(name, a, square=False, argument="input")
    need_tensor(name, tau, "tau", 2)
    if tau._array.dtype is not a._array.dtype:
        raise RuntimeError(f"{name}: tau dtype {tau.dtype} does not match input dtype {a.dtype}")
    if tau.ndim != a.ndim - 1 or tau.shape[:-1] != a.shape[:-2]:
        raise RuntimeError(
            f"{name}: expected tau to have the batch of input, got shapes {list(tau.shape)} and "
            f"{list(a.shape)}"
        )
    if tau.shape[-1] > a.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1], got "
            f"{a.shape[-1]} and {tau.shape[-1]}"
        )


def reflect(a: Tensor, tau: Tensor, x: Tensor, turned: bool) -> Tensor:
    """Q·x for Q = H₁·H₂⋯Hₖ, or Qᴴ·x if ``turned``."""
    m, k = a.shape[-2], tau.shape[-1]
    vectors = a[..., :k].tril(-1) + ops.eye(m, k, dtype=a.dtype)
    factors = conjugate(tau) if turned else tau
    for i in range(k) if turned else reversed(range(k)):
        v = vectors[..., i : i + 1]
        x = x - (factors[..., i : i + 1].unsqueeze(-1) * v) @ (adjoint(v) @ x)
    return x


@composite(
    namespace="linalg",
    method=False,
    samples=[
        S(T(values=TALL), T(2)),
        S(T(values=WELL), T(3)),
        S(T(values=WELL), T(1)),
        S(T(2, 3, 2), T(2, 2)),
        S(T(3, 0), T(0)),
    ],
    errors=[
        Fails(RuntimeError, r"equal to tau.shape\[-1\]", T(3, 2), T(3)),
        Fails(RuntimeError, r"equal to input.shape\[-1\]", T(2, 3), T(3)),
    ],
)
def householder_product(A: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first n columns of H₁·H₂⋯Hₖ, for reflections kept in A (m, n) as ``geqrf`` does.

    >>> a = rl.tensor([[3.0], [4.0]])
    >>> rl.linalg.householder_product(*rl.geqrf(a))
    tensor([[-0.6000],
            [-0.8000]])
    """
    name = "linalg.householder_product"
    check_reflections(name, A, tau)
    m, n = A.shape[-2:]
    if m < n:
        raise RuntimeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1], got {m} "
            f"and {n}"
        )
    unit = zeros_of(A) + ops.eye(m, n, dtype=A.dtype)
    y = reflect(A, tau, unit, turned=False)
    return y if out is None else into(out, y)


also("orgqr", householder_product, method=True)


@composite(
    samples=[
        S(T(values=TALL), T(2), T(3, 2)),
        S(T(values=TALL), T(2), T(3, 2), transpose=True),
        S(T(values=TALL), T(2), T(2, 3), left=False),
        S(T(2, 3, 2), T(2, 2), T(2, 2, 3), left=False, transpose=True),
    ],
    errors=[
        Fails(RuntimeError, r"other.shape\[-2\] must be equal", T(3, 2), T(2), T(2, 2)),
        Fails(RuntimeError, r"other.shape\[-1\] must be equal", T(3, 2), T(2), T(3, 2), left=False),
    ],
)
def ormqr(
    input: Tensor,
    tau: Tensor,
    other: Tensor,
    left: bool = True,
    transpose: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Q·other, or other·Q if not ``left``, for reflections kept in ``input`` as ``geqrf`` does.

    ``transpose`` takes Qᴴ for Q; Q itself is never made.

    >>> a = rl.tensor([[3.0], [4.0]])
    >>> rl.ormqr(*rl.geqrf(a), a, transpose=True)
    tensor([[-5.],
            [ 0.]])
    """
    check_reflections("ormqr", input, tau)
    need_tensor("ormqr", other, "other", 3)
    dim = -2 if left else -1
    if other.ndim < 2 or other.shape[dim] != input.shape[-2]:
        raise RuntimeError(
            f"ormqr: other.shape[{dim}] must be equal to input.shape[-2], got shapes "
            f"{list(other.shape)} and {list(input.shape)}"
        )
    if left:
        y = reflect(input, tau, other, transpose)
    else:
        y = adjoint(reflect(input, tau, adjoint(other), not transpose))
    return y if out is None else into(out, y)
