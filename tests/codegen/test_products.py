"""Products by the contraction engine against NumPy: shapes, strides, kinds, threads."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.products import Place, product_works
from rushlight.runtime.natives import registers
from tests.codegen.products import check, laid, product

KINDS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
LAYOUTS = ["rows", "columns", "apart", "back", "same"]


def random_matrices(rng: np.random.Generator, most: float) -> tuple[np.ndarray, np.ndarray]:
    m, n, k = [int(2 ** rng.uniform(0, most)) for _ in range(3)]
    if rng.integers(8) == 0:
        k *= 16
    kind = KINDS[rng.choice(4, p=[0.5, 0.3, 0.1, 0.1])]
    a = rng.standard_normal((m, k)).astype(kind)
    b = rng.standard_normal((k, n)).astype(kind)
    first, second = rng.choice(LAYOUTS, 2)
    return laid(a, first), laid(b, second)


@pytest.mark.parametrize("seed", range(12))
def test_random_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(12):
        a, b = random_matrices(rng, 7.5)
        one = check("mk,kn->mn", a, b)
        np.testing.assert_array_equal(one, product("mk,kn->mn", a, b, threads=2))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_random_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(30):
        a, b = random_matrices(rng, 11)
        one = check("mk,kn->mn", a, b)
        np.testing.assert_array_equal(one, product("mk,kn->mn", a, b, threads=2))


@pytest.mark.parametrize("m", [1, 2, 3, 7, 33])
@pytest.mark.parametrize("n", [1, 2, 9, 40])
@pytest.mark.parametrize("layouts", ["rr", "rc", "cr", "cc"])
def test_long_sums_are_shared_by_threads(m: int, n: int, layouts: str) -> None:
    rng, names = np.random.default_rng(m * n), {"r": "rows", "c": "columns"}
    a, b = rng.standard_normal((m, 9001)), rng.standard_normal((9001, n))
    a, b = [laid(x, names[how]) for x, how in zip((a, b), layouts, strict=True)]
    one = check("mk,kn->mn", a, b)
    np.testing.assert_array_equal(one, product("mk,kn->mn", a, b, threads=2))


@pytest.mark.parametrize(
    ("letters", "first", "second"),
    [
        ("bmk,bkn->bmn", (5, 7, 9), (5, 9, 20)),
        ("bmk,bkn->bmn", (5, 7, 9), (1, 9, 20)),
        ("abmk,bkn->abmn", (2, 3, 4, 5), (3, 5, 6)),
        ("bmk,kn->bmn", (3, 50, 40), (40, 33)),
        ("k,kn->n", (300,), (300, 70)),
        ("mk,k->m", (70, 300), (300,)),
        ("k,k->", (5000,), (5000,)),
        ("mk,kn->nm", (30, 20), (20, 40)),
        ("mkl,lkn->mn", (6, 7, 8), (8, 7, 9)),
        ("mk,nk->mn", (40, 100), (3, 100)),
        ("m,n->mn", (13,), (37,)),
    ],
)
def test_letters(letters: str, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(first), rng.standard_normal(second)
    np.testing.assert_allclose(product(letters, a, b), np.einsum(letters, a, b), atol=1e-12)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 40), (5, 3), (20, 20)])
def test_nothing_to_sum_gives_zeros(m: int, n: int) -> None:
    a, b = np.empty((m, 0)), np.empty((0, n))
    np.testing.assert_array_equal(product("mk,kn->mn", a, b), np.zeros((m, n)))


def test_empty_results_have_no_works() -> None:
    places = Place((0, 3), (3, 1)), Place((3, 4), (4, 1)), Place((0, 4), (4, 1))
    assert product_works(("mk", "kn", "mn"), *places, "f32", registers()) is None


@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 9), (1, 50, 20), (3, 50, 20), (50, 1, 20), (70, 70, 70)]
)
@pytest.mark.parametrize("order", ["rows", "columns"])
def test_nan_and_infinity(m: int, n: int, k: int, order: str) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    a[m // 2, k // 2], b[k // 3, n // 2] = np.nan, np.inf
    b[0, 0] = -np.inf
    with np.errstate(invalid="ignore"):
        right = a @ b
    found = product("mk,kn->mn", laid(a, order), laid(b, order))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(right))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(right))
    np.testing.assert_allclose(found[np.isfinite(right)], right[np.isfinite(right)])


def test_windows_of_an_image() -> None:
    rng = np.random.default_rng(2)
    image, weight = rng.standard_normal((2, 9, 8, 3)), rng.standard_normal((5, 3, 3, 3))
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (1, 2))
    windows = windows.transpose(0, 1, 2, 4, 5, 3)
    letters = "npqijc,ocij->npqo"
    np.testing.assert_allclose(
        product(letters, windows, weight), np.einsum(letters, windows, weight), atol=1e-12
    )


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(40, 40, 40), (3, 200, 50), (1, 300, 90), (90, 300, 1)])
@pytest.mark.parametrize("threads", [1, 2])
def test_numbers_below_all_normal_ones_are_zeros_inside_alone(
    kind: type, shape: tuple[int, int, int], threads: int
) -> None:
    m, k, n = shape
    least = np.finfo(kind).tiny
    a, b = np.full((m, k), least / 4, kind), np.full((k, n), 0.5, kind)
    b[: k // 2] = 0
    c = product("mk,kn->mn", a, b, threads)
    assert (np.abs(c - a.astype(np.float64) @ b) <= k * least).all()
    assert (a + a == least / 2).all()  # what computes afterwards is not concerned
    y = rl.compile(lambda x, w: (x @ w) * 0 + x[:, :1] + x[:, :1])(
        rl.from_numpy(a), rl.from_numpy(b)
    )
    assert (y.numpy() == least / 2).all()
