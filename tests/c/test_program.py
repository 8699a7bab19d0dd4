"""Random graphs in C: equal to the graph run node by node, up to what rounding does to it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rushlight.c.formulas import contiguous, plain
from rushlight.c.program import Program, checksum
from rushlight.graph.ir import Graph
from rushlight.passes import pipeline
from rushlight.passes.order import plan
from tests.c.building import Built
from tests.compiled.random_functions import random_function
from tests.compiled.test_random_graphs import MOST_RUNS, Arguments, Yardstick
from tests.passes.graphs import random_graph

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
HEAD = 24  # bytes of a file before the state

Case = tuple[Graph, Arguments]


def joined(graphs: Sequence[Graph]) -> Graph:
    """Graphs side by side."""
    parts = [(g.inputs, g.captured, g.outputs, g.writes) for g in graphs]
    inputs, captured, outputs, writes = [sum(part, ()) for part in zip(*parts, strict=True)]
    return Graph(inputs, captured, outputs, writes, {})


def compare(cases: Sequence[Case], folder: Path) -> None:
    """An error unless one program of all graphs agrees with each of them."""
    whole = joined([graph for graph, _ in cases])
    inputs, captured = [[a for _, both in cases for a in both[k]] for k in (0, 1)]
    graph = contiguous(pipeline.run(plain(whole)))
    names = [f"input{i}" for i in range(len(inputs))]
    values = dict(zip(graph.captured, captured, strict=True))
    program = Program("graphs", graph, plan(graph), names, values, arrays=False)
    for name, content in program.files().items():
        (folder / name).write_bytes(content)
    built = Built(folder / "graphs.c")
    saved = folder / "state"
    (outputs,) = built.run(inputs, save=saved)
    state = saved.read_bytes()[HEAD:]
    places = dict(zip(whole.captured, program.pieces, strict=True))
    for number, (part, arguments) in enumerate(cases):
        found, outputs = outputs[: len(part.outputs)], outputs[len(part.outputs) :]
        for target, _ in part.writes:
            piece = places[target]
            dtype, size = piece.type.dtype.numpy, piece.type.size
            written = np.frombuffer(state, dtype, size, piece.offset)
            found.append(written.reshape(piece.type.shape))
        yardstick = Yardstick(part, arguments)
        wrong = yardstick.wrong(found)
        for _ in range(MOST_RUNS):
            if wrong:
                yardstick.lengthen()
                wrong = yardstick.wrong(found)
        assert not wrong, f"graph {number}: outputs {wrong} differ:\n{part}"


def graph_of(seed: int) -> Case:
    dtype = np.float64 if seed % 5 == 0 else np.float32
    make, graph = random_graph(seed, 5 + seed % 56, dtype)
    return graph, make.arguments()


def function_of(seed: int) -> Case:
    graph, inputs = random_function(seed, 5 + seed % 40)
    return graph, (inputs, [])


def test_random_graphs(tmp_path: Path) -> None:
    compare([graph_of(seed) for seed in range(12)], tmp_path)


def test_random_functions(tmp_path: Path) -> None:
    compare([function_of(seed) for seed in range(8)], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(12, 512, 50))
def test_more_random_graphs(first: int, tmp_path: Path) -> None:
    compare([graph_of(seed) for seed in range(first, first + 50)], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(8, 208, 20))
def test_more_random_functions(first: int, tmp_path: Path) -> None:
    compare([function_of(seed) for seed in range(first, first + 20)], tmp_path)


def test_the_checksum_knows_the_order_of_words() -> None:
    words = np.arange(1, 9, dtype=np.uint64)
    assert checksum(words.tobytes()) != checksum(words[::-1].tobytes())
    assert checksum(b"") == 0
