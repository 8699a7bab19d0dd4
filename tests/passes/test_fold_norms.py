"""Norms are folded into products only where that is right, and then give the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rushlight.graph.ir import Graph, check, interpret
from rushlight.passes.early import still_nodes
from rushlight.passes.fold_norms import fold_norms
from tests.passes.graphs import Maker


class Layer:
    """A product with a bias and a norm, made by hand."""

    def __init__(self, kind: str, biased: bool = True, dtype: Any = np.float32) -> None:
        self.make = make = Maker(dtype=dtype)
        if kind == "linear":
            x, w = make.input(5, 7), make.capture(6, 7)
            self.product = y = make("mm", x, make("permute", w, dims=(1, 0)))
        elif kind == "groups":
            x, w = make.input(2, 5, 3, 2, 4), make.capture(2, 3, 4, 3)
            letters = ("nphgc", "goch", "npgo")
            self.product = make("contract", x, w, letters=letters, tile=0)
            y = make("view", self.product, shape=(2, 5, 6))
        else:
            x, w = make.input(2, 5, 3, 4), make.capture(6, 4, 3)
            self.product = y = make("contract", x, w, letters=("nphc", "och", "npo"), tile=0)
        if biased:
            y = make("add", y, make.capture(6))
        shift, scale = make.capture(6), make.capture(6)
        ones = (1,) * (len(y.type.shape) - 1)
        shift, scale = [make("view", v, shape=(*ones, 6)) for v in (shift, scale)]
        self.biased, self.norm = y, make("addcmul", shift, y, scale, value=1)

    def graph(self, *outputs: Any) -> Graph:
        found = outputs or (self.norm,)
        return Graph(tuple(self.make.inputs), tuple(self.make.captured), found)

    def folded(self, *outputs: Any, still: int = 4) -> Graph:
        """The graph after the pass, for the first ``still`` captured values."""
        graph = self.graph(*outputs)
        result = fold_norms(graph, still_nodes(graph, graph.captured[:still]))
        check(result)
        values = [[self.make.values[n] for n in side] for side in (graph.inputs, graph.captured)]
        for before, after in zip(
            interpret(graph, *values), interpret(result, *values), strict=True
        ):
            for a, b in zip(before, after, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
        return result


def ops(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes()]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("kind", ["linear", "convolution", "groups"])
def test_a_norm_is_a_sum_with_a_product(kind: str, biased: bool) -> None:
    layer = Layer(kind, biased)
    (y,) = layer.folded().outputs
    assert y.op.name == "add"
    assert ops(layer.folded()).count("mul") == 1


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_half_types_would_be_rounded_once_more(dtype: Any) -> None:
    (y,) = Layer("convolution", dtype=dtype).folded().outputs
    assert (y.op.name == "add") is (dtype is np.float64)


@pytest.mark.parametrize("kind", ["linear", "convolution", "groups"])
def test_a_product_that_others_read_stays(kind: str) -> None:
    layer = Layer(kind)
    for other in (layer.product, layer.biased):
        assert layer.folded(layer.norm, other).outputs[0] is layer.norm


@pytest.mark.parametrize("still", range(4))
def test_all_must_be_the_same_at_every_call(still: int) -> None:
    layer = Layer("convolution")
    assert layer.folded(still=still).outputs == (layer.norm,)


def test_a_multiple_of_the_product_stays() -> None:
    layer = Layer("convolution")
    shift, y, scale = layer.norm.inputs
    twice = layer.make("addcmul", shift, y, scale, value=2)
    assert layer.folded(twice).outputs == (twice,)


def test_a_scale_of_places_stays() -> None:
    layer = Layer("convolution")
    shift, y, _ = layer.norm.inputs
    places = layer.make("view", layer.make.capture(5), shape=(1, 5, 1))
    norm = layer.make("addcmul", shift, y, places, value=1)
    assert layer.folded(norm, still=5).outputs == (norm,)
