"""Steps that depend on captured tensors alone come first, unless something speaks against it."""

from __future__ import annotations

import pytest

from rushlight.config import config
from rushlight.graph.ir import Graph, Node
from rushlight.passes.early import early_first, still_leaves, still_nodes
from rushlight.passes.order import Plan, plan
from tests.passes.graphs import Maker


def planned(graph: Graph, still: tuple[int, ...]) -> Plan:
    leaves = still_leaves(graph, still)
    return early_first(graph, plan(graph, still_nodes(graph, leaves)), leaves)


def scaled(make: Maker) -> Node:
    """x + exp(w) · s: of captured w and s, and an input."""
    x, w, s = make.input(8, 4), make.capture(4), make.capture(4)
    return make("add", x, make("mul", make("exp", w), s))


def test_what_is_captured_is_computed_apart() -> None:
    make = Maker()
    output = scaled(make)
    graph = Graph(tuple(make.inputs), tuple(make.captured), (output,))
    found = planned(graph, (0, 1))
    assert str(found) == "group(exp mul) -> f32[4]\ngroup(add) -> f32[8,4]"
    assert found.early == 1


def test_without_it_nothing_changes() -> None:
    make = Maker()
    output = scaled(make)
    graph = Graph(tuple(make.inputs), tuple(make.captured), (output,))
    found = planned(graph, ())
    assert str(found) == str(plan(graph))
    assert found.early == 0


def test_one_that_may_change_keeps_its_steps_late() -> None:
    make = Maker()
    output = scaled(make)
    graph = Graph(tuple(make.inputs), tuple(make.captured), (output,))
    found = planned(graph, (0,))
    assert found.early == 1
    assert str(found.steps[0]) == "group(exp) -> f32[4]"


def test_written_tensors_change() -> None:
    make = Maker()
    output = scaled(make)
    w, s = make.captured
    graph = Graph(tuple(make.inputs), (w, s), (output,), ((w, make("neg", w)),))
    assert still_leaves(graph, (0, 1)) == {s}
    assert planned(graph, (0, 1)).early == 0


def test_outputs_are_new_at_every_call() -> None:
    make = Maker()
    w = make.capture(4)
    graph = Graph((), (w,), (make("exp", w),))
    assert planned(graph, (0,)).early == 0


def test_what_is_much_larger_than_its_source_is_not_kept() -> None:
    make = Maker()
    x, w, s = make.input(64, 64), make.capture(64, 1), make.capture(1, 64)
    outer = make("mul", w, s)
    graph = Graph((x,), (w, s), (make("add", x, outer),))
    assert outer not in still_nodes(graph, (w, s))
    assert planned(graph, (0, 1)).early == 0


def test_no_more_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "keep_packed", 8)
    make = Maker()
    output = scaled(make)
    graph = Graph(tuple(make.inputs), tuple(make.captured), (output,))
    assert planned(graph, (0, 1)).early == 0
