"""Products inside of programs: by the contraction engine, without library calls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rushlight as rl

SHAPES = {
    "square": ((70, 70), (70, 70)),
    "one row": ((1, 300), (300, 500)),
    "one column": ((500, 300), (300, 1)),
    "few rows": ((5, 300), (300, 200)),
    "long sums": ((6, 20000), (20000, 9)),
    "batches": ((30, 16, 16), (30, 16, 16)),
    "nothing to sum": ((4, 0), (0, 5)),
}
DTYPES = [rl.float32, rl.float64, rl.float16, rl.bfloat16]


def product(a: rl.Tensor, b: rl.Tensor) -> rl.Tensor:
    return a @ b


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_products(name: str, dtype: rl.dtype) -> None:
    rng = np.random.default_rng(0)
    whole = [rl.tensor(rng.integers(-2, 3, shape)).to(dtype) for shape in SHAPES[name]]
    transposed = [x.mT.contiguous().mT for x in whole]
    compiled = rl.compile(product, fullgraph=True)
    right = product(*[x.double() for x in whole]).to(dtype)
    for a in (whole[0], transposed[0]):
        for b in (whole[1], transposed[1]):
            rl.testing.assert_close(compiled(a, b), right, rtol=0, atol=0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: rl.nn.functional.linear(x, w),
        lambda x, w: rl.einsum("mk,nk->nm", x, w),
        lambda x, w: x @ w.T + 1,
        lambda x, w: (x[::2] @ w.flip(0).T).relu(),
    ],
    ids=["linear", "einsum", "after", "strides"],
)
def test_threads_agree(function: Callable[..., rl.Tensor]) -> None:
    rng = np.random.default_rng(1)
    x, w = [rl.tensor(rng.standard_normal(n), dtype=rl.float32) for n in ((90, 700), (350, 700))]
    results, before = [], rl.get_num_threads()
    for threads in (1, 2):
        rl.set_num_threads(threads)
        results.append(rl.compile(function, fullgraph=True)(x, w).numpy())
    rl.set_num_threads(before)
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], function(x, w).numpy(), rtol=1e-3, atol=1e-3)
