"""NumPy's way of attention: blocks of weights, and no more than a block of them at once."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from rushlight.kernels.attention import attention, attention_gradient

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(("rows", "columns"), [(700, 700), (300, 900), (900, 300)])
@pytest.mark.parametrize("keep", [False, True])
def test_causal_blocks(rows: int, columns: int, keep: bool) -> None:
    q, k, v, g = [RANDOM.standard_normal((2, n, 4)) for n in (rows, columns, columns, rows)]
    bias = RANDOM.standard_normal((rows, columns))
    future = np.triu(np.full((rows, columns), -np.inf), 1)
    found = attention(0.5, keep, True, q, k, v, bias, None)
    wanted = attention(0.5, keep, False, q, k, v, bias + future, None)
    gradients = [
        attention_gradient(0.5, causal, True, g, *made, q, k, v, own, None)
        for causal, made, own in ((True, found, bias), (False, wanted, bias + future))
    ]
    for a, b in zip((*found, *gradients[0]), (*wanted, *gradients[1]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_memory_grows_with_the_length_alone() -> None:
    x = np.ones((1, 4096, 2), np.float32)
    attention(1.0, False, True, x[:, :2], x[:, :2], x[:, :2], None, None)
    tracemalloc.start()
    try:
        made = attention(1.0, False, True, x, x, x, None, None)
        attention_gradient(1.0, True, False, x, *made, x, x, x, None, None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4096 * 4096  # bytes: a quarter of all weights
