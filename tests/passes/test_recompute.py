"""The border between forward and backward: right for every cut, and few bytes across it."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.graph.ir import INPUT, check, interpret
from rushlight.passes.recompute import Split, split
from tests.passes.graphs import Maker, equal, random_graph


def run(parts: Split, graph, outputs, tangents, inputs, captured):
    """The results of the whole graph, by way of the two."""
    values = dict(zip(graph.inputs, inputs, strict=True))
    primal = [values[n] for n in parts.forward.inputs]
    found, written = interpret(parts.forward, primal, captured)
    results, kept = found[: len(outputs)], iter(found[len(outputs) :])
    saved = [values[n] if n.op is INPUT else next(kept) for n in parts.saved]
    late = [values[n] for n in tangents]
    now = dict(zip([n for n, _ in parts.forward.writes], written, strict=True))
    after = [now.get(n, c) for n, c in zip(graph.captured, captured, strict=True)]
    gradients, more = interpret(parts.backward, [*saved, *late], after)
    return [*results, *gradients], [*written, *more]


def test_a_layer_saves_its_activation_once():
    make = Maker()
    x, w, g = make.input(8, 4), make.capture(4, 6), make.input(8, 6)
    h = make("mm", x, w)
    y = make("relu", make("add", h, make.constant(1.0)))
    mask = make("gt", y, make.constant(0.0))
    back = make("where", mask, g, make.constant(0.0))
    by_w = make("mm", make("permute", x, dims=(1, 0)), back)
    by_y = make("mul", back, y)
    parts = split(make.graph(y, by_w, by_y), [y], [g], [by_w, by_y])
    assert [n.type.nbytes for n in parts.saved if n.op is not INPUT] == [8 * 6 * 4]
    assert x in parts.saved  # an input costs nothing
    check(parts.forward)
    check(parts.backward)


def test_a_mask_is_smaller_than_what_it_is_made_of():
    make = Maker()
    x, g = make.input(8, 4), make.input(8, 6)
    h = make("mm", x, make.capture(4, 6))
    y = make("relu", h)
    back = make("where", make("gt", h, make.constant(0.0)), g, make.constant(0.0))
    parts = split(make.graph(y, back), [y], [g], [back])
    assert [str(n.type) for n in parts.saved] == ["b1[8,6]"]


def test_dear_values_are_not_computed_again():
    make = Maker()
    x, g = make.input(8, 6), make.input(8, 6)
    e = make("exp", x)
    s = make("sum", e, dim=(1,), keepdim=True)
    back = make("div", make("mul", g, make("add", e, make.constant(1.0))), s)
    parts = split(make.graph(e, back), [e], [g], [back])
    assert set(parts.saved) == {e, s}
    assert "exp" not in str(parts.backward)
    assert "add" in str(parts.backward)


def test_a_captured_value_that_forward_changes_is_saved():
    make = Maker()
    x, g, state = make.input(4), make.input(4), make.capture(4)
    y = make("mul", x, state)
    back = make("mul", g, state)
    new = make("add", state, x)
    graph = make.graph(y, back, writes=[(state, new)])
    parts = split(graph, [y], [g], [back])
    assert parts.saved == (state,)
    inputs, captured = make.arguments()
    found = run(parts, graph, [y], [g], inputs, captured)
    assert equal(found, interpret(graph, inputs, captured))


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed):
    make, graph = random_graph(seed, 40)
    tangents = graph.inputs[1:2]
    late = set(tangents)
    for node in graph.nodes():
        if any([n in late for n in node.inputs]):
            late.add(node)
    outputs = [n for n in graph.outputs if n not in late]
    gradients = [n for n in graph.outputs if n in late]
    parts = split(graph, outputs, tangents, gradients)
    check(parts.forward)
    check(parts.backward)
    found = run(parts, graph, outputs, tangents, *make.arguments())
    values = make.values
    expected = [values[n] for n in (*outputs, *gradients)]
    assert all(
        [
            np.allclose(a, b, 1e-4, 1e-5, equal_nan=True)
            for a, b in zip(found[0], expected, strict=True)
        ]
    )
