"""The time of each step of a program, read in native code between one step and the next."""

from __future__ import annotations

import ctypes
import functools
import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rushlight.generator import Generator
from rushlight.runtime.arena import Arena
from rushlight.runtime.cache import object_code
from rushlight.runtime.clock import NOW, UNIT
from rushlight.runtime.driver import JUMP, STEP, driver
from rushlight.runtime.executable import Arrays, Binding, Executable, Library, Native
from rushlight.runtime.jit import load
from rushlight.runtime.threads import pool

ROUNDS, PATIENCE = 15, 1.0  # runs of which the quickest counts, and the seconds they may take

CLOCK = """
declare i64 @rl_run(ptr, i64, ptr, ptr)

; Runs steps one by one, from one on, and adds the time of each to those of its earlier runs, and
; one to their number; the result is which one has stopped, or how many there are.
define i64 @rl_measure(ptr %steps, i64 %first, i64 %count, ptr %pool, ptr %error, ptr %times) {
entry:
  %time = alloca [2 x i64]
  %begin = call i64 @now(ptr %time)
  br label %next

next:
  %i = phi i64 [ %first, %entry ], [ %to, %counted ]
  %before = phi i64 [ %begin, %entry ], [ %now, %counted ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %step, label %end

step:
  %offset = mul i64 %i, WORDS
  %at = getelementptr i64, ptr %steps, i64 %offset
  %after = add i64 %i, 1
  %function = load ptr, ptr %at
  %kind.at = getelementptr i64, ptr %at, i64 4
  %kind = load i64, ptr %kind.at
  %none = icmp eq ptr %function, null
  %leads = icmp eq i64 %kind, JUMP
  %jumps = and i1 %none, %leads
  br i1 %jumps, label %jump, label %plain

jump:
  %table.at = getelementptr i64, ptr %at, i64 1
  %table = load ptr, ptr %table.at
  %held.at = load ptr, ptr %table
  %held = load i64, ptr %held.at
  %number.at = getelementptr i64, ptr %at, i64 2
  %number = load i64, ptr %number.at
  %target.at = getelementptr i64, ptr %at, i64 3
  %target = load i64, ptr %target.at
  %stay = icmp eq i64 %held, %number
  %other = select i1 %stay, i64 %after, i64 %target
  br label %counted

plain:
  %done = call i64 @rl_run(ptr %at, i64 1, ptr %pool, ptr %error)
  %ran = icmp eq i64 %done, 1
  br i1 %ran, label %counted, label %end

counted:
  %to = phi i64 [ %other, %jump ], [ %after, %plain ]
  %now = call i64 @now(ptr %time)
  %spent = sub i64 %now, %before
  %time.at = getelementptr [2 x i64], ptr %times, i64 %i
  %old = load i64, ptr %time.at
  %sum = add i64 %old, %spent
  store i64 %sum, ptr %time.at
  %runs.at = getelementptr [2 x i64], ptr %times, i64 %i, i64 1
  %runs = load i64, ptr %runs.at
  %more.runs = add i64 %runs, 1
  store i64 %more.runs, ptr %runs.at
  br label %next

end:
  ret i64 %i
}
"""


class Spent(NamedTuple):
    """The seconds of all runs of a step, and how many these are: those of a loop turn often."""

    seconds: float
    runs: int


@functools.cache
def clock() -> tuple[Any, Any]:
    """The native function that runs steps and notes the time; and where it lives."""
    code = object_code(NOW + CLOCK.replace("WORDS", str(STEP)).replace("JUMP", str(JUMP)))
    library = load([code], {"rl_run": driver().library.address("rl_run")})
    word, size = ctypes.c_void_p, ctypes.c_int64
    kind = ctypes.CFUNCTYPE(size, word, size, size, word, word, word)
    return kind(library.address("rl_measure")), library


def measure(
    executable: Executable, inputs: Sequence[Any], captured: Sequence[Any]
) -> tuple[list[Spent], Arrays]:
    """What each step takes, the least of some runs, and the outputs.

    Every run has copies of its own of what the program writes to.
    """
    graph, binding, room = executable.graph, Binding(executable), Arena(executable.program.arena)
    binding.move(room)
    written = {target for target, _ in graph.writes}
    times = [Spent(math.inf, 0)] * len(executable.program.steps)
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
            times = [min(pair) for pair in zip(times, spent(binding, arrays), strict=True)]
            if number and time.perf_counter() > end:
                break
    finally:
        threads.end()
    return times, arrays[binding.end :]


def spent(binding: Binding, arrays: Arrays) -> list[Spent]:
    """Runs a program: what each of its steps takes."""
    parts = binding.parts
    found = [np.zeros((part.count if isinstance(part, Native) else 1, 2)) for part in parts]
    number = binding.skipped
    while number < len(parts):
        part, own = parts[number], found[number]
        number += 1
        if isinstance(part, Native):
            own += natively_spent(binding, part)
            continue
        begin = time.perf_counter()
        try:
            if part.run(arrays):
                number = part.to
        except Exception as error:
            if isinstance(part, Library):
                binding.locate(error, part.step)
            raise
        own += time.perf_counter() - begin, 1
    return [Spent(t, int(runs)) for own in found for t, runs in own.tolist()]


def natively_spent(binding: Binding, part: Native) -> np.ndarray:
    """Runs native steps: the time and the runs of each."""
    run, _ = clock()
    ticks = np.zeros((part.count, 2), np.int64)
    error, done = binding.error.ctypes.data, 0
    while True:
        done = run(part.steps, done, part.count, pool().address, error, ticks.ctypes.data)
        if done == part.count:
            return ticks * (UNIT, 1)
        binding.resume(part.first + done)


def own(value: Any, written: bool) -> Any:
    """What a measured run may change in the place of ``value``."""
    if isinstance(value, Generator):
        return value.clone_state()
    return value.copy(order="K") if written else value
