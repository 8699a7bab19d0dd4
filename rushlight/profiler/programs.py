"""The steps of compiled programs: timed one by one, and what is known of each."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.profiler.events import Recorder
from rushlight.runtime.driver import driver
from rushlight.runtime.executable import Binding, Executable, Library
from rushlight.runtime.explain import Reader, Step
from rushlight.runtime.measure import clock, has_loops, seconds, whole_seconds
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
        whole = notes.begin("program", "work")
        outputs = [slot.nbytes for slot in self.program.slots if slot.where == "output"]
        whole.allocated = sum(outputs)
        try:
            for number, begin, spent in timed(self, arrays):
                step = self.program.steps[number]
                kind = KINDS.get(type(step), "kernel")
                at = begin - notes.origin
                notes.add("", kind, at, at + spent).step = self.executable, number
        finally:
            notes.finish(whole)

    return execute


def timed(binding: Binding, arrays: Any) -> Iterator[tuple[int, float, float]]:
    """Runs a program: the number of each step, when it began, and how long it took."""
    driver().place(arrays, binding.pairs.ctypes.data, len(binding.pairs))
    number, threads = binding.program.early * binding.skipped, pool()
    threads.begin()
    try:
        if has_loops(binding.program):
            begin = time.perf_counter()
            for number, t in enumerate(whole_seconds(binding, arrays)):
                yield number, begin + number * t, t
            return
        for part in binding.parts[binding.skipped :]:
            begin = time.perf_counter()
            try:
                spent = seconds(binding, part, arrays)
            except Exception as error:
                if isinstance(part, Library):
                    binding.locate(error, part.step)
                raise
            for t in spent:
                yield number, begin, t
                number, begin = number + 1, begin + t
    finally:
        threads.end()


@functools.lru_cache(maxsize=64)
def steps_of(executable: Executable) -> list[Step]:
    """What each step of a program is: its ops, its cost, the user's lines it comes from."""
    times = [0.0] * len(executable.program.steps)
    return list(Reader("", executable, times, 1.0).steps())
