"""Verification: right graphs pass; false ones are refused, or do no harm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.compile import graph as graph_of
from rushlight.graph.parse import parse
from rushlight.graph.verify import verify
from rushlight.ops import registry
from tests.graph.attacks import graphs

ROOT = str(Path(rl.__file__).parents[1])
NAMES = sorted(registry)


def check_samples(names):
    for name in names:
        for graph in graphs(registry[name]):
            verify(graph)


def test_graphs_of_some_ops_are_right():
    check_samples(NAMES[::16])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_graphs_of_all_ops_are_right():
    check_samples(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("begin", range(0, len(NAMES), 50))
def test_false_attributes(begin):
    """What is not refused runs, or raises an exception."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.graph.attacks", str(begin), str(begin + 50)],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.split()[-1:]


def test_branches_loops_and_draws_are_right():
    def f(x):
        _, rows = rl.scan(lambda c, row: (c + row, c * rl.rand(3)), rl.zeros(3), x)
        y = rl.while_loop(lambda y: y.sum() < 9.0, lambda y: y * 2, rows.abs() + 1)
        return rl.cond(y.sum() > 20.0, lambda y: y + rl.rand(2, 3), lambda y: y, y)

    graph = graph_of(f, rl.ones(2, 3))
    states = [n for n in graph.captured if graph.names[n] == "generator"]
    assert len(states) == 1
    verify(graph, states)
    with pytest.raises(TypeError, match="generator"):
        verify(graph)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%1: f32[2] = exp(%0)", "exp: its type is f32.3., not f32.2."),
        ("%1: f32[3] = mul(%0, %0, %0)", "mul: "),
        ("%1: f32[3] = exp(%0, base=2)", "exp: "),
        ("%1: f32[1] = slice(%0, dim=-1, start=0, end=1, step=1)", "slice: dim=-1"),
        ("%1: f32[3] = view(%0, shape=(-1,))", "view: shape"),
        ("%1: f32[3] = verified(%0, %0, error='exec', message='print(1)')", "verified: "),
        ("%1: f32[1,3] = unsqueeze(%0, dim=9)", "unsqueeze: dim=9"),
        ("%1: f32[3] = item(%0, index=0)", "item: "),
        ("%1: i64[3] = unique(%0)", "unique: "),
        ("%1: f32[3] = nn.functional.linear(%0)", "linear: missing"),
    ],
)
def test_what_is_wrong_is_named(text, message):
    graph = parse(f"graph(%0: f32[3]):\n  {text}\n  return %1")
    with pytest.raises(TypeError, match=message):
        verify(graph)
