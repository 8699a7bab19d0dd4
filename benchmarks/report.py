"""Pages in Markdown: what was run, on what, and tables of times and ratios."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contenders import CONTENDERS, ROOT
from benchmarks.race import Times
from benchmarks.workloads import WORKLOADS

OUTPUTS = ("RESULTS.md", "SCALING.md", "SHAPES.md", "results.svg", "scaling.svg")
DYNAMIC = "dynamic"
DYNAMIC_PEERS = ("PyTorch", "PyTorch channels-last")

LEAST = "multiplications alone"
LEAST_NOTE = (
    "The last column: additions and multiplications of the compiled program alone, at the speed "
    "of a large product of matrices on this machine (the quicker of NumPy's and our own), and that "
    "time over the best peer's. A goal near it is near what the machine can do.",
    "",
)


def ratios(times: Times) -> tuple[float | None, float | None]:
    """Our dynamic time over PyTorch's, and our compiled one over the best peer's."""
    peers = {name: s for name, s in times.best.items() if not CONTENDERS[name].ours}
    dynamic = {name: s for name, s in peers.items() if name in DYNAMIC_PEERS}
    return (
        ratio(times.best.get("Rushlight"), dynamic),
        ratio(times.best.get("Rushlight compiled"), peers),
    )


def ratio(ours: float | None, peers: dict[str, float]) -> float | None:
    return ours / min(peers.values()) if ours and peers else None


def judged(value: float | None, goal: float | None, unit: str = "", failed: bool = False) -> str:
    """A number and whether it is what it should be; what failed is not."""
    if value is None:
        return f"– (≤ {goal:g}{unit}: **missed**)" if failed and goal is not None else "–"
    shown = f"{value:.2f}{unit}"
    if goal is None:
        return shown
    return f"{shown} (≤ {goal:g}{unit}: {'met' if value <= goal else '**missed**'})"


def duration(seconds: float | None) -> str:
    """Seconds with three digits.

    >>> duration(0.01234), duration(0.00056), duration(2.0), duration(None)
    ('12.3 ms', '560 µs', '2.00 s', '–')
    """
    if seconds is None:
        return "–"
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= 0.9995 * unit or name == "µs":
            value = seconds / unit
            digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
            return f"{value:.{digits}f} {name}"
    raise AssertionError


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    return [lines[0], "|---" * len(heads) + "|", *lines[1:]]


def call_table(results: dict[str, Times]) -> list[str]:
    """The times of all contenders, the two ratios, and below them why some times are missing."""
    rows, notes = [], []
    for name, times in results.items():
        goals = WORKLOADS[name]
        eager, compiled = ratios(times)
        columns = [duration(times.best.get(contender)) for contender in CONTENDERS]
        failed = times.failures
        columns += [
            judged(eager, goals.eager, failed="Rushlight" in failed),
            judged(compiled, goals.compiled, failed="Rushlight compiled" in failed),
            least(times),
        ]
        rows.append([name, *columns])
        notes += [f"- {c}, {name}: {plain(reason)}" for c, reason in times.failures.items()]
    heads = ["workload", *CONTENDERS, "dynamic to PyTorch", "compiled to the best peer", LEAST]
    lines = [*table(heads, rows), "", *LEAST_NOTE, *scopes(results)]
    return [*lines, "", "What failed:", "", *notes] if notes else lines


def least_ratio(times: Times) -> float | None:
    """The time of a workload's operations at the speed of a large product, over the best peer's."""
    peers = {name: s for name, s in times.best.items() if not CONTENDERS[name].ours}
    return times.floor[0] / min(peers.values()) if times.floor and peers else None


def least(times: Times) -> str:
    """That time and the ratio."""
    share = least_ratio(times)
    return "–" if share is None else f"{duration(times.floor[0])} ({share:.2f})"


def scopes(results: dict[str, Times]) -> list[str]:
    """What the contenders take part in that have no times of some workloads."""
    ran = {name for times in results.values() for name in (*times.best, *times.failures)}
    lines = ["A dash without a note below: the contender does not take part.", ""]
    for name, contender in CONTENDERS.items():
        scope = contender.scope if name in ran else "nothing: it was not chosen, or not installed"
        lines += [f"- {name} runs {scope}"]
    return lines


def plain(text: str) -> str:
    """One line, without what Markdown would take for more."""
    return "`" + " ".join(text.replace("`", "'").split())[:200] + "`"


def tally(lines: Sequence[str]) -> str:
    """How many goals of a page are met."""
    text = "\n".join(lines)
    met, missed = text.count(": met)"), text.count(": **missed**)")
    return f"{met} of {met + missed} goals are met."


def page(title: str, versions: dict[str, str], threads: int, how: str, parts: list[str]) -> str:
    """A page with its header: date, commit, versions, machine, load."""
    python = {"Python": platform.python_version()}
    listed = ", ".join([f"{name} {version}" for name, version in (versions | python).items()])
    count = "one thread" if threads == 1 else f"{threads} threads"
    header = (
        f"{datetime.date.today()}, commit {commit()}; {listed}; {cpu_name()}, "
        f"{count} each; load average {load()} at the end. {how} Written by `make bench`."
    )
    return "\n".join([f"# {title}", "", header, "", *parts]).rstrip() + "\n"


def cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores" if names else platform.processor()


def commit() -> str:
    """The commit that was measured, and whether there were changes beside it."""

    def git(*args: str) -> str:
        return subprocess.run(["git", *args], capture_output=True, text=True, cwd=ROOT).stdout

    changed = [c for c in git("status", "--porcelain", "-uno").splitlines() if c[3:]]
    dirty = [c for c in changed if not c.endswith(OUTPUTS)]
    found = git("rev-parse", "--short", "HEAD").strip() or "unknown"
    return found + (" with changes" if dirty else "")


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}" if sys.platform != "win32" else "unknown"
