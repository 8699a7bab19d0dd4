"""Graphs as pictures: values from outside on top, results at the bottom, loops around their bodies.

A large graph is drawn by lines: what comes from one line of the user's is one frame.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeVar

from rushlight.drawing.picture import LEAF, OP, RESULT, Box, Frame, Part, Picture
from rushlight.graph.control import Control
from rushlight.graph.ir import CAPTURED, CONSTANT, INPUT, ITEM, Graph, Node, Source, show
from rushlight.graph.sections import Section, sections, title_of

T = TypeVar("T")
LARGEST = 2000  # boxes of a picture
MANY = 80  # nodes; of more, a graph is drawn by lines
OPEN = 12  # nodes of a line that are drawn one by one
BODY = 60  # nodes of a body that are drawn one by one
DEEPEST = 4  # loops and branches within each other
MOST = 4  # values that are named in one box
KINDS = 6  # of ops that are named in one box
WIDEST = 60  # characters of a type
IDLE = frozenset(("clone", "stored", "view", "cast", "contiguous"))
"""Ops that are not drawn where they leave a type as it is."""
FILLED = {"full": None, "zeros": 0, "ones": 1}


def graph_picture(graph: Graph, names: Mapping[Node, str]) -> Picture:
    """The picture of a graph whose inputs and captured values have names."""
    results = [(f"result {i}", node) for i, node in enumerate(graph.outputs)]
    results += [(f"new {names[target]}", node) for target, node in graph.writes]
    sketch = Sketch(graph, names, results, 0)
    if len(sketch.nodes) > LARGEST:
        count = len(sketch.nodes)
        raise ValueError(f"the graph has {count} values; a picture shows at most {LARGEST}")
    return sketch.picture()


class Sketch:
    """The boxes of a graph, at a depth of loops and branches around it."""

    def __init__(
        self,
        graph: Graph,
        names: Mapping[Node, str],
        results: Sequence[tuple[str, Node]],
        depth: int,
    ) -> None:
        self.names, self.depth = names, depth
        self.results = [(title, seen(node), node) for title, node in results]
        roots = {node for _, node, _ in self.results}
        used = {seen(n) for node in graph.nodes() for n in node.inputs if n is not None} | roots
        arguments = [n for n in graph.inputs if depth == 0 or n in used]
        self.leaves = [*arguments, *[n for n in graph.captured if n in used]]
        self.nodes = [
            node
            for node in graph.nodes()
            if node.op not in (INPUT, CAPTURED, ITEM) and not is_idle(node)
            and (number_of(node) is None or node in roots)
        ]  # fmt: skip

    def picture(self) -> Picture:
        by_line = len(self.nodes) > MANY
        units = runs(self.nodes) if by_line else [[node] for node in self.nodes]
        place = {node: i for i, unit in enumerate(units) for node in unit}
        readers: dict[Node, set[int]] = {node: set() for node in self.leaves}
        between: dict[tuple[int, int], None] = {}
        for node, number in place.items():
            for source in sources(node):
                if source in readers:
                    readers[source].add(number)
                elif source in place and place[source] != number:
                    between[place[source], number] = None
        leaves = together(self.leaves, lambda node: frozenset(readers[node]), by_line)
        boxes: list[Box | Frame] = [self.named(LEAF, self.titled(group)) for group in leaves]
        first = len(boxes)
        arrows = [(i, first + n) for i, g in enumerate(leaves) for n in sorted(readers[g[0]])]
        arrows += [(first + a, first + b) for a, b in between]
        boxes += [self.unit(unit) for unit in units]
        at = {node: i for i, group in enumerate(leaves) for node in group}
        at |= {node: first + number for node, number in place.items()}
        for several in together(self.results, lambda result: at[result[1]], by_line):
            arrows.append((at[several[0][1]], len(boxes)))
            boxes.append(self.named(RESULT, [(title, node) for title, _, node in several]))
        return Picture(boxes, arrows)

    def titled(self, leaves: Sequence[Node]) -> list[tuple[str, Node]]:
        return [(self.names[node], node) for node in leaves]

    def named(self, kind: str, values: Sequence[tuple[str, Node]]) -> Box:
        """A box of one value, or of several."""
        if len(values) == 1:
            ((title, node),) = values
            return Box(kind, (title, typed(node)))
        lines = [f"{title}: {typed(node)}" for title, node in values[:MOST]]
        more = [f"and {len(values) - MOST} more"] if len(values) > MOST else []
        return Box(kind, (*lines, *more))

    def unit(self, nodes: Sequence[Node]) -> Box | Frame:
        """A node, or all those of a line."""
        if len(nodes) == 1:
            return self.node(nodes[0])
        source = nodes[0].source
        if len(nodes) > OPEN:
            return Box(OP, (*heading(source), *counted_ops(nodes)))
        place = {node: i for i, node in enumerate(nodes)}
        found = {
            (place[n], i): None for node, i in place.items() for n in sources(node) if n in place
        }
        inner = Picture([self.node(node) for node in nodes], list(found))
        return Frame(heading(source), (Part("", inner),))

    def node(self, node: Node) -> Box | Frame:
        if not isinstance(node.op, Control):
            return Box(OP, (number_of(node) or called(node), typed(node)))
        lines = (title_of(node), *heading(node.source))
        if self.depth == DEEPEST:
            return Box(OP, (*lines, *[counted_text(each) for each in sections(node)]))
        return Frame(lines, tuple([self.part(each) for each in sections(node)]))

    def part(self, section: Section) -> Part:
        """A graph inside a node, whose captured values are called as they are outside."""
        graph = section.graph
        names = dict(zip(graph.inputs, section.inputs, strict=True))
        for inner, outer in zip(graph.captured, section.captured, strict=True):
            assert outer is not None
            source = seen(outer)
            number = number_of(source)
            names[inner] = self.names.get(source) or called(source) if number is None else number
        results = list(zip(section.outputs, graph.outputs, strict=True))
        sketch = Sketch(graph, names, results, self.depth + 1)
        if len(sketch.nodes) > BODY:
            return Part(section.label, Picture([Box(OP, counted_ops(sketch.nodes))], []))
        return Part(section.label, sketch.picture(), section.again)


def together(values: Sequence[T], key: Callable[[T], Any], several: bool) -> list[list[T]]:
    """Values with the same key as one group, in the order of the first ones; or each by itself."""
    if not several:
        return [[value] for value in values]
    groups: dict[Any, list[T]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return list(groups.values())


def runs(nodes: Sequence[Node]) -> list[list[Node]]:
    """The nodes in an order in which those of a line follow each other, cut between lines.

    Whatever is cut out of an order in which each node follows its operands has no cycles. A branch
    or loop is by itself: it has a frame of its own, with its line.
    """
    known = set(nodes)
    waiting = {node: len({n for n in sources(node) if n in known}) for node in nodes}
    users: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        for n in dict.fromkeys(sources(node)):
            if n in known:
                users[n].append(node)
    ready: dict[Source | None, deque[Node]] = {}
    found: list[Node] = []
    line: Source | None = None
    for node in nodes:
        if not waiting[node]:
            ready.setdefault(node.source, deque()).append(node)
    while ready:
        if line not in ready:
            line = next(iter(ready))
        node = ready[line].popleft()
        if not ready[line]:
            del ready[line]
        found.append(node)
        for user in users[node]:
            waiting[user] -= 1
            if not waiting[user]:
                ready.setdefault(user.source, deque()).append(user)
    alone = {node: node if isinstance(node.op, Control) else None for node in found}
    return [list(group) for _, group in groupby(found, key=lambda n: (n.source, alone[n]))]


def sources(node: Node) -> Iterator[Node]:
    """The nodes that are drawn above a node."""
    return (seen(n) for n in node.inputs if n is not None)


def seen(node: Node) -> Node:
    """The node that is drawn for this one."""
    while node.op is ITEM or is_idle(node):
        node = node.inputs[0]  # type: ignore[assignment]
    return node


def is_idle(node: Node) -> bool:
    """Whether nothing changes: neither the type nor, from a truth value to 0 and 1, the meaning."""
    below = node.inputs[0] if node.inputs else None
    if below is None or node.op.name not in IDLE:
        return False
    return below.type == node.type or (node.op.name == "cast" and show(below.type) == "b1[]")


def number_of(node: Node) -> str | None:
    """What a number that is written in the program is, or None."""
    if isinstance(node.type, tuple) or node.type.shape:
        return None
    if node.op is CONSTANT:
        value = node.attrs["value"].item()
    elif node.op.name in FILLED:
        value = node.attrs.get("fill_value", FILLED[node.op.name])
    else:
        return None
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def called(node: Node) -> str:
    """An op, with the numbers among its operands."""
    numbers = [None if n is None else number_of(seen(n)) for n in node.inputs]
    if not any(numbers):
        return node.op.full_name
    return f"{node.op.full_name}({', '.join([number or '·' for number in numbers])})"


def typed(node: Node) -> str:
    while is_idle(node):
        node = node.inputs[0]  # type: ignore[assignment]
    text = show(node.type)
    return text if len(text) <= WIDEST else f"{text[:WIDEST]}…"


def heading(source: Source | None) -> tuple[str, ...]:
    """The module and the line that nodes come from."""
    return () if source is None else tuple(str(source).split("  "))


def counted_ops(nodes: Sequence[Node]) -> tuple[str, ...]:
    """How many nodes there are, and of which kinds."""
    found = Counter([node.op.name for node in nodes]).most_common()
    lines = [f"{name} ×{n}" if n > 1 else name for name, n in found[:KINDS]]
    rest = sum([n for _, n in found[KINDS:]])
    return (f"{len(nodes)} nodes", *lines, *([f"and {rest} others"] if rest else []))


def counted_text(section: Section) -> str:
    nodes = [n for n in section.graph.nodes() if n.op not in (INPUT, CAPTURED, ITEM, CONSTANT)]
    return f"{section.label}: {len(nodes)} nodes"
