"""Random numbers in C: those of dynamic mode, bit for bit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from tests.c.building import Failure, build, tensors_of


def draws() -> Any:
    return (
        rl.rand(7), rl.randn(5), rl.randn(100), rl.randint(0, 10, (9,)), rl.randperm(20),
        rl.empty(30).exponential_(2.0), rl.empty(3, 4).t().uniform_(-1, 2),
        rl.bernoulli(rl.full((6,), 0.3)), rl.empty(5).normal_(1, 3), rl.rand(4, dtype=rl.float64),
        rl.randn(33, dtype=rl.float64), rl.empty(5).cauchy_(), rl.empty(5).log_normal_(),
        rl.empty(8).geometric_(0.3), rl.rand(700), rl.randint(-(2**40), 2**40, (5,)),
        rl.nn.functional.dropout(rl.ones(20), 0.4), rl.randn(16, 5).t().contiguous(),
    )  # fmt: skip


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_draws_are_the_same(tmp_path: Path) -> None:
    rl.manual_seed(3)
    state = rl.get_rng_state()
    built = build(draws, folder=tmp_path)
    found = built.run([], [])
    rl.set_rng_state(state)
    for call in found:
        for a, b in zip(call, tensors_of(draws()), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_a_chance_must_be_one(tmp_path: Path) -> None:
    built = build(lambda p: rl.bernoulli(p), rl.full((3,), 0.5), folder=tmp_path, name="f")
    with pytest.raises(Failure, match="p_in"):
        built.run([rl.full((3,), 1.5)])
