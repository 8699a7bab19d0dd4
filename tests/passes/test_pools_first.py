"""Pools before sums and relu: the same numbers, and only where nobody else reads them."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.graph.parse import parse
from rushlight.nn import functional as F
from rushlight.passes.pools_first import pools_first


def text_of(function, *args) -> str:
    report = rl.compile(function, fullgraph=True).explain(*args)
    return " | ".join([step.what for step in report.steps])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("stride", [1, 2])
def test_the_same_numbers(bias: bool, stride: int) -> None:
    rl.manual_seed(0)
    convolution = nn.Conv2d(3, 16, 3, bias=bias)

    def network(x):
        return F.max_pool2d(convolution(x).relu(), 3, stride, padding=1)

    x = rl.randn(2, 3, 22, 21)
    x[0, 0, 3, 4] = float("nan")
    x[1, 1, 5, 5] = float("inf")
    with rl.no_grad():
        rl.testing.assert_close(rl.compile(network)(x), network(x), equal_nan=True)
        before, after = text_of(network, x).split("max_pool2d")
        assert "relu" in after
        assert "relu" not in before
        assert ("add" in after) is bias


def test_what_others_read_stays() -> None:
    bias = rl.randn(3)

    def both(x):
        y = (x + bias).relu()
        return F.max_pool2d(y.permute(0, 3, 1, 2), 2), y

    x = rl.randn(2, 8, 6, 3)
    for got, wanted in zip(rl.compile(both)(x), both(x), strict=True):
        assert got.equal(wanted)
    assert "max_pool2d, add" not in text_of(both, x)


def test_numbers_along_the_windows_are_added_first() -> None:
    rows = rl.randn(8, 1)

    def pool(x):
        return F.max_pool2d(x + rows, 2)

    x = rl.randn(2, 3, 8, 6)
    assert rl.compile(pool)(x).equal(pool(x))
    assert "max_pool2d, add" not in text_of(pool, x)


def test_integers_may_overflow() -> None:
    def pool(x):
        return F.max_pool2d(x + 100, 2)

    x = rl.tensor([[[[100, 1], [2, 3]]]], dtype=rl.int8)
    assert rl.compile(pool)(x).equal(pool(x))


def test_a_graph_without_pools_is_the_same() -> None:
    graph = parse("graph(%0: f32[2]):\n  %1: f32[2] = relu(%0)\n  return %1")
    assert str(pools_first(graph)) == str(graph)
