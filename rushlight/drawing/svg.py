"""A picture as SVG text that needs no other file or program."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import pairwise

from rushlight.drawing.layout import Cell, Layout
from rushlight.drawing.picture import OP, Box, Frame, Part, Picture

FONT = 12
CHARACTER = 0.62 * FONT  # a monospaced character is 0.6 of its size wide
LINE = 1.35 * FONT
PADDING, MARGIN = 9.0, 14.0
BACK = 22.0  # room for the arrow of what is done again

STYLE = f"""\
text {{ font: {FONT}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  text-anchor: middle; fill: #1f2328; }}
.small {{ fill: #59636e; }}
.title {{ font-weight: 600; }}
rect {{ stroke-width: 1.2; }}
.page {{ fill: #ffffff; }}
.leaf {{ fill: #ddf4e4; stroke: #2e8b57; }}
.op {{ fill: #eef2f7; stroke: #8c99a8; }}
.result {{ fill: #ffe8cc; stroke: #d9822b; }}
.frame {{ fill: #f4f0fb; stroke: #8a6fc0; }}
.part {{ fill: #ffffff; stroke: #c9bde3; }}
.arrow {{ fill: none; stroke: #8c99a8; stroke-width: 1.3; }}
.again {{ fill: none; stroke: #8a6fc0; stroke-width: 1.6; stroke-dasharray: 5 3; }}"""

HEAD = """\
<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" \
orient="auto"><path d="M0 0.8 L7.5 4 L0 7.2 Z" fill="#8c99a8"/></marker>"""

NOTHING = Picture([Box(OP, ("nothing",))], [])


def svg(picture: Picture) -> str:
    """The picture as a file of its own, laid out from top to bottom."""
    return element(Drawing(picture), f"<style>{STYLE}</style>") + "\n"


def element(drawing: Drawing, style: str = "") -> str:
    """The picture as an element, with its own style or that of the page around it."""
    layout = drawing.layout
    width, height = layout.width + 2 * MARGIN, layout.height + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{layout.left - MARGIN:.1f} {-MARGIN:.1f} {width:.1f} {height:.1f}">',
        f"{style}<defs>{HEAD}</defs>",
    ]
    if style:
        lines.append(
            f'<rect class="page" x="{layout.left - MARGIN:.1f}" y="{-MARGIN:.1f}" '
            f'width="{width:.1f}" height="{height:.1f}"/>'
        )
    return "\n".join([*lines, *drawing.elements(), "</svg>"])


class Drawing:
    """A picture with places for its boxes, and for the pictures inside of them."""

    def __init__(self, picture: Picture) -> None:
        self.boxes = picture.boxes or NOTHING.boxes
        self.inside = {
            i: [Drawing(part.picture) for part in box.parts]
            for i, box in enumerate(self.boxes)
            if isinstance(box, Frame)
        }
        self.layout = Layout([self.size(i) for i in range(len(self.boxes))], picture.arrows)

    def size(self, number: int) -> tuple[float, float]:
        """Width and height of a box, with room for its text in any monospaced font."""
        box = self.boxes[number]
        width = max(map(len, box.lines), default=0) * CHARACTER + 2 * PADDING
        height = len(box.lines) * LINE + PADDING
        if isinstance(box, Box):
            return width, height
        sizes = self.rooms(number)
        inner = sum([w + PADDING for w, _ in sizes], PADDING)
        return max(width, inner), height + max([h for _, h in sizes], default=0) + PADDING

    def rooms(self, number: int) -> list[tuple[float, float]]:
        """The sizes of the pictures in a frame, with their labels."""
        return [room(p, d) for p, d in zip(self.parts(number), self.inside[number], strict=True)]

    def parts(self, number: int) -> tuple[Part, ...]:
        box = self.boxes[number]
        assert isinstance(box, Frame)
        return box.parts

    def elements(self) -> Iterator[str]:
        """All that is drawn, arrows first."""
        layout = self.layout
        yield from arrows(layout)
        for layer, top, height in zip(layout.layers, layout.tops, layout.heights, strict=False):
            for cell in layer:
                if cell.box is not None:
                    y = top + (height - cell.height) / 2
                    box = self.boxes[cell.box]
                    if isinstance(box, Frame):
                        yield from self.frame(box, cell, y)
                    else:
                        yield from drawn(box, cell, y)

    def frame(self, frame: Frame, cell: Cell, y: float) -> Iterator[str]:
        """A frame, whose upper edge is at ``y``, with the pictures inside."""
        assert cell.box is not None
        yield f"<g{' ' * bool(frame.mark)}{frame.mark}>"
        yield rectangle("frame", cell.x - cell.width / 2, y, cell.width, cell.height, 10)
        yield from written(frame.lines, cell.x, y, ' class="title"')
        top = y + len(frame.lines) * LINE + PADDING
        rooms = self.rooms(cell.box)
        x = cell.x - sum([w + PADDING for w, _ in rooms], -PADDING) / 2
        tallest = max([h for _, h in rooms], default=0)
        for part, inner, (width, _) in zip(frame.parts, self.inside[cell.box], rooms, strict=True):
            yield from inserted(part, inner, x, top, width, tallest)
            x += width + PADDING
        yield "</g>"


def room(part: Part, inner: Drawing) -> tuple[float, float]:
    """The size of a picture in a frame, with its label."""
    if not part.label:
        return inner.layout.width, inner.layout.height
    beside = 2 * BACK if part.again else 0
    width = max(inner.layout.width + beside, len(part.label) * CHARACTER) + 2 * PADDING
    return width, inner.layout.height + LINE + 2.5 * PADDING


def inserted(
    part: Part, inner: Drawing, x: float, y: float, width: float, height: float
) -> Iterator[str]:
    """A picture in a frame; what has a label has a border, too."""
    layout, down = inner.layout, 0.0
    if part.label:
        down = LINE + PADDING
        yield rectangle("part", x, y, width, height, 6)
        yield from written((part.label,), x + width / 2, y, ' class="small"')
    left = x + (width - layout.width) / 2
    if part.again:
        yield back(x + PADDING, y + LINE / 2 + PADDING / 2, y + height - PADDING)
    yield f'<g transform="translate({left - layout.left:.1f} {y + down:.1f})">'
    yield from inner.elements()
    yield "</g>"


def back(x: float, top: float, bottom: float) -> str:
    """An arrow from the lower edge of what is done again to its upper one."""
    bend, reach = 8.0, BACK - 6
    return (
        f'<path class="again" d="M{x + reach:.1f} {bottom:.1f} H{x + bend:.1f} '
        f"Q{x:.1f} {bottom:.1f} {x:.1f} {bottom - bend:.1f} V{top + bend:.1f} "
        f'Q{x:.1f} {top:.1f} {x + bend:.1f} {top:.1f} H{x + reach:.1f}" '
        'marker-end="url(#head)"/>'
    )


def drawn(box: Box, cell: Cell, y: float) -> Iterator[str]:
    """One box, whose upper edge is at ``y``."""
    radius = 8 if box.kind == OP else 3
    yield rectangle(box.kind, cell.x - cell.width / 2, y, cell.width, cell.height, radius)
    yield from written(box.lines, cell.x, y)


def rectangle(kind: str, x: float, y: float, width: float, height: float, radius: float) -> str:
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" rx="{radius}"/>'
    )


def written(lines: tuple[str, ...], x: float, y: float, first: str = "") -> Iterator[str]:
    """Lines of text around ``x``, in a box whose upper edge is at ``y``."""
    for number, line in enumerate(lines):
        style = ' class="small"' if number else first
        base = y + PADDING / 2 + number * LINE + FONT
        yield f'<text x="{x:.1f}" y="{base:.1f}"{style}>{escape(line)}</text>'


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
