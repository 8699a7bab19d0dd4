"""The passes, in the order in which they run.

``RUSHLIGHT_DUMP=simplify`` (or ``rl.config.dump = "simplify"``) prints the graph after that pass,
``all`` after every one, ``plan`` the steps that come of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rushlight.config import config
from rushlight.graph.ir import Graph
from rushlight.passes.blocks import by_blocks
from rushlight.passes.borders import copy_borders
from rushlight.passes.dead import drop_dead
from rushlight.passes.early import early_first, still_leaves, still_nodes
from rushlight.passes.fold_norms import fold_norms
from rushlight.passes.order import Plan, plan
from rushlight.passes.pools_first import pools_first
from rushlight.passes.rows import spread_rows
from rushlight.passes.simplify import simplify


class Pass(NamedTuple):
    """One way through a graph."""

    name: str
    run: Callable[[Graph], Graph]
    why: str
    holds: str


PASSES = (
    Pass(
        "simplify",
        simplify,
        why="first, for everything later is quicker on a small graph",
        holds="no two nodes compute the same; constants are leaves, uniform ones numbers that are "
        "expanded; views are view, permute, expand and slices, none undone by the next",
    ),
    Pass(
        "rows",
        spread_rows,
        why="after simplification: of products, sums and views there is one form",
        holds="no loop over rows multiplies rows by what stays the same, or only adds products up",
    ),
    Pass(
        "dead",
        drop_dead,
        why="rules may find that a tensor keeps its value, and loops then make more than is needed",
        holds="every write changes something",
    ),
    Pass(
        "blocks",
        by_blocks,
        why="after simplification, which has put channels last",
        holds="no variance over leading dimensions goes far",
    ),
    Pass(
        "borders",
        copy_borders,
        why="after simplification, which sees no difference between a value and its copy",
        holds="outputs and written values are not captured tensors that are written to; operands "
        "of branches and loops are contiguous in memory",
    ),
)


def run(graph: Graph, timings: dict[str, float] | None = None) -> Graph:
    """The graph after all passes; ``timings`` gets the seconds that each took.

    >>> from rushlight.graph.parse import parse
    >>> seconds = {}
    >>> text = "graph(%0: f32[2]):\\n  %1: f32[2] = neg(%0)\\n  %2: f32[2] = neg(%1)\\n  return %2"
    >>> print(run(parse(text), seconds))
    graph(%0: f32[2]):
      return %0
    >>> list(seconds)
    ['simplify', 'rows', 'dead', 'blocks', 'borders']
    """
    check_dump()
    for step in PASSES:
        begin = time.perf_counter()
        graph = step.run(graph)
        note(step.name, begin, graph, timings)
    return graph


def lower(
    graph: Graph, timings: dict[str, float] | None = None, still: Sequence[int] = ()
) -> tuple[Graph, Plan]:
    """The graph after all passes, and the plan of how to run it.

    What is computed of the captured tensors with the numbers ``still`` alone comes first.
    """
    graph = run(graph, timings)
    leaves = still_leaves(graph, still)
    if leaves:
        begin = time.perf_counter()
        graph = fold_norms(graph, still_nodes(graph, leaves))
        note("fold_norms", begin, graph, timings)
    begin = time.perf_counter()
    graph = pools_first(graph)
    note("pools_first", begin, graph, timings)
    begin = time.perf_counter()
    steps = plan(graph, still_nodes(graph, leaves))
    if leaves:
        steps = early_first(graph, steps, leaves)
    note("plan", begin, steps, timings)
    return graph, steps


def check_dump() -> None:
    """An error for the name of a pass that there is not."""
    names = [*[step.name for step in PASSES], "fold_norms", "pools_first"]
    if config.dump not in ("", *names, "plan", "all"):
        raise ValueError(
            f"there is no pass {config.dump!r} to print the graph after (RUSHLIGHT_DUMP): the "
            f"passes are {', '.join(names)}; 'plan' prints the steps, 'all' everything"
        )


def note(name: str, begin: float, result: Graph | Plan, timings: dict[str, float] | None) -> None:
    if timings is not None:
        timings[name] = time.perf_counter() - begin
    if config.dump in (name, "all"):
        print(f"after {name}:\n{result}", file=sys.stderr)
