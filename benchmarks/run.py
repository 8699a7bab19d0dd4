"""Rushlight beside its peers: own process each, alternating rounds, best of several, as ratios.

python benchmarks/run.py                       # prints the tables and writes benchmarks/RESULTS.md
python benchmarks/run.py --only "softmax,gelu" --threads 1     # some workloads; writes nothing
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from workloads import FIRST_CALLS, WORKLOADS

HERE = Path(__file__).parent
CONTENDERS = {
    "Rushlight": ("rushlight", "eager"),
    "Rushlight compiled": ("rushlight", "compiled"),
    "PyTorch": ("torch", "eager"),
    "PyTorch compiled": ("torch", "compiled"),
    "JAX jit": ("jax", "compiled"),
}
JAX = HERE / "jax_workloads.py"
ROUNDS = 7
REST_SECONDS = 0.4  # the threads of the one before spin for a while after their last call
IMPORT_GOAL = 0.15
FIRST_CALL_GOALS = {  # seconds beyond an ordinary call: nothing on disk, and everything
    "two-layer net": (0.3, None),
    "transformer, 4 layers": (3.0, 0.2),
}
CACHES = ("RUSHLIGHT_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")


class Worker:
    """A contender in a process of its own."""

    def __init__(self, name: str, threads: int) -> None:
        self.name, self.mode = name, CONTENDERS[name][1]
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), *CONTENDERS[name], str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.version = self.read()

    def read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"the worker of {self.name} ended early")
        return line

    def takes(self, workload: str) -> bool:
        """Whether it has this workload."""
        if self.name == "JAX jit":
            return f'"{workload}"' in JAX.read_text()
        return self.mode == "eager" or WORKLOADS[workload].compiles

    def time(self, workload: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{workload}\n")
        self.process.stdin.flush()
        return float(self.read())

    def close(self) -> None:
        self.process.communicate()


def installed() -> list[str]:
    return [name for name, (module, _) in CONTENDERS.items() if importlib.util.find_spec(module)]


def measure(workers: list[Worker], workload: str, rounds: int) -> dict[str, float]:
    """Seconds a call by contender: the best over alternating rounds."""
    racing = [w for w in workers if w.takes(workload)]
    best = {w.name: math.inf for w in racing}
    for number in range(rounds):
        for worker in racing:
            time.sleep(REST_SECONDS)
            seconds = worker.time(workload)
            best[worker.name] = min(best[worker.name], seconds)
        racing = [w for w in racing if not math.isinf(best[w.name])]
        bar = "█" * round(20 * (number + 1) / rounds)
        print(f"\r{workload:<40}{bar:<20}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {name: seconds for name, seconds in best.items() if not math.isinf(seconds)}


def shown(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds * 1e6:.2f} µs" if seconds < 1e-4 else f"{seconds * 1e6:.0f} µs"


def judged(ours: float | None, peers: list[float], goal: float | None) -> str:
    """The ratio of our time to the best of the peers', and whether it is what it should be."""
    if ours is None or not peers:
        return "–"
    ratio = ours / min(peers)
    if goal is None:
        return f"{ratio:.2f}"
    return f"{ratio:.2f} (≤ {goal}: {'met' if ratio <= goal else 'missed'})"


def table(threads: int, names: list[str], rounds: int) -> tuple[list[str], str]:
    """The table of the workloads, and the versions of the contenders."""
    workers = [Worker(name, threads) for name in installed()]
    columns = [w.name for w in workers]
    rows = [
        f"| workload | {' | '.join(columns)} | dynamic to PyTorch | compiled to the best peer |",
        "|---|" + "---|" * (len(columns) + 2),
    ]
    for name in names:
        best = measure(workers, name, rounds)
        times = " | ".join([shown(best.get(column)) for column in columns])
        peers = [s for column, s in best.items() if not column.startswith("Rushlight")]
        dynamic = [s for column, s in best.items() if column == "PyTorch"]
        goals = WORKLOADS[name]
        judgements = (
            judged(best.get("Rushlight"), dynamic, goals.eager),
            judged(best.get("Rushlight compiled"), peers, goals.compiled),
        )
        rows.append(f"| {name} | {times} | {' | '.join(judgements)} |")
    for worker in workers:
        worker.close()
    versions = {CONTENDERS[w.name][0]: w.version for w in workers}
    return rows, ", ".join([f"{module} {version}" for module, version in versions.items()])


