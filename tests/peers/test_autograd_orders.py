"""Random smooth functions in PyTorch and here: derivatives of the first, second and third order."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def expression(source: random.Random) -> list[str]:
    """Lines that make ``t[3]``, ``t[4]``, … of three leaves of the shapes 2×3, 3 and none."""
    lines = []
    shapes: list[tuple[int, ...]] = [(2, 3), (3,), ()]

    def add(line: str, shape: tuple[int, ...]) -> None:
        lines.append(line)
        shapes.append(shape)

    while len(lines) < 10:
        i, j = (max(source.randrange(len(shapes)) for _ in range(2)) for _ in range(2))
        a, b = f"t[{i}]", f"t[{j}]"
        kind = source.randrange(5)
        if kind == 0:
            unary = ["sin()", "tanh()", "exp().tanh()", "sigmoid()", "square().add(1).log()"]
            add(f"{a}.{source.choice(unary)}", shapes[i])
        elif kind == 1:
            try:
                shape = np.broadcast_shapes(shapes[i], shapes[j])
            except ValueError:
                continue
            if len(shape) < 4:
                form = source.choice([f"{a} * {b}", f"{a} + {b}", f"{a} / (2 + {b} * {b})"])
                add(f"({form}).tanh()", shape)
        elif kind == 2 and shapes[i]:
            name = source.choice(["sum", "mean", "logsumexp"])
            add(f"{a}.{name}(-1)", shapes[i][:-1])
        elif kind == 3 and len(shapes[i]) == 2:
            form = source.choice(["{a} @ {a}.t()", "({a} @ {a}.t()).tanh()"]).format(a=a)
            add(form, (shapes[i][0], shapes[i][0]))
        elif kind == 4 and shapes[i]:
            form = source.choice(["[..., 1:]", "[..., :-1]", ".flip(-1)", ".unsqueeze(0)"])
            shape = {".flip(-1)": shapes[i], ".unsqueeze(0)": (1, *shapes[i])}
            short = (*shapes[i][:-1], max(shapes[i][-1] - 1, 0))
            add(f"{a}{form}", shape.get(form, short))
        if len(shapes[-1]) > 3 or 0 in shapes[-1]:
            lines.pop()
            shapes.pop()
    return lines


def derivatives(lib: Any, lines: list[str], leaves: list[np.ndarray]) -> list[list[np.ndarray]]:
    t = [lib.tensor(array, requires_grad=True) for array in leaves]
    for line in lines:
        t.append(eval(line, {"t": t}))
    inputs = t[:3]
    value = sum((part * part).sum() for part in t[-4:])
    orders = []
    for order in range(3):
        grads = lib.autograd.grad(
            value, inputs, create_graph=order < 2, allow_unused=True, materialize_grads=True
        )
        orders.append([g.detach().numpy() for g in grads])
        value = sum((g * g).sum() for g in grads)
        if not value.requires_grad:
            break
    return orders


@pytest.mark.parametrize("seed", range(80))
def test_three_orders_agree(seed: int) -> None:
    source = random.Random(seed)
    numbers = np.random.default_rng(seed)
    leaves = [numbers.uniform(-1, 1, shape) for shape in [(2, 3), (3,), ()]]
    lines = expression(source)
    expected = derivatives(torch, lines, leaves)
    got = derivatives(rl, lines, leaves)
    assert len(got) == len(expected), lines
    for order, (a, b) in enumerate(zip(expected, got, strict=True)):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_allclose(y, x, 1e-7, 1e-9, err_msg=f"order {order + 1}: {lines}")
