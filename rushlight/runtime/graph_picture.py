"""The graph of a program as SVG: every step is a frame around the nodes that were fused into it.

A branch or loop is a frame around the steps of the graphs inside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rushlight.drawing.picture import LEAF, OP, RESULT, Box, Frame, Part, Picture
from rushlight.drawing.svg import Drawing, element
from rushlight.graph.control import Control
from rushlight.graph.ir import CONSTANT, ITEM, Graph, Node, show
from rushlight.graph.sections import sections, title_of
from rushlight.passes.clusters import is_leaf
from rushlight.passes.fuse import Call, Step
from rushlight.passes.order import Plan
from rushlight.runtime.control import pieces, plan_inside
from rushlight.runtime.executable import Executable

if TYPE_CHECKING:
    from rushlight.runtime.explain import Step as Row

LARGEST_GROUP = 30  # nodes; of more, a frame only counts them
MOST = 4  # outputs of one step that are named
LARGEST = 1000  # steps and leaves that a picture shows
DEEPEST = 4  # loops and branches within each other

Path = tuple[tuple[int, int], ...]  # (step of a plan, graph inside it), from outside to inside


def graph_picture(
    label: str, executable: Executable, rows: Mapping[tuple[Path, int], Sequence[Row]]
) -> str:
    """The picture; ``rows`` are the steps of the program for each step of a plan."""
    graph = executable.graph
    names = {node: f"input {i}" for i, node in enumerate(graph.inputs)}
    results = [(f"output {i}", node) for i, node in enumerate(graph.outputs)]
    items = Items(label, graph, executable.plan, {**graph.names, **names}, results, (), rows)
    if len(items.parts) > LARGEST:
        return f"<p>{len(items.parts)} steps and values are too many to be drawn.</p>"
    if not items.parts:
        return "<p>Nothing is computed.</p>"
    return element(Drawing(items.picture))


def origin_name(label: str, path: Path, origin: int) -> str:
    """What a step of a plan is called in a page.

    >>> origin_name("forward", ((2, 0),), 1)
    'forward-2.0-1'
    """
    return "-".join([label, *[f"{step}.{graph}" for step, graph in path], str(origin)])


def hue_of(path: Path, origin: int) -> int:
    """The colour of a step of a plan: that of neighbours differs."""
    return 137 * (origin + 5 * sum([step + 3 * graph for step, graph in path])) % 360


class Items:
    """Leaves, frames and results, in an order in which none points to an earlier one."""

    def __init__(
        self,
        label: str,
        graph: Graph,
        plan: Plan,
        names: Mapping[Node, str],
        results: Sequence[tuple[str, Node]],
        path: Path,
        rows: Mapping[tuple[Path, int], Sequence[Row]],
    ) -> None:
        self.label, self.names, self.path, self.rows = label, names, path, rows
        self.parts: list[Box | Frame] = []
        self.arrows: list[tuple[int, int]] = []
        self.place: dict[Node, int] = {}
        steps = plan.steps
        used = {n for step in steps for n in step.inputs} | {node for _, node in results}
        for node in graph.nodes():
            if node in used and is_leaf(node) and not is_number(node):
                self.place[node] = len(self.parts)
                self.parts.append(Box(LEAF, (names.get(node) or node.op.name, str(node.type))))
        for number, step in enumerate(steps):
            if isinstance(step, Call) and step.alias:
                source = step.node.inputs[0]
                if source in self.place:
                    self.place[step.node] = self.place[source]
                continue
            self.frame(number, step)
        self.results(results)

    @property
    def picture(self) -> Picture:
        return Picture(self.parts, self.arrows)

    def results(self, results: Sequence[tuple[str, Node]]) -> None:
        """One box for all outputs that come from the same place."""
        found: dict[int | None, list[str]] = {}
        for name, node in results:
            text = node.attrs["value"].item() if is_number(node) else node.type
            found.setdefault(self.maker(node), []).append(f"{name}: {text}")
        for maker, lines in found.items():
            if maker is not None:
                self.arrows.append((maker, len(self.parts)))
            more = [f"and {len(lines) - MOST} more"] if len(lines) > MOST else []
            self.parts.append(Box(RESULT, (*lines[:MOST], *more)))

    def maker(self, node: Node) -> int | None:
        if node not in self.place and node.op is ITEM:
            return self.place.get(node.inputs[0])  # type: ignore[arg-type]
        return self.place.get(node)

    def frame(self, number: int, step: Step) -> None:
        """A frame with the nodes of a step, and arrows from what they read."""
        rows = self.rows.get((self.path, number), ())
        span = "–".join(dict.fromkeys([str(row.number) for row in (*rows[:1], *rows[-1:])]))
        makers = [self.maker(n) for n in step.inputs]
        self.arrows += dict.fromkeys([(m, len(self.parts)) for m in makers if m is not None])
        made = step.nodes if isinstance(step, Call) else step.outputs
        self.place.update(dict.fromkeys(made, len(self.parts)))
        if isinstance(step, Call) and isinstance(step.node.op, Control):
            where = () if step.node.source is None else (str(step.node.source),)
            lines = (title_of(step.node), *where)
            self.parts.append(Frame(lines, self.inside(number, step.node), 'class="flow"'))
            return
        kind = rows[-1].kind if rows else "kernel"
        title = f"#{span} {kind}" if span else kind
        origin, hue = origin_name(self.label, self.path, number), hue_of(self.path, number)
        mark = f'class="step" data-origin="{origin}" style="--hue: {hue}"'
        self.parts.append(Frame((title,), (Part("", within(step)),), mark))

    def inside(self, number: int, node: Node) -> tuple[Part, ...]:
        """The graphs inside a branch or loop, as they are run."""
        graphs, found = pieces(node), []
        for section in sections(node):
            graph = graphs[section.number]
            if len(self.path) == DEEPEST:
                found.append(Part(section.label, counted(graph.nodes())))
                continue
            leaves = (*graph.inputs, *graph.captured)
            captured = [self.names.get(n, n.op.name) if n else "" for n in section.captured]
            names = dict(zip(leaves, (*section.inputs, *captured), strict=True))
            results = [(f"next {names[target]}", value) for target, value in graph.writes]
            outputs = section.outputs[len(section.outputs) - len(graph.outputs) :]
            results += zip(outputs, graph.outputs, strict=True)
            path = (*self.path, (number, section.number))
            plan = plan_inside(graph)
            inner = Items(self.label, graph, plan, names, results, path, self.rows)
            found.append(Part(section.label, inner.picture, section.again))
        return tuple(found)


def is_number(node: Node) -> bool:
    """Whether a node is a number that is written in the program; it is not drawn."""
    return node.op is CONSTANT and node.type.size == 1


def within(step: Step) -> Picture:
    """The nodes of a step, or how many there are of each op."""
    nodes = [node for node in step.nodes if node.op is not ITEM]
    if len(nodes) > LARGEST_GROUP:
        return counted(nodes)
    place = {node: i for i, node in enumerate(nodes)}
    found = []
    for node, i in place.items():
        for n in node.inputs:
            below = n.inputs[0] if n is not None and n not in place and n.op is ITEM else n
            if below in place:
                found.append((place[below], i))
    return Picture(
        [Box(OP, (node.op.name, show(node.type))) for node in nodes], list(dict.fromkeys(found))
    )


def counted(nodes: Sequence[Node]) -> Picture:
    """How many nodes there are of each op."""
    names = Counter([n.op.name for n in nodes if n.op is not ITEM and not is_leaf(n)])
    return Picture([Box(OP, tuple([f"{name} ×{n}" for name, n in names.items()]))], [])
