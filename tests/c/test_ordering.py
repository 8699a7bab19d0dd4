"""Sorting, searching and order statistics in C."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import Tensor
from tests.c.building import check

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")


def orders(x: Tensor, n: Tensor) -> Any:
    return (
        *x.sort(1), *x.sort(0, descending=True), *x.t().sort(), *n.sort(-1), *x.topk(3),
        *x.half().topk(2, 0), *x.median(1), x.nanmedian(), *x.nanmedian(0), *x.kthvalue(2),
        *n.mode(1), *x.cummax(0), *x.cummin(1), x.logcumsumexp(1), x.quantile(0.3, 1),
        rl.searchsorted(x[0].sort()[0], x), rl.searchsorted(n.sort(1)[0], n, right=True),
        rl.isin(n, rl.tensor([1, 3])), rl.gcd(n, rl.tensor(6)), rl.lcm(n, n + 1), x.argsort(),
        x.masked_scatter(x > 0, rl.arange(40.0)), x.bfloat16().sort(1)[1],
    )  # fmt: skip


def test_orders(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x = random.integers(-4, 5, (5, 8)).astype(np.float32)
    x[1, 2] = x[1, 5] = x[3, 0] = np.nan
    x[2, 2], x[4, 4] = np.inf, -np.inf
    check(orders, rl.tensor(x), rl.tensor(random.integers(-6, 7, (5, 8))), folder=tmp_path)


def test_views_are_copied_inside_of_loops_too(tmp_path: Path) -> None:
    def function(x: Tensor) -> Any:
        return rl.scan(
            lambda c, row: (c + row.t().sort(1)[0], row.t().cummax(0)[1]), rl.zeros(3, 2), x
        )

    rl.manual_seed(0)
    check(function, rl.randn(4, 2, 3), folder=tmp_path)
