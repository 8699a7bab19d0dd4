"""The pool: every chunk runs once, on any number of threads, however they come and go."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.runtime import jit, threads
from tests.waiting import PATIENCE, wait_until

# Programs of the form void name(pool, context, chunks, times).
PROGRAMS = """
declare void @rl_parallel(ptr, ptr, ptr, i64)
declare void @rl_in_order(ptr, ptr, ptr, i64)
declare void @rl_await(ptr, i64)

; Counts how often each chunk runs.
define void @count.chunk(ptr %counts, i64 %i) {
  %at = getelementptr i64, ptr %counts, i64 %i
  %old = atomicrmw add ptr %at, i64 1 monotonic
  ret void
}

; Sums 1/1 + 1/2 + ... of a thousand terms that follow, into element i.
define void @sum.chunk(ptr %sums, i64 %i) {
  %first = mul i64 %i, 1000
  %last = add i64 %first, 1000
  br label %loop
loop:
  %j = phi i64 [ %first, %0 ], [ %j.next, %loop ]
  %sum = phi double [ 0.0, %0 ], [ %sum.next, %loop ]
  %j.next = add i64 %j, 1
  %x = sitofp i64 %j.next to double
  %y = fdiv double 1.0, %x
  %sum.next = fadd double %sum, %y
  %more = icmp slt i64 %j.next, %last
  br i1 %more, label %loop, label %end
end:
  %at = getelementptr double, ptr %sums, i64 %i
  store double %sum.next, ptr %at
  ret void
}

; Waits until every chunk, whose number is in element 0, runs at the same time.
define void @meet.chunk(ptr %meeting, i64 %i) {
  %here.at = getelementptr i64, ptr %meeting, i64 1
  %all = load i64, ptr %meeting
  %before = atomicrmw add ptr %here.at, i64 1 seq_cst
  br label %loop
loop:
  %here = load atomic i64, ptr %here.at acquire, align 8
  %less = icmp slt i64 %here, %all
  br i1 %less, label %loop, label %end
end:
  ret void
}

; Notes in which order chunks begin, after element 0; the first two wait for each other.
define void @order.chunk(ptr %order, i64 %i) {
  %number = atomicrmw add ptr %order, i64 1 seq_cst
  %after = add i64 %i, 1
  %at = getelementptr i64, ptr %order, i64 %after
  store i64 %number, ptr %at
  br label %loop
loop:
  %begun = load atomic i64, ptr %order acquire, align 8
  %alone = icmp slt i64 %begun, 2
  br i1 %alone, label %loop, label %end
end:
  ret void
}

; Each chunk waits for the one before it.
define void @turn.chunk(ptr %turn, i64 %i) {
  call void @rl_await(ptr %turn, i64 %i)
  %next = add i64 %i, 1
  store atomic i64 %next, ptr %turn release, align 8
  ret void
}

; A job within a job: element 0 is the pool, the counts follow.
define void @nest.chunk(ptr %nest, i64 %i) {
  %pool = load ptr, ptr %nest
  %counts = getelementptr i64, ptr %nest, i64 1
  call void @rl_parallel(ptr %pool, ptr @count.chunk, ptr %counts, i64 5)
  ret void
}
""" + "\n".join(
    f"""
