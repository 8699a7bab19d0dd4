"""Gradients of tensors that are used many times: the rows of many uses are one sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.autograd.rows import Rows

F = nn.functional
USES = 40


def positions(x: Any) -> Any:
    return (x[:, 0] * 3).abs().long()


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "linear": lambda x, w: F.linear(x, w),
    "linear of sequences": lambda x, w: F.linear(x.reshape(1, -1, 20), w),
    "a weight that is also a bias": lambda x, w: F.linear(x, w, w[:, 0]),
    "mm": lambda x, w: F.linear(x, w).mm(w),
    "addmm": lambda x, w: rl.addmm(w[0], x @ w.t(), w),
    "embedding": lambda x, w: F.embedding(positions(x), w),
    "padded embedding": lambda x, w: F.embedding(positions(x), w, padding_idx=1),
    "two paddings": lambda x, w: (
        F.embedding(positions(x), w, padding_idx=1) + F.embedding(positions(x), w, padding_idx=2)
    ),
    "by frequency": lambda x, w: F.embedding(positions(x), w, scale_grad_by_freq=True),
    "tied": lambda x, w: F.linear(F.embedding(positions(x), w) + x, w),
    "computed weight": lambda x, w: F.linear(x, w * 2),
}


@pytest.mark.parametrize("rows", [0, 1, 3, 50])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_many_uses_have_the_gradient_of_each(name: str, rows: int) -> None:
    rl.manual_seed(0)
    function = FUNCTIONS[name]
    w = rl.randn(24, 20, dtype=rl.float64, requires_grad=True)
    inputs = [rl.randn(rows, 20, dtype=rl.float64) for _ in range(USES)]
    sum([function(x, w).tanh().sum() for x in inputs]).backward()
    each = [rl.autograd.grad(function(x, w).tanh().sum(), w)[0] for x in inputs]
    np.testing.assert_allclose(w.grad.numpy(), sum(each).numpy(), 1e-12, 1e-12)


@pytest.mark.parametrize("name", ["linear", "mm", "addmm", "embedding"])
@pytest.mark.parametrize("seed", range(6))
def test_uses_of_few_many_and_no_rows_add_up(name: str, seed: int) -> None:
    rl.manual_seed(seed)
    function = FUNCTIONS[name]
    w = rl.randn(24, 20, dtype=rl.float64, requires_grad=True)
    counts = np.random.default_rng(seed).choice([0, 1, 1, 1, 2, 7, 100], 12)
    inputs = [rl.randn(int(n), 20, dtype=rl.float64) for n in counts]
    sum([function(x, w).tanh().sum() for x in inputs]).backward()
    each = [rl.autograd.grad(function(x, w).tanh().sum(), w)[0] for x in inputs]
    np.testing.assert_allclose(w.grad.numpy(), sum(each).numpy(), 1e-12, 1e-12)


def test_rows_do_not_change_with_what_they_were_copied_from() -> None:
    w = rl.ones(30, 20, requires_grad=True)
    steps = [rl.ones(1, 20, requires_grad=True) for _ in range(5)]
    ys = [F.linear(x, w) for x in steps]
    for y in ys:
        y.register_hook(lambda g: g.clone())
    for x in steps:
        x.register_post_accumulate_grad_hook(lambda x: x.grad.zero_())
    sum([y.sum() for y in ys]).backward()
    np.testing.assert_array_equal(w.grad.numpy(), np.full((30, 20), 5.0))


def test_chosen_inputs_get_the_whole_gradient() -> None:
    w, v = rl.ones(30, 20, requires_grad=True), rl.ones(30, 20, requires_grad=True)
    y = sum([(F.linear(rl.ones(1, 20), w) * F.linear(rl.ones(1, 20), v)).sum() for _ in range(7)])
    (g,) = rl.autograd.grad(y, v)
    np.testing.assert_array_equal(g.numpy(), np.full((30, 20), 140.0))
    assert w.grad is None
    assert v.grad is None


def test_a_graph_that_is_kept_gives_the_same_twice() -> None:
    w = rl.ones(30, 20, requires_grad=True)
    y = sum([F.linear(rl.ones(1, 20) * n, w).sum() for n in range(7)])
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_array_equal(w.grad.numpy(), np.full((30, 20), 42.0))


def test_unused_pieces_have_zeros() -> None:
    x = rl.ones(1, 12, requires_grad=True)
    first, _, third = x.chunk(3, 1)
    rl.cat([third, rl.ones(1, 2), first * 2], 1).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[2.0] * 4 + [0.0] * 4 + [1.0] * 4])


def test_hooks_see_the_whole_gradient_once() -> None:
    w, seen = rl.ones(30, 20, requires_grad=True), []
    w.register_hook(lambda g: seen.append(g.clone()))
    sum([F.linear(rl.ones(1, 20), w).sum() for _ in range(7)]).backward()
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0].numpy(), np.full((30, 20), 7.0))


def test_there_is_never_more_than_the_size_of_the_tensor() -> None:
    rows = Rows(lambda g, y, x: g.T @ x, [None], {}, 0, 600)
    g, x = np.ones((2, 30), np.float32), np.ones((2, 20), np.float32)
    assert rows.suits(g, x)
    added = [rows.add(g, x) for _ in range(8)]
    assert added == [True] * 6 + [False] * 2
    assert rows.g.size + rows.x.size == 600
    np.testing.assert_array_equal(rows.gradient(), np.full((30, 20), 12.0))
    assert rows.add(g, x)
    np.testing.assert_array_equal(rows.gradient(), np.full((30, 20), 2.0))


def test_many_rows_are_left_to_their_own_product() -> None:
    rows = Rows(lambda g, y, x: g.T @ x, [None], {}, 0, 600)
    assert not rows.add(np.ones((4, 30), np.float32), np.ones((4, 20), np.float32))
