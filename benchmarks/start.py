"""A workload in a fresh process: what its first calls take, and how much memory.

python -m benchmarks.start "Rushlight compiled" 2 "two-layer net, training" False

Prints JSON: the seconds of the first and the second call and of an ordinary one, and how many bytes
the process grew to beyond what it had after the import; null if the contender has no such workload.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import time

from benchmarks.contenders import open_contender
from benchmarks.workloads import STARTS

ORDINARY = 5


def main() -> None:
    name, threads, workload, tiny = sys.argv[1:]
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        _, make = open_contender(name, int(threads))
        before = peak()
        step = make(workload, STARTS[workload].workload, tiny == "True")
        seconds = []
        for _ in range(2 + ORDINARY if step else 0):
            begin = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - begin)
    found = None
    if step:
        first, second, *others = seconds
        grown = peak() - before
        found = {"first": first, "second": second, "ordinary": min(others), "bytes": grown}
    print(json.dumps(found), file=answers)


def peak() -> int:
    """The most bytes of memory that the process has had so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    main()
