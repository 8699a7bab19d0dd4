"""Variances by blocks are those of all elements, in precision and in what they do with NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.graph.ir import INPUT, Graph, Node, TensorType, check, interpret
from rushlight.ops.base import registry
from rushlight.passes.blocks import MOST_BLOCKS, NEAR, blocks_of, by_blocks
from tests.passes.graphs import Maker


def graph_of(*shape: int, dtype: Any = np.float32, **attrs: Any) -> tuple[Maker, Graph]:
    make = Maker(dtype=dtype)
    chosen = {"dim": (0, 1), "keepdim": False, "correction": 0} | attrs
    both = make("var_mean", make.input(*shape), **chosen)
    outputs = make.item(both, 0), make.item(both, 1)
    return make, Graph(tuple(make.inputs), (), outputs)


def ops(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes()]


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("shape", [(8, 500, 32), (2, 3 * 17 * 53, 24)])
def test_the_same_numbers(shape: tuple[int, ...], offset: float, keepdim: bool) -> None:
    """Also of numbers that are far from 0, of which squares would lose all digits."""
    make, graph = graph_of(*shape, keepdim=keepdim)
    found = by_blocks(graph)
    check(found)
    assert ops(found).count("var_mean") == 2
    x = make.values[graph.inputs[0]] + np.float32(offset)
    (variance, mean), _ = interpret(found, [x])
    exact = x.astype(np.float64)
    assert variance.shape == graph.outputs[0].type.shape
    exact_variance = exact.var((0, 1), keepdims=keepdim)
    np.testing.assert_allclose(mean, exact.mean((0, 1), keepdims=keepdim), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance, exact_variance, rtol=1e-5)


def test_numbers_that_are_none() -> None:
    make, graph = graph_of(8, 500, 32)
    x = make.values[graph.inputs[0]]
    x[3, 7, 1], x[3, 7, 2], x[0, 0, 3] = np.nan, np.inf, -np.inf
    before, after = interpret(graph, [x])[0], interpret(by_blocks(graph), [x])[0]
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "attrs"),
    [
        ((8, 500, 32), {"dim": (1, 2)}),
        ((8, 500, 32), {"dim": None}),
        ((8, 500, 32), {"correction": 1}),
        ((8, 500, 32), {"dtype": np.float16}),
        ((2, 5, 32), {}),
        ((1, 7919, 32), {}),
    ],
    ids=["rows", "all", "correction", "half", "few", "prime"],
)
def test_what_stays(shape: tuple[int, ...], attrs: dict[str, Any]) -> None:
    _, graph = graph_of(*shape, **attrs)
    assert by_blocks(graph) is graph or ops(by_blocks(graph)) == ops(graph)


@pytest.mark.parametrize("rows", [4096, 6272, 25088, 100352, 99991 * 2, 2**21])
@pytest.mark.parametrize("channels", [3, 64, 512])
def test_blocks_are_even_and_few(rows: int, channels: int) -> None:
    x = Node(INPUT, (), {}, TensorType((1, rows, channels), rl.float32))
    kind = TensorType((channels,), rl.float32)
    attrs = {"dim": (0, 1), "keepdim": False, "correction": 0}
    both = Node(registry["var_mean"], (x,), attrs, (kind, kind))
    count = blocks_of(both)
    assert rows % count == 0
    assert count <= MOST_BLOCKS
    assert count == 1 or rows // count * channels > NEAR - channels


def test_batch_norm_of_images_goes_by_blocks() -> None:
    rl.manual_seed(0)
    norm, x = rl.nn.BatchNorm2d(16), rl.randn(4, 16, 40, 40)
    compiled = rl.compile(norm, fullgraph=True)
    x.requires_grad_()
    weight = rl.randn(4, 16, 40, 40)
    found = []
    for f in (norm, compiled):
        norm.reset_running_stats()
        x.grad = norm.weight.grad = None
        y = f(x)
        (y * weight).sum().backward()
        found.append([y.detach(), x.grad, norm.weight.grad, norm.running_var.clone()])
    for a, b in zip(*found, strict=True):
        rl.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
