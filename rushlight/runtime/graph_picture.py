"""The graph of a program as SVG: every step is a frame around the nodes that were fused into it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rushlight.drawing.layout import Cell, Layout
from rushlight.drawing.picture import LEAF, OP, RESULT, Box, Picture
from rushlight.drawing.svg import FONT, HEAD, MARGIN, arrows, boxes, drawn, size
from rushlight.graph.ir import CONSTANT, INPUT, ITEM, Graph, Node, show
from rushlight.passes.clusters import is_leaf
from rushlight.passes.fuse import Call, Step
from rushlight.runtime.executable import Executable

TITLE = 20.0  # height of a frame's title
EDGE = 10.0
LARGEST_GROUP = 30  # nodes; of more, a frame only counts them
MOST = 4  # outputs of one step that are named
LARGEST = 1000  # steps and leaves that a picture shows


class Frame(NamedTuple):
    """A step of the plan, its nodes laid out by themselves."""

    number: int  # of the step in the plan
    title: str
    picture: Picture
    layout: Layout

    @property
    def size(self) -> tuple[float, float]:
        room = max(self.layout.width, 0.62 * FONT * len(self.title))
        return room + 2 * EDGE, self.layout.height + TITLE + 2 * EDGE


def graph_picture(label: str, executable: Executable, numbers: Mapping[int, Sequence[int]]) -> str:
    """The picture; ``numbers`` are the steps of the program for each step of the plan."""
    items = Items(executable, numbers)
    if len(items.parts) > LARGEST:
        return f"<p>{len(items.parts)} steps and values are too many to be drawn.</p>"
    if not items.parts:
        return "<p>Nothing is computed.</p>"
    sizes = [part.size if isinstance(part, Frame) else size(part) for part in items.parts]
    layout = Layout(sizes, items.arrows)
    width, height = layout.width + 2 * MARGIN, layout.height + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{layout.left - MARGIN:.1f} {-MARGIN:.1f} {width:.1f} {height:.1f}">',
        f"<defs>{HEAD}</defs>",
        *arrows(layout),
    ]
    for layer, top, tall in zip(layout.layers, layout.tops, layout.heights, strict=False):
        for cell in layer:
            if cell.box is not None:
                part, y = items.parts[cell.box], top + (tall - cell.height) / 2
                lines += framed(label, part, cell, y)
    return "\n".join([*lines, "</svg>"])


def framed(label: str, frame: Box | Frame, cell: Cell, y: float) -> Iterator[str]:
    """A box, or a frame with its nodes, whose upper edge is at ``y``."""
    if isinstance(frame, Box):
        yield from drawn(frame, cell, y)
        return
    left = cell.x - cell.width / 2
    middle = frame.layout.left + frame.layout.width / 2
    hue = 137 * frame.number % 360  # neighbours differ
    yield f'<g class="step" data-origin="{label}-{frame.number}" style="--hue: {hue}">'
    yield (
        f'<rect class="frame" x="{left:.1f}" y="{y:.1f}" width="{cell.width:.1f}" '
        f'height="{cell.height:.1f}" rx="10"/>'
    )
    yield f'<text class="title" x="{cell.x:.1f}" y="{y + TITLE - 4:.1f}">{frame.title}</text>'
    yield f'<g transform="translate({cell.x - middle:.1f} {y + TITLE + EDGE:.1f})">'
    yield from arrows(frame.layout)
    yield from boxes(frame.picture, frame.layout)
    yield "</g></g>"


class Items:
    """Leaves, frames and results, in an order in which none points to an earlier one."""

    def __init__(self, executable: Executable, numbers: Mapping[int, Sequence[int]]) -> None:
        self.graph: Graph = executable.graph
        self.parts: list[Box | Frame] = []
        self.arrows: list[tuple[int, int]] = []
        self.place: dict[Node, int] = {}
        steps = executable.plan.steps
        used = {n for step in steps for n in step.inputs} | set(self.graph.outputs)
        for number, node in enumerate(self.graph.nodes()):
            if node in used and is_leaf(node) and not is_number(node):
                self.place[node] = len(self.parts)
                self.parts.append(self.leaf(node, number))
        for number, step in enumerate(steps):
            if isinstance(step, Call) and step.alias:
                source = step.node.inputs[0]
                if source in self.place:
                    self.place[step.node] = self.place[source]
                continue
            self.frame(number, step, numbers.get(number, ()))
        self.results()

    def results(self) -> None:
        """One box for all outputs that come from the same place."""
        found: dict[int | None, list[int]] = {}
        for number, node in enumerate(self.graph.outputs):
            found.setdefault(self.maker(node), []).append(number)
        for maker, numbers in found.items():
            if maker is not None:
                self.arrows.append((maker, len(self.parts)))
            types = [str(self.graph.outputs[i].type) for i in numbers[:MOST]]
            lines = [f"output {i}: {kind}" for i, kind in zip(numbers, types, strict=False)]
            if len(numbers) > MOST:
                lines.append(f"and {len(numbers) - MOST} more")
            self.parts.append(Box(RESULT, tuple(lines)))

    def leaf(self, node: Node, number: int) -> Box:
        """The box of a value from outside."""
        name = f"input {number}" if node.op is INPUT else self.graph.names.get(node) or node.op.name
        return Box(LEAF, (name, str(node.type)))

    def maker(self, node: Node) -> int | None:
        if node not in self.place and node.op is ITEM:
            return self.place.get(node.inputs[0])  # type: ignore[arg-type]
        return self.place.get(node)

    def frame(self, number: int, step: Step, numbers: Sequence[int]) -> None:
        """A frame with the nodes of a step, and arrows from what they read."""
        inner = inside(step)
        layout = Layout([size(box) for box in inner.boxes], inner.arrows)
        kind = "call" if isinstance(step, Call) else "kernel"
        span = "–".join([str(n) for n in dict.fromkeys((*numbers[:1], *numbers[-1:]))])
        title = f"#{span} {kind}" if span else kind
        makers = [self.maker(n) for n in step.inputs]
        self.arrows += dict.fromkeys([(m, len(self.parts)) for m in makers if m is not None])
        made = step.nodes if isinstance(step, Call) else step.outputs
        self.place.update(dict.fromkeys(made, len(self.parts)))
        self.parts.append(Frame(number, title, inner, layout))


def is_number(node: Node) -> bool:
    """Whether a node is a number that is written in the program; it is not drawn."""
    return node.op is CONSTANT and node.type.size == 1


def inside(step: Step) -> Picture:
    """The nodes of a step, or how many there are of each op."""
    nodes = [node for node in step.nodes if node.op is not ITEM]
    if len(nodes) > LARGEST_GROUP:
        names = Counter([node.op.name for node in nodes])
        return Picture([Box(OP, tuple([f"{name} ×{n}" for name, n in names.items()]))], [])
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
