"""Profiles of programs that multiply tensors with numbers of Python's."""

from __future__ import annotations

import pytest

import rushlight as rl

LOSSES = {
    "times": lambda x: (x * 2).sum(),
    "divided": lambda x: (x / 4).sum(),
    "clamped": lambda x: x.clamp(min=0.5).sum(),
    "powers": lambda x: (0.5 * x.pow(2)).sum() + 1e-4 * x.square().sum(),
    "in place": lambda x: (x + 0).mul_(2).sum(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_backward_of_numbers_is_profiled(name):
    x = rl.ones(3, requires_grad=True)
    with rl.profile() as p:
        LOSSES[name](x).backward()
    assert "backward" in str(p)
    assert x.grad.shape == (3,)
