"""Rushlight beside its peers: own process each, alternating rounds, best of several, as ratios.

python benchmarks/run.py            # prints the table and writes benchmarks/RESULTS.md
"""

from __future__ import annotations

import datetime
import importlib.util
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from workloads import WORKLOADS

HERE = Path(__file__).parent
PEERS = ("torch",)
ROUNDS = 7
REST_SECONDS = 0.4  # the threads of the one before spin for a while after their last call
IMPORT_GOAL = 0.15


class Worker:
    """A framework in a process of its own."""

    def __init__(self, framework: str) -> None:
        self.framework = framework
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), framework],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.version = self.read()

    def read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"the {self.framework} worker ended early")
        return line

    def time(self, workload: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{workload}\n")
        self.process.stdin.flush()
        return float(self.read())

    def close(self) -> None:
        self.process.communicate()


def measure(workers: list[Worker], workload: str) -> dict[str, float]:
    """Seconds a call by framework: the best over alternating rounds."""
    best = {w.framework: float("inf") for w in workers}
    for round_number in range(ROUNDS):
        for worker in workers:
            time.sleep(REST_SECONDS)
            best[worker.framework] = min(best[worker.framework], worker.time(workload))
            share = (round_number + 1) / ROUNDS
            bar = "█" * round(20 * share)
            print(f"\r{workload:<36}{bar:<20}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return best


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


def micro(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} µs" if seconds < 1e-4 else f"{seconds * 1e6:.0f} µs"


def table(workers: list[Worker]) -> list[str]:
    peers = [w.framework for w in workers[1:]]
    rows = [
        "| workload | Rushlight | " + " | ".join(peers) + " | ratio to the best peer | goal | |",
        "|---|---|" + "---|" * len(peers) + "---|---|---|",
    ]
    for name, (_, goal) in WORKLOADS.items():
        best = measure(workers, name)
        ratio = best["rushlight"] / min(best[p] for p in peers) if peers else float("nan")
        times = " | ".join(micro(best[p]) for p in peers)
        wanted, mark = "–", "recorded"
        if goal is not None:
            wanted, mark = f"≤ {goal}", "met" if ratio <= goal else "missed"
        rows.append(
            f"| {name} | {micro(best['rushlight'])} | {times} | {ratio:.2f} | {wanted} | {mark} |"
        )
    return rows


def import_rows() -> list[str]:
    modules = ["numpy", "rushlight", *(p for p in PEERS if importlib.util.find_spec(p))]
    seconds = {m: import_seconds(m) for m in modules}
    beyond = seconds["rushlight"] - seconds["numpy"]
    mark = "met" if beyond <= IMPORT_GOAL else "missed"
    listed = ", ".join(f"`import {m}` {s:.3f} s" for m, s in seconds.items())
    return [f"Import: {listed}. Beyond NumPy: {beyond:.3f} s (goal ≤ {IMPORT_GOAL} s: {mark})."]


def main() -> None:
    frameworks = ["rushlight", *(p for p in PEERS if importlib.util.find_spec(p))]
    workers = [Worker(f) for f in frameworks]
    versions = ", ".join(f"{w.framework} {w.version}" for w in workers)
    lines = [
        "# Results",
        "",
        f"{datetime.date.today()}, commit {commit()}, {versions}, Python "
        f"{platform.python_version()}; {cpu_name()}; two threads each. Best of {ROUNDS} "
        "alternating rounds, one process a framework. Written by `make bench`.",
        "",
        *table(workers),
        "",
        *import_rows(),
    ]
    for worker in workers:
        worker.close()
    text = "\n".join(lines) + "\n"
    print(text)
    (HERE / "RESULTS.md").write_text(text)


if __name__ == "__main__":
    main()
