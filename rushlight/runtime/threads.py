"""The threads that compiled programs share their loops among.

A worker is a daemon thread of Python that runs :data:`NATIVE`'s ``rl_worker``, without the lock
of the interpreter: it waits for jobs there while a program runs and a moment longer, and then
comes back to Python to sleep. A job is a function and a number of chunks. The caller takes them one
by one from the first on, the workers from the last on, until they meet: so what a job writes is
mostly near the core that reads it in the next one. Chunks that wait for others are all taken from
the first on. Which thread runs a chunk is left to chance in the end, so results must not depend on
it: loops are cut by their shape, not by the number of threads.

One word of memory holds the state of a job: bits 0–30 count the workers inside it, bit 31 says
that it is open, the rest is its number. A worker enters by compare-and-swap, only while the job is
open; the caller closes it and waits until nobody is inside, so no worker ever sees half a job. A
second word counts the chunks that were taken, in its low half those from the first on, in its high
half those from the last on.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

import numpy as np

from rushlight.runtime.arena import Arena
from rushlight.runtime.cache import object_code
from rushlight.runtime.jit import PLAIN, load, target
from rushlight.runtime.tasks import once
from rushlight.settings import get_num_threads

PATIENCE = 200e-6  # seconds for which a worker waits after a program before it sleeps
TURNS = 1000  # rounds for which a chunk waits for another one before others may go first
# Where the fields of a pool are; the state of the job is at 0. What is written often has a pair of
# cache lines of its own, since they are fetched in pairs.
FUNCTION, CONTEXT, CHUNKS, TAKES = 8, 16, 24, 32
NEXT, TAKEN = 128, 256
ACTIVE, PARKED, SPINS, WAKE = 384, 392, 400, 408
SIZE = 512
FIRST, LAST = 1, 1 << 32  # what is added to the count of chunks by who takes them from where

PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.isb(i32)", "call void @llvm.aarch64.isb(i32 15)"),
}

NATIVE = f"""
declare void @rl_yield()
PAUSE_DECLARATION

define void @rl_parallel(ptr %pool, ptr %function, ptr %context, i64 %chunks) {{
  call void @job(ptr %pool, ptr %function, ptr %context, i64 %chunks, i64 {LAST})
  ret void
}}

define void @rl_in_order(ptr %pool, ptr %function, ptr %context, i64 %chunks) {{
  call void @job(ptr %pool, ptr %function, ptr %context, i64 %chunks, i64 {FIRST})
  ret void
}}

define internal void @job(ptr %pool, ptr %function, ptr %context, i64 %chunks, i64 %takes) {{
  %next = getelementptr i8, ptr %pool, i64 {NEXT}
  %taken = getelementptr i8, ptr %pool, i64 {TAKEN}
  %several = icmp sgt i64 %chunks, 1
  br i1 %several, label %take, label %alone

take:
  %swap = cmpxchg ptr %taken, i64 0, i64 1 acquire monotonic
  %free = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %free, label %open, label %alone

open:
  %before = load atomic i64, ptr %pool monotonic, align 8
  %number = add i64 %before, {1 << 32}
  %state = or i64 %number, {1 << 31}
  %function.at = getelementptr i8, ptr %pool, i64 {FUNCTION}
  %context.at = getelementptr i8, ptr %pool, i64 {CONTEXT}
  %chunks.at = getelementptr i8, ptr %pool, i64 {CHUNKS}
  store ptr %function, ptr %function.at, align 8
  store ptr %context, ptr %context.at, align 8
  %takes.at = getelementptr i8, ptr %pool, i64 {TAKES}
  store i64 %chunks, ptr %chunks.at, align 8
  store i64 %takes, ptr %takes.at, align 8
  store atomic i64 0, ptr %next monotonic, align 8
  store atomic i64 %state, ptr %pool release, align 8
  call void @take_chunks(ptr %next, ptr %function, ptr %context, i64 %chunks, i64 {FIRST})
  %closed = atomicrmw and ptr %pool, i64 {~(1 << 31)} acq_rel
  %spins.at = getelementptr i8, ptr %pool, i64 {SPINS}
  %spins = load i64, ptr %spins.at, align 8
  br label %wait

wait:
  %waited = phi i64 [ 0, %open ], [ %waited.more, %wait.longer ]
  %now = load atomic i64, ptr %pool acquire, align 8
  %inside = and i64 %now, {(1 << 31) - 1}
  %done = icmp eq i64 %inside, 0
  br i1 %done, label %release, label %wait.longer

wait.longer:
  %waited.more = add i64 %waited, 1
  call void @pause(i64 %waited, i64 %spins)
  br label %wait

release:
  store atomic i64 0, ptr %taken release, align 8
  ret void

alone:
  %any = icmp sgt i64 %chunks, 0
  br i1 %any, label %each, label %end

each:
  %chunk = phi i64 [ 0, %alone ], [ %chunk.next, %each ]
  call void %function(ptr %context, i64 %chunk)
  %chunk.next = add i64 %chunk, 1
  %more = icmp slt i64 %chunk.next, %chunks
  br i1 %more, label %each, label %end

end:
  ret void
}}

