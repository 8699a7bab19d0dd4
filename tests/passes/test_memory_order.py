"""Leaves in the order of memory: nothing is copied, and results are those of dynamic mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.graph.ir import interpret
from rushlight.nn import functional as F
from rushlight.passes.memory_order import in_memory_order
from rushlight.runtime.executable import Binding

LAYOUTS: dict[str, Callable[[rl.Tensor], rl.Tensor]] = {
    "channels last": lambda x: x.to(memory_format=rl.channels_last),
    "transposed": lambda x: x.mT.contiguous().mT,
    "turned around": lambda x: x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
    "one in two": lambda x: x.repeat_interleave(2, 3)[..., ::2],
    "contiguous": lambda x: x,
}


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arrays that were copied at the border of programs."""
    found: list[Any] = []
    straight = Binding.straight

    def noted(self: Binding, slot: int, array: np.ndarray) -> np.ndarray:
        found.append(array.strides)
        return straight(self, slot, array)

    monkeypatch.setattr(Binding, "straight", noted)
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arguments_are_taken_as_they_lie(layout: str, copies: list[Any]) -> None:
    rl.manual_seed(0)
    x, w = LAYOUTS[layout](rl.randn(2, 4, 6, 6)), LAYOUTS[layout](rl.randn(8, 4, 3, 3))

    def function(x: rl.Tensor) -> rl.Tensor:
        return F.conv2d(x, w, padding=1).relu() + x.sum(1, keepdim=True)

    compiled = rl.compile(function, fullgraph=True)
    for _ in range(2):
        rl.testing.assert_close(compiled(x), function(x))
        assert compiled(x).stride() == function(x).stride()
    assert bool(copies) is (layout == "one in two")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_written_lies_where_it_was(layout: str, copies: list[Any]) -> None:
    rl.manual_seed(0)
    start = rl.randn(3, 2, 4, 5)
    x, state = LAYOUTS[layout](start.clone()), LAYOUTS[layout](start.clone())
    strides = x.stride(), state.stride()

    def function(x: rl.Tensor) -> rl.Tensor:
        x.mul_(2)
        state.add_(x.sin())
        return state.sum()

    total = rl.compile(function, fullgraph=True)(x)
    assert (x.stride(), state.stride()) == strides
    rl.testing.assert_close(x, 2 * start)
    rl.testing.assert_close(state, start + (2 * start).sin())
    rl.testing.assert_close(total, state.sum())
    assert bool(copies) is (layout == "one in two")


def test_gradients_of_channels_last_need_no_copies(copies: list[Any]) -> None:
    rl.manual_seed(0)
    x = rl.randn(2, 4, 6, 6).to(memory_format=rl.channels_last).requires_grad_()
    net = rl.nn.Conv2d(4, 8, 3, padding=1).to(memory_format=rl.channels_last)
    expected = rl.autograd.grad(net(x).square().sum(), [x, net.weight])
    compiled = rl.compile(net, fullgraph=True)
    for _ in range(2):
        found = rl.autograd.grad(compiled(x).square().sum(), [x, net.weight])
        rl.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert copies == []


def test_a_layout_that_changes_is_copied(copies: list[Any]) -> None:
    net = rl.nn.Conv2d(4, 8, 3).to(memory_format=rl.channels_last)
    x = rl.randn(2, 4, 6, 6)
    compiled = rl.compile(net, fullgraph=True)
    with rl.no_grad():
        rl.testing.assert_close(compiled(x), net(x))
        net.weight.data = net.weight.data.contiguous()
        rl.testing.assert_close(compiled(x), net(x))


def test_sizes_that_change() -> None:
    compiled = rl.compile(lambda x: (x * 2).sum(1), fullgraph=True)
    for n in (3, 4, 5, 1, 0):
        x = rl.arange(24.0 * n).reshape(n, 2, 3, 4).to(memory_format=rl.channels_last)
        rl.testing.assert_close(compiled(x), (x * 2).sum(1))


def test_the_graph_is_the_same_function() -> None:
    def function(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        return x @ y + x.sum()

    graph = rl.graph(function, rl.ones(3, 4), rl.ones(4, 2))
    turned = in_memory_order(graph, {graph.inputs[0]: (1, 0)})
    x, y = np.arange(12.0, dtype=np.float32).reshape(3, 4), np.ones((4, 2), np.float32)
    (expected,), _ = interpret(graph, [x, y])
    (found,), _ = interpret(turned, [x.T, y])
    np.testing.assert_array_equal(found, expected)
    assert in_memory_order(graph, {}) is graph
