"""The border between forward and backward: what is kept, and what is computed again.

A graph of a function and its gradients is cut in two. What backward needs of forward is saved, or
computed again from what is saved if that is cheap. The fewest bytes are found as a minimal cut:
each value is an edge whose capacity is its size, and dear values cannot be computed again.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.dims import example
from rushlight.graph.ir import (
    CAPTURED,
    CONSTANT,
    INPUT,
    ITEM,
    Graph,
    Node,
    copy,
    walk,
)
from rushlight.ops.views import View
from rushlight.passes.clusters import LIGHT_WORK, is_leaf, is_library, weight

ENDLESS = 1 << 60


@dataclass(frozen=True, slots=True)
class Split:
    """Two graphs for one, and the values of the whole graph that go from the first to the second.

    The outputs of ``forward`` are those of the function, then the ``saved`` values but inputs. The
    inputs of ``backward`` are the saved values, then the gradients of the function's outputs.
    """

    forward: Graph
    backward: Graph
    saved: tuple[Node, ...]


def split(
    graph: Graph, outputs: Sequence[Node], tangents: Sequence[Node], gradients: Sequence[Node]
) -> Split:
    """Cuts a graph that computes ``outputs``, and ``gradients`` from the inputs ``tangents``."""
    late = depending(graph, tangents)
    writes = [(target, value) for target, value in graph.writes if value not in late]
    changed = {target for target, _ in writes}
    later = [(target, value) for target, value in graph.writes if value in late]
    ends = [*gradients, *[value for _, value in later]]
    wanted = dict.fromkeys([n for n in frontier(ends, late) if n.op is not CONSTANT])
    saved = [n for n in minimal_cut(wanted, changed) if n.op is not CAPTURED or n in changed]
    primal = tuple([n for n in graph.inputs if n not in set(tangents)])
    computed = [n for n in saved if n.op is not INPUT]
    forward = Graph(primal, graph.captured, (*outputs, *computed), tuple(writes), graph.names)
    return Split(forward, backward_graph(graph, saved, tangents, gradients, later), tuple(saved))


def depending(graph: Graph, sources: Iterable[Node]) -> set[Node]:
    """The nodes that depend on one of ``sources``, and those themselves."""
    found = set(sources)
    for node in graph.nodes():
        if any([n in found for n in node.inputs]):
            found.add(node)
    return found


def frontier(ends: Sequence[Node], late: set[Node]) -> Iterable[Node]:
    """The values of forward that the way back to ``ends`` reads."""
    for node in walk(ends):
        if node in late:
            yield from [n for n in node.inputs if n is not None and n not in late]
    yield from [n for n in ends if n not in late]


def is_cheap(node: Node) -> bool:
    """Whether a value is quicker to compute again than to keep: light, and element by element."""
    if node.op is ITEM or is_library(node) or node.op.scatter is not None:
        return False
    return node.op.scan is None and node.op.folded is None and weight(node) <= LIGHT_WORK


def minimal_cut(wanted: Iterable[Node], changed: set[Node]) -> list[Node]:
    """The values of fewest bytes from which all ``wanted`` ones can be computed cheaply."""
    flow = Flow()
    wanted = list(wanted)
    stack, seen = list(wanted), set(wanted)
    for node in wanted:
        flow.edge((node, 1), "end", ENDLESS)
    while stack:
        node = stack.pop()
        several = isinstance(node.type, tuple)
        free = node.op is INPUT or (node.op is CAPTURED and node not in changed)
        view = isinstance(node.op, View) and node.op.stays  # it has no memory to be kept
        size = ENDLESS if several or view else 0 if free else example(node.type.nbytes)
        flow.edge((node, 0), (node, 1), size)
        below = [n for n in node.inputs if n is not None and n.op is not CONSTANT]
        if is_leaf(node) or not (node.op is ITEM or (not several and is_cheap(node))):
            flow.edge("begin", (node, 0), ENDLESS)
            continue
        for n in below:
            flow.edge((n, 1), (node, 0), ENDLESS)
            if n not in seen:
                seen.add(n)
                stack.append(n)
    reached = flow.cut("begin", "end")
    order = walk(wanted)
    return [n for n in order if (n, 0) in reached and (n, 1) not in reached]


class Flow:
    """The largest flow through a network, by shortest ways (Edmonds and Karp, level by level)."""

    def __init__(self) -> None:
        self.rest: dict[Any, dict[Any, int]] = {}

    def edge(self, a: Any, b: Any, capacity: int) -> None:
        self.rest.setdefault(a, {})[b] = capacity
        self.rest.setdefault(b, {}).setdefault(a, 0)

    def cut(self, begin: Any, end: Any) -> set[Any]:
        """The vertices that a minimal cut leaves on the side of ``begin``."""
        if begin not in self.rest:
            return set()
        while True:
            level = self.levels(begin)
            if end not in level:
                return set(level)
            unseen = {a: iter(list(near)) for a, near in self.rest.items()}
            while self.push(begin, end, level, unseen):
                pass

    def levels(self, begin: Any) -> dict[Any, int]:
        found, queue = {begin: 0}, deque([begin])
        while queue:
            a = queue.popleft()
            for b, rest in self.rest[a].items():
                if rest and b not in found:
                    found[b] = found[a] + 1
                    queue.append(b)
        return found

    def push(self, begin: Any, end: Any, level: dict[Any, int], unseen: dict[Any, Any]) -> bool:
        """Sends as much as possible over one more shortest way; False if there is none."""
        path = [begin]
        while path[-1] != end:
            a = path[-1]
            for b in unseen[a]:
                if self.rest[a][b] and level.get(b) == level[a] + 1:
                    path.append(b)
                    break
            else:
                path.pop()
                if not path:
                    return False
        edges = list(itertools.pairwise(path))
        amount = min([self.rest[a][b] for a, b in edges])
        for a, b in edges:
            self.rest[a][b] -= amount
            self.rest[b][a] += amount
            if self.rest[a][b]:
                unseen[a] = iter([b, *unseen[a]])
        return True


def backward_graph(
    graph: Graph,
    saved: Sequence[Node],
    tangents: Sequence[Node],
    gradients: Sequence[Node],
    writes: Sequence[tuple[Node, Node]],
) -> Graph:
    """The way from ``saved`` values and ``tangents`` to the gradients."""
    new: dict[Node | None, Node | None] = {None: None}
    for node in (*saved, *tangents):
        new[node] = Node(INPUT, (), {}, node.type, node.source)
    for node in walk([*gradients, *[value for _, value in writes]], [*saved, *tangents]):
        new[node] = copy(node, tuple([new[n] for n in node.inputs]))
    at: Any = new.__getitem__
    return Graph(
        tuple([at(n) for n in (*saved, *tangents)]),
        graph.captured,
        tuple(map(at, gradients)),
        tuple([(target, at(value)) for target, value in writes]),
        graph.names,
    )
