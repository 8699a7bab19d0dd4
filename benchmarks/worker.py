"""One contender in one process: times a workload for each line on stdin.

python -m benchmarks.worker "PyTorch channels-last" 2

A line is JSON: "prepare", "time" or "floor", the name of a workload, and whether a tiny one will
do; null gives back the memory. The answer is whether this contender has such a workload, the
seconds of a call, those of its operations alone at the speed of a large product (ours only), or an
error.
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
WARM_SECONDS = 5.0  # and these begin with fewer calls


def duration(step: Callable[[], Any], count: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(count):
        step()
    return time.perf_counter() - start


def warm_up(step: Callable[[], Any]) -> None:
    duration(step)  # compiles
    for _ in range(2):  # what an optimizer begins with, and what is compiled for that
        if duration(step) > WARM_SECONDS:
            break


def calls_per_run(step: Callable[[], Any]) -> int:
    """How many calls fill a run."""
    count = 1
    while (elapsed := duration(step, count)) < RUN_SECONDS:
        count *= 4
    return max(1, round(count * RUN_SECONDS / elapsed))


def best_time(step: Callable[[], Any]) -> float:
    """Seconds a call: the best of several short runs, since others share the cores."""
    best, began = duration(step), time.perf_counter()
    if best > LONG_SECONDS:
        return best
    count = calls_per_run(step)
    for _ in range(RUNS):
        best = min(best, duration(step, count) / count)
        if time.perf_counter() - began > LONG_SECONDS:
            break
    return best


def floor(step: Callable[[], Any]) -> float:
    """Seconds that the operations of a call take at the speed of a large product."""
    from rushlight import profile
    from rushlight.runtime.costs import machine

    with profile() as seen:
        step()
    return seen.total_average().flops / machine().flops


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        version, make = open_contender(name, threads)
        print(json.dumps(version), file=answers, flush=True)
        known: dict[tuple[str, bool], Callable[[], Any] | None] = {}
        for line in sys.stdin:
            wanted = json.loads(line)
            answer: Any = None
            try:
                if wanted:
                    answer = answered(known, make, *wanted)
                else:
                    known.clear()
                    gc.collect()
            except Exception as error:  # what a contender cannot do is a note below the table
                answer = {"error": f"{type(error).__name__}: {error}"[:300]}
            print(json.dumps(answer), file=answers, flush=True)


def answered(known: dict, make: Callable[..., Any], what: str, name: str, tiny: bool) -> Any:
    """Whether there is a workload, which is then compiled; or the seconds of a call."""
    if (name, tiny) not in known:
        known.clear()
        gc.collect()
        step = known[name, tiny] = make(name, (WORKLOADS | POINTS)[name], tiny)
        if step:
            warm_up(step)
    step = known[name, tiny]
    if what == "prepare":
        return step is not None
    if what == "floor":
        return floor(step)
    return duration(step) if tiny else best_time(step)


if __name__ == "__main__":
    main()
