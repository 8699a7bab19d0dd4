"""Branches and loops in C."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import Tensor
from tests.c.building import Failure, assert_close, build, check, tensors_of

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")


def branch(x: Tensor) -> Tensor:
    return rl.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))


def newton(x: Tensor) -> Any:
    """Square roots, until they hardly change."""
    return rl.while_loop(
        lambda i, y: (y * y - x).abs().max() > 1e-4,
        lambda i, y: (i + 1, 0.5 * (y + x / y)),
        (rl.tensor(0), rl.ones_like(x)),
    )


def recurrence(x: Tensor) -> Any:
    return rl.scan(lambda c, row: (c * 0.9 + row, (c * row).sum()), rl.zeros(4), x)


def nested(x: Tensor) -> Any:
    """A branch in a loop in a loop, with draws inside."""

    def row(total: Tensor, r: Tensor) -> Any:
        noisy = r + rl.rand(4)
        _, y = rl.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, y * 1.5), (rl.tensor(0), noisy)
        )
        y = rl.cond(y.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (y,))
        return total + y, y.cumsum(0)

    return rl.scan(row, rl.zeros(4), x, reverse=True)


def gradient_of_while(x: Tensor) -> Any:
    w = x.detach().clone().requires_grad_()
    _, y = rl.while_loop(
        lambda i, y: (y.norm() < 50) & (i < 100), lambda i, y: (i + 1, y * w + 1), (rl.tensor(0), w)
    )
    return y.detach(), rl.autograd.grad(y.sum(), w)[0]


def gradient_of_draws(x: Tensor) -> Any:
    """A loop of unknown length that draws, and draws the same again for its gradient."""
    w = x.detach().clone().requires_grad_()
    y = w
    while y.sum() < 30:
        y = y + rl.rand(3) * w if y.mean() < 4 else y + rl.nn.functional.dropout(w, 0.5) * y
    return y.detach(), rl.autograd.grad(y.sum(), w)[0], rl.rand(2)


FUNCTIONS = [branch, newton, recurrence, nested, gradient_of_while, gradient_of_draws]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_control_flow(function: Callable[..., Any], tmp_path: Path) -> None:
    rl.manual_seed(0)
    shapes = {branch: (3,), newton: (5,), gradient_of_while: (3,), gradient_of_draws: (3,)}
    x = rl.rand(*shapes.get(function, (6, 4))) + 1
    built = check(function, x, folder=tmp_path)
    if function in (nested, gradient_of_draws):
        return  # which has drawn numbers by now
    other = x - 3 if function is branch else x * 0.9
    (found,) = built.run([other])
    for a, b in zip(found, tensors_of(function(other)), strict=True):
        assert_close(a, b)
    assert built.name == function.__name__


def test_an_error_inside_of_a_loop_ends_the_run(tmp_path: Path) -> None:
    table = rl.arange(5.0)

    def function(index: Tensor) -> Tensor:
        return rl.scan(lambda c, i: (c + table[i], None), rl.tensor(0.0), index)[0]

    built = build(function, rl.tensor([1, 2]), folder=tmp_path, name="f")
    assert float(built.run([np.array([3, 4])])[0][0]) == 7
    with pytest.raises(Failure) as caught:
        built.run([np.array([3, 5])])
    assert caught.value.args[1] == 5
