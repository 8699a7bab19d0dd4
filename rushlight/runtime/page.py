"""An explanation as one HTML page that needs nothing else, and as a table for notebooks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from rushlight.runtime.graph_picture import Path as Place
from rushlight.runtime.graph_picture import graph_picture, hue_of, origin_name
from rushlight.runtime.table import place, quantity, seconds, sizes, sums, where

if TYPE_CHECKING:
    from rushlight.runtime.explain import Explanation, Step

NOTEBOOK = """<style>
.rushlight-steps td, .rushlight-steps th { text-align: left; padding: 2px 8px; }
.rushlight-steps i { display: block; height: 8px; background: #6ea8e0; }
</style>"""


def page(explanation: Explanation) -> str:
    """The page; every text in it is escaped."""
    name, beside = escape(explanation.name), Path(__file__)
    return document(
        title=f"{name}: steps of a compiled function",
        heading=f"<code>{name}</code>",
        style=beside.with_name("steps.css").read_text("utf-8"),
        body="\n".join(body(explanation)),
        script=beside.with_name("steps.js").read_text("utf-8"),
    )


def document(**parts: str) -> str:
    """A page of title, heading, style, body and script, which sorts tables of class ``sorted``."""
    template = Path(__file__).with_name("page.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def body(explanation: Explanation) -> Iterator[str]:
    if explanation.refused:
        yield "<p>runs in dynamic mode, for it cannot be traced:</p>"
        yield f'<pre class="words">{escape(explanation.refused)}</pre>'
        return
    yield from cards(explanation)
    yield "<h2>Your lines</h2>"
    yield from by_line(explanation)
    yield "<h2>Steps</h2>"
    yield f'<div class="wide long">{table(explanation, "steps sorted")}</div>'
    yield '<p id="hint" class="faint">Choose a step, here or in the graph, to see its loops.</p>'
    yield '<div id="details">'
    yield from details(explanation)
    yield "</div>"
    yield "<h2>Graph</h2>"
    yield '<input type="checkbox" id="fit" checked> <label for="fit">fit to the page</label>'
    for label, program in explanation.programs.items():
        rows: dict[tuple[Place, int], list[Step]] = {}
        for step in explanation.steps:
            if step.program == label and step.origin is not None:
                for origin in (step.origin, *step.chained):
                    rows.setdefault((step.path, origin), []).append(step)
        if len(explanation.programs) > 1:
            yield f"<h3>{label}</h3>"
        yield f'<div class="graph">{graph_picture(label, program, rows)}</div>'


def cards(explanation: Explanation) -> Iterator[str]:
    all_of = explanation.totals
    s = "" if all_of.kernels == 1 else "s"
    shown = (
        (seconds(all_of.measured), "in all steps"),
        (str(all_of.kernels), f"kernel{s} ({all_of.functions} different)" if s else "kernel"),
        (str(all_of.calls), "library calls"),
        (quantity(all_of.moved, "B"), "moved"),
        (quantity(all_of.flops), "FLOP"),
        (quantity(all_of.arena, "B"), "memory between steps"),
    )
    yield '<div class="cards">'
    yield from [f"<div><b>{value}</b><span>{what}</span></div>" for value, what in shown]
    yield "</div>"
    yield from [f'<div class="faint">{escape(line)}</div>' for line in sums(explanation)[2:]]


def step_table(explanation: Explanation) -> str:
    """The table alone, for a notebook."""
    if explanation.refused:
        return f"<pre>{escape(str(explanation))}</pre>"
    return NOTEBOOK + table(explanation, "rushlight-steps")


def table(explanation: Explanation, style: str) -> str:
    heads = (
        ("#", "number"), ("step", ""), ("time", "number"), ("", "meter"), ("what", ""),
        ("index space", "number spare"), ("bytes", "number spare"), ("FLOP", "number spare"),
        ("at best", "number spare"), ("line", ""),
    )  # fmt: skip
    row = "".join([f'<th class="{kind}">{name}</th>' for name, kind in heads])
    longest = max([step.share for step in explanation.steps], default=0.0) or 1.0
    several = len(explanation.programs) > 1
    lines = [
        f'<tr data-step="{name_of(step)}" data-origin="{origins(step)}">'
        f"{''.join(cells(step, longest, several))}</tr>"
        for step in explanation.steps
    ]
    head = f"<thead><tr>{row}</tr></thead>"
    return f'<table class="{style}">{head}<tbody>{"".join(lines)}</tbody></table>'


def origins(step: Step) -> str:
    """The steps of the plan that a row is about."""
    numbers = [] if step.origin is None else [step.origin, *step.chained]
    return " ".join([origin_name(step.program, step.path, n) for n in numbers])


def cells(step: Step, longest: float, several: bool) -> Iterator[str]:
    cost, hue = step.cost, hue_of(step.path, step.origin or 0)
    swatch = f'<span class="swatch" style="--hue: {hue}"></span>' if step.origin is not None else ""
    kind = f"{step.program} {step.kind}" if several else step.kind
    flops = "–" if cost.flops is None else quantity(cost.flops)
    order = step.number + 1e6 * (step.program == "backward")
    yield cell(order, str(step.number), "number")
    yield f'<td class="kind" data-value="{kind}">{swatch}{kind}</td>'
    yield cell(step.measured, seconds(step.measured), "number")
    bar = f'<i style="width: {100 * step.share / longest:.1f}%"></i>'
    yield f'<td class="meter" data-value="{step.share}" title="{100 * step.share:.1f} %">{bar}</td>'
    yield cell(step.what, step.what, "what")
    yield cell(math.prod(step.space), sizes(step.space), "number spare")
    yield cell(cost.moved, quantity(cost.moved, "B"), "number spare")
    yield cell(cost.flops or 0, flops, "number spare")
    yield cell(step.estimated, seconds(step.estimated), "number spare")
    lines = escape(", ".join([place(line) for line in step.lines if line is not None]))
    yield f'<td class="place" data-value="{lines}" title="{lines}">{escape(where(step))}</td>'


def cell(value: object, text: str, kind: str = "") -> str:
    return f'<td class="{kind}" data-value="{escape(str(value))}">{escape(text)}</td>'


def name_of(step: Step) -> str:
    return f"{step.program}-{step.number}"


def details(explanation: Explanation) -> Iterator[str]:
    """A section for each step, of which the chosen ones are shown."""
    known: dict[str, Step] = {}
    for step in explanation.steps:
        yield f'<section data-step="{name_of(step)}" hidden>'
        yield f"<h2>#{step.number} {escape(step.what)}</h2>"
        parts = [
            f"{100 * part:.0f} % {escape(place(line))}" for line, part in step.lines.items() if line
        ]
        if parts:
            yield f'<p class="faint">{" · ".join(parts)}</p>'
        if step.loops:
            yield f"<pre>{escape(step.loops)}</pre>"
        first = known.setdefault(step.function, step)
        if step.code and first is not step:
            yield f"<p>The native function is that of #{first.number} ({first.program}).</p>"
        elif step.code:
            yield "<details><summary>LLVM assembly</summary>"
            yield f"<pre>{escape(step.code)}</pre></details>"
        yield "</section>"


def by_line(explanation: Explanation) -> Iterator[str]:
    whole = explanation.totals.measured or 1.0
    found = explanation.by_line()
    longest = max(found.values(), default=0.0) or 1.0
    yield '<div class="wide"><table class="lines"><tbody>'
    for line, t in found.items():
        yield (
            f'<tr><td class="number">{seconds(t)}</td>'
            f'<td class="number">{100 * t / whole:.0f} %</td>'
            f'<td class="meter"><i style="width: {100 * t / longest:.1f}%"></i></td>'
            f'<td class="place">{escape(place(line))}</td></tr>'
        )
    yield "</tbody></table></div>"
