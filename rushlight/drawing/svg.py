"""A picture as SVG text that needs no other file or program."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import pairwise

from rushlight.drawing.layout import Cell, Layout
from rushlight.drawing.picture import Box, Picture

FONT = 12
CHARACTER = 0.62 * FONT  # a monospaced character is 0.6 of its size wide
LINE = 1.35 * FONT
PADDING, MARGIN = 9.0, 14.0

STYLE = f"""\
text {{ font: {FONT}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  text-anchor: middle; fill: #1f2328; }}
.small {{ fill: #59636e; }}
rect {{ stroke-width: 1.2; }}
.page {{ fill: #ffffff; }}
.leaf {{ fill: #ddf4e4; stroke: #2e8b57; }}
.op {{ fill: #eef2f7; stroke: #8c99a8; }}
.result {{ fill: #ffe8cc; stroke: #d9822b; }}
.arrow {{ fill: none; stroke: #8c99a8; stroke-width: 1.3; }}"""

HEAD = """\
<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" \
orient="auto"><path d="M0 0.8 L7.5 4 L0 7.2 Z" fill="#8c99a8"/></marker>"""


def svg(picture: Picture) -> str:
    """The picture, laid out from top to bottom."""
    layout = Layout([size(box) for box in picture.boxes], picture.arrows)
    width, height = layout.width + 2 * MARGIN, layout.height + 2 * MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="{layout.left - MARGIN:.1f} {-MARGIN:.1f} {width:.1f} {height:.1f}">',
            f"<style>{STYLE}</style>",
            f"<defs>{HEAD}</defs>",
            f'<rect class="page" x="{layout.left - MARGIN:.1f}" y="{-MARGIN:.1f}" '
            f'width="{width:.1f}" height="{height:.1f}"/>',
            *arrows(layout),
            *boxes(picture, layout),
            "</svg>\n",
        ]
    )


def size(box: Box) -> tuple[float, float]:
    """Width and height of a box, with room for its text in any monospaced font."""
    longest = max(len(line) for line in box.lines)
    return longest * CHARACTER + 2 * PADDING, len(box.lines) * LINE + PADDING


def boxes(picture: Picture, layout: Layout) -> Iterator[str]:
    for layer, top, height in zip(layout.layers, layout.tops, layout.heights, strict=False):
        for cell in layer:
            if cell.box is None:
                continue
            yield from drawn(picture.boxes[cell.box], cell, top + (height - cell.height) / 2)


def drawn(box: Box, cell: Cell, y: float) -> Iterator[str]:
    """One box, whose upper edge is at ``y``."""
    yield (
        f'<rect class="{box.kind}" x="{cell.x - cell.width / 2:.1f}" y="{y:.1f}" '
        f'width="{cell.width:.1f}" height="{cell.height:.1f}" '
        f'rx="{8 if box.kind == "op" else 3}"/>'
    )
    for number, line in enumerate(box.lines):
        style = ' class="small"' if number else ""
        base = y + PADDING / 2 + number * LINE + FONT
        yield f'<text x="{cell.x:.1f}" y="{base:.1f}"{style}>{escape(line)}</text>'


def arrows(layout: Layout) -> Iterator[str]:
    places = list(zip(layout.layers, layout.tops, layout.heights, strict=False))
    for (layer, top, height), (_, next_top, next_height) in pairwise(places):
        for cell in layer:
            for below in cell.below:
                yield arrow(cell, top, height, below, next_top, next_height)


def arrow(
    cell: Cell, top: float, height: float, below: Cell, next_top: float, next_height: float
) -> str:
    """From the lower edge of a cell to the upper one of another; straight through passed layers."""
    start = top + (height + cell.height) / 2 if cell.box is not None else top
    end = next_top + (next_height - below.height) / 2 if below.box is not None else next_top
    enter = next_top - 6 if below.box is not None else next_top  # a head points down
    leave, middle = top + height, (top + height + enter) / 2
    head = ' marker-end="url(#head)"' if below.box is not None else ""
    return (
        f'<path class="arrow" d="M{cell.x:.1f} {start:.1f} V{leave:.1f} '
        f"C{cell.x:.1f} {middle:.1f} {below.x:.1f} {middle:.1f} {below.x:.1f} {enter:.1f} "
        f'V{end:.1f}"{head}/>'
    )
