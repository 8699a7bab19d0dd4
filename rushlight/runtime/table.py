"""An explanation as text: a table in the width of the terminal."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rushlight.graph.ir import Source
from rushlight.runtime.costs import machine

if TYPE_CHECKING:
    from rushlight.runtime.explain import Explanation, Step

HEADS = ("#", "kind", "index space", "bytes", "FLOP", "at best", "time", "share")
SPARE = (5, 4, 2)  # columns that a very narrow terminal does without, one after the other
WIDE = 120  # columns that one line for each step needs; else it has two
LINES = 12  # of the user's that are shown


def text(explanation: Explanation, width: int = 0) -> str:
    """The table, the times by line, and the totals."""
    if explanation.refused:
        return (
            f"{explanation.name} runs in dynamic mode, it cannot be traced:\n{explanation.refused}"
        )
    width = max(60, width or shutil.get_terminal_size().columns)
    return "\n".join([*rows(explanation, width), "", *by_line(explanation), "", *sums(explanation)])


def rows(explanation: Explanation, width: int) -> Iterator[str]:
    """One line for each step, or two where the terminal is narrow."""
    cells = [HEADS, *[numbers(step) for step in explanation.steps]]
    widths = [max([len(row[i]) for row in cells]) for i in range(len(HEADS))]
    for column in SPARE:
        if sum(widths) + 2 * len(widths) > width:
            del widths[column]
            cells = [(*row[:column], *row[column + 1 :]) for row in cells]
    room = width - sum(widths) - 2 * len(widths)
    wide = width >= WIDE
    label = ""
    for row, step in zip(cells, [None, *explanation.steps], strict=True):
        if step is not None and step.program != label and "backward" in explanation.programs:
            label = step.program
            yield label
        line = "  ".join([f"{cell:>{n}}" for cell, n in zip(row, widths, strict=True)])
        what = step.what if step is not None else "what"
        place = where(step) if step is not None else "line"
        if wide:
            yield f"{line}  {beside(what, place, room)}".rstrip()
        else:
            yield line
            indent = " " * (widths[0] + 2)
            yield f"{indent}{beside(what, place, width - len(indent))}".rstrip()


def numbers(step: Step) -> tuple[str, ...]:
    cost = step.cost
    return (
        str(step.number),
        step.kind,
        sizes(step.space),
        quantity(cost.moved, "B"),
        "–" if cost.flops is None else quantity(cost.flops),
        seconds(step.estimated),
        seconds(step.measured),
        f"{100 * step.share:.0f} %",
    )


def beside(what: str, place: str, room: int) -> str:
    """What a step does, and at the right where it comes from, in so many columns."""
    half = max(room - len(place) - 2, room // 2)
    place = shortened(place, room - half - 2, keep_end=True)
    return f"{shortened(what, half):<{half}}  {place}"


def shortened(text: str, room: int, keep_end: bool = False) -> str:
    if len(text) <= room:
        return text
    if room < 2:
        return text[: max(0, room)]
    return f"…{text[1 - room :]}" if keep_end else f"{text[: room - 1]}…"


def where(step: Step) -> str:
    """The line that most of a step comes from, and how many more there are."""
    if step.line is None:
        return ""
    more = len([line for line in step.lines if line is not None]) - 1
    return f"{step.line} +{more}" if more else str(step.line)


def place(line: Source | None) -> str:
    return "(no line)" if line is None else str(line)


def by_line(explanation: Explanation) -> Iterator[str]:
    """The time of each line of the user's program."""
    whole = explanation.totals.measured or 1.0
    found = list(explanation.by_line().items())
    for line, t in found[:LINES]:
        yield f"{seconds(t):>8}  {100 * t / whole:3.0f} %  {place(line)}"
    if len(found) > LINES:
        yield f"{seconds(sum([t for _, t in found[LINES:]])):>8}         other lines"


def sums(explanation: Explanation) -> Sequence[str]:
    """What all steps and compiling amount to."""
    all_of, here = explanation.totals, machine()
    phases = ", ".join([f"{name} {seconds(t)}" for name, t in all_of.phases.items()])
    kept = " (from the disk cache)" if all_of.was_kept else ""
    between = f", {quantity(all_of.kept, 'B')} between calls" if all_of.kept else ""
    return (
        f"{seconds(all_of.measured)} in {count(all_of.steps, 'step')}: "
        f"{count(all_of.kernels, 'kernel')} ({count(all_of.functions, 'function')}), "
        f"{count(all_of.calls, 'library call')}, {count(all_of.copies, 'copy', 'copies')}",
        f"{quantity(all_of.moved, 'B')} moved, {quantity(all_of.flops, 'FLOP')}, "
        f"{quantity(all_of.arena, 'B')} of memory between steps{between}",
        f"compiled in {seconds(sum(all_of.phases.values()))}: {phases}{kept}",
        f"at best: {quantity(here.traffic[-1][1], 'B')}/s from memory (more from caches), "
        f"{quantity(here.flops, 'FLOP')}/s",
    )


def count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def sizes(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "1"


def quantity(number: float, unit: str = "") -> str:
    """A number with three digits and a prefix.

    >>> quantity(0), quantity(64000, "B"), quantity(2.1e9)
    ('0', '64 kB', '2.1 G')
    """
    prefixes = ("", "k", "M", "G", "T", "P")
    power = 0
    while number >= 999.5 and power < len(prefixes) - 1:
        number, power = number / 1000, power + 1
    return f"{number:.3g} {prefixes[power]}{unit}".strip()


def seconds(t: float) -> str:
    """A time in its unit.

    >>> seconds(1.5e-5), seconds(0.25), seconds(2)
    ('15 µs', '250 ms', '2 s')
    """
    for unit, size in (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3)):
        if t < 999.5 * size:
            return f"{t / size:.3g} {unit}"
    return f"{t:.3g} s"
