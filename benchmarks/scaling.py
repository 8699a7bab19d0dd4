"""The page on scaling: cost against batch, width, depth and length, and one thread against more."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.budget import Budget
from benchmarks.picture import LINES, Curve, panels, slope
from benchmarks.race import race, versions, workers
from benchmarks.report import duration, table
from benchmarks.sweeps import Sweep

THREADED = (
    "sin(x) + cos(y), 1M",
    "softmax 1000×1000",
    "two-layer net, training",
    "transformer block batch 8, training",
    "LSTM 32×64, 64→256, training",
    "LeNet batch 64, training",
    "ResNet-18 batch 1, inference",
    "ResNet-18 batch 8, training",
)
"""What is run with one thread and with more."""


def measure_sweeps(
    sweeps: Sequence[Sweep], rounds: int, threads: int, tiny: bool, budget: Budget
) -> tuple[list[list[Curve]], dict[str, str]]:
    """The curves of each sweep, those of contenders that ran it; and the versions of these."""
    found = []
    with workers(threads, LINES) as racing:
        for sweep in sweeps:
            best = {}
            for size in sweep.sizes:
                best[size] = race(racing, sweep.name(size), rounds, tiny, budget).best
            curves = [
                Curve(name, {size: times[name] for size, times in best.items() if name in times})
                for name in LINES
            ]
            found.append([curve for curve in curves if curve.points])
        return found, versions(racing)


def sweep_sections(sweeps: Sequence[Sweep], found: list[list[Curve]]) -> tuple[list[str], str]:
    """A table for each sweep, and the picture of all."""
    parts = ["![times against sizes](scaling.svg)", ""]
    drawings = []
    for sweep, curves in zip(sweeps, found, strict=True):
        rows = [
            [
                c.name,
                *[duration(c.points.get(size)) for size in sweep.sizes],
                f"{slope(c.points):.2f}",
            ]
            for c in curves
        ]
        heads = [sweep.axis, *[str(size) for size in sweep.sizes], "slope"]
        parts += [f"## {sweep.title}, by {sweep.axis}", "", *table(heads, rows), ""]
        parts += [f"The work grows with slope {sweep.expected}.", ""]
        drawings.append((sweep.title, sweep.axis, curves))
    return parts, panels("Time of a step, log-log", drawings)


def thread_section(
    names: Sequence[str], rounds: int, threads: int, tiny: bool, budget: Budget
) -> list[str]:
    """How much quicker so many threads are than one."""
    best: dict[int, dict[str, dict[str, float]]] = {}
    for count in (1, threads):
        with workers(count, LINES) as racing:
            times = {name: race(racing, name, rounds, tiny, budget) for name in names}
            best[count] = {name: found.best for name, found in times.items()}
    rows = []
    for name in names:
        alone, together = best[1][name], best[threads][name]
        gains = [
            f"{duration(alone[c])} → {duration(together[c])} ({alone[c] / together[c]:.2f}×)"
            if c in alone and c in together
            else "–"
            for c in LINES
        ]
        rows.append([name, *gains])
    heads = ["workload", *LINES]
    return [f"## One thread → {threads} threads", "", *table(heads, rows)]
