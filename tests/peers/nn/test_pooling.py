"""Pooling against PyTorch: random windows over values with ties, NaN and infinities."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F

torch = pytest.importorskip("torch")


def planes(choose: random.Random, rank: int, odd_values: bool) -> np.ndarray:
    """Planes of few different values, so that many are equal; perhaps NaN and −inf among them."""
    draw = np.random.default_rng(choose.randrange(1 << 30))
    shape = (2, 3, *[choose.randint(1, 6 if rank == 3 else 11) for _ in range(rank)])
    x = draw.integers(-3, 4, shape).astype(np.float32)
    for value in (np.nan, -np.inf) if odd_values else ():
        if choose.random() < 0.5:
            x[draw.random(shape) < 0.2] = value
    return x.swapaxes(0, 1).copy().swapaxes(0, 1) if choose.random() < 0.3 else x


def both(name: str, x: np.ndarray, *args: Any, **options: Any) -> tuple[list, list] | None:
    """Results and input gradient of a function in both libraries; None if both refuse."""
    answers = []
    for lib, function in ((torch, getattr(torch.nn.functional, name)), (rl, getattr(F, name))):
        t = lib.tensor(x).requires_grad_()
        try:
            results = function(t, *args, **options)
        except RuntimeError:
            answers.append(None)
            continue
        results = results if isinstance(results, tuple) else (results,)
        weight = np.random.default_rng(0).standard_normal(tuple(results[0].shape))
        (g,) = lib.autograd.grad(results[0], t, lib.tensor(weight.astype(x.dtype)))
        answers.append([r.detach().numpy() for r in (*results, g)])
    theirs, mine = answers
    assert (theirs is None) == (mine is None), (name, x.shape, args, options)
    return None if theirs is None or mine is None else (theirs, mine)


def agree(theirs: list[np.ndarray], mine: list[np.ndarray], what: Any) -> None:
    for a, b in zip(theirs, mine, strict=True):
        assert a.dtype == b.dtype, what
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5, err_msg=str(what))


@pytest.mark.parametrize("seed", range(8))
def test_max_pooling(seed: int) -> None:
    choose, compared = random.Random(seed), 0
    for _ in range(40):
        rank = choose.randint(1, 3)
        x = planes(choose, rank, odd_values=True)
        size = [choose.randint(1, 8 if rank < 3 else 4) for _ in range(rank)]
        stride = [choose.randint(1, 4) for _ in range(rank)]
        padding = [choose.randint(0, k // 2) for k in size]
        # PyTorch's place of a dilated window that lies in the padding is outside the plane.
        dilation = [choose.choice((1, 1, 2)) if not p else 1 for p in padding]
        what = size, stride, padding, dilation, choose.random() < 0.5
        found = both(f"max_pool{rank}d", x, *what, return_indices=True)
        if found is not None:
            compared += 1
            agree(*found, what)
    assert compared > 10


@pytest.mark.parametrize("seed", range(8))
def test_average_pooling(seed: int) -> None:
    choose, compared = random.Random(seed), 0
    for _ in range(40):
        rank = choose.randint(1, 3)
        x = planes(choose, rank, odd_values=False)
        size = [choose.randint(1, min(n, 6)) for n in x.shape[2:]]
        stride = [choose.randint(1, 4) for _ in range(rank)]
        padding = [choose.randint(0, k // 2) for k in size]
        what = [size, stride, padding, choose.random() < 0.5, choose.random() < 0.5]
        if rank > 1:
            what.append(choose.choice((None, 3)))
        found = both(f"avg_pool{rank}d", x, *what)
        if found is not None:
            compared += 1
            agree(*found, what)
    assert compared > 10


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_adaptive_pooling(kind: str, rank: int) -> None:
    choose = random.Random(rank)
    for _ in range(40):
        x = planes(choose, rank, odd_values=kind == "max")
        size = [choose.randint(1, 9) for _ in range(rank)]
        options = {"return_indices": True} if kind == "max" else {}
        found = both(f"adaptive_{kind}_pool{rank}d", x, size, **options)
        assert found is not None
        agree(*found, (x.shape, size))


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("p", [1, 2, 3.0, float("inf"), float("-inf")])
def test_power_average_pooling(rank: int, p: float) -> None:
    x = np.abs(planes(random.Random(rank), rank, odd_values=False)) + 0.5
    for size, stride, ceil_mode in ((1, None, False), (2, 1, True), (2, None, True)):
        found = both(f"lp_pool{rank}d", x, p, size, stride, ceil_mode)
        if found is not None:
            agree(*found, (size, stride, ceil_mode))


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_pooling_draws_what_pytorch_draws(rank: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 9, 8, 7)[: rank + 2]).astype(np.float32)
    torch.manual_seed(5)
    rl.manual_seed(5)
    found = both(f"fractional_max_pool{rank}d", x, 2, 4, return_indices=True)
    assert found is not None
    agree(*found, rank)


@pytest.mark.parametrize("function", ["max_pool2d", "avg_pool2d"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64", "uint8"])
def test_dtypes(function: str, dtype: str) -> None:
    values = np.random.default_rng(0).integers(0, 50, (1, 2, 6, 6))
    a = torch.tensor(values).to(getattr(torch, dtype))
    b = rl.tensor(values).to(getattr(rl, dtype))
    try:
        expected = getattr(torch.nn.functional, function)(a, 3, 2, 1)
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            getattr(F, function)(b, 3, 2, 1)
        return
    y = getattr(F, function)(b, 3, 2, 1)
    assert y.dtype is b.dtype
    np.testing.assert_allclose(y.double().numpy(), expected.double().numpy(), rtol=8e-3)