define internal void @take_chunks(
    ptr %next, ptr %function, ptr %context, i64 %chunks, i64 %takes
) {{
  %ahead = icmp eq i64 %takes, {FIRST}
  %last = sub i64 %chunks, 1
  br label %take

take:
  %count = atomicrmw add ptr %next, i64 %takes monotonic
  %first = and i64 %count, {LAST - 1}
  %back = lshr i64 %count, 32
  %taken = add i64 %first, %back
  %is = icmp slt i64 %taken, %chunks
  br i1 %is, label %run, label %end

run:
  %before = sub i64 %last, %back
  %chunk = select i1 %ahead, i64 %first, i64 %before
  call void %function(ptr %context, i64 %chunk)
  br label %take

end:
  ret void
}}

; Lets the other hyperthread, and after that many rounds the other threads, go first.
define internal void @pause(i64 %waited, i64 %spins) {{
  PAUSE_CALL
  %spin = icmp slt i64 %waited, %spins
  br i1 %spin, label %end, label %yield

yield:
  call void @rl_yield()
  br label %end

end:
  ret void
}}

; Waits until another chunk of the same job has stored a value.
define void @rl_await(ptr %at, i64 %value) {{
  br label %look

look:
  %waited = phi i64 [ 0, %0 ], [ %waited.more, %longer ]
  %now = load atomic i64, ptr %at acquire, align 8
  %stored = icmp eq i64 %now, %value
  br i1 %stored, label %end, label %longer

longer:
  %waited.more = add i64 %waited, 1
  call void @pause(i64 %waited, i64 {TURNS})
  br label %look

end:
  ret void
}}

