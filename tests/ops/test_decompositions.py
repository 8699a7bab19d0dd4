"""Decompositions whose rules read one triangle, or whose vectors have no sign, by gradcheck."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl


def positive(x: Any) -> Any:
    return x @ x.mH + rl.eye(x.shape[-1], dtype=x.dtype)


SYMMETRIC: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda a: rl.linalg.cholesky(positive(a)),
    "upper cholesky": lambda a: rl.linalg.cholesky(positive(a), upper=True),
    "eigh": lambda a: (rl.linalg.eigh(positive(a))[0], rl.linalg.eigh(positive(a))[1].abs()),
    "eigvalsh": lambda a: rl.linalg.eigvalsh(positive(a)),
    "cholesky_inverse": lambda a: rl.cholesky_inverse(rl.linalg.cholesky(positive(a))),
    "hermitian pinv": lambda a: rl.linalg.pinv(positive(a), hermitian=True),
}


@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("kind", [rl.float64, rl.complex128])
def test_gradients_of_symmetric_matrices(name: str, kind: Any) -> None:
    rl.manual_seed(0)
    a = rl.randn(3, 3, dtype=kind, requires_grad=True)
    assert rl.autograd.gradcheck(SYMMETRIC[name], (a,))
    if kind is rl.float64:
        assert rl.autograd.gradgradcheck(SYMMETRIC[name], (a,))


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_gradients_of_complex_singular_vectors(shape: tuple[int, int]) -> None:
    rl.manual_seed(0)
    a = rl.randn(*shape, dtype=rl.complex128, requires_grad=True)

    def magnitudes(x: Any) -> Any:
        u, s, vh = rl.linalg.svd(x, full_matrices=False)
        return u.abs(), s, vh.abs()

    assert rl.autograd.gradcheck(magnitudes, (a,))


def test_eigenvectors_of_a_general_matrix() -> None:
    rl.manual_seed(0)
    a = rl.randn(3, 3, dtype=rl.float64, requires_grad=True)

    def magnitudes(x: Any) -> Any:
        values, vectors = rl.linalg.eig(x)
        return values, vectors.abs()

    assert rl.autograd.gradcheck(magnitudes, (a,))


def test_equal_singular_values_have_a_gradient_if_the_vectors_are_not_used() -> None:
    a = rl.eye(3, dtype=rl.float64, requires_grad=True)
    rl.linalg.svd(a).S.sum().backward()
    assert a.grad.equal(rl.eye(3, dtype=rl.float64))


def test_the_determinant_of_a_singular_matrix_has_a_gradient() -> None:
    a = rl.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    rl.linalg.det(a).backward()
    assert rl.allclose(a.grad, rl.tensor([[4.0, -2.0], [-2.0, 1.0]]))


def test_not_all_of_a_batch_need_be_invertible() -> None:
    y, info = rl.linalg.inv_ex(rl.stack([rl.zeros(2, 2), 2 * rl.eye(2)]))
    assert info.tolist() == [1, 0]
    assert y[1].tolist() == [[0.5, 0.0], [0.0, 0.5]]
    with pytest.raises(rl.linalg.LinAlgError, match=r"\(Batch element 0\): The diagonal element 1"):
        rl.linalg.inv(rl.stack([rl.zeros(2, 2), 2 * rl.eye(2)]))


def test_complete_and_r_only_qr_say_why_they_have_no_gradient() -> None:
    a = rl.ones(3, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="not differentiable when mode='complete' and nrows"):
        rl.linalg.qr(a, "complete").R.sum().backward()
    with pytest.raises(RuntimeError, match="depends on Q, which is not computed when mode='r'"):
        rl.linalg.qr(a, "r").R.sum().backward()
