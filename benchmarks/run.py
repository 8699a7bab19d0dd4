"""Rushlight beside its peers: own process each, alternating rounds, best of several, as ratios.

python -m benchmarks.run                    # everything; writes the pages into benchmarks/
python -m benchmarks.run --only "softmax,ResNet-18" --threads 1   # some; into build/benchmarks/
python -m benchmarks.run --quick            # whether all of it runs: tiny inputs, one call each
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from benchmarks import picture, report, scaling, starts
from benchmarks.contenders import PEERS_VARIABLE, ROOT
from benchmarks.race import Times, race, versions, workers
from benchmarks.workloads import WORKLOADS

ROUNDS = 5
PARTS = ("calls", "starts", "scaling")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="parts of the names of workloads, with commas")
    parser.add_argument("--parts", nargs="+", choices=PARTS, help="what to run; all by default")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="at most so many")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of each contender")
    parser.add_argument("--quick", action="store_true", help="tiny inputs, one round")
    parser.add_argument("--peers", help=f"their Python, or the variable {PEERS_VARIABLE}")
    parser.add_argument("--out", type=Path, help="the folder of the pages")
    return parser.parse_args()


def write(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    print(f"{folder / name} is written")


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


def main() -> None:
    given = arguments()
    if given.peers:
        os.environ[PEERS_VARIABLE] = given.peers
    parts = given.parts or (("calls",) if given.only else PARTS)
    whole = not given.only and not given.quick
    out = given.out or (ROOT / "benchmarks" if whole else ROOT / "build" / "benchmarks")
    rounds = 1 if given.quick else given.rounds
    wanted = (given.only or "").split(",")
    names = [name for name in WORKLOADS if any([part in name for part in wanted])]
    how = f"Best of up to {rounds} alternating rounds, one process each."
    if given.quick:
        how = "**Tiny inputs and one call each: only whether it runs.**"
    sections: list[str] = []
    frameworks: dict[str, str] = {}
    if "calls" in parts:
        with workers(given.threads) as racing:
            results = {name: race(racing, name, rounds, given.quick) for name in names}
            frameworks = versions(racing)
        sections += ["![ratios](results.svg)", "", report.tally(results), ""]
        sections += ["## A call", "", *report.call_table(results), ""]
        title = "Our time over the best peer's (dynamic: over PyTorch's)"
        write(out, "results.svg", picture.bars(title, bars(results)))
    if "starts" in parts:
        sections += ["## The first calls in a fresh process, and its memory beyond the import", ""]
        sections += [*starts.start_section(min(3, rounds), given.threads, given.quick), ""]
        sections += ["## Import", "", *starts.import_section()]
    if sections:
        write(out, "RESULTS.md", report.page("Results", frameworks, given.threads, how, sections))
    if "scaling" in parts:
        found, frameworks = scaling.measure_sweeps(min(3, rounds), given.threads, given.quick)
        tables, drawing = scaling.sweep_sections(found)
        tables += scaling.thread_section(min(3, rounds), max(2, given.threads), given.quick)
        write(out, "scaling.svg", drawing)
        write(out, "SCALING.md", report.page("Scaling", frameworks, given.threads, how, tables))


if __name__ == "__main__":
    main()
