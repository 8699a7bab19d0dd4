"""The list of passes, what it prints and measures."""

from __future__ import annotations

import rushlight as rl
from rushlight.graph.ir import interpret
from rushlight.passes import pipeline
from rushlight.passes.dead import drop_dead
from tests.passes.graphs import Maker, equal, execute


def test_every_pass_says_why():
    for step in pipeline.PASSES:
        assert step.why
        assert step.holds


def test_dump_prints_the_graph_after_a_pass(capsys, monkeypatch):
    make = Maker()
    graph = make.graph(make("neg", make("neg", make("exp", make.input(3)))))
    monkeypatch.setattr(rl.config, "dump", "simplify")
    pipeline.lower(graph)
    printed = capsys.readouterr().err
    assert "after simplify:\ngraph(%0: f32[3])" in printed
    assert "after plan" not in printed
    monkeypatch.setattr(rl.config, "dump", "all")
    pipeline.lower(graph)
    assert "after plan:\ngroup(exp) -> f32[3]" in capsys.readouterr().err


def test_writes_that_change_nothing_are_dropped():
    make = Maker()
    p, q = make.capture(3), make.capture(3)
    graph = make.graph(writes=[(p, p), (q, p)])
    assert drop_dead(graph).writes == ((q, p),)


def test_timings():
    make = Maker()
    seconds: dict[str, float] = {}
    pipeline.lower(make.graph(make("exp", make.input(3))), seconds)
    assert list(seconds) == ["simplify", "rows", "dead", "blocks", "borders", "pools_first", "plan"]


def test_old_values_are_copied_before_they_are_overwritten():
    make = Maker()
    a, b, c = make.capture(3), make.capture(3), make.capture(3)
    new = make("exp", c)
    graph = make.graph(c, a, writes=[(a, b), (b, a), (c, new)])
    changed, steps = pipeline.lower(graph)
    roots = {value for _, value in changed.writes} | set(changed.outputs)
    assert not roots & {a, b, c}
    found = execute(changed, steps, *make.arguments())
    assert equal(found, interpret(graph, *make.arguments()))
    assert len(steps.stores) >= 2
