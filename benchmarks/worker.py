"""One contender in one process: times a workload for each line on stdin.

python benchmarks/worker.py torch eager 2
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

ROUND_SECONDS = 0.15
LONG_ROUND_SECONDS = 1.0  # of workloads that take longer than a round


def calls_per_round(step: Callable[[], Any]) -> int:
    """How many calls fill a round; also the warm-up."""
    for _ in range(3):  # what is compiled, and what an optimizer begins with
        step()
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            step()
        elapsed = time.perf_counter() - start
        if elapsed > ROUND_SECONDS / 8:
            return max(1, round(count * ROUND_SECONDS / 8 / elapsed))
        count *= 4


def best_time(step: Callable[[], Any], count: int) -> float:
    """Seconds a call: the best of up to eight short runs, since others share the cores."""
    best, began = float("inf"), time.perf_counter()
    for _ in range(8):
        start = time.perf_counter()
        for _ in range(count):
            step()
        end = time.perf_counter()
        best = min(best, (end - start) / count)
        if end - began > LONG_ROUND_SECONDS:
            break
    return best


def use_threads(count: int) -> None:
    """Keeps the process on as many cores; before a framework is imported, which counts them."""
    if sys.platform == "linux":
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[:count])


def contender(framework: str, mode: str, threads: int) -> tuple[str, Callable[[str], Any]]:
    """The version of a framework, and what makes the step of a workload."""
    lib = importlib.import_module(framework)
    if framework == "jax":
        made = importlib.import_module("jax_workloads").WORKLOADS
        return lib.__version__, lambda name: made[name]()
    lib.set_num_threads(threads)
    workloads = importlib.import_module("workloads").WORKLOADS
    wrap = lib.compile if mode == "compiled" else (lambda function: function)
    return lib.__version__, lambda name: workloads[name].make(lib, wrap)


def main() -> None:
    framework, mode, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    use_threads(threads)
    version, make = contender(framework, mode, threads)
    print(version, flush=True)
    prepared: dict[str, tuple[Callable[[], Any], int]] = {}
    for line in sys.stdin:
        name = line.strip()
        try:
            with contextlib.redirect_stdout(sys.stderr):
                if name not in prepared:
                    step = make(name)
                    prepared[name] = step, calls_per_round(step)
                seconds = best_time(*prepared[name])
        except Exception as error:  # what a peer cannot do is a gap in the table
            print(f"\n{framework} {mode}, {name}: {error!r}"[:300], file=sys.stderr)
            seconds = math.nan
        print(seconds, flush=True)


if __name__ == "__main__":
    main()
