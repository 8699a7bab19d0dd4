"""What is left of a budget goes to those who come later."""

from __future__ import annotations

import math

import pytest

from benchmarks import budget
from benchmarks.budget import Budget


def test_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(budget.time, "perf_counter", lambda: now[0])
    some = Budget(600.0, count=10)
    assert (some.left, some.share, some.limit) == (600.0, 60.0, 300.0)
    assert str(some) == "1 of 10, about 10 min left"
    now[0] += 15
    some.done += 1
    assert (some.left, some.share, some.limit) == (585.0, 65.0, 325.0)
    now[0] += 600
    assert (some.left, some.share, some.limit) == (0.0, 0.0, budget.LEAST)


def test_without_an_end() -> None:
    assert Budget().share == math.inf
    assert str(Budget()) == "1 of 1"
