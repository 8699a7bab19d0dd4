"""``rl.draw``: the dynamic graph as text for a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rushlight.drawing.picture import Box, Picture, picture_of
from rushlight.drawing.svg import svg
from rushlight.errors import kind
from rushlight.tensor import Tensor

COLOURS = {"leaf": "#ddf4e4", "op": "#eef2f7", "result": "#ffe8cc"}


def draw(
    value: Tensor | Sequence[Tensor] | Mapping[str, Tensor],
    format: str = "dot",
    show_values: bool = False,
    names: Mapping[str, Tensor] | None = None,
) -> str:
    """The graph that ``value`` was computed by, as the text of a picture.

    Leaves that require gradients stand on top, ops below them, the results at the bottom.

    Args:
        value: a tensor, or several: a sequence, or a dict from names to tensors.
        format: "dot" for Graphviz, or "svg" for a picture that every browser shows.
        show_values: also write the first elements of leaves and results.
        names: what to call leaves, such as ``dict(model.named_parameters())``.

    >>> w = rl.ones(2, requires_grad=True)
    >>> print(rl.draw((w * 3).sum(), names={"w": w}))
    digraph {
      node [shape=box, style="filled,rounded", fontname="monospace"]
      n0 [label="w\\nfloat32 2", fillcolor="#ddf4e4"]
      n1 [label="mul\\n2", fillcolor="#eef2f7"]
      n2 [label="sum\\nscalar", fillcolor="#eef2f7"]
      n3 [label="result\\nfloat32 scalar", fillcolor="#ffe8cc"]
      n0 -> n1
      n1 -> n2
      n2 -> n3
    }
    """
    if format not in ("dot", "svg"):
        raise ValueError(f'format must be "dot" or "svg", got {format!r}')
    if not isinstance(value, (Tensor, Sequence, Mapping)):
        raise TypeError(f"draw(): value must be a Tensor or several, not {type(value).__name__}")
    if names is not None and not isinstance(names, Mapping):
        raise TypeError(f"draw(): names must map names to tensors, not {type(names).__name__}")
    if isinstance(value, Mapping):
        results = dict(value)
    elif isinstance(value, Tensor):
        results = {"result": value}
    else:
        results = {f"result {i}": t for i, t in enumerate(value)}
    for t in (*results.values(), *(names or {}).values()):
        if not isinstance(t, Tensor):
            raise TypeError(f"draw(): expected tensors, got {kind(t)}")
    if not results:
        raise ValueError("draw(): expected at least one tensor")
    picture = picture_of(results, names or {}, show_values)
    return svg(picture) if format == "svg" else dot(picture)


def dot(picture: Picture) -> str:
    """The picture in Graphviz's language."""
    lines = ["digraph {", '  node [shape=box, style="filled,rounded", fontname="monospace"]']
    for number, box in enumerate(picture.boxes):
        assert isinstance(box, Box)
        label = "\\n".join([quoted(line) for line in box.lines])
        lines.append(f'  n{number} [label="{label}", fillcolor="{COLOURS[box.kind]}"]')
    lines += [f"  n{a} -> n{b}" for a, b in picture.arrows]
    return "\n".join([*lines, "}"])


def quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