def first_call(contender: str, threads: int, workload: str, folder: str) -> dict[str, float]:
    """What ``first_call.py`` measures, with compiled code kept in ``folder``."""
    command = [sys.executable, HERE / "first_call.py", *CONTENDERS[contender], threads, workload]
    environment = os.environ | dict.fromkeys(CACHES, folder)
    text = subprocess.check_output([str(part) for part in command], text=True, env=environment)
    return json.loads(text.splitlines()[-1])


def first_call_rows(threads: int, rounds: int) -> list[str]:
    rows = [
        "| training step | | first call | second call | ordinary call | first beyond ordinary | "
        "memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for workload in FIRST_CALLS:
        for contender in installed():
            if contender == "JAX jit":
                continue
            colds, warms = [], []
            for _ in range(rounds if contender != "PyTorch compiled" else 1):
                with tempfile.TemporaryDirectory() as folder:
                    colds.append(first_call(contender, threads, workload, folder))
                    if contender.endswith("compiled"):
                        warms.append(first_call(contender, threads, workload, folder))
            cold, warm = FIRST_CALL_GOALS.get(workload, (None, None))
            ours = contender == "Rushlight compiled"
            rows.append(first_call_row(workload, contender, colds, cold if ours else None))
            if warms:
                kept = f"{contender}, on disk"
                rows.append(first_call_row(workload, kept, warms, warm if ours else None))
            print(rows[-1], file=sys.stderr)
    return rows


def first_call_row(
    workload: str, label: str, runs: list[dict[str, float]], goal: float | None
) -> str:
    best: dict[str, Any] = {name: min([run[name] for run in runs]) for name in runs[0]}
    beyond = best["first"] - best["ordinary"]
    judgement = f"{beyond:.3f} s"
    if goal is not None:
        judgement += f" (≤ {goal} s: {'met' if beyond <= goal else 'missed'})"
    seconds = " | ".join([f"{best[name]:.4f} s" for name in ("first", "second", "ordinary")])
    return f"| {workload} | {label} | {seconds} | {judgement} | {best['bytes'] / 1e6:.0f} MB |"


def import_seconds(module: str) -> float:
    """The best of several fresh processes that import a module, its bytecode cached."""
    script = (
        f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    )
    cached = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    runs = [
        float(subprocess.check_output([sys.executable, "-c", script], text=True, env=cached))
        for _ in range(9)
    ]
    return min(runs)


def import_rows() -> list[str]:
    modules = dict.fromkeys(["numpy", *[CONTENDERS[name][0] for name in installed()]])
    seconds = {m: import_seconds(m) for m in modules}
    beyond = seconds["rushlight"] - seconds["numpy"]
    mark = "met" if beyond <= IMPORT_GOAL else "missed"
    listed = ", ".join(f"`import {m}` {s:.3f} s" for m, s in seconds.items())
    return [f"Import: {listed}. Beyond NumPy: {beyond:.3f} s (goal ≤ {IMPORT_GOAL} s: {mark})."]


def cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores" if names else platform.processor()


def commit() -> str:
    text = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True, cwd=HERE)
    changed = subprocess.check_output(
        ["git", "status", "--porcelain", "-uno"], text=True, cwd=HERE
    ).splitlines()
    dirty = [line for line in changed if not line.endswith("RESULTS.md")]
    return text.strip() + (" with changes" if dirty else "")


def load() -> str:
    return f"load average {os.getloadavg()[0]:.1f}" if sys.platform != "win32" else "load unknown"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="parts of the names of workloads, with commas")
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 1])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    return parser.parse_args()


def main() -> None:
    given = arguments()
    names = [n for n in WORKLOADS if any([part in n for part in given.only.split(",")])]
    before = load()
    sections: list[str] = []
    versions = ""
    for threads in given.threads:
        rows, versions = table(threads, names, given.rounds)
        count = "one thread" if threads == 1 else f"{threads} threads"
        sections += [f"## A call, {count} each", "", *rows, ""]
    if not given.only:
        threads = given.threads[0]
        rows = first_call_rows(threads, min(3, given.rounds))
        sections += ["## The first calls in a fresh process, and its memory beyond the import", ""]
        sections += [*rows, "", "## Import", "", *import_rows()]
    lines = [
        "# Results",
        "",
        f"{datetime.date.today()}, commit {commit()}, {versions}, Python "
        f"{platform.python_version()}; {cpu_name()}; {before} at the beginning. Best of "
        f"{given.rounds} alternating rounds, one process each. Written by `make bench`.",
        "",
        *sections,
    ]
    text = "\n".join(lines).rstrip() + "\n"
    print(text)
    if not given.only:
        (HERE / "RESULTS.md").write_text(text)


if __name__ == "__main__":
    main()
