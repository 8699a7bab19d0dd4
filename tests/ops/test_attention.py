"""Attention in dynamic mode and in programs: the same rules for scores that are all -inf."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.kernels import attention as kernels

attend = rl.nn.functional.scaled_dot_product_attention
KINDS = [rl.float32, rl.float64, rl.float16]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("lengths", [(1, 1), (1, 3), (3, 3), (1, 40), (300, 300), (2, 0)])
def test_keys_of_minus_infinity_have_no_weight(lengths: tuple[int, int], dtype: Any) -> None:
    queries, keys = lengths
    k = rl.full((1, 1, keys, 4), -math.inf, dtype=dtype)
    v = rl.ones(1, 1, keys, 4, dtype=dtype, requires_grad=True)
    q = rl.ones(1, 1, queries, 4, dtype=dtype)
    for function in (attend, rl.compile(attend, fullgraph=True)):
        y = function(q, k, v)
        assert y.eq(0).all()
        assert rl.autograd.grad(y.sum(), v)[0].eq(0).all()


def test_scores_that_are_not_numbers_stay() -> None:
    q = rl.tensor([[[math.inf], [math.nan], [-math.inf], [1.0]]])
    one = rl.ones(1, 1, 1)
    found = [f(q, one, one).ravel().tolist() for f in (attend, rl.compile(attend))]
    np.testing.assert_array_equal(found, [[math.nan, math.nan, 0.0, 1.0]] * 2)


def test_long_attention_is_a_program_from_its_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("attention", "attention_gradient"):
        monkeypatch.delattr(kernels, name)
    q = rl.randn(1, 2, 1234, 8, requires_grad=True)
    attend(q, q, q, is_causal=True).sum().backward()
    assert q.grad.isfinite().all()
