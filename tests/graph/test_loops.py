"""Loops whose conditions draw random numbers or write to tensors: as in dynamic mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn

COUNT = rl.zeros(())
WEIGHT = nn.Parameter(rl.tensor(1.5))


def random_length(x: Any) -> Any:
    while rl.rand(()) < 0.8:
        x = x + 1
    return x


def short_circuit(x: Any) -> Any:
    steps = 0
    while steps < 9 and rl.rand(()) < 0.9:
        x = x * WEIGHT + rl.randn(3)
        steps += 1
    return x, steps


def explicit(x: Any) -> Any:
    return rl.while_loop(
        lambda i, x: rl.rand(()) * x.sum() < 5, lambda i, x: (i + 1, x * 1.5 * WEIGHT), (0, x)
    )[1]


def a_buffer_counts(x: Any) -> Any:
    while COUNT.add_(1) < 5:
        x = x * 2
    return x


def a_local_counts(x: Any) -> Any:
    y = rl.zeros(())
    while y.add_(1) < 5:
        x = x * 2
        y.mul_(1.1)
    return x, y


def on_what_is_carried(x: Any) -> Any:
    while nn.functional.dropout(x, 0.5).sum() < 20:
        x = x + 1
    return x, rl.rand(2)


def one_in_another(x: Any) -> Any:
    while rl.rand(()) < 0.7:
        x = x + 1
        while rl.rand(()) < 0.5:
            x = x * WEIGHT
    return x


def left_early(x: Any) -> Any:
    while rl.rand(()) < 0.9:
        x = x + 1
        if rl.rand(()) < 0.2:
            break
        x = x * WEIGHT
    else:
        x = x - 100
    return x


def named(x: Any) -> Any:
    while (u := rl.rand(())) < 0.8:
        x = x + u
    return x, u


FUNCTIONS = [
    random_length, short_circuit, explicit, a_buffer_counts, a_local_counts, on_what_is_carried,
    one_in_another, left_early, named,
]  # fmt: skip


def ran(function: Callable[..., Any], seed: int, wanted: bool) -> list[float]:
    """Results, gradients, the count, and what the generator draws next, in one list."""
    rl.manual_seed(seed)
    COUNT.zero_()
    WEIGHT.grad = None
    x = rl.tensor([0.5, 0.25, 1.0]).requires_grad_(wanted)
    result = function(x)
    parts = result if isinstance(result, tuple) else (result,)
    if parts[0].requires_grad:
        parts[0].sum().backward()
    grads = [rl.zeros(()) if t.grad is None else t.grad for t in (x, WEIGHT)]
    found = [*parts, *grads, COUNT, rl.rand(1)]
    return [n for t in found for n in rl.as_tensor(t, dtype=rl.float32).reshape(-1).tolist()]


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_conditions_that_act(function: Callable[..., Any], wanted: bool) -> None:
    compiled = rl.compile(function, fullgraph=True)
    for seed in range(12):
        expected = ran(function, seed, wanted)
        assert ran(compiled, seed, wanted) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_scripts_with_conditions_that_act(function: Callable[..., Any]) -> None:
    script = rl.jit.script(function)
    for seed in range(4):
        assert ran(script, seed, False) == pytest.approx(ran(function, seed, False), rel=1e-5)
