"""Verification: right graphs pass; false ones are refused, or do no harm."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.reach import check_reach
from rushlight.compile import graph as graph_of
from rushlight.graph.parse import parse
from rushlight.graph.verify import verify
from rushlight.ops import registry
from rushlight.ops.base import Op
from rushlight.runtime.executable import Executable
from tests.graph.attacks import attacks_alone, graphs

ROOT = str(Path(rl.__file__).parents[1])
NAMES = sorted(registry)


def check_samples(names):
    for name in names:
        for graph in graphs(registry[name]):
            verify(graph)
            check_reach(graph)


def test_graphs_of_some_ops_are_right():
    check_samples(NAMES[::16])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_graphs_of_all_ops_are_right():
    check_samples(NAMES)


def survive_attacks(*arguments):
    """What is not refused runs, or raises an exception, between pages that nobody may touch."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.graph.attacks", *map(str, arguments)],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.split()[-1:]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["rules", "tried"])
@pytest.mark.parametrize("begin", range(0, len(NAMES), 25))
def test_false_graphs(begin, how):
    survive_attacks(begin, begin + 25, how)


def rejects(graph):
    try:
        verify(graph)
        check_reach(graph)
    except TypeError:
        return True
    return False


@pytest.mark.parametrize("name", ["scatter_add", "gather", "nn.functional.max_pool2d"])
def test_operands_of_other_shapes_are_refused_by_rules_alone(name, monkeypatch):
    """As they must be where operands are too large to try a kernel on."""
    monkeypatch.setattr(sys.modules["rushlight.graph.verify"], "TRIED", -1)
    graph = next(graphs(registry[name]))
    node = next(n for n in graph.nodes() if isinstance(n.op, Op) and n.op is registry[name])
    answers = [rejects(false) for false in attacks_alone(node)]
    assert sum(answers) > len(answers) / 2


@pytest.mark.parametrize(
    ("kinds", "text"),
    [
        (("f32[1,9,3]",), "f32[1,90,2,3] = sliding({}, kernel=(2,), stride=(1,), dilation=(1,), "
         "count=(90,))"),
        (("f32[1,4]", "f32[2,3]", "i64[2,3]"), "f32[1,4] = scatter({}, dim=1)"),
        (("f32[9,4]", "f32[9]", "i64[2]"), "f32[9,4] = index_add({}, dim=0, alpha=1)"),
        (("f32[8]", "f32[2,5]", "f32[5,5]"), "f32[10,5] = rnn_tanh_scan({}, steps=4, "
         "reverse=False)"),
    ],
)  # fmt: skip
def test_what_would_leave_its_memory_is_refused(kinds, text):
    names = [f"%{n}" for n in range(len(kinds))]
    inputs = ", ".join([f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True)])
    result = f"%{len(kinds)}"
    line = text.format(", ".join(names))
    assert rejects(parse(f"graph({inputs}):\n  {result}: {line}\n  return {result}"))


def test_writes_to_repeated_places_are_proven_inside():
    def f(x):
        y = x * 1
        y.as_strided((30, 40), (100, 2), 5).mul_(2)
        return y

    check_reach(graph_of(f, rl.ones(100, 100)))


def test_places_that_are_data_are_looked_at():
    """A place before the first one would be read and written in front of a value."""
    x, w, index = rl.ones(1, 1, 4), rl.ones(1, 1, 2), rl.tensor([[[-9999999, 2]]])
    pick, put = [registry[name] for name in ("weighted_pick", "weighted_put")]
    found = rl.compile(lambda *t: pick.call(*t), fullgraph=True)(x, w, index)
    assert found.tolist() == [[[0.0, 1.0]]]
    laid = rl.compile(lambda *t: put.call(*t, 4), fullgraph=True)(w, w, index)
    assert laid.tolist() == [[[0.0, 0.0, 1.0, 0.0]]]


def test_a_spectrum_without_values_is_not_read():
    line = "%1: f32[3,5] = fft_c2r(%0, dims=(1,), n=5, norm='backward')"
    graph = parse(f"graph(%0: c64[3,0]):\n  {line}\n  return %1")
    with pytest.raises(RuntimeError, match="5 points have no spectrum of 0 values"):
        Executable(graph).run([np.empty((3, 0), np.complex64)], ())


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
        ("%1: i64[] = script.show(%0, texts=('',), forms=())", "show: .* no count"),
        ("%1: f32[3] = script.rounded(%0, digits=2)", "rounded: it rounds numbers"),
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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kind='ValueError'", "kind='exec'", "'exec' is no error"),
        ("kind='ValueError'", "kind='SystemExit'", "'SystemExit' is no error"),
        ("kind='ValueError'", "kind='__loader__'", "'__loader__' is no error"),
        ("kind='ValueError'", "kind=1", "1 is no error"),
        ("('a ', '')", "('a ',)", "no texts around 1 values"),
        ("('a ', '')", "('a ', 1)", "its texts are none"),
        ("('n.2f',)", "('n.2f', 'n')", "no texts"),
        ("('n.2f',)", "('n.99999999f',)", "cannot be written as"),
        ("('n.2f',)", "('',)", "cannot be written as"),
        ("%2: f32[]", "%2: f32[3]", "cannot be written as"),
        ("%1: b1[]", "%1: b1[3]", "is no error"),
        ("%0: i64[]", "%0: f32[]", "no count"),
    ],
)
def test_texts_and_errors_of_a_file_are_looked_at(old, new, message):
    line = "script.check(%0, %1, %2, kind='ValueError', texts=('a ', ''), forms=('n.2f',))"
    text = f"graph(%0: i64[], %1: b1[], %2: f32[]):\n  %3: i64[] = {line}\n  return %3"
    verify(parse(text))
    assert old in text
    with pytest.raises(TypeError, match=message):
        verify(parse(text.replace(old, new, 1)))