; Serves jobs until no program runs for a while; then the thread sleeps until a token comes.
define void @rl_worker(ptr %pool) {{
  %next = getelementptr i8, ptr %pool, i64 {NEXT}
  %active.at = getelementptr i8, ptr %pool, i64 {ACTIVE}
  %parked.at = getelementptr i8, ptr %pool, i64 {PARKED}
  %spins.at = getelementptr i8, ptr %pool, i64 {SPINS}
  %spins = load i64, ptr %spins.at, align 8
  br label %look

look:
  %served = phi i64 [ -1, %0 ], [ %served, %idle.on ], [ %served, %enter ], [ %number, %serve ]
  %idle = phi i64 [ 0, %0 ], [ %idle.more, %idle.on ], [ %idle, %enter ], [ 0, %serve ]
  %quiet = phi i64 [ 0, %0 ], [ %quiet.more, %idle.on ], [ %quiet, %enter ], [ 0, %serve ]
  %state = load atomic i64, ptr %pool acquire, align 8
  %number = lshr i64 %state, 32
  %open.bit = and i64 %state, {1 << 31}
  %open = icmp ne i64 %open.bit, 0
  %new = icmp ne i64 %number, %served
  %enters = and i1 %open, %new
  br i1 %enters, label %enter, label %rest

enter:
  %within = add i64 %state, 1
  %swap = cmpxchg ptr %pool, i64 %state, i64 %within acq_rel monotonic
  %entered = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %entered, label %serve, label %look

serve:
  %function.at = getelementptr i8, ptr %pool, i64 {FUNCTION}
  %context.at = getelementptr i8, ptr %pool, i64 {CONTEXT}
  %chunks.at = getelementptr i8, ptr %pool, i64 {CHUNKS}
  %function = load ptr, ptr %function.at, align 8
  %context = load ptr, ptr %context.at, align 8
  %takes.at = getelementptr i8, ptr %pool, i64 {TAKES}
  %chunks = load i64, ptr %chunks.at, align 8
  %takes = load i64, ptr %takes.at, align 8
  call void @take_chunks(ptr %next, ptr %function, ptr %context, i64 %chunks, i64 %takes)
  %left = atomicrmw sub ptr %pool, i64 1 release
  br label %look

rest:
  %active = load atomic i64, ptr %active.at acquire, align 8
  %running = icmp ne i64 %active, 0
  %waited = select i1 %running, i64 %idle, i64 %quiet
  call void @pause(i64 %waited, i64 %spins)
  %quiet.longer = add i64 %quiet, 1
  %quiet.now = select i1 %running, i64 0, i64 %quiet.longer
  %tired = icmp sgt i64 %quiet.now, %spins
  br i1 %tired, label %park, label %idle.on

idle.on:
  %quiet.more = phi i64 [ %quiet.now, %rest ], [ 0, %park.swap ]
  %idle.more = add i64 %idle, 1
  br label %look

park:
  %others = atomicrmw add ptr %parked.at, i64 1 seq_cst
  %active.again = load atomic i64, ptr %active.at seq_cst, align 8
  %late = icmp ne i64 %active.again, 0
  br i1 %late, label %park.revoke, label %sleep

; A program has begun: take the announcement back, unless a token is on its way already.
park.revoke:
  %parked = load atomic i64, ptr %parked.at seq_cst, align 8
  %waiting = icmp sgt i64 %parked, 0
  br i1 %waiting, label %park.swap, label %sleep

park.swap:
  %fewer = sub i64 %parked, 1
  %unpark = cmpxchg ptr %parked.at, i64 %parked, i64 %fewer seq_cst seq_cst
  %back = extractvalue {{ i64, i1 }} %unpark, 1
  br i1 %back, label %idle.on, label %park.revoke

sleep:
  ret void
}}

; Counts a running program, and tells how many workers sleep and must get a token each.
define i64 @rl_begin(ptr %pool) {{
  %active.at = getelementptr i8, ptr %pool, i64 {ACTIVE}
  %parked.at = getelementptr i8, ptr %pool, i64 {PARKED}
  %active = atomicrmw add ptr %active.at, i64 1 seq_cst
  %parked = load atomic i64, ptr %parked.at seq_cst, align 8
  %none = icmp eq i64 %parked, 0
  br i1 %none, label %end, label %claim

claim:
  %claimed = atomicrmw xchg ptr %parked.at, i64 0 seq_cst
  br label %end

end:
  %tokens = phi i64 [ 0, %0 ], [ %claimed, %claim ]
  ret i64 %tokens
}}

define void @rl_pause(ptr %pool) {{
  %active.at = getelementptr i8, ptr %pool, i64 {ACTIVE}
  %active = atomicrmw sub ptr %active.at, i64 1 seq_cst
  ret void
}}

define void @rl_resume(ptr %pool) {{
  %tokens = call i64 @rl_begin(ptr %pool)
  %any = icmp sgt i64 %tokens, 0
  br i1 %any, label %wake, label %end

wake:
  %wake.at = getelementptr i8, ptr %pool, i64 {WAKE}
  %callback = load ptr, ptr %wake.at, align 8
  call void %callback(i64 %tokens)
  br label %end

end:
  ret void
}}