define void @{name}(ptr %pool, ptr %context, i64 %chunks, i64 %times) {{
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %i.next, %loop ]
  call void @{job}(ptr %pool, ptr @{name}.chunk, ptr %context, i64 %chunks)
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %times
  br i1 %more, label %loop, label %end
end:
  ret void
}}"""
    for name, job in {
        **dict.fromkeys(("count", "sum", "meet", "order", "nest"), "rl_parallel"),
        "turn": "rl_in_order",
    }.items()
)


@functools.cache
def library() -> jit.Library:
    return jit.load([jit.compile_ir(PROGRAMS)], threads.symbols())


def program(name: str) -> Callable[[threads.Pool, np.ndarray[Any, Any], int, int], None]:
    kinds = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    function = ctypes.CFUNCTYPE(None, *kinds)(library().address(name))

    def run(pool: threads.Pool, context: np.ndarray[Any, Any], chunks: int, times: int) -> None:
        pool.begin()
        function(pool.address, context.ctypes.data, chunks, times)
        pool.end()

    return run


def symbol(name: str) -> Callable[[int], None]:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(threads.symbols()[name])


def parked(pool: threads.Pool) -> int:
    return ctypes.c_int64.from_address(pool.address + threads.PARKED).value


def wait_until_all_sleep(pool: threads.Pool) -> None:
    wait_until(lambda: parked(pool) == pool.threads - 1)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_chunk_runs_once_per_job(count: int) -> None:
    pool = threads.Pool(count)
    for chunks in (0, 1, 2, 7, 64):
        counts = np.zeros(64, np.int64)
        program("count")(pool, counts, chunks, 100)
        assert counts.tolist() == [100] * chunks + [0] * (64 - chunks)


@pytest.mark.parametrize("count", [2, 8])
def test_very_many_tiny_jobs(count: int) -> None:
    pool, counts = threads.Pool(count), np.zeros(3, np.int64)
    program("count")(pool, counts, 3, 100_000)
    assert counts.tolist() == [100_000] * 3


def test_the_caller_begins_with_the_first_chunk_and_the_worker_with_the_last() -> None:
    order = np.zeros(9, np.int64)
    program("order")(threads.Pool(2), order, 8, 1)
    assert order[0] == 8
    assert {order[1], order[8]} == {0, 1}
    assert sorted(order[1:]) == list(range(8))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_chunks_may_wait_for_those_before_them_in_order(count: int) -> None:
    turn = np.zeros(1, np.int64)
    program("turn")(threads.Pool(count), turn, 40, 1)
    assert turn.tolist() == [40]


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    results = []
    for count in (1, 2, 3):
        sums = np.zeros(100)
        program("sum")(threads.Pool(count), sums, 100, 5)
        results.append(sums.tobytes())
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("count", [2, 4])
def test_workers_take_part_at_first_and_after_sleep(count: int) -> None:
    pool = threads.Pool(count)
    for _ in range(3):
        program("meet")(pool, np.array([count, 0]), count, 1)
        wait_until_all_sleep(pool)


def test_programs_of_several_threads_do_not_wait_for_each_other() -> None:
    pool = threads.Pool(2)
    counts = np.zeros((6, 16), np.int64)

    def work(row: int) -> None:
        for _ in range(50):
            program("count")(pool, counts[row], 16, 100)

    others = [threading.Thread(target=work, args=(row,)) for row in range(6)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert (counts == 5000).all()


def test_a_job_within_a_job_runs_on_its_thread() -> None:
    pool = threads.Pool(3)
    nest = np.array([pool.address, 0, 0, 0, 0, 0])
    program("nest")(pool, nest, 20, 10)
    assert nest[1:].tolist() == [200] * 5


@pytest.mark.parametrize("native", [False, True])
def test_workers_sleep_while_a_program_pauses(native: bool) -> None:
    pool = threads.Pool(3)
    pool.begin()
    for _ in range(3):
        symbol("rl_pause")(pool.address) if native else pool.pause()
        wait_until_all_sleep(pool)
        symbol("rl_resume")(pool.address) if native else pool.resume()
        assert parked(pool) == 0
        program("meet")(pool, np.array([3, 0]), 3, 1)
    pool.end()
    wait_until_all_sleep(pool)


def test_programs_that_begin_while_workers_fall_asleep() -> None:
    """Pauses near the patience of a worker: it must neither miss a token nor get two."""
    pool = threads.Pool(2)
    for i in range(300):
        program("meet")(pool, np.array([2, 0]), 2, 1)
        end = time.perf_counter() + i % 100 * 1e-6
        while time.perf_counter() < end:
            pass
    wait_until_all_sleep(pool)
    assert pool._tokens.empty()


def test_without_threads_of_the_system_the_caller_does_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    counts = np.zeros(10, np.int64)
    program("count")(threads.Pool(4), counts, 10, 10)
    assert counts.tolist() == [10] * 10


def test_the_pool_follows_set_num_threads() -> None:
    before = rl.get_num_threads()
    try:
        for count in (1, 2, 1):
            rl.set_num_threads(count)
            assert threads.pool().threads == rl.get_num_threads()
            assert threads.pool() is threads.pool()
    finally:
        rl.set_num_threads(before)


END = """
import ctypes, os, sys, threading, time
from rushlight.runtime import jit, threads

code = jit.compile_ir('''
declare void @rl_parallel(ptr, ptr, ptr, i64)
define void @chunk(ptr %sum, i64 %i) {
  %old = atomicrmw add ptr %sum, i64 %i monotonic
  ret void
}
define void @run(ptr %pool, ptr %sum) {
  call void @rl_parallel(ptr %pool, ptr @chunk, ptr %sum, i64 100)
  ret void
}''')
library = jit.load([code], threads.symbols())
run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.address("run"))

def use(pool):
    sum = ctypes.c_int64()
    for _ in range(100):
        run(pool.address, ctypes.byref(sum))
    assert sum.value == 100 * 4950

def forever(pool):
    while True:
        use(pool)

pool = threads._pool(os.getpid(), 3)
pool.begin()
use(pool)
match sys.argv[1]:
    case "ended":
        pool.end()
    case "asleep":
        pool.end()
        time.sleep(0.01)
    case "running":
        threading.Thread(target=forever, args=(pool,), daemon=True).start()
        time.sleep(0.01)
    case "forked":
        child = os.fork()
        own = threads._pool(os.getpid(), 3)
        assert (own is pool) == (child != 0)
        own.begin()
        use(own)
        own.end()
        assert child == 0 or os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("how", ["ended", "asleep", "spinning", "running", "forked"])
def test_the_process_ends(how: str) -> None:
    if how == "forked" and os.name != "posix":
        pytest.skip("only POSIX systems fork")
    command = [sys.executable, "-W", "ignore", "-c", END, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
