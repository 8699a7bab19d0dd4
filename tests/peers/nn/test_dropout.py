"""Dropout in PyTorch and here: one seed drops the same elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.scenarios import compare

pytest.importorskip("torch")

CASES = [
    ("dropout", (5, 7)),
    ("dropout", (100, 90)),
    ("alpha_dropout", (40, 30)),
    ("dropout1d", (4, 5)),
    ("dropout1d", (2, 4, 5)),
    ("dropout2d", (3, 5, 4, 4)),
    ("dropout2d", (3, 5, 4)),
    ("dropout3d", (3, 5, 4, 4)),
    ("dropout3d", (2, 3, 5, 4, 4)),
    ("feature_alpha_dropout", (4, 6, 3)),
]


@pytest.mark.parametrize(("name", "shape"), CASES)
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("inplace", [False, True])
def test_the_same_elements_are_dropped(
    name: str, shape: tuple[int, ...], p: float, inplace: bool
) -> None:
    def body(lib: Any) -> Iterator[Any]:
        lib.manual_seed(3)
        x = lib.randn(shape, requires_grad=True)
        y = getattr(lib.nn.functional, name)(x * 1, p, True, inplace)
        yield y
        (y * y).sum().backward()
        yield x.grad
        yield lib.rand(3)

    compare(body)


def test_elements_are_dropped_in_the_order_of_memory() -> None:
    def body(lib: Any) -> Iterator[Any]:
        lib.manual_seed(3)
        for dtype in (lib.float32, lib.float64, lib.bfloat16):
            x = lib.ones(4, 6, dtype=dtype).t()
            yield lib.nn.functional.dropout(x, 0.4).float()

    compare(body)


def test_a_network_trains_the_same() -> None:
    def body(lib: Any) -> Iterator[Any]:
        nn = lib.nn
        lib.manual_seed(0)
        net = nn.Sequential(
            *(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(inplace=True), nn.Dropout(0.3)),
            *(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 2)),
        )
        x, y = lib.randn(32, 8), lib.randn(32, 2)
        for _ in range(8):
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            with lib.no_grad():
                for parameter in net.parameters():
                    parameter -= 0.05 * parameter.grad
                    parameter.grad = None
            yield loss
        yield net.eval()(x)
        yield repr(net)

    compare(body, rtol=1e-4, atol=1e-6)
