"""A recorded graph as boxes and arrows, in the direction of the computation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from rushlight.autograd.graph import walk
from rushlight.autograd.tape import Node, Pick, edge
from rushlight.tensor import Tensor

LARGEST = 2000
SHOWN_VALUES = 6

LEAF, OP, RESULT = "leaf", "op", "result"


class Box(NamedTuple):
    """A leaf, an op or a result: its kind, and what is written on it."""

    kind: str
    lines: tuple[str, ...]


class Part(NamedTuple):
    """A picture inside a frame; ``again``: its results are where it begins the next time."""

    label: str
    picture: Picture
    again: bool = False


class Frame(NamedTuple):
    """A box around pictures, which stand side by side."""

    lines: tuple[str, ...]
    parts: tuple[Part, ...]
    mark: str = ""  # attributes of its element in SVG


class Picture(NamedTuple):
    """Boxes, of which none points to an earlier one, and arrows between their numbers."""

    boxes: list[Box | Frame]
    arrows: list[tuple[int, int]]


def picture_of(results: Mapping[str, Tensor], names: Mapping[str, Tensor], values: bool) -> Picture:
    """The graph of ``results``, whose leaves are called as in ``names`` or numbered."""
    edges = {name: owner(edge(t)) for name, t in results.items()}
    leaves, nodes = ordered(edges.values())
    if len(leaves) + len(nodes) > LARGEST:
        raise ValueError(
            f"the graph has {len(leaves) + len(nodes)} nodes, draw shows at most {LARGEST}: "
            "draw the graph of an intermediate value, or of fewer steps"
        )
    titles = {id(t): name for name, t in names.items()}
    boxes: list[Box | Frame] = []
    place: dict[Any, int] = {}
    for number, leaf in enumerate(leaves):
        place[leaf] = len(boxes)
        title = titles.get(id(leaf), f"leaf {number}")
        boxes.append(Box(LEAF, (title, *details(leaf, values))))
    for node in nodes:
        place[node] = len(boxes)
        shape = (size(node.shape),) if node.parts is None else ()
        boxes.append(Box(OP, (node.op.name, *shape)))
    arrows = [
        (place[owner(below)], place[node])
        for node in nodes
        for below in dict.fromkeys(owner(e) for e in node.edges)
        if below is not None
    ]
    for name, t in results.items():
        if edges[name] is not None:
            arrows.append((place[edges[name]], len(boxes)))
        boxes.append(Box(RESULT, (name, *details(t, values))))
    return Picture(boxes, arrows)


def owner(e: Any) -> Any:
    """The node of an edge: that of all its results, if it has several."""
    return e.edges[0] if isinstance(e, Pick) else e


def ordered(edges: Iterable[Any]) -> tuple[list[Tensor], list[Node]]:
    """The leaves below ``edges`` in the order of their first use, and the nodes, oldest first."""
    found = list(walk(edges))
    nodes = [e for e in found if isinstance(e, Node) and not isinstance(e, Pick)]
    nodes.sort(key=lambda node: node.sequence)
    used = [e for node in nodes for e in node.edges if isinstance(e, Tensor)]
    return list(dict.fromkeys([*used, *[e for e in found if isinstance(e, Tensor)]])), nodes


def details(t: Tensor, values: bool) -> tuple[str, ...]:
    line = f"{t.dtype.name} {size(t._array.shape)}"
    return (line, few(t._array)) if values else (line,)


def size(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "scalar"


def few(array: np.ndarray) -> str:
    """The first elements of an array."""
    shown = [f"{value:.4g}" for value in array.ravel()[:SHOWN_VALUES].tolist()]
    return ", ".join(shown + ["…"] * (array.size > SHOWN_VALUES))
