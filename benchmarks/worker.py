"""One contender in one process: times a workload for each line on stdin.

python -m benchmarks.worker "PyTorch channels-last" 2

A line is JSON: the name of a workload, and whether a tiny one will do; null gives back the memory.
The answer is the seconds of a call, null if this contender has no such workload, or an error.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.contenders import open_contender
from benchmarks.sweeps import POINTS
from benchmarks.workloads import WORKLOADS

RUN_SECONDS = 0.02
RUNS = 8
LONG_SECONDS = 1.0  # of workloads that take longer there is but one run


def duration(step: Callable[[], Any], count: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(count):
        step()
    return time.perf_counter() - start


def calls_per_run(step: Callable[[], Any]) -> int:
    """How many calls fill a run; also the warm-up."""
    duration(step)  # compiles
    for _ in range(2):  # what an optimizer begins with, and what is compiled for that
        if duration(step) > LONG_SECONDS:
            return 1
    count = 1
    while (elapsed := duration(step, count)) < RUN_SECONDS:
        count *= 4
    return max(1, round(count * RUN_SECONDS / elapsed))


def best_time(step: Callable[[], Any], count: int) -> float:
    """Seconds a call: the best of several short runs, since others share the cores."""
    best, began = float("inf"), time.perf_counter()
    for _ in range(RUNS):
        best = min(best, duration(step, count) / count)
        if time.perf_counter() - began > LONG_SECONDS:
            break
    return best


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        version, make = open_contender(name, threads)
        print(json.dumps(version), file=answers, flush=True)
        prepared: dict[tuple[str, bool], tuple[Callable[[], Any], int] | None] = {}
        for line in sys.stdin:
            wanted = json.loads(line)
            key = wanted and tuple(wanted)
            if key not in prepared:
                prepared.clear()
                gc.collect()
            answer: Any = None
            try:
                if wanted:
                    answer = timed(prepared, make, *key)
            except Exception as error:  # what a contender cannot do is a note below the table
                answer = {"error": f"{type(error).__name__}: {error}"[:300]}
            print(json.dumps(answer), file=answers, flush=True)


def timed(prepared: dict, make: Callable[..., Any], name: str, tiny: bool) -> float | None:
    """Seconds a call; a tiny workload is called once more than it is compiled."""
    if (name, tiny) not in prepared:
        step = make(name, (WORKLOADS | POINTS)[name], tiny)
        prepared[name, tiny] = step and (step, 1 if tiny else calls_per_run(step))
        if step and tiny:
            step()
    if not (found := prepared[name, tiny]):
        return None
    step, count = found
    return duration(step) if tiny else best_time(step, count)


if __name__ == "__main__":
    main()
