"""Pictures in SVG, written by hand: bars of ratios, and panels of lines on log-log axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

MET, MISSED, FREE, INK, FAINT = "#2a8f7b", "#d9653b", "#8c93a3", "#1f2430", "#d8dbe2"
LINES = {
    "Rushlight compiled": "#2a8f7b",
    "Rushlight": "#7cc4a4",
    "PyTorch": "#d9653b",
    "JAX": "#5b6fc0",
}
FONT = "font-family='system-ui, sans-serif' font-size='12'"


class Bar(NamedTuple):
    """The ratio of our time to a peer's, and what it should be at most."""

    label: str
    ratio: float
    goal: float | None


class Curve(NamedTuple):
    """Seconds by size."""

    name: str
    points: dict[int, float]


def text(x: float, y: float, words: str, anchor: str = "start", colour: str = INK) -> str:
    place = f"x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'"
    return f"<text {place} fill='{colour}'>{escape(words)}</text>"


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    ends = f"x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}'"
    return f"<line {ends} stroke='{colour}' stroke-width='{width}'/>"


def document(width: int, height: int, parts: Sequence[str]) -> str:
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' {FONT}>"
    ground = f"<rect width='{width}' height='{height}' fill='white'/>"
    return "\n".join([head, ground, *parts, "</svg>\n"])


def bars(title: str, rows: Sequence[Bar]) -> str:
    """Bars from the line of equal times: to the left is quicker, to the right slower."""
    left, right, top, pitch = 380, 860, 76, 20
    shown = [value for row in rows for value in (row.ratio, row.goal or 1.0)]
    low = math.floor(math.log2(min([0.5, *shown])))
    high = math.ceil(math.log2(max([2.0, *shown])))

    def x(ratio: float) -> float:
        return left + (right - left) * (math.log2(ratio) - low) / (high - low)

    bottom = top + pitch * len(rows)
    parts = [f"<g font-size='16'>{text(20, 28, title)}</g>", *legend(left)]
    for power in range(low, high + 1):
        at, label = x(2.0**power), f"{2.0**power:g}×" if power >= 0 else f"1/{2**-power}"
        parts += [line(at, top - 4, at, bottom, INK if power == 0 else FAINT)]
        parts += [text(at, top - 10, label, "middle")]
    for number, row in enumerate(rows):
        y = top + pitch * number
        begin, end = sorted([x(1.0), x(row.ratio)])
        colour = FREE if row.goal is None else MET if row.ratio <= row.goal else MISSED
        parts += [
            text(left - 14, y + 14, row.label, "end"),
            f"<rect x='{begin:.1f}' y='{y + 4}' width='{end - begin:.1f}' height='12' "
            f"fill='{colour}'/>",
        ]
        words = f"{row.ratio:.2f}" if row.ratio >= 0.1 else f"{row.ratio:.3f}"
        parts += [text(right + 55, y + 14, words, "end", colour)]
        if row.goal is not None:
            parts += [line(x(row.goal), y + 1, x(row.goal), y + 19, INK, 2)]
    return document(940, bottom + 20, parts)


def legend(left: int) -> list[str]:
    parts = []
    for number, (colour, words) in enumerate(
        ((MET, "goal met"), (MISSED, "goal missed"), (FREE, "no goal"))
    ):
        x = left + 110 * number
        parts += [f"<rect x='{x}' y='36' width='12' height='12' fill='{colour}'/>"]
        parts += [text(x + 18, 46, words)]
    x = left + 330
    return [*parts, line(x, 34, x, 50, INK, 2), text(x + 8, 46, "goal")]


def slope(points: dict[int, float], last: int = 3) -> float:
    """The slope of the last points on log-log axes, by least squares.

    >>> slope({1: 1.0, 2: 4.0, 4: 16.0})
    2.0
    """
    chosen = sorted(points.items())[-last:]
    xs, ys = [[math.log(pair[i]) for pair in chosen] for i in (0, 1)]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum([(x - mean_x) ** 2 for x in xs])
    if not spread:
        return math.nan
    return sum([(x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)]) / spread


def panels(title: str, drawings: Sequence[tuple[str, str, Sequence[Curve]]]) -> str:
    """Two panels a row; each has a heading, the name of what grows, and curves."""
    width, height = 460, 340
    parts = [f"<g font-size='16'>{text(20, 28, title)}</g>"]
    for number, drawing in enumerate(drawings):
        x, y = width * (number % 2), 44 + height * (number // 2)
        parts += [f"<g transform='translate({x} {y})'>", *panel(*drawing), "</g>"]
    return document(2 * width, 54 + height * math.ceil(len(drawings) / 2), parts)


def panel(heading: str, axis: str, curves: Sequence[Curve]) -> list[str]:
    left, right, top, bottom = 64, 430, 30, 270
    sizes = sorted({size for curve in curves for size in curve.points})
    times = [seconds for curve in curves for seconds in curve.points.values()]
    parts = [text(left, 14, heading)]
    if not times:
        return parts
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))

    def place(size: int, seconds: float) -> tuple[float, float]:
        along = math.log(size / sizes[0]) / (math.log(sizes[-1] / sizes[0]) or 1)
        up = (math.log10(seconds) - low) / max(1, high - low)
        return left + (right - left) * along, bottom - (bottom - top) * up

    for power in range(low, high + 1):
        _, y = place(sizes[0], 10.0**power)
        name = ("µs", "ms", "s")[min(2, power // 3 + 2)] if power >= -6 else "ns"
        value = 10 ** (power - {"ns": -9, "µs": -6, "ms": -3, "s": 0}[name])
        parts += [line(left, y, right, y, FAINT), text(left - 8, y + 4, f"{value:g} {name}", "end")]
    for size in sizes:
        x, _ = place(size, times[0])
        parts += [line(x, top, x, bottom, FAINT), text(x, bottom + 16, str(size), "middle")]
    parts += [text((left + right) / 2, bottom + 34, axis, "middle")]
    for number, curve in enumerate(curves):
        colour = LINES[curve.name]
        spots = [place(*point) for point in sorted(curve.points.items())]
        path = " ".join([f"{x:.1f},{y:.1f}" for x, y in spots])
        parts += [f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'/>"]
        parts += [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour}'/>" for x, y in spots]
        words = f"{curve.name}, slope {slope(curve.points):.2f}"
        parts += [text(left + 8, top + 14 + 16 * number, words, colour=colour)]
    return parts