; Rests for a number of rounds, which a clock turns into the length of one.
define void @rl_rest(i64 %rounds) {{
  br label %round

round:
  %waited = phi i64 [ 0, %0 ], [ %waited.more, %round ]
  call void @pause(i64 %waited, i64 %rounds)
  %waited.more = add i64 %waited, 1
  %more = icmp slt i64 %waited.more, %rounds
  br i1 %more, label %round, label %end

end:
  ret void
}}
"""


class Native:
    """The functions of :data:`NATIVE`, as Python calls them."""

    __slots__ = ("begin", "library", "pause", "spins", "worker")

    def __init__(self) -> None:
        declaration, call = PAUSES.get(target().architecture, ("", ""))
        text = NATIVE.replace("PAUSE_DECLARATION", declaration).replace("PAUSE_CALL", call)
        self.library = load([object_code(text, PLAIN)], {"rl_yield": yield_address()})
        address = self.library.address
        self.worker = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address("rl_worker"))
        # So short that the lock of the interpreter is kept.
        self.begin = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address("rl_begin"))
        self.pause = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(address("rl_pause"))
        rest = ctypes.PYFUNCTYPE(None, ctypes.c_int64)(address("rl_rest"))
        self.spins = rounds_of_patience(rest)


@once
def native() -> Native:
    """The compiled functions, made on first use."""
    return Native()


def yield_address() -> int:
    """The system's function that lets other threads go first."""
    if sys.platform == "win32":
        function = ctypes.WinDLL("kernel32").SwitchToThread
    else:
        function = ctypes.CDLL(None).sched_yield
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def rounds_of_patience(rest: Callable[[int], None], rounds: int = 1000) -> int:
    """How many rounds of waiting last :data:`PATIENCE` seconds."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        rest(rounds)
        best = min(best, time.perf_counter() - start)
    return max(1, int(rounds * PATIENCE / best))


def symbols() -> dict[str, int]:
    """What compiled programs may call, and where it is, for :func:`rushlight.runtime.jit.load`.

    ``void rl_parallel(pool, void (*function)(context, int64 chunk), context, int64 chunks)`` runs
    the chunks 0 … chunks-1 and returns when all are done. ``rl_in_order`` is the same for chunks of
    which one may wait for those of a lower number, by ``void rl_await(int64 *at, value)``.
    ``void rl_pause(pool)`` and ``void rl_resume(pool)`` stand around the call of a library that has
    threads of its own.
    """
    names = ("rl_parallel", "rl_in_order", "rl_await", "rl_pause", "rl_resume")
    return {name: native().library.address(name) for name in names}


def work(native: Native, memory: Arena, tokens: SimpleQueue[None]) -> None:
    """The life of a worker.

    Its frame keeps the code and the memory that it uses: the interpreter may end meanwhile.
    """
    while True:
        native.worker(memory.address)
        tokens.get()


class Pool:
    """The caller of a program and ``threads - 1`` workers, which start with the first program.

    Several threads may run programs at the same time: the workers serve one job at a time, and
    whoever finds them busy runs its chunks alone.

    ``address`` is what native code passes to the functions of :func:`symbols`. A program runs
    between ``begin`` and ``end``; a library with threads of its own, between ``pause`` and
    ``resume`` within.
    """

    __slots__ = (
        "_lock",
        "_memory",
        "_native",
        "_started",
        "_tokens",
        "_wake",
        "address",
        "threads",
    )

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._native, self._memory = native(), Arena(SIZE, 128)
        self._tokens: SimpleQueue[None] = SimpleQueue()
        self._lock, self._started = threading.Lock(), threads == 1
        self._wake = ctypes.CFUNCTYPE(None, ctypes.c_int64)(self._give)
        self.address = self._memory.address
        self._memory.bytes[:] = 0
        fields = self._memory.bytes.view(np.int64)
        fields[SPINS // 8] = self._native.spins
        fields[WAKE // 8] = ctypes.cast(self._wake, ctypes.c_void_p).value or 0

    def begin(self) -> None:
        """A program starts that has parallel parts: the workers shall wait for its jobs."""
        if not self._started:
            self._start()
        tokens = self._native.begin(self.address)
        if tokens:
            self._give(tokens)

    def end(self) -> None:
        """The program is over: unless another one comes soon, the workers may sleep."""
        self._native.pause(self.address)

    pause, resume = end, begin

    def _give(self, tokens: int) -> None:
        for _ in range(tokens):
            self._tokens.put(None)

    def _start(self) -> None:
        with self._lock:
            if self._started:
                return
            self._started = True
            for _ in range(self.threads - 1):
                worker = threading.Thread(
                    target=work,
                    args=(self._native, self._memory, self._tokens),
                    name="rushlight-worker",
                    daemon=True,
                )
                try:
                    worker.start()
                except RuntimeError:  # the system gives no more threads: fewer do the work
                    return


def pool() -> Pool:
    """The pool of this process for as many threads as :func:`rushlight.get_num_threads` says.

    >>> from rushlight.runtime import threads
    >>> threads.pool().threads == rl.get_num_threads()
    True
    """
    return _pool(os.getpid(), get_num_threads())


@functools.cache
def _pool(process: int, threads: int) -> Pool:
    # A forked process has none of its parent's threads. Pools of another size sleep.
    return Pool(threads)
