"""Fusion: what becomes one group, and that every graph still computes the same."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.graph.ir import ITEM, Graph, Node, interpret
from rushlight.passes.clusters import HEAVY, folded_dims, is_leaf, weight
from rushlight.passes.fuse import Call, Group, fuse
from rushlight.passes.order import plan
from rushlight.passes.simplify import simplify
from tests.passes.graphs import Maker, equal, execute, random_graph


def shown(graph: Graph) -> list[str]:
    return [str(step) for step in fuse(graph)]


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("simplified", [False, True])
def test_random_graphs_compute_the_same(seed, simplified):
    make, graph = random_graph(seed, 25 + seed % 40)
    expected = interpret(graph, *make.arguments())
    if simplified:
        graph = simplify(graph)
        assert equal(interpret(graph, *make.arguments()), expected)
    steps = plan(graph)
    check_steps(graph, steps.steps)
    assert equal(execute(graph, steps, *make.arguments()), expected)


@pytest.mark.slow
def test_many_random_graphs_compute_the_same():
    for seed in range(1000, 3000):
        make, graph = random_graph(seed, 20 + seed % 60, np.float64)
        expected = interpret(graph, *make.arguments())
        graph = simplify(graph)
        steps = plan(graph)
        check_steps(graph, steps.steps)
        assert equal(execute(graph, steps, *make.arguments()), expected), seed


def check_steps(graph: Graph, steps) -> None:
    """Every node is in a step, dear ones in one only; outputs lie in the spaces of their group."""
    count: dict[Node, int] = {}
    for step in steps:
        for node in step.nodes:
            count[node] = count.get(node, 0) + 1
        if isinstance(step, Group):
            check_group(step)
    called = {step.node for step in steps if isinstance(step, Call)}
    for node in graph.nodes():
        if not is_leaf(node) and not (node.op is ITEM and node.inputs[0] in called):
            assert node in count, node
            dear = folded_dims(node) or weight(node) >= HEAVY
            assert count[node] == 1 or not dear, f"{node} is computed {count[node]} times"


def check_group(group: Group) -> None:
    assert group.outputs
    assert set(group.outputs) <= set(group.nodes)
    assert len(set(group.nodes)) == len(group.nodes)
    folds = [n for n in group.nodes if folded_dims(n)]
    sizes = {n.type.size for n in group.outputs}
    if not folds:
        assert len(sizes) == 1, group
        return
    spaces = {(n.inputs[0].type.size, rows(n)) for n in folds}
    assert len(spaces) == 1, group
    assert sizes <= set(spaces.pop()), group


def rows(node: Node) -> int:
    shape = node.inputs[0].type.shape
    return int(np.prod([n for d, n in enumerate(shape) if d not in folded_dims(node)]))


def softmax(make: Maker, x: Node, dim: int) -> Node:
    e = make("exp", make("sub", x, make("amax", x, dim=(dim,), keepdim=True)))
    return make("div", e, make("sum", e, dim=(dim,), keepdim=True))


def test_an_elementwise_chain_is_one_group():
    make = Maker()
    x, y = make.input(4, 6), make.input(6)
    z = make("mul", make("exp", make("add", x, y)), make("tanh", make("neg", x)))
    assert shown(make.graph(z)) == ["group(add exp neg tanh mul) -> f32[4,6]"]


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_is_one_group(dim):
    make = Maker()
    y = softmax(make, make("mul", make.input(8, 6), make.constant(0.5)), dim)
    assert shown(make.graph(y)) == ["group(mul amax sub exp sum div) -> f32[8,6]"]


def test_softmax_and_its_gradient_go_over_the_same_rows():
    make = Maker()
    y = softmax(make, make.input(8, 6), 1)
    g = make.input(8, 6)
    inner = make("sum", make("mul", g, y), dim=(1,), keepdim=True)
    back = make("mul", y, make("sub", g, inner))
    assert len(fuse(make.graph(y, back))) == 1


def test_layer_norm_saves_its_statistics():
    make = Maker()
    x, w = make.input(8, 6), make.capture(6)
    mean = make("mean", x, dim=(1,), keepdim=True)
    d = make("sub", x, mean)
    r = make("rsqrt", make("mean", make("square", d), dim=(1,), keepdim=True))
    y = make("mul", make("mul", d, r), w)
    assert shown(make.graph(y, mean, r)) == [
        "group(mean sub square mean rsqrt mul mul) -> f32[8,1], f32[8,1], f32[8,6]"
    ]


def test_sums_over_rows_and_over_columns_are_two_groups():
    make = Maker()
    x = make("exp", make.input(8, 6))
    a, b = [make("sum", x, dim=(d,), keepdim=False) for d in (0, 1)]
    groups = fuse(make.graph(a, b))
    assert len(groups) == 2
    assert sum([n.op.name == "exp" for g in groups for n in g.nodes]) == 1


def test_rows_through_reshapes():
    make = Maker()
    x = make("exp", make.input(2, 4, 6))
    flat = make("view", x, shape=(8, 6))
    s = make("sum", flat, dim=(1,), keepdim=True)
    y = make("view", make("div", flat, s), shape=(2, 4, 2, 3))
    assert shown(make.graph(y)) == ["group(exp view sum div view) -> f32[2,4,2,3]"]


def test_a_fold_read_along_another_dimension_is_stored_first():
    make = Maker()
    x = make.input(6, 6)
    s = make("sum", x, dim=(1,), keepdim=False)
    y = make("add", x, s)  # broadcast along the last dimension, while the sum is of rows
    assert shown(make.graph(y)) == ["group(sum) -> f32[6]", "group(add) -> f32[6,6]"]


def test_a_dear_value_read_twice_in_different_ways_is_stored():
    make = Maker()
    e = make("exp", make.input(6, 6))
    y = make("add", e, make("permute", e, dims=(1, 0)))
    assert shown(make.graph(y)) == ["group(exp) -> f32[6,6]", "group(permute add) -> f32[6,6]"]


def test_a_cheap_value_is_computed_again():
    make = Maker()
    x = make("add", make.input(6, 6), make.constant(1.0))
    a, b = make("exp", make("sum", x, dim=(0,), keepdim=False)), make("exp", x)
    assert shown(make.graph(a, make("permute", b, dims=(1, 0)))) == [
        "group(add sum exp) -> f32[6]", "group(add exp permute) -> f32[6,6]",
    ]  # fmt: skip


def test_calls_see_views_and_get_no_copies():
    make = Maker()
    x, w = make.input(4, 6), make.capture(3, 6)
    y = make("relu", make("mm", x, make("permute", w, dims=(1, 0))))
    assert shown(make.graph(y)) == [
        "alias(permute) -> f32[6,3]", "call(mm) -> f32[4,3]", "group(relu) -> f32[4,3]",
    ]  # fmt: skip


def test_a_view_of_what_a_group_computes_is_stored_as_it_is_needed():
    make = Maker()
    x, w = make.input(4, 6), make.capture(4, 3)
    y = make("mm", make("permute", make("exp", x), dims=(1, 0)), w)
    assert shown(make.graph(y))[0] == "group(exp permute) -> f32[6,4]"


def test_only_a_view_that_must_be_copied_is_copied():
    make = Maker()
    x, w = make.input(2, 3, 4), make.capture(6, 5)
    rows = make("view", make("permute", x, dims=(1, 0, 2)), shape=(6, 4))
    y = make("mm", make("permute", rows, dims=(1, 0)), w)
    assert shown(make.graph(y)) == [
        "group(permute view) -> f32[6,4]", "alias(permute) -> f32[4,6]", "call(mm) -> f32[4,5]",
    ]  # fmt: skip


def test_several_results_are_computed_once():
    make = Maker()
    x = make.input(8, 6)
    both = make("var_mean", x, dim=(1,), correction=0, keepdim=True)
    v, m = make.item(both, 0), make.item(both, 1)
    y = make("div", make("sub", x, m), make("sqrt", v))
    graph = make.graph(y, m)
    (group,) = fuse(graph)
    assert group.outputs == (m, y)
    assert [n.op.name for n in group.nodes].count("var_mean") == 1


def test_single_numbers_are_one_group_that_runs_first():
    make = Maker()
    rate, step, x = make.capture(), make.capture(), make.input(4, 6)
    more = make("add", step, make.constant(1.0))
    factor = make("div", rate, make("sqrt", make("exp", more)))
    y, z = make("mul", x, factor), make("mm", x, make("mul", make.capture(6, 6), factor))
    steps = fuse(make.graph(y, z, writes=[(step, more)]))
    assert str(steps[0]) == "group(add exp sqrt div) -> f32[], f32[]"
    assert len(steps) == 4


def test_updates_of_parameters_are_alike():
    make = Maker()
    rate = make.capture()
    writes = []
    for shape in [(4, 6), (6,), (5, 3)]:
        p, m, g = make.capture(*shape), make.capture(*shape), make.input(*shape)
        new = make("add", make("mul", m, make.constant(0.9)), g)
        writes += [(m, new), (p, make("sub", p, make("mul", rate, new)))]
    graph = make.graph(writes=writes)
    steps = plan(graph)
    assert {str(s).partition(" ->")[0] for s in steps.steps} == {"group(mul add mul sub)"}
    assert len(steps.stores) == 6


def test_a_kernel_has_a_limited_number_of_loads():
    make = Maker()
    total = make.input(8, 8)
    for _ in range(100):
        total = make("add", total, make("exp", make.input(8, 8)))
    groups = fuse(make.graph(total))
    assert len(groups) > 1
    assert max([len(group.inputs) for group in groups]) <= 26


def test_scatters_stay_alone_but_take_what_they_read():
    make = Maker()
    x, source = make.input(5, 3), make("exp", make.input(4, 3))
    index = make.constant([0, 2, 2, 1], np.int64)
    y = make("exp", make("index_add", x, source, index, dim=0, alpha=1))
    assert shown(make.graph(y)) == ["group(exp index_add) -> f32[5,3]", "group(exp) -> f32[5,3]"]


def test_who_alone_reads_captured_memory_also_fills_it():
    make = Maker()
    gradient, p, other = make.capture(4, 6), make.capture(4, 6), make.capture(4, 6)
    zeros = make("expand", make.constant(0.0), size=(4, 6))
    new = make("sub", p, gradient)
    steps = plan(make.graph(writes=[(p, new), (gradient, zeros)]))
    assert [str(s) for s in steps.steps] == ["group(sub expand) -> f32[4,6], f32[4,6]"]
    assert set(steps.stores) == {new, zeros}
    steps = plan(make.graph(writes=[(p, new), (gradient, zeros), (other, zeros)]))
    assert "group(expand) -> f32[4,6]" in [str(s) for s in steps.steps]
    twice = make("mm", gradient, make.input(6, 6))
    steps = plan(make.graph(twice, writes=[(p, new), (gradient, zeros)]))
    assert "group(expand) -> f32[4,6]" in [str(s) for s in steps.steps]
