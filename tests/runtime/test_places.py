"""Products that are made where a result of another shape is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl

rl.manual_seed(0)
X, W = rl.randn(3, 20, 24), rl.randn(24, 40)


def product(x: rl.Tensor) -> rl.Tensor:
    return x.reshape(60, 24) @ W


@pytest.mark.parametrize(
    ("function", "views"),
    [
        (lambda x: product(x).view(3, 20, 40), 0),
        (lambda x: product(x).view(3, 4, 5, 40), 0),
        (lambda x: product(x).view(3, 20, 40).sort()[0], 0),
        (lambda x: (product(x), product(x).view(3, 20, 40)), 1),
        (lambda x: (product(x).view(3, 20, 40), product(x).view(4, 600)), 1),
        (lambda x: product(x).view(3, 20, 40).relu(), 1),
    ],
    ids=["output", "four", "call", "both", "twice", "more"],
)
def test_shapes_cost_nothing(function: Callable[..., Any], views: int) -> None:
    compiled = rl.compile(function, fullgraph=True)
    found, wanted = compiled(X), function(X)
    several = found if isinstance(found, tuple) else (found,)
    for a, b in zip(several, wanted if isinstance(found, tuple) else (wanted,), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)
    assert len({a.data_ptr() for a in several}) == len(several)
    steps = [step for step in compiled.explain(X).steps if not step.early]
    assert sum(["view" in step.what or "relu" in step.what for step in steps]) <= views


def test_what_is_made_is_given_away() -> None:
    compiled = rl.compile(lambda x: product(x).view(3, 20, 40), fullgraph=True)
    first = compiled(X)
    before = first.clone()
    compiled(X * 2)
    assert rl.equal(first, before)
