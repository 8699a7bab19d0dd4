"""Loops that draw random numbers: their gradients are those of the numbers that were drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
from rushlight.graph.ir import interpret
from rushlight.graph.parse import parse
from rushlight.graph.replay import SNAPSHOT
from rushlight.graph.verify import verify
from rushlight.passes import pipeline
from tests.graph.test_control import assert_close

TABLE: dict[str, Callable[[Any, Any], Any]] = {}
dropout = rl.nn.functional.dropout


def row(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    TABLE[function.__name__] = function
    return function


def either(c, r):
    return rl.cond(c.sum() > 1, lambda: dropout(c * r, 0.5) + 0.1, lambda: c + r * rl.rand(4))


@row
def until_large(x, w):
    c = x
    while c.sum() < 20:
        c = c + dropout(w, 0.5) * c.sqrt()
    return c


@row
def a_branch_in_it(x, w):
    c, steps = x, 0
    while c.sum() < 20:
        if c.mean() > 2:
            c = c + dropout(w, 0.5) * c
        else:
            c = c + rl.rand(4) * x
        steps += 1
    return c * steps


@row
def drawn_twice_a_step(x, w):
    def step(c):
        return c + dropout(x, 0.3) * (c * w * rl.randn(4)).sin() + 0.5

    return rl.while_loop(lambda c: c.sum() < 9, step, (x,))[0]


@row
def of_another_generator(x, w):
    c = x
    while c.sum() < 9:
        c = c + w * rl.rand(4, generator=GENERATOR) + rl.rand(4) * x
    return c


@row
def rows_around_it(x, w):
    def step(c, r):
        (d,) = rl.while_loop(lambda d: d.sum() < 5, lambda d: d + dropout(r, 0.5) * d.cos(), (c,))
        return d.sin(), d

    return rl.scan(step, rl.ones(4), x.outer(w).abs() + 0.1)[1]


@row
def rows_in_it(x, w):
    def step(c):
        last, _ = rl.scan(lambda d, r: (either(d, r), None), c, x.outer(w))
        return last + c + 0.1

    return rl.while_loop(lambda c: c.sum() < 15, step, (x,))[0]


@row
def a_loop_in_it(x, w):
    def inner(c):
        return rl.while_loop(lambda d: d.sum() < 6, lambda d: d + dropout(w, 0.4) * c, (c,))[0]

    return rl.while_loop(lambda c: c.sum() < 30, lambda c: inner(c) * (1 + rl.rand(4)), (x,))[0]


@row
def in_a_branch(x, w):
    def grown():
        return rl.while_loop(lambda c: c.sum() < 9, lambda c: c + dropout(w, 0.5), (x,))[0]

    return rl.cond(x.sum() > 2, grown, lambda: dropout(x * w, 0.4))


@row
def more_drawn_after_it(x, w):
    y = until_large(dropout(x, 0.2) + 0.1, w)
    return y * rl.rand(4) + until_large(x, w)


@row
def branches_in_rows(x, w):
    return rl.scan(lambda c, r: (either(c, r),) * 2, rl.zeros(4), x.outer(w))[1]


@row
def branches_in_steps_that_are_counted(x, w):
    return rl.fori_loop(0, 5, lambda i, c: either(c, x + w[i - 1]), rl.zeros(4))


GENERATOR = rl.Generator()
X, W = rl.tensor([0.9, 0.4, 0.6, 0.8]), rl.tensor([0.7, 1.1, 0.5, 0.9])


def seeded(seed: int) -> None:
    rl.manual_seed(seed)
    GENERATOR.manual_seed(seed + 1)


def differentiated(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], list[Any]]:
    def call(x, w):
        x, w = [t.detach().clone().requires_grad_() for t in (x, w)]
        y = function(x, w)
        found = rl.autograd.grad(y.square().sum(), (x, w), allow_unused=True)
        return [y.detach(), *[rl.zeros(4) if g is None else g for g in found]]

    return call


@pytest.mark.parametrize("name", TABLE)
def test_value_and_gradient_are_those_of_dynamic_mode(name: str) -> None:
    function = differentiated(TABLE[name])
    compiled = rl.compile(function, fullgraph=True)
    for seed in range(4):
        found = []
        for each in (compiled, function):
            seeded(seed)
            found.append([*each(X, W), rl.rand(3), rl.rand(3, generator=GENERATOR)])
        assert_close(*found, name)
    assert sum(map(len, compiled.known.values())) == 1  # compiled once


@pytest.mark.parametrize("name", TABLE)
def test_gradients_are_taken_outside(name: str) -> None:
    compiled = rl.compile(TABLE[name], fullgraph=True)
    for seed in range(2):
        found = []
        for each in (compiled, TABLE[name]):
            seeded(seed)
            found.append([*differentiated(each)(X, W), rl.rand(3)])
        assert_close(*found, name)


@pytest.mark.parametrize("name", TABLE)
def test_graphs_are_printed_parsed_verified_and_interpreted(name: str) -> None:
    rl.manual_seed(0)
    GENERATOR.set_state(rl.get_rng_state())
    function = differentiated(TABLE[name])
    graph = rl.graph(function, X, W)
    assert parse(str(graph)) == graph
    verify(graph, graph.captured)
    states = [rl.get_rng_state().numpy()] * len(graph.captured)
    expected = function(X, W)
    for each in (graph, pipeline.run(graph)):
        outputs, _ = interpret(each, [X.numpy(), W.numpy()], states)
        assert_close(outputs, expected, name)


def test_without_gradients_no_state_is_kept() -> None:
    graph = rl.graph(lambda x, w: until_large(x, w.clone().requires_grad_()).detach(), X, W)
    assert SNAPSHOT in [node.op for node in graph.nodes()]
    assert SNAPSHOT not in [node.op for node in pipeline.run(graph).nodes()]


def test_all_sizes_have_one_program() -> None:
    def function(x, w):
        c = x
        while c.mean() < 5:
            c = c + dropout(w, 0.5) * c.sqrt() if c.mean() > 2 else c + rl.rand(len(x)) * w
        return c

    compiled = rl.compile(function, fullgraph=True, dynamic=True)
    for n in (4, 7, 1, 20):
        found = []
        for each in (compiled, function):
            rl.manual_seed(n)
            x, w = [rl.linspace(0.5, 1.0, n).requires_grad_() for _ in range(2)]
            y = each(x, w)
            y.square().sum().backward()
            found.append([y.detach(), x.grad, w.grad, rl.rand(2)])
        assert_close(*found)
    assert sum(map(len, compiled.any_size.known.values())) == 1


def test_a_branch_in_a_file_draws_the_same_numbers(tmp_path: Path) -> None:
    path = tmp_path / "branch.pt"
    rl.jit.trace(in_a_branch, (X, W)).save(path)
    loaded, found = rl.jit.load(path), []
    for each in (loaded, in_a_branch):
        rl.manual_seed(1)
        found.append([*differentiated(each)(X, W), *differentiated(each)(X - 1, W)])
    assert_close(*found)


def step_of(w: Any, optimizer: Any) -> Callable[[Any], Any]:
    def step(x):
        optimizer.zero_grad()
        loss = a_branch_in_it(x, w).sum()
        loss.backward()
        optimizer.step()
        return loss

    return step


def test_a_training_step_in_a_file_draws_the_same_numbers(tmp_path: Path) -> None:
    losses = []
    for kind in ("dynamic", "file"):
        rl.manual_seed(0)
        w = rl.nn.Parameter(W.clone())
        optimizer = rl.optim.SGD([w], lr=0.001)

        call: Any = (step := step_of(w, optimizer))
        if kind == "file":
            path = tmp_path / "step.pt"
            rl.export(step, X).save(path)
            call = rl.jit.load(path)
        losses.append([call(X).detach() for _ in range(5)])
    assert_close(*losses)


@pytest.mark.parametrize(
    ("part", "other", "message"),
    [
        ("op=op(rand)", "op=op(sin)", "unexpected|missing|takes"),
        ("op=op(rand)", "op=op(control.redraw)", "no random op"),
        ("size=(4,)", "size=(5,)", "its type is"),
        ("%0: u8[5056]", "%0: u8[5055]", "no state"),
    ],
)
def test_a_file_cannot_repeat_what_is_no_draw(part: str, other: str, message: str) -> None:
    text = """\
graph(%0: u8[5056]):
  %1: (f32[4], u8[5056]) = control.redraw(%0, op=op(rand), size=(4,), kind=kind(float32))
  %2: f32[4] = item(%1, index=0)
  return %2"""
    verify(parse(text))
    with pytest.raises(TypeError, match=message):
        verify(parse(text.replace(part, other)))
    with pytest.raises(TypeError, match="no state"):
        verify(graph := parse(text), graph.inputs)
