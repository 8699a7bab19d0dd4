"""Random graphs, compiled: equal to the graph run node by node, whatever the number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.graph.ir import interpret
from rushlight.runtime.executable import Executable
from tests.passes.graphs import random_graph

QUICK, ALL, BATCH = 160, 5000, 20


def run(executable: Executable, arguments: tuple[list[Any], list[Any]]) -> list[np.ndarray]:
    """The outputs of a program and what it has written, on copies of its arguments."""
    inputs, captured = [[a.copy() for a in part] for part in arguments]
    outputs = executable.run(inputs, captured)
    targets = dict(zip(executable.source.captured, captured, strict=True))
    return [*outputs, *[targets[target] for target, _ in executable.source.writes]]


def close(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal but for rounding, which a long chain of functions makes larger."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    rtol = 1e-3 if a.dtype == np.float32 else 1e-9
    finite = np.abs(a[np.isfinite(a)])
    scale = float(finite.max()) if finite.size else 0.0
    return np.allclose(b, a, rtol=rtol, atol=rtol * scale, equal_nan=True)


def compare(seed: int) -> None:
    count = 5 + seed % 56
    make, graph = random_graph(seed, count, np.float64 if seed % 5 == 0 else np.float32)
    arguments = make.arguments()
    outputs, written = interpret(graph, *arguments)
    executable = Executable(graph)
    threads = rl.get_num_threads()
    try:
        rl.set_num_threads(2)
        found = run(executable, arguments)
        rl.set_num_threads(1)
        alone = run(executable, arguments)
    finally:
        rl.set_num_threads(threads)
    for number, (a, b, c) in enumerate(zip([*outputs, *written], found, alone, strict=True)):
        assert close(np.asarray(a), b), f"seed {seed}: output {number} differs:\n{graph}"
        assert np.array_equal(b, c, equal_nan=b.dtype.kind == "f"), f"seed {seed}: threads matter"


@pytest.mark.parametrize("first", range(0, QUICK, BATCH))
def test_random_graphs(first: int) -> None:
    for seed in range(first, first + BATCH):
        compare(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(QUICK, ALL, BATCH))
def test_many_random_graphs(first: int) -> None:
    for seed in range(first, first + BATCH):
        compare(seed)
