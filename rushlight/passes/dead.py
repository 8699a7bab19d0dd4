"""Dead code: a graph holds only what its outputs and writes need, so what is left to drop are
writes that change nothing, and what branches and loops make for nobody."""

from __future__ import annotations

import dataclasses

from rushlight.graph.ir import Graph
from rushlight.passes.unused import drop_unused


def drop_dead(graph: Graph) -> Graph:
    """The graph without writes of a captured value to itself, and without unused results.

    Random ops that nothing else needs stay as long as their generator's next state is written.
    """
    writes = tuple([(target, value) for target, value in graph.writes if target is not value])
    return drop_unused(dataclasses.replace(graph, writes=writes))
