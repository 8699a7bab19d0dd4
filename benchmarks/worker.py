"""One framework in one process: times a workload for each line on stdin.

python benchmarks/worker.py torch
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

from workloads import WORKLOADS

ROUND_SECONDS = 0.15
LONG_ROUND_SECONDS = 1.0  # of workloads that take longer than a round


def calls_per_round(step: Callable[[], Any]) -> int:
    """How many calls fill a round; also the warm-up."""
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


def main() -> None:
    lib = importlib.import_module(sys.argv[1])
    lib.set_num_threads(2)
    print(lib.__version__, flush=True)
    prepared: dict[str, tuple[Callable[[], Any], int]] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in prepared:
            step = WORKLOADS[name][0](lib)
            prepared[name] = step, calls_per_round(step)
        print(best_time(*prepared[name]), flush=True)


if __name__ == "__main__":
    main()
