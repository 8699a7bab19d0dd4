"""Factorisations and solvers for batches: they must multiply back to what they were made of."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.kernels import linalg

KINDS = [np.float64, np.complex128]


def matrices(kind: type, *shape: int) -> np.ndarray:
    a = np.random.standard_normal(shape)
    return a + 1j * np.random.standard_normal(shape) if kind is np.complex128 else a


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("n", [0, 1, 5, 70])
def test_triangular_solutions_satisfy_their_equations(kind: type, upper: bool, n: int) -> None:
    a = matrices(kind, 2, n, n) + 9 * np.eye(n)
    b = matrices(kind, n, 3)
    x = linalg.solve_triangular(a, b, upper)
    assert x.shape == (2, n, 3)
    np.testing.assert_allclose((np.triu(a) if upper else np.tril(a)) @ x, np.tile(b, (2, 1, 1)))


def test_a_unit_diagonal_is_not_read() -> None:
    a = np.array([[np.nan, 2.0], [0.0, np.nan]])
    np.testing.assert_array_equal(
        linalg.solve_triangular(a, np.array([[5.0], [1.0]]), upper=True, unit=True), [[3.0], [1.0]]
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (5, 5), (3, 7), (7, 3), (70, 40), (40, 70)])
def test_lu_multiplies_back(kind: type, shape: tuple[int, int]) -> None:
    a = matrices(kind, 2, *shape)
    lu, pivots, info = linalg.lu_factor(a)
    k = min(shape)
    lower = np.tril(lu, -1)[..., :k] + np.eye(shape[0], k)
    order = linalg.permutation(pivots, shape[0])
    rows = np.take_along_axis(a, order[..., None], axis=1)
    np.testing.assert_allclose(lower @ np.triu(lu)[:, :k], rows, atol=1e-12)
    assert not info.any()
    assert (np.abs(lower.real) <= 1.5).all()


def test_lu_names_the_first_zero_pivot() -> None:
    a = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 1.0, 1.0]])
    assert linalg.lu_factor(a)[2] == 3
    assert linalg.lu_factor(np.zeros((2, 3, 3)))[2].tolist() == [1, 1]


def test_the_first_minor_that_is_not_positive_is_named() -> None:
    good = np.eye(4)
    bad = np.diag([1.0, 2.0, -1.0, 3.0])
    assert linalg.first_failure(np.stack([good, bad])).tolist() == [0, 3]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 6, 40])
def test_ldl_solves_indefinite_equations(kind: type, hermitian: bool, n: int) -> None:
    a = matrices(kind, 3, n, n)
    a = a + (a.conj() if hermitian else a).swapaxes(-1, -2)
    b = matrices(kind, 3, n, 2)
    ld, pivots, info = linalg.ldl_factor(a, hermitian)
    turned = hermitian and kind is np.complex128
    np.testing.assert_allclose(a @ linalg.ldl_solve(ld, pivots, b, turned), b, atol=1e-9)
    assert not info.any()


def test_exponentials_of_small_large_and_broken_matrices() -> None:
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    y = linalg.matrix_exp(
        np.stack([0 * turn, np.pi * turn, 100 * np.eye(2), np.full((2, 2), np.nan)])
    )
    np.testing.assert_allclose(y[0], np.eye(2))
    np.testing.assert_allclose(y[1], -np.eye(2), atol=1e-14)
    np.testing.assert_allclose(y[2], np.exp(100) * np.eye(2), rtol=1e-13)
    assert np.isnan(y[3]).all()
