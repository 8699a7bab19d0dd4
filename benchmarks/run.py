"""Rushlight beside its peers: own process each, alternating rounds, best of several, as ratios.

python -m benchmarks.run                    # everything, in some 40 minutes; writes the pages
python -m benchmarks.run --only "softmax,ResNet-18" --parts calls   # into build/benchmarks/
python -m benchmarks.run --quick            # whether all of it runs: tiny inputs, one call each
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterable, Sized
from pathlib import Path

from benchmarks import causes, picture, report, scaling, starts
from benchmarks.budget import Budget
from benchmarks.contenders import BUILD, PEERS_VARIABLE, ROOT
from benchmarks.race import Times, race, versions, workers
from benchmarks.sweeps import SWEEPS
from benchmarks.workloads import STARTS, WORKLOADS

ROUNDS = 5
MINUTES = 40.0
PARTS = {"calls": 11, "starts": 5, "scaling": 4}  # and their shares of the time


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="parts of the names of workloads, with commas")
    parser.add_argument("--contenders", help="names of columns, with commas; for the calls")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="at most so many")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="that all of it may take")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of each contender")
    parser.add_argument("--quick", action="store_true", help="tiny inputs, one round")
    parser.add_argument("--peers", help=f"their Python, or the variable {PEERS_VARIABLE}")
    parser.add_argument("--out", type=Path, help="the folder of the pages")
    return parser.parse_args()


def write(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def bars(results: dict[str, Times]) -> list[picture.Bar]:
    """A bar for each goal, and one for the compiled time where there is none."""
    made = []
    for name, times in results.items():
        eager, compiled = report.ratios(times)
        goals = WORKLOADS[name]
        if eager is not None and goals.eager is not None:
            made.append(picture.Bar(f"{name}, dynamic", eager, goals.eager))
        if compiled is not None and (goals.compiled is not None or goals.eager is None):
            made.append(picture.Bar(name, compiled, goals.compiled))
    return made


def calls(
    names: list[str],
    rounds: int,
    given: argparse.Namespace,
    budget: Budget,
    keep: Callable[[dict[str, Times], dict[str, str]], None],
) -> None:
    """Keeps the times of workloads, after each of them, and the versions of who ran them.

    An interrupt ends the race; what was measured until then counts.
    """
    racers = given.contenders.split(",") if given.contenders else None
    results: dict[str, Times] = {}
    with workers(given.threads, racers) as racing, contextlib.suppress(KeyboardInterrupt):
        for name in names:
            results[name] = race(racing, name, rounds, given.quick, budget)
            keep(results, versions(racing))


def main() -> None:
    given = arguments()
    if given.peers:
        os.environ[PEERS_VARIABLE] = given.peers
    whole = not (given.only or given.contenders or given.quick)
    out = given.out or (ROOT / "benchmarks" if whole else BUILD)
    rounds = 1 if given.quick else given.rounds
    how = f"Best of up to {rounds} alternating rounds, one process each."
    if given.quick:
        how = "**Tiny inputs and one call each: only whether it runs.**"
    wanted = (given.only or "").split(",")

    def chosen(names: Iterable[str]) -> list[str]:
        return [name for name in names if any([part in name for part in wanted])]

    def budget(part: str, items: Sized) -> Budget:
        share = PARTS[part] / sum([PARTS[chosen] for chosen in given.parts])
        return Budget(60 * given.minutes * share, len(items))

    def keep_results() -> None:
        parts = ["![ratios](results.svg)", "", report.tally(sections), "", *sections, *reasons]
        write(out, "RESULTS.md", report.page("Results", frameworks, given.threads, how, parts))

    def keep_calls(results: dict[str, Times], found: dict[str, str]) -> None:
        frameworks.update(found)
        sections[:] = ["## A call", "", *report.call_table(results), ""]
        reasons[:] = ["", *causes.missed(results)]
        title = "Our time over the best peer's (dynamic: over PyTorch's)"
        write(out, "results.svg", picture.bars(title, bars(results)))
        keep_results()  # whatever comes after

    sections: list[str] = []
    reasons: list[str] = []
    frameworks: dict[str, str] = {}
    if "calls" in given.parts and (names := chosen(WORKLOADS)):
        calls(names, rounds, given, budget("calls", names), keep_calls)
    few = min(3, rounds)
    if "starts" in given.parts and (names := chosen(STARTS)):
        sections += ["## The first calls in a fresh process, and its memory beyond the import", ""]
        time = budget("starts", names)
        sections += [*starts.start_section(names, few, given.threads, given.quick, time), ""]
        if not given.only:
            sections += ["## Import", "", *starts.import_section()]
        keep_results()
    if "scaling" in given.parts:
        sweeps = [sweep for sweep in SWEEPS if chosen([sweep.title])]
        names = chosen(scaling.THREADED)
        points = [sweep.name(size) for sweep in sweeps for size in sweep.sizes]
        time = budget("scaling", [*points, *names, *names])
        found, frameworks = scaling.measure_sweeps(sweeps, few, given.threads, given.quick, time)
        tables, drawing = scaling.sweep_sections(sweeps, found)
        threads = max(2, given.threads)
        tables += scaling.thread_section(names, few, threads, given.quick, time)
        write(out, "scaling.svg", drawing)
        write(out, "SCALING.md", report.page("Scaling", frameworks, given.threads, how, tables))
    print(f"the pages are in {out}")


if __name__ == "__main__":
    main()
