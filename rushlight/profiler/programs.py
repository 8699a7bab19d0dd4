"""The steps of compiled programs: timed one by one, and what is known of each."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.profiler.events import Recorder
from rushlight.runtime.driver import driver
from rushlight.runtime.executable import Binding, Executable
from rushlight.runtime.explain import Reader, Step
from rushlight.runtime.measure import Spent, clock, spent
from rushlight.runtime.program import CallStep, CopyStep, RowStep
from rushlight.runtime.threads import pool

KINDS = {CallStep: "call", CopyStep: "copy", RowStep: "copy"}


def watch_program(function: Callable[..., None]) -> Callable[..., None]:
    """``Binding.execute``, with an event for each step."""

    @functools.wraps(function)
    def execute(self: Binding, arrays: Any) -> None:
        notes = Recorder.now()
        if notes is None:
            return function(self, arrays)
        clock()  # which is compiled when first asked for
        whose = "" if notes.thread.running is None else notes.thread.running.name
        whole = notes.begin(f"{whose.removeprefix('compiled ')} program".strip(), "work")
        outputs = [slot.nbytes for slot in self.program.slots if slot.where == "output"]
        whole.allocated = sum(outputs)
        try:
            for number, begin, (seconds, runs) in timed(self, arrays):
                step = self.program.steps[number]
                kind = KINDS.get(type(step), "kernel")
                at = begin - notes.origin
                event = notes.add("", kind, at, at + seconds)
                event.step, event.attrs = (self.executable, number), {"runs": runs}
        finally:
            notes.finish(whole)

    return execute


def timed(binding: Binding, arrays: Any) -> Iterator[tuple[int, float, Spent]]:
    """Runs a program: the number of each step, when it began, and what it took.

    A step of a loop is shown once, as long as all of its runs together.
    """
    driver().place(arrays, binding.pairs.ctypes.data, len(binding.pairs))
    threads = pool()
    threads.begin()
    try:
        begin = time.perf_counter()
        found = spent(binding, arrays)
    finally:
        threads.end()
    first = binding.program.early * binding.skipped
    for number, each in enumerate(found[first:], first):
        yield number, begin, each
        begin += each.seconds


@functools.lru_cache(maxsize=64)
def steps_of(executable: Executable) -> list[Step]:
    """What each step of a program is: its ops, the cost of a run, the user's lines."""
    times = [Spent(0.0, 1)] * len(executable.program.steps)
    return list(Reader("", executable, times, 1.0).steps())
