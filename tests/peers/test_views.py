"""Random programs of views and writes: the same gradients as in PyTorch, at two orders."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

View = Callable[[Any], Any]


def views(choose: random.Random, shape: tuple[int, ...]) -> tuple[View, View]:
    """A view as PyTorch and as we make it; of several pieces PyTorch allows no writes."""
    d = choose.randrange(len(shape)) if shape else 0
    other = choose.randrange(len(shape)) if shape else 0
    options: list[tuple[View, View]] = [
        (lambda t: t.view(t.shape),) * 2,
        (lambda t: t.squeeze(),) * 2,
        (lambda t: t.unsqueeze(-1),) * 2,
    ]
    if shape:
        n = shape[d]
        i = choose.randrange(n)
        order = choose.sample(range(len(shape)), len(shape))
        half = (n + 1) // 2
        options += [
            (lambda t: t.transpose(d, other),) * 2,
            (lambda t: t.permute(order),) * 2,
            (lambda t: t.movedim(d, other),) * 2,
            (lambda t: t.select(d, i),) * 2,
            (lambda t: t.narrow(d, i, n - i),) * 2,
            (lambda t: t.select(d, i), lambda t: t.unbind(d)[i]),
            (lambda t: t.narrow(d, i, 1), lambda t: t.split(1, d)[i]),
            (lambda t: t.narrow(d, 0, half), lambda t: t.tensor_split(2, d)[0]),
            (lambda t: t.narrow(d, 0, half), lambda t: t.chunk(2, d)[0]),
        ]
        if d != other:
            options.append((lambda t: t.diagonal(0, d, other),) * 2)
    return choose.choice(options)


def program(seed: int) -> tuple[Any, Any]:
    """The leaves and results (PyTorch's, ours) of one random program."""
    choose = random.Random(seed)
    shape = tuple(choose.choices([1, 2, 3], k=choose.randrange(1, 4)))
    values = np.random.default_rng(seed).standard_normal(shape)
    leaves = torch.tensor(values, requires_grad=True), rl.tensor(values, requires_grad=True)
    pairs = [tuple(x * 2 for x in leaves)]
    for _ in range(choose.randrange(1, 7)):
        pair, action = choose.choice(pairs), choose.randrange(4)
        if action < 2:
            looks = views(choose, tuple(pair[0].shape))
            pairs.append(tuple(look(t) for look, t in zip(looks, pair, strict=True)))
        for t in pair:
            if action == 2:
                t.mul_(0.5)
            elif action == 3:
                t.add_(t.clone().sin())
    totals = [sum((t * t.cos()).sum() for t in ts) for ts in zip(*pairs, strict=True)]
    return leaves, totals


@pytest.mark.slow
@pytest.mark.parametrize("block", range(300, 6000, 300))
def test_many_random_views_and_writes(block: int) -> None:
    for seed in range(block, block + 300):
        check_program(seed)


@pytest.mark.parametrize("seed", range(300))
def test_random_views_and_writes(seed: int) -> None:
    check_program(seed)


def check_program(seed: int) -> None:
    (theirs, ours), totals = program(seed)
    (a,) = torch.autograd.grad(totals[0], theirs, create_graph=True)
    (b,) = rl.autograd.grad(totals[1], ours, create_graph=True)
    np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-9, atol=1e-9)
    (a,) = torch.autograd.grad((a * a).sum(), theirs)
    (b,) = rl.autograd.grad((b * b).sum(), ours)
    np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-9, atol=1e-9)
