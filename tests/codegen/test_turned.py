"""Squares of elements that are turned in registers: all sizes, kinds and borders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen import loops
from rushlight.passes.pipeline import lower
from tests.codegen.kernels import Graph, check


def numbers(kind: Any, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-99, 99, shape).astype(kind)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32, np.int64, np.int8, np.bool_])
@pytest.mark.parametrize("shape", [(2, 16, 16), (3, 33, 50), (1, 100, 47), (40, 20, 17)])
def test_transposed(kind: Any, shape: tuple[int, ...]) -> None:
    g = Graph()
    x, y = g.input(numbers(kind, *shape)), g.input(numbers(kind, shape[0], shape[2], shape[1]))
    turned = g("permute", x, dims=(0, 2, 1))
    check(g, g("maximum", turned, y))


@pytest.mark.parametrize("shape", [(20, 30), (200, 17)])
def test_a_matrix_by_itself(shape: tuple[int, ...]) -> None:
    g = Graph()
    x = g.input(numbers(np.float32, *shape))
    check(g, g("mul", g("permute", x, dims=(1, 0)), g.constant(0.5)))


@pytest.mark.parametrize("pads", [(0, 0, 1, 1, 2, 0), (0, 0, 3, 0, 0, 1), (0, 0, 0, 0, -1, 5)])
def test_borders(pads: tuple[int, ...]) -> None:
    x = rl.randn(4, 33, 20, 21)

    def padded(x: rl.Tensor) -> rl.Tensor:
        return rl.nn.functional.pad(x.permute(0, 2, 3, 1), pads)

    assert rl.compile(padded)(x).equal(padded(x).contiguous())


def test_parts_are_enough_for_threads() -> None:
    for shape in ((64, 4096), (4096, 64), (4096, 4096)):
        _, plan = lower(rl.graph(lambda x: x.T + 1, rl.ones(shape)))
        (kernel,) = loops.lower(plan.steps[0])
        assert kernel.across is not None
        assert kernel.count >= 8
