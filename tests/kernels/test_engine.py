"""Products of arrays: right in all their ways, and the same bits for any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.kernels import engine
from rushlight.kernels.engine import apply, dot, inner, matmul

F = rl.nn.functional
KINDS = [np.float32, np.float64]
RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def as_many_threads_as_before() -> Iterator[None]:
    threads = rl.get_num_threads()
    yield
    rl.set_num_threads(threads)


def same(run: Callable[[], Any]) -> Any:
    """What ``run`` gives, and that it does so with one thread and with two."""
    found = []
    for threads in (1, 2):
        rl.set_num_threads(threads)
        found.append(np.asarray(run()))
    np.testing.assert_array_equal(*found)
    return found[0]


def array(*shape: int, dtype: Any, turned: bool = False) -> np.ndarray:
    """A random array; ``turned``, it lies in memory the other way round."""
    x = RANDOM.standard_normal(shape).astype(dtype)
    return np.asfortranarray(x) if turned else x


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    single = found.dtype == np.float32
    tolerance = (1e-4 if single else 1e-11) * np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    "shape", [(600, 900), (3, 200_000), (200_000, 3), (1, 300_000), (300_000, 1), (5, 7)]
)
def test_a_matrix_and_a_vector(shape: tuple[int, int], turned: bool, dtype: Any) -> None:
    a, x = array(*shape, dtype=dtype, turned=turned), array(shape[1], dtype=dtype)
    y = same(lambda: apply(a, x))
    close(y, np.einsum("mk,k->m", a, x))
    np.testing.assert_array_equal(same(lambda: dot(a, x[:, None]))[:, 0], y)
    np.testing.assert_array_equal(same(lambda: dot(x[None], a.T))[0], y)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("count", [0, 9, 8192, 20_000, 1 << 20])
def test_two_vectors(count: int, dtype: Any) -> None:
    a, b = array(2, 2 * count, dtype=dtype)[:, ::2]
    close(np.abs(same(lambda: inner(a, b))) + 1, np.abs(np.einsum("k,k->", a, b)) + 1)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("rows", "terms", "columns"),
    [(4, 400, 400), (300, 300, 9), (700, 600, 16), (130, 7000, 130), (1000, 4, 1000)],
)
def test_two_matrices(rows: int, terms: int, columns: int, turned: bool, dtype: Any) -> None:
    a = array(rows, terms, dtype=dtype, turned=turned)
    b = array(terms, columns, dtype=dtype, turned=turned)
    close(same(lambda: dot(a, b)), np.einsum("mk,kn->mn", a, b))


def test_large_matrices_are_multiplied_some_columns_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a, b = array(20, 40, dtype=np.float64), array(40, 3000, dtype=np.float64)
    wanted = dot(a, b)
    monkeypatch.setattr(engine, "ROOM", 1 << 14)
    close(dot(a, b), wanted)


@pytest.mark.parametrize("dtype", KINDS)
def test_stacks_of_matrices(dtype: Any) -> None:
    a, b = array(3, 1, 130, 70, dtype=dtype), array(2, 70, 90, dtype=dtype)
    wanted, out = np.einsum("aimk,bkn->abmn", a, b), np.empty((3, 2, 130, 90), dtype)
    close(same(lambda: matmul(a, b)), wanted)
    assert matmul(a, b, out) is out
    close(out, wanted)


@pytest.mark.parametrize("dtype", [*KINDS, np.float16])
def test_one_matrix_and_a_stack(dtype: Any) -> None:
    a, b = array(130, 70, dtype=dtype), array(4, 3, 70, 90, dtype=dtype)
    found = rl.from_numpy(a) @ rl.from_numpy(b)
    wide = [x.astype(np.float64) for x in (a, b)]
    np.testing.assert_allclose(found.double(), wide[0] @ wide[1], atol=0.1)


def weight_of_transposed_convolution(x: Any, w: Any) -> Any:
    w = w.clone().requires_grad_()
    return rl.autograd.grad(F.conv_transpose2d(x, w, stride=2).square().sum(), w)[0]


def gradients_of_batches(a: Any, b: Any) -> Any:
    a, b = [t.clone().requires_grad_() for t in (a, b)]
    return rl.cat([t.ravel() for t in rl.autograd.grad((a @ b).square().sum(), (a, b))])


CALLS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "vector times matrix": (lambda x, a: x @ a, [(700,), (700, 900)]),
    "matrix times vector": (lambda a, x: a @ x, [(700, 900), (900,)]),
    "gradient of a vector": (
        lambda a, x: rl.autograd.grad((a @ x.requires_grad_()).square().sum(), x)[0],
        [(700, 900), (900,)],
    ),
    "two vectors": (lambda x: x @ x, [(50_000,)]),
    "batches": (gradients_of_batches, [(3, 150, 90), (3, 90, 160)]),
    "transposed convolutions of many images": (
        weight_of_transposed_convolution,
        [(2, 64, 28, 28), (64, 32, 3, 3)],
    ),
    "transposed convolution": (
        weight_of_transposed_convolution,
        [(2, 64, 11, 11), (64, 32, 3, 3)],
    ),
    "small image, large weight": (F.conv2d, [(1, 128, 6, 6), (256, 128, 3, 3)]),
    "few queries": (
        F.scaled_dot_product_attention,
        [(1, 200, 32), (1, 3000, 32), (1, 3000, 32)],
    ),
    "mean squared error": (F.mse_loss, [(300, 300), (300, 300)]),
    "distances": (lambda a, b: rl.cdist(a, b), [(300, 40), (300, 40)]),
    "one step": (lambda x: rl.nn.LSTMCell(600, 700, dtype=x.dtype)(x)[0], [(1, 600)]),
}


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
@pytest.mark.parametrize("name", CALLS)
def test_digits_do_not_depend_on_the_number_of_threads(name: str, dtype: Any) -> None:
    call, shapes = CALLS[name]
    tensors = [rl.from_numpy(RANDOM.standard_normal(s)).to(dtype) for s in shapes]

    def run() -> Any:
        rl.manual_seed(0)
        return call(*tensors).detach()

    same(run)
