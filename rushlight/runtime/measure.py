"""The time of each step of a program, read in native code between one step and the next."""

from __future__ import annotations

import ctypes
import functools
import math
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.generator import Generator
from rushlight.runtime.cache import object_code
from rushlight.runtime.driver import STEP, driver
from rushlight.runtime.executable import Arrays, Binding, Executable, Library, Native
from rushlight.runtime.jit import load
from rushlight.runtime.program import JumpStep, Program
from rushlight.runtime.threads import pool

ROUNDS, PATIENCE = 15, 1.0  # runs of which the quickest counts, and the seconds they may take

POSIX = """
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now(ptr %time) {{
  call i32 @clock_gettime(i32 {clock}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %all = add i64 %whole, %rest
  ret i64 %all
}}
"""

WINDOWS = """
declare i32 @QueryPerformanceCounter(ptr)

define internal i64 @now(ptr %time) {
  call i32 @QueryPerformanceCounter(ptr %time)
  %ticks = load i64, ptr %time
  ret i64 %ticks
}
"""

CLOCK = """
declare i64 @rl_run(ptr, i64, ptr, ptr)

; Runs steps one by one and writes down the time before each and at the end.
define i64 @rl_measure(ptr %steps, i64 %count, ptr %pool, ptr %error, ptr %times) {
entry:
  %time = alloca [2 x i64]
  br label %next

next:
  %i = phi i64 [ 0, %entry ], [ %after, %step ]
  %now = call i64 @now(ptr %time)
  %at = getelementptr i64, ptr %times, i64 %i
  store i64 %now, ptr %at
  %more = icmp slt i64 %i, %count
  br i1 %more, label %step, label %end

step:
  %offset = mul i64 %i, WORDS
  %step.at = getelementptr i64, ptr %steps, i64 %offset
  %done = call i64 @rl_run(ptr %step.at, i64 1, ptr %pool, ptr %error)
  %after = add i64 %i, %done
  %ran = icmp eq i64 %done, 1
  br i1 %ran, label %next, label %end

end:
  ret i64 %i
}
"""


@functools.cache
def clock() -> tuple[Any, float, Any]:
    """The native function that runs steps and notes the time, and the seconds of its unit."""
    if sys.platform == "win32":
        now, unit = WINDOWS, time.get_clock_info("perf_counter").resolution
    else:
        now, unit = POSIX.format(clock=time.CLOCK_MONOTONIC), 1e-9
    code = object_code(now + CLOCK.replace("WORDS", str(STEP)))
    library = load([code], {"rl_run": driver().library.address("rl_run")})
    word = ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, word, ctypes.c_int64, word, word, word)
    return kind(library.address("rl_measure")), unit, library


def measure(
    executable: Executable, inputs: Sequence[Any], captured: Sequence[Any]
) -> tuple[list[float], Arrays]:
    """The seconds of each step, the least of some runs, and the outputs.

    Every run has copies of its own of what the program writes to.
    """
    graph, binding = executable.graph, Binding(executable)
    written = {target for target, _ in graph.writes}
    times = [math.inf] * len(executable.program.steps)
    loops = has_loops(executable.program)
    threads = pool()
    threads.begin()
    try:
        end = time.perf_counter() + PATIENCE
        for number in range(ROUNDS):
            arrays = binding.begin(
                [own(x, n in written) for x, n in zip(inputs, graph.inputs, strict=True)],
                [own(x, n in written) for x, n in zip(captured, graph.captured, strict=True)],
            )
            driver().place(arrays, binding.pairs.ctypes.data, len(binding.pairs))
            if loops:
                spent = whole_seconds(binding, arrays)
            else:
                spent = [t for part in binding.parts for t in seconds(binding, part, arrays)]
            times = [min(pair) for pair in zip(times, spent, strict=True)]
            if number and time.perf_counter() > end:
                break
    finally:
        threads.end()
    return times, arrays[binding.end :]


def has_loops(program: Program) -> bool:
    """Whether steps of a program may run several times, or not at all."""
    return any([isinstance(step, JumpStep) for step in program.steps])


def whole_seconds(binding: Binding, arrays: Arrays) -> list[float]:
    """Runs a program with branches or loops, whose steps run any number of times: all alike."""
    begin = time.perf_counter()
    binding.run_parts(arrays)
    count = len(binding.program.steps)
    return [(time.perf_counter() - begin) / count] * count


def seconds(binding: Binding, part: Native | Library, arrays: Arrays) -> list[float]:
    """Runs a part of a program: the time of each of its steps."""
    if isinstance(part, Library):
        begin = time.perf_counter()
        part.run(arrays)
        return [time.perf_counter() - begin]
    run, unit, _ = clock()
    stamps = np.zeros(part.count + 1, np.int64)
    error = binding.error.ctypes.data
    done = run(part.steps, part.count, pool().address, error, stamps.ctypes.data)
    if done != part.count:
        binding.resume(part.first + done)
    return (np.diff(stamps) * unit).tolist()


def own(value: Any, written: bool) -> Any:
    """What a measured run may change in the place of ``value``."""
    if isinstance(value, Generator):
        return value.clone_state()
    return value.copy(order="K") if written else value
