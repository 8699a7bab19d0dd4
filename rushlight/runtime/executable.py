"""Executable: a graph that can be called with arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.generator import Generator
from rushlight.graph.ir import Graph, interpret


class Executable:
    """Runs a graph node by node."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def run(self, inputs: Sequence[np.ndarray], captured: Sequence[Any]) -> list[np.ndarray]:
        states = [Generator.get_state(c) if isinstance(c, Generator) else c for c in captured]
        outputs, written = interpret(self.graph, inputs, states)
        for (target, _), value in zip(self.graph.writes, written, strict=True):
            leaves = (*self.graph.inputs, *self.graph.captured)
            place = [*inputs, *captured][leaves.index(target)]
            if isinstance(place, np.ndarray):
                place[...] = value
            else:
                Generator.set_state(place, value)
        return [np.array(a) for a in outputs]
