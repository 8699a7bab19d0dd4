"""What comes before the first result: imports, compilation with and without a cache, memory."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence

from benchmarks.budget import Budget
from benchmarks.contenders import (
    CONTENDERS,
    ROOT,
    command,
    environment,
    installed,
    interpreter,
    present,
)
from benchmarks.race import LIMIT_SECONDS, show
from benchmarks.report import judged, table
from benchmarks.workloads import STARTS

CACHES = ("RUSHLIGHT_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR")
KEEPERS = ("Rushlight compiled", "torch.compile", "JAX")  # who finds compiled code on disk again
SLOW_STARTERS = ("torch.compile", "JAX", "TensorFlow")  # one round of these is enough
IMPORT_GOAL = 0.15  # seconds beyond NumPy's
IMPORTS = 7


def start(
    name: str, threads: int, workload: str, tiny: bool, folder: str, limit: float
) -> dict | None:
    """What ``start.py`` measures, with compiled code kept in ``folder``; None if it fails."""
    kept = dict.fromkeys(CACHES, folder) | {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    try:
        done = subprocess.run(
            command("start", name, threads, workload, tiny),
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=environment(threads) | kept,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return None
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def start_section(
    names: Sequence[str], rounds: int, threads: int, tiny: bool, budget: Budget
) -> list[str]:
    """The table of first calls and of memory."""
    rows = []
    for workload in names:
        goals = STARTS[workload]
        bytes_of_pytorch = None
        order = sorted(present(), key=lambda n: n != "PyTorch")  # what memory is compared with
        share = budget.share / len(order)
        for name in order:
            colds, warms = [], []
            end = time.perf_counter() + share
            for number in range(1 if name in SLOW_STARTERS else rounds):
                show(f"start: {workload:<40}{budget}, round {number + 1}  {name}")
                limit = min(LIMIT_SECONDS, budget.limit)
                with tempfile.TemporaryDirectory() as folder:
                    colds.append(start(name, threads, workload, tiny, folder, limit))
                    if name in KEEPERS and colds[-1]:
                        warms.append(start(name, threads, workload, tiny, folder, limit))
                if time.perf_counter() > end:
                    break
            ours = name == "Rushlight compiled"
            memory = goals.memory if CONTENDERS[name].ours else None
            cold = goals.cold if ours else None
            warm = goals.warm if ours else None
            for label, runs, goal in ((name, colds, cold), (f"{name}, on disk", warms, warm)):
                good = [run for run in runs if run]
                if not good:
                    if runs:
                        rows.append(failed_row(workload, label, goal, memory))
                    continue
                best = {key: min([run[key] for run in good]) for key in good[0]}
                if label == "PyTorch":
                    bytes_of_pytorch = best["bytes"]
                rows.append(start_row(workload, label, best, goal, bytes_of_pytorch, memory))
        budget.done += 1
        show(f"start: {workload:<40}({budget})\n")
    heads = ["workload", "", "first call", "second", "ordinary", "first beyond ordinary", "memory"]
    return table([*heads, "memory to PyTorch"], rows)


def failed_row(
    workload: str, label: str, goal: float | None, memory_goal: float | None
) -> list[str]:
    """One whose processes failed, or were not ready in time."""
    seconds, share = [judged(None, g, unit, True) for g, unit in ((goal, " s"), (memory_goal, ""))]
    return [workload, label, "failed", "–", "–", seconds, "–", share]


def start_row(
    workload: str,
    label: str,
    best: dict[str, float],
    goal: float | None,
    bytes_of_pytorch: float | None,
    memory_goal: float | None,
) -> list[str]:
    beyond = best["first"] - best["ordinary"]
    share = best["bytes"] / bytes_of_pytorch if bytes_of_pytorch else None
    seconds = [f"{best[key]:.3f} s" for key in ("first", "second", "ordinary")]
    megabytes = f"{best['bytes'] / 1e6:.0f} MB"
    return [
        *(workload, label, *seconds, judged(beyond, goal, " s"), megabytes),
        judged(share, memory_goal),
    ]


def import_seconds(python: str, module: str) -> float:
    """The best of several fresh processes that import a module, its bytecode cached."""
    clock = "import time; t = time.perf_counter()"
    script = f"{clock}; import {module}; print(time.perf_counter() - t)"
    cached = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return min(
        [
            float(subprocess.check_output([python, "-c", script], text=True, env=cached, cwd=ROOT))
            for _ in range(IMPORTS)
        ]
    )


def import_section() -> list[str]:
    pythons = {c.module: interpreter(name) for name, c in CONTENDERS.items()}
    here = {module: python for module, python in pythons.items() if installed(python, module)}
    seconds = {"numpy": import_seconds(pythons["rushlight"], "numpy")}
    for module, python in here.items():
        show(f"import {module}")
        seconds[module] = import_seconds(python, module)
    show("imports\n")
    beyond = seconds["rushlight"] - seconds["numpy"]
    listed = ", ".join([f"`{module}` {s:.3f} s" for module, s in seconds.items()])
    return [f"{listed}. Rushlight beyond NumPy: {judged(beyond, IMPORT_GOAL, ' s')}."]
