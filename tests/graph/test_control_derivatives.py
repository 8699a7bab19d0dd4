"""Branches and loops in graphs: higher derivatives, forward mode, and functions made at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from tests.graph.test_control import POINTS, TABLE, arguments, assert_close, differentiated

TWICE = (
    *("one_of_two", "nested_branches", "one_of_many", "detached_inside", "product_in_a_loop"),
    *("every_other_step", "recurrent_layer", "recurrent_layer_backwards", "sorted_rows"),
    *("scan_in_a_scan", "branch_in_a_scan", "scan_in_a_branch", "two_values", "loops_three_deep"),
    *("until_large", "never", "early_exit", "branch_in_a_loop", "while_in_a_scan"),
)


@pytest.mark.parametrize("name", TWICE)
@pytest.mark.parametrize("order", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_higher_derivatives_are_those_of_dynamic_mode(
    name: str, order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def function(x, w):
        x, w = [t.detach().clone().requires_grad_() for t in (x, w)]
        result = TABLE[name](x, w)
        y = sum([t.square().sum() for t in (result if isinstance(result, tuple) else (result,))])
        for _ in range(order - 1):
            gradients = rl.autograd.grad(y, (x, w), create_graph=True, allow_unused=True)
            # The sine of a gradient of 1e6 is mostly rounding after two more derivatives.
            y = sum([(1 + g * g).log().sum() for g in gradients if g is not None])
        found = rl.autograd.grad(y, (x, w), allow_unused=True)
        zeros = [rl.zeros(t.shape) if g is None else g for t, g in zip((x, w), found, strict=True)]
        return [y.detach(), *zeros]

    monkeypatch.setattr(rl.config, "default_dtype", rl.float64)  # rounding grows with the order
    compiled = rl.compile(function, fullgraph=True)
    for point in POINTS[:2]:
        for a, b in zip(compiled(*arguments(point)), function(*arguments(point)), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["product_in_a_loop", "early_exit"])
def test_forward_mode_goes_through_a_loop(name: str) -> None:
    def function(x, w):
        tangent = rl.linspace(1, 2, 3)
        return rl.func.jvp(lambda x: TABLE[name](x, w), (x,), (tangent,))

    given = arguments(POINTS[0])
    assert_close(rl.compile(function, fullgraph=True)(*given), function(*given))


class Chance:
    """Functions made at random: branches and loops in each other, around a few plain ops."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def pick(self, *choices: Any) -> Any:
        return choices[self.random.integers(len(choices))]

    def function(self, depth: int) -> Callable[[Any, Any], Any]:
        """A function of two vectors that gives one."""
        if depth == 0:
            scale = float(self.random.uniform(0.3, 0.9))
            return self.pick(
                lambda a, b: (a * scale).sin() + b,
                lambda a, b: a * b * scale,
                lambda a, b: (a - b).tanh(),
                lambda a, b: a * scale,
                lambda a, b: (a.unsqueeze(0) * b.unsqueeze(1)).softmax(1).sum(0),
                lambda a, b: a + b.detach() * a,
                lambda a, b: a.flip(0).clone() * scale,
                lambda a, b: a.sort()[0] + b,
                lambda a, b: rl.ones(3) * scale,
            )
        f, g = self.function(depth - 1), self.function(depth - 1)
        n = int(self.random.integers(1, 5))
        kind = self.pick("cond", "switch", "while", "fori", "scan", "both", "map", "closed")
        match kind:
            case "cond":
                return lambda a, b: rl.cond(a.sum() > b.sum(), f, g, a, b)
            case "switch":
                h = self.function(0)
                return lambda a, b: rl.switch((a.sum() * 3).long(), [f, g, h], a, b)
            case "while":

                def step(i, a, b):
                    return i + 1, f(a, b), b

                return lambda a, b: rl.while_loop(
                    lambda i, a, b: (i < n) & (a.abs().max() < 5), step, (0, a, b)
                )[1]
            case "fori":
                return lambda a, b: rl.fori_loop(0, n, lambda i, c: g(f(c, b), a) * (i + 1) / n, a)
            case "scan":

                def table(a, b):
                    rows = rl.stack([a, b, a * b][: min(n, 3)])
                    last, ys = rl.scan(lambda c, r: (f(c, r), g(r, c)), b, rows, reverse=n % 2 == 0)
                    return last + ys.mean(0)

                return table
            case "map":
                return lambda a, b: rl.map_fn(lambda r: f(r, b), rl.stack([a, b])).sum(0)
            case "closed":
                return lambda a, b: rl.fori_loop(0, n, lambda i, c: f(c, a) + g(b, a), b * 0)
            case _:
                return lambda a, b: f(g(a, b), b) + g(a, f(b, a))


@pytest.mark.parametrize("seed", range(12))
def test_functions_made_at_random(seed: int) -> None:
    check_chance(seed, depth=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 220))
def test_many_functions_made_at_random(seed: int) -> None:
    check_chance(seed, depth=2 + seed % 2)


def check_chance(seed: int, depth: int) -> None:
    inner = Chance(seed).function(depth)
    function = differentiated(lambda x, w: x + inner(x, (x @ w).tanh()))
    compiled = rl.compile(function, fullgraph=True)
    for point in POINTS:
        assert_close(compiled(*arguments(point)), function(*arguments(point)), f"seed {seed}")
