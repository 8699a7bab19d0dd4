"""Products of dynamic mode by the contraction engine."""

from __future__ import annotations

import threading

import ml_dtypes
import numpy as np
import pytest

import rushlight as rl
from rushlight.kernels.engine import FEW, MUCH, Engine
from rushlight.runtime import products
from rushlight.runtime.products import product

MATRICES = ("mk", "kn", "mn")


def test_strides_of_all_kinds() -> None:
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((40, 60))
    for a in (whole, whole[::-1, ::2], whole.T[:, ::-3], np.broadcast_to(whole[:1], (7, 60))):
        b = rng.standard_normal((a.shape[1], 9))
        np.testing.assert_allclose(product(MATRICES, a, b), a @ b, atol=1e-12)


def test_strides_between_elements() -> None:
    records = np.zeros(30, np.dtype([("flag", "i1"), ("x", "f8")]))
    records["x"] = np.arange(30)
    a, b = records["x"].reshape(5, 6), np.ones((6, 4))
    np.testing.assert_array_equal(product(MATRICES, a, b), a @ b)


def test_plans_are_kept_and_bounded() -> None:
    a, b = np.ones((3, 4)), np.ones((4, 5))
    product(MATRICES, a, b)
    kept = len(products.plans.known)
    product(MATRICES, a, b)
    assert len(products.plans.known) == kept <= products.MOST


def test_results_are_new_arrays() -> None:
    a, b = np.ones((3, 4)), np.ones((4, 5))
    first = product(MATRICES, a, b)
    second = product(MATRICES, 2 * a, b)
    np.testing.assert_array_equal(first * 2, second)


def test_several_threads_at_once() -> None:
    rng = np.random.default_rng(1)
    operands = [rng.standard_normal((2, 100, 100)) for _ in range(4)]
    wrong = []

    def work(a: np.ndarray, b: np.ndarray) -> None:
        right = product(MATRICES, a, b)
        wrong.extend([n for n in range(50) if not np.array_equal(product(MATRICES, a, b), right)])
        if not np.allclose(right, a @ b):
            wrong.append(-1)

    threads = [threading.Thread(target=work, args=tuple(pair)) for pair in operands]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
def test_few_rows_and_columns(dtype: rl.dtype) -> None:
    rng = np.random.default_rng(2)
    weight = rl.tensor(rng.standard_normal((300, 200)), dtype=dtype)
    for n in range(1, FEW + 2):
        x = rl.tensor(rng.standard_normal((n, 200)), dtype=dtype)
        y = rl.nn.functional.linear(x, weight)
        right = x.numpy() @ weight.numpy().T
        np.testing.assert_allclose(y.numpy(), right, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose((weight @ x.T).numpy(), right.T, rtol=1e-4, atol=1e-4)
    assert Engine.product is product


@pytest.mark.parametrize("shape", [(60, 16, 16, 16), (12, 20, 33, 40)])
def test_batches(shape: tuple[int, ...]) -> None:
    batch, m, n, k = shape
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((batch, m, k)), rng.standard_normal((batch, k, n))
    found = rl.bmm(rl.tensor(a), rl.tensor(b)).numpy()
    np.testing.assert_allclose(found, a @ b, rtol=1e-9)
    first = rl.tensor(a[:1]) @ rl.tensor(b)
    np.testing.assert_allclose(first.numpy(), a[:1] @ b, rtol=1e-9)
    with pytest.raises(RuntimeError, match="must match"):
        rl.tensor(a) @ rl.tensor(b)[: batch - 1]


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_half_types_are_rounded_once(kind: type) -> None:
    rng = np.random.default_rng(4)
    a, b = [rng.integers(-3, 4, shape).astype(kind) for shape in ((40, 30), (30, 50))]
    x, y = [rl.from_numpy(z) if kind is np.float16 else rl.tensor(z) for z in (a, b)]
    z = x @ y
    right = (a.astype(np.float32) @ b.astype(np.float32)).astype(kind)
    np.testing.assert_array_equal(z.float().numpy(), right.astype(np.float32))


def test_sizes_of_half_types_are_checked() -> None:
    x = rl.ones(20, 30, 40, dtype=rl.bfloat16)
    assert (x @ x.mT).shape == (20, 30, 30)
    for wrong in (rl.ones(41, 50), rl.ones(20, 41, 50), rl.ones(3, 40, 50)):
        with pytest.raises(RuntimeError):
            x @ wrong.bfloat16()


def test_plans_of_a_thread_share_their_memory() -> None:
    rng = np.random.default_rng(2)
    operands = [
        (rng.standard_normal((200 + n, 90)), rng.standard_normal((90, 300))) for n in (0, 1)
    ]
    expected = [product(MATRICES, a, b) for a, b in operands]
    rooms = len(products.plans.rooms)
    for (a, b), y in zip(operands, expected, strict=True):
        np.testing.assert_allclose(y, a.dot(b), rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(product(MATRICES, a, b), y)
    assert len(products.plans.rooms) == rooms


@pytest.mark.parametrize("rows", [MUCH // 128**2 - 1, MUCH // 128**2])
def test_large_products(rows: int) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((rows, 128)), rng.standard_normal((128, 128)).T
    kept = len(products.plans.known)
    y = rl.from_numpy(a) @ rl.from_numpy(b)
    np.testing.assert_allclose(y.numpy(), a.dot(b), rtol=1e-10, atol=1e-10)
    assert len(products.plans.known) - kept == (rows * 128**2 >= MUCH)
