"""A profile as one HTML page that needs nothing else: a time line and tables."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from pathlib import Path

from rushlight.profiler.events import Thread
from rushlight.profiler.report import Entry, Row, rows_of
from rushlight.profiler.table import COLUMNS, Column, call_it, ordered, rate
from rushlight.runtime.page import NOTEBOOK, cell, document
from rushlight.runtime.table import quantity, seconds

MOST = 8000  # bars of the time line: the longest events
BAR, GAP, HEAD = 20, 2, 22  # pixels
TICKS = 10
SHOWN = 20  # rows of a table in a notebook
TABLES = {"op": "By op", "line": "By line", "module": "By module", "kernel": "By kernel"}


def page(entries: Sequence[Entry], wall: float, summary: str) -> str:
    """The page; every text in it is escaped."""
    beside = Path(__file__)
    return document(
        title="Profile",
        heading="Profile",
        style=beside.with_name("timeline.css").read_text("utf-8"),
        body="\n".join(body(entries, wall, summary)),
        script=beside.with_name("timeline.js").read_text("utf-8"),
    )


def body(entries: Sequence[Entry], wall: float, summary: str) -> Iterator[str]:
    yield from cards(entries, wall)
    yield from [f'<div class="faint">{escape(line)}</div>' for line in summary.splitlines()]
    yield "<h2>Time line</h2>"
    yield '<div class="controls"><label for="zoom">zoom</label>'
    yield '<input type="range" id="zoom" min="0" max="10" step="0.25" value="0"></div>'
    yield f'<div class="timeline">{timeline(entries, wall)}</div>'
    yield '<div id="about" class="faint">Point at an event; click to mark all of its name.</div>'
    for group, title in TABLES.items():
        rows = ordered(rows_of(entries, group), "self")
        if rows and (len(rows) > 1 or group != "module"):
            yield f"<h2>{title}</h2>"
            yield f'<div class="wide">{table(rows, group, wall)}</div>'


def cards(entries: Sequence[Entry], wall: float) -> Iterator[str]:
    roots = [entry for entry in entries if entry.parent is None]
    back = sum([entry.event.own for entry in entries if entry.backward])
    busy = sum([entry.event.total for entry in roots])
    shown = (
        (seconds(wall), "in all"),
        (seconds(busy - back), "forward and other work"),
        (seconds(back), "backward"),
        (quantity(sum([entry.inclusive.flops for entry in roots])), "FLOP"),
        (quantity(sum([entry.inclusive.moved for entry in roots]), "B"), "moved"),
        (quantity(sum([entry.allocated for entry in roots]), "B"), "allocated"),
    )
    yield '<div class="cards">'
    yield from [f"<div><b>{value}</b><span>{what}</span></div>" for value, what in shown]
    yield "</div>"


def timeline(entries: Sequence[Entry], wall: float) -> str:
    """A lane of nested bars for each thread; places and widths are percentages of the whole."""
    whole = wall or 1.0
    shown = sorted(entries, key=lambda entry: entry.event.total, reverse=True)[:MOST]
    lanes: dict[Thread, int] = {}
    for entry in entries:
        thread = entry.event.thread
        lanes[thread] = max(lanes.get(thread, 0), depth(entry) + 1)
    tops: dict[Thread, int] = {}
    y = HEAD
    for thread, deep in lanes.items():
        tops[thread] = y + HEAD
        y += HEAD + deep * (BAR + GAP)
    parts = [*ticks(whole, y)]
    for thread, top in tops.items():
        parts.append(f'<text class="faint" x="4" y="{top - 6}">{escape(thread.name)}</text>')
    for entry in shown:
        top = tops[entry.event.thread] + depth(entry) * (BAR + GAP)
        parts.append(bar(entry, whole, top))
    return f'<svg height="{y + 4}">{"".join(parts)}</svg>'


def ticks(whole: float, height: int) -> Iterator[str]:
    step = round_step(whole / TICKS)
    for k in range(ceil(whole / step)):
        at = f"{100 * k * step / whole:.4f}%"
        yield f'<line class="tick" x1="{at}" x2="{at}" y1="0" y2="{height}"/>'
        label = seconds(k * step) if k else "0"
        yield f'<svg x="{at}"><text class="faint" x="3" y="13">{label}</text></svg>'


def round_step(least: float) -> float:
    """The least number of one digit, 1, 2 or 5, that is not smaller.

    >>> [round_step(x) for x in (0.3, 2.1, 10.0)]
    [0.5, 5.0, 10.0]
    """
    if least <= 0:
        return 1.0
    unit = 10.0 ** floor(log10(least))
    return next(float(f"{n * unit:.0e}") for n in (1, 2, 5, 10) if n * unit >= least)


def bar(entry: Entry, whole: float, top: int) -> str:
    """An event: a rectangle with its name, cut off where it ends."""
    event = entry.event
    place = f'x="{100 * event.begin / whole:.5f}%" width="{100 * event.total / whole:.5f}%"'
    name = escape(entry.name)
    hue = zlib.crc32(entry.name.encode()) % 360
    return (
        f'<svg class="bar" {place} y="{top}" height="{BAR}" data-name="{name}">'
        f'<rect width="100%" height="100%" style="--hue: {hue}"/>'
        f'<text x="4" y="14">{name}</text><title>{escape(description(entry))}</title></svg>'
    )


def description(entry: Entry) -> str:
    event = entry.event
    parts = [entry.name, f"{seconds(event.total)} ({seconds(event.own)} itself)"]
    if entry.backward and entry.kind != "backward":
        parts.append("in backward")
    parts += [str(line) for line in entry.lines if line is not None][:3]
    if entry.inclusive.flops:
        parts.append(rate(entry.inclusive.flops, event.total, "FLOP"))
    if entry.inclusive.moved:
        parts.append(rate(entry.inclusive.moved, event.total, "B"))
    shapes = [list(x.shape) for x in event.operands if x is not None]
    return " · ".join([*parts, *[str(shape) for shape in shapes[:4]]])


def depth(entry: Entry) -> int:
    return len(list(entry.ancestors()))


def notebook(tables: Mapping[str, Sequence[Row]], wall: float, summary: str = "") -> str:
    """Tables alone, each with its first rows: what a notebook shows of a profile."""
    lines = [f"<pre>{escape(summary)}</pre>"] if summary else []
    for group, rows in tables.items():
        lines.append(table(rows[:SHOWN], group, wall, "rushlight-steps"))
        if len(rows) > SHOWN:
            lines.append(f"<p>and {len(rows) - SHOWN} more</p>")
    return "\n".join([NOTEBOOK, *lines])


def table(rows: Sequence[Row], group: str, wall: float, kind: str = "sorted") -> str:
    columns = COLUMNS[group]
    heads = [f'<th class="name">{group}</th>', '<th class="meter"></th>']
    heads += [f'<th class="{style(column)}">{column.head}</th>' for column in columns]
    longest = max([row.own for row in rows], default=0.0) or 1.0
    lines = [f"<tr>{''.join(cells(row, columns, wall, longest))}</tr>" for row in rows]
    head = f"<thead><tr>{''.join(heads)}</tr></thead>"
    return f'<table class="{kind}">{head}<tbody>{"".join(lines)}</tbody></table>'


def cells(row: Row, columns: Sequence[Column], wall: float, longest: float) -> Iterator[str]:
    yield cell(call_it(row), call_it(row), "name")
    width = f"{100 * row.own / longest:.1f}%"
    yield f'<td class="meter" data-value="{row.own}"><i style="width: {width}"></i></td>'
    for column in columns:
        yield cell(column.value(row), column.text(row, wall), style(column))


def style(column: Column) -> str:
    return "number spare" if column.spare else "number"
