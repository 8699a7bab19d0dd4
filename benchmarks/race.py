"""Contenders that take turns: own process each, alternating rounds, the best time of each."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.budget import Budget
from benchmarks.contenders import CONTENDERS, ROOT, command, environment, present

REST_SECONDS = 0.25  # the threads of the one before spin for a while after their last call
BUDGET_SECONDS = 20.0  # of the rounds of a workload at most
LIMIT_SECONDS = 400.0  # that a contender is waited for at most, before it is stopped
COUNTING = "Rushlight compiled"  # counts the operations of a workload
MEMORY = Path("/proc/meminfo")
MEMORY_SHARE = 0.35  # of the machine's memory that has to be free for all to keep their networks


class Failure(Exception):
    """A contender could not run a workload."""


class Worker:
    """A contender in a process of its own, which is started again if it ends."""

    def __init__(self, name: str, threads: int) -> None:
        self.name, self.threads = name, threads
        self.process: subprocess.Popen[str] | None = None
        self.version = ""

    def start(self) -> None:
        self.process = subprocess.Popen(
            command("worker", self.name, self.threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env=environment(self.threads),
        )
        self.version = self.answer()

    def answer(self, limit: float = LIMIT_SECONDS) -> Any:
        """The next line of the process, which is ended if it takes too long."""
        process = self.process
        assert process is not None
        assert process.stdout is not None
        alarm = threading.Timer(limit, process.kill)
        alarm.start()
        line = process.stdout.readline()
        in_time = alarm.is_alive()
        alarm.cancel()
        if line:
            return json.loads(line)
        self.close()
        ended = f"its process ended with code {process.returncode}"
        raise Failure(ended if in_time else f"not ready in {limit:.0f} s")

    def ask(self, question: Any, limit: float = LIMIT_SECONDS) -> Any:
        """What the process answers; an error if it tells of one."""
        if self.process is None or self.process.poll() is not None:
            self.close()
            self.start()
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = self.answer(limit)
        if isinstance(answer, dict):
            raise Failure(answer["error"])
        return answer

    def prepare(self, workload: str, tiny: bool, limit: float) -> bool:
        """Compiles a workload; whether there is one."""
        return self.ask(["prepare", workload, tiny], limit)

    def time(self, workload: str, tiny: bool) -> float:
        """Seconds a call."""
        return self.ask(["time", workload, tiny])

    def forget(self) -> None:
        """Gives back the memory of the last workload."""
        if self.process is not None:
            self.ask(None)

    def close(self) -> None:
        if self.process is not None:
            self.process.communicate()  # which also closes its pipes
            self.process = None


@contextmanager
def workers(threads: int, names: Iterable[str] | None = None) -> Iterator[list[Worker]]:
    """The contenders that are installed, or those of them that are named."""
    made = [Worker(n, threads) for n in present() if names is None or n in names]
    try:
        yield made
    finally:
        for worker in made:
            worker.close()


def versions(opened: list[Worker]) -> dict[str, str]:
    """The versions of the frameworks that have run."""
    return {CONTENDERS[w.name].module: w.version for w in opened if w.version}


class Times(NamedTuple):
    """Seconds a call by contender, and why some have none."""

    best: dict[str, float]
    failures: dict[str, str]
    floor: list[float]  # seconds of the operations alone, if they are known


def race(
    racing: Iterable[Worker],
    workload: str,
    rounds: int,
    tiny: bool = False,
    budget: Budget | None = None,
) -> Times:
    """The best times over as many alternating rounds as the budget allows."""
    budget = budget or Budget()
    times = Times({}, {}, [])
    share = time.perf_counter() + budget.share
    show(f"{workload:<46}{budget}, preparing")
    ready = prepare(racing, workload, tiny, min(LIMIT_SECONDS, budget.limit), times)
    end = min(share, time.perf_counter() + BUDGET_SECONDS)
    for number in range(1, rounds + 1):
        start = time.perf_counter()
        for worker in list(ready):
            show(f"{workload:<46}{budget}, round {number}  {worker.name}")
            if not take_turn(worker, workload, tiny, times):
                ready.remove(worker)
        now = time.perf_counter()
        if now + max(now - start, sum(times.best.values())) > end:
            break
    for worker in ready:
        if worker.name == COUNTING and not tiny:
            time.sleep(REST_SECONDS)
            with contextlib.suppress(Failure):  # a page without it is a page
                times.floor.append(worker.ask(["floor", workload, tiny]))
    budget.done += 1
    show(f"{workload:<46}{summary(times)} ({budget})\n")
    return times


def prepare(
    racing: Iterable[Worker], workload: str, tiny: bool, limit: float, times: Times
) -> list[Worker]:
    """Those who have a workload, ready for it. Compiling is not timed: they do it side by side."""

    def ready(worker: Worker) -> bool:
        try:
            has = worker.prepare(workload, tiny, limit)
            if scarce():
                worker.forget()
        except Failure as failure:
            times.failures[worker.name] = str(failure)
            return False
        return has

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        racing = list(racing)
        found = [*threads.map(ready, racing)]
    return [worker for worker, has in zip(racing, found, strict=True) if has]


def take_turn(worker: Worker, workload: str, tiny: bool, times: Times) -> bool:
    """Whether there is a time to compare with that of another round."""
    time.sleep(REST_SECONDS)
    try:
        seconds = worker.time(workload, tiny)
        if scarce():
            worker.forget()
    except Failure as failure:
        times.failures[worker.name] = str(failure)
        times.best.pop(worker.name, None)
        return False
    times.best[worker.name] = min(times.best.get(worker.name, math.inf), seconds)
    return True


def scarce() -> bool:
    """Whether the networks of all contenders might not fit into memory."""
    if not MEMORY.exists():
        return False
    lines = [line.split() for line in MEMORY.read_text().splitlines()]
    sizes = {words[0]: int(words[1]) for words in lines}
    return sizes["MemAvailable:"] < MEMORY_SHARE * sizes["MemTotal:"]


def summary(times: Times) -> str:
    if not times.best:
        return "no times"
    winner = min(times.best, key=lambda name: times.best[name])
    failed = f", failed: {', '.join(times.failures)}" if times.failures else ""
    return f"{winner} {1e3 * times.best[winner]:.3f} ms{failed}"


def show(text: str) -> None:
    """The line of progress; only its end where there is no terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text.endswith("\n"):
        print(text, end="", file=sys.stderr, flush=True)
