"""Simplification: golden texts of small graphs, and equal results of random ones."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.graph.ir import check, interpret
from rushlight.graph.parse import parse
from rushlight.passes.fold_constants import fold_constants
from rushlight.passes.simplify import simplify
from tests.passes.graphs import Maker, equal, random_graph


def lines(graph) -> list[str]:
    return [line.strip() for line in str(graph).splitlines()[1:]]


@pytest.mark.parametrize("change", [simplify, fold_constants])
@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_compute_the_same(change, seed):
    make, graph = random_graph(seed, 60)
    changed = change(graph)
    check(changed)
    assert equal(interpret(changed, *make.arguments()), interpret(graph, *make.arguments()))
    assert len(changed.nodes()) <= len(graph.nodes()) + 5
    assert str(change(changed)) == str(changed), "a second time changes nothing"
    assert parse(str(changed)) == changed


def test_equal_expressions_are_one():
    make = Maker()
    x, y = make.input(3), make.input(3)
    a, b = [make("exp", make("mul", x, make.constant(2.0))) for _ in range(2)]
    c = make("exp", make("mul", y, make.constant(2.0)))
    graph = simplify(make.graph(make("add", a, b), c))
    assert [n.op.name for n in graph.nodes()].count("exp") == 2


def test_minus_zero_is_another_constant():
    make = Maker()
    x = make.input(2)
    y, z = [make("copysign", x, make.constant(v)) for v in (0.0, -0.0)]
    assert len(set(simplify(make.graph(y, z)).outputs)) == 2


def test_constants_are_computed_and_uniform_ones_stay_numbers():
    make = Maker()
    x = make.input(1000, 1000)
    ones = make("ones", size=(1000, 1000), kind=np.dtype(np.float32))
    two = make("add", ones, make("exp", make.constant(0.0)))
    graph = simplify(make.graph(make("mul", x, make("permute", two, dims=(1, 0)))))
    assert lines(graph) == [
        "%1: f32[] = constant(value=array(float32, [], 2.0))",
        "%2: f32[1000,1000] = mul(%0, %1)",
        "return %2",
    ]


def test_a_uniform_output_is_an_expanded_number():
    make = Maker()
    graph = simplify(make.graph(make("zeros", size=(3, 4), kind=np.dtype(np.int64))))
    assert lines(graph) == [
        "%0: i64[] = constant(value=array(int64, [], 0))",
        "%1: i64[3,4] = expand(%0, size=(3, 4))",
        "return %1",
    ]


def test_large_constants_are_not_computed():
    make = Maker()
    big = make("arange", start=0, step=1, count=100_000, kind=np.dtype(np.int64))
    small = make("arange", start=0, step=1, count=10, kind=np.dtype(np.int64))
    names = [n.op.name for n in simplify(make.graph(big, small)).nodes()]
    assert names == ["arange", "constant"]


def test_errors_of_constants_are_left_to_the_program():
    make = Maker()
    index = make.constant([5], np.int64)
    x = make.constant([1.0, 2.0])
    good = make("index_select", x, make.constant([1], np.int64), dim=0)
    bad = type(good)(good.op, (x, index), good.attrs, good.type)
    graph = simplify(make.graph(bad))
    assert graph.outputs[0].op.name == "index_select"
    with pytest.raises(IndexError):
        interpret(graph, [])


def test_gradients_that_are_expanded_sums_become_products():
    make = Maker()
    x = make.input(4, 6)
    g = make("expand", make.constant(1.0), size=(4, 6))
    mean = make("mul", g, make.constant(0.5))
    total = make("sum", mean, dim=(0,), keepdim=False)
    graph = simplify(make.graph(make("mul", x, mean), total))
    assert [n.op.name for n in graph.nodes()] == ["input", "constant", "mul", "constant", "expand"]


def test_elementwise_work_is_not_repeated():
    make = Maker()
    x, y = make.input(4, 1), make.input(4, 6)
    wide = make("expand", x, size=(4, 6))
    graph = simplify(make.graph(make("add", make("exp", wide), y)))
    assert lines(graph)[0] == "%2: f32[4,1] = exp(%0)"
