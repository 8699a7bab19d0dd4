"""Loops that are cut where conditions change: how many parts, and that they compute the same."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

from rushlight.codegen.cuts import PIECES, is_inside, turning
from rushlight.codegen.loops import lower
from rushlight.codegen.traverse import walk
from rushlight.dims import Dim
from rushlight.graph.ir import Node
from rushlight.graph.parse import parse
from rushlight.passes.fuse import Group
from tests.codegen.kernels import Graph, check


def floats(*shape: int) -> np.ndarray:
    return np.random.standard_normal(shape).astype(np.float32)


def conditions(graph: Graph, output: Node) -> tuple[int, int]:
    """How many kernels there are, and how many choices are left in them."""
    kernels = lower(graph.group(output))
    values = [v for k in kernels for s in k.stages for v in walk(s.roots)]
    return len(kernels), len([v for v in values if v.op == "where"])


@pytest.mark.parametrize("relation", ["lt", "le", "gt", "ge"])
def test_a_condition_changes_once(relation: str) -> None:
    holds = getattr(operator, relation)
    for factor, offset in itertools.product((-3, -2, -1, 1, 2, 3), range(-9, 10)):
        border = turning(relation, factor, offset)
        truth = [
            holds(factor * i + offset, 0) for i in (border - 20, border - 1, border, border + 20)
        ]
        assert truth[0] == truth[1] != truth[2] == truth[3]


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_joined_tensors_are_copied(dim: int) -> None:
    g = Graph()
    y = g(
        "cat",
        g.input(floats(30, 40, 20)),
        g.input(floats(30, 40, 20)),
        dim=dim,
        kind=np.dtype("f4"),
    )
    assert conditions(g, y) == (2, 0)
    check(g, y)


def test_borders_are_apart_from_what_is_padded() -> None:
    g = Graph()
    x = g.input(floats(40, 20, 30))
    y = g("constant_pad_nd", x, pads=((0, 0), (1, 2), (3, 1)), value=2.0)
    z = g("neg", y)
    assert conditions(g, z) == (5, 0)
    check(g, z)


def test_a_roll_is_two_copies() -> None:
    g = Graph()
    y = g("roll", g.input(floats(200, 100)), shifts=(7,), dims=(1,))
    assert conditions(g, y) == (2, 0)
    check(g, y)


def test_pieces_are_few_and_large() -> None:
    g = Graph()
    parts = [g.input(floats(100, 30)) for _ in range(12)]
    many = g("cat", *parts, dim=1, kind=np.dtype("f4"))
    assert conditions(g, many)[0] == PIECES
    check(g, many)
    small = g("cat", g.input(floats(3, 4)), g.input(floats(3, 4)), dim=1, kind=np.dtype("f4"))
    assert conditions(g, small)[0] == 1


def test_borders_that_a_run_knows() -> None:
    sizes = {"B": Dim.symbol("B", 4), "T": Dim.symbol("T", 6)}
    text = """graph(%0: f32[B,T,T,8]):
  %1: f32[B,T+2,T+2,8] = constant_pad_nd(%0, pads=((0, 0), (1, 1), (1, 1), (0, 0)), value=0.0)
  return %1"""
    graph = parse(text, sizes)
    kernels = lower(Group(graph.outputs, graph.outputs))
    values = [v for k in kernels for s in k.stages for v in walk(s.roots)]
    assert len(kernels) == PIECES
    assert not {v.op for v in values} & {"where", "floor", "mod"}
    assert [k.parts_at({"B": 2, "T": 0})[0] > 0 for k in kernels] == [True, True, False, True, True]


def test_a_border_that_may_be_outside_is_none() -> None:
    T = Dim.symbol("T", 60)
    assert is_inside(T + 1, T + 2)
    assert is_inside(2 * (T // 2), T)
    assert not is_inside(5, T)
    assert not is_inside(T - 1, T)
    assert not is_inside(T, T)
