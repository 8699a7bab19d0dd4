"""Random graphs, compiled: equal to the graph run node by node, whatever the number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rushlight as rl
from rushlight.graph.ir import CONSTANT, ITEM, Graph, compute, interpret
from rushlight.ops.views import View
from rushlight.runtime.executable import Executable
from tests.compiled.random_functions import random_function
from tests.passes.graphs import random_graph

QUICK, ALL, BATCH = 160, 5000, 20
UNITS = 4  # in the last place, by which an op may be off
FACTOR = 32  # a result may be off by so many times what such errors of its ops do to it
MOST_RUNS = 64
EXACT = frozenset(
    (
        *("neg", "abs", "relu", "amax", "amin", "max_dim", "min_dim", "where", "cat", "stack"),
        *("flip", "roll", "clone", "gather", "index_select", "embedding", "maximum", "minimum"),
        *("constant_pad_nd", "masked_fill", "tril", "floor", "clamp_min", "clamp_max", "between"),
        *("index_fill", "subscript", "nn.functional.max_pool2d", "view_scatter"),
    )
)
ABSOLUTE = {"normal_cdf": 2e-7}
"""Ops whose kernels state the error of a float32 result, which is not one of its last places."""
Arguments = tuple[list[Any], list[Any]]


def run(executable: Executable, arguments: Arguments) -> list[np.ndarray]:
    """The outputs of a program and what it has written, on copies of its arguments."""
    inputs, captured = [[a.copy() for a in part] for part in arguments]
    outputs = executable.run(inputs, captured)
    targets = dict(zip(executable.source.captured, captured, strict=True))
    return [*outputs, *[targets[target] for target, _ in executable.source.writes]]


def disturbed(graph: Graph, arguments: Arguments, random: np.random.Generator) -> list[np.ndarray]:
    """The results of a graph whose ops have operands and results off in their last places."""
    values: dict[Any, Any] = dict(
        zip((*graph.inputs, *graph.captured), (*arguments[0], *arguments[1]), strict=True)
    )

    def off(x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple([off(part) for part in x])
        if x is None or x.dtype.kind not in "fV":
            return x
        unit = UNITS * float(ml_dtypes.finfo(x.dtype).eps)
        wide = x.astype(np.float64) * (1 + random.uniform(-unit, unit, x.shape))
        return np.asarray(wide.astype(x.dtype))

    with np.errstate(all="ignore"):
        for node in graph.nodes():
            if node in values:
                continue
            exact = node.op in (CONSTANT, ITEM) or isinstance(node.op, View)
            exact = exact or node.op.full_name in EXACT
            operands = [n and (values[n] if exact else off(values[n])) for n in node.inputs]
            y = compute(node, operands)
            values[node] = y if exact else off(y)
            if node.op.full_name in ABSOLUTE and y.dtype == np.float32:
                error = ABSOLUTE[node.op.full_name] / FACTOR  # no more than that is allowed for
                values[node] += random.uniform(-error, error, y.shape)
    return [values[n] for n in (*graph.outputs, *[value for _, value in graph.writes])]


class Yardstick:
    """How far the results of a graph may be from those of its nodes, run one by one."""

    def __init__(self, graph: Graph, arguments: Arguments) -> None:
        self.graph, self.arguments = graph, arguments
        outputs, written = interpret(graph, *arguments)
        self.expected = [np.asarray(a) for a in (*outputs, *written)]
        self.error = [np.zeros(a.shape) for a in self.expected]
        self.random = np.random.default_rng(0)

    def lengthen(self) -> None:
        """Takes in what another way of rounding does."""
        found = disturbed(self.graph, self.arguments, self.random)
        for a, b, error in zip(self.expected, found, self.error, strict=True):
            with np.errstate(all="ignore"):
                change = np.abs(wide(b) - wide(a))
            odd = np.isnan(change) & ~same(a, b)
            np.fmax(error, np.where(odd, np.inf, change), out=error)

    def wrong(self, found: Sequence[np.ndarray]) -> list[int]:
        """The numbers of the results that are off."""
        return [n for n, b in enumerate(found) if not self.agrees(n, b)]

    def agrees(self, number: int, found: np.ndarray) -> bool:
        expected, error = self.expected[number], self.error[number]
        if found.shape != expected.shape or found.dtype != expected.dtype:
            return False
        least = 0.0
        if found.dtype.kind in "fV":
            least = float(ml_dtypes.finfo(found.dtype).smallest_subnormal)
        with np.errstate(all="ignore"):
            near = np.abs(wide(found) - wide(expected)) <= FACTOR * (error + least)
        return bool(np.all(near | same(found, expected) | np.isinf(error)))


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where elements are equal, or both not a number."""
    return (a == b) | ((a != a) & (b != b))


def compare(graph: Graph, arguments: Arguments, name: str) -> None:
    """An error unless a program agrees with its graph, with two threads and with one."""
    executable = Executable(graph)
    threads = rl.get_num_threads()
    try:
        rl.set_num_threads(2)
        found = run(executable, arguments)
        rl.set_num_threads(1)
        alone = run(executable, arguments)
    finally:
        rl.set_num_threads(threads)
    for a, b in zip(found, alone, strict=True):
        assert np.all(same(a, b)), f"{name}: threads matter"
    yardstick = Yardstick(graph, arguments)
    wrong = yardstick.wrong(found)
    for _ in range(MOST_RUNS):
        if not wrong:
            break
        yardstick.lengthen()
        wrong = yardstick.wrong(found)
    assert not wrong, f"{name}: outputs {wrong} differ:\n{graph}"


def compare_graph(seed: int) -> None:
    make, graph = random_graph(seed, 5 + seed % 56, np.float64 if seed % 5 == 0 else np.float32)
    compare(graph, make.arguments(), f"graph {seed}")


def compare_function(seed: int) -> None:
    graph, inputs = random_function(seed, 5 + seed % 40)
    compare(graph, (inputs, []), f"function {seed}")


@pytest.mark.parametrize("first", range(0, QUICK, BATCH))
def test_random_graphs(first: int) -> None:
    for seed in range(first, first + BATCH):
        compare_graph(seed)


@pytest.mark.parametrize("first", range(0, QUICK // 4, BATCH // 4))
def test_random_functions(first: int) -> None:
    for seed in range(first, first + BATCH // 4):
        compare_function(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(QUICK, ALL, BATCH))
def test_many_random_graphs(first: int) -> None:
    for seed in range(first, first + BATCH):
        compare_graph(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(QUICK // 4, ALL // 4, BATCH))
def test_many_random_functions(first: int) -> None:
    for seed in range(first, first + BATCH):
        compare_function(seed)
