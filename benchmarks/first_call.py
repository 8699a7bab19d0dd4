"""A training step in a fresh process: what its first calls take, and how much memory.

python benchmarks/first_call.py rushlight compiled 2 "two-layer net"

Prints JSON: the seconds of the first and the second call and of an ordinary one, and how many bytes
the process grew to beyond what it had after the import.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time

from worker import use_threads
from workloads import FIRST_CALLS

ORDINARY = 5


def main() -> None:
    framework, mode, threads, name = sys.argv[1:]
    use_threads(int(threads))
    lib = importlib.import_module(framework)
    lib.set_num_threads(int(threads))
    before = peak()
    step = FIRST_CALLS[name](lib, lib.compile if mode == "compiled" else lambda f: f)
    seconds = []
    for _ in range(2 + ORDINARY):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    first, second, *ordinary = seconds
    found = {"first": first, "second": second, "ordinary": min(ordinary), "bytes": peak() - before}
    print(json.dumps(found))


def peak() -> int:
    """The most bytes of memory that the process has had so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    main()
