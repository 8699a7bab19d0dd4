"""Executable: a program bound to memory, called with arrays.

Kernels run in native code one after the other, without coming back to Python between them; only
a library call interrupts that. Two threads may call one executable: each uses an arena of its own.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.autograd.modes import quiet_context
from rushlight.graph.ir import Graph
from rushlight.passes import pipeline
from rushlight.passes.order import Plan
from rushlight.runtime import files
from rushlight.runtime.arena import Arena
from rushlight.runtime.cache import Cache, folder, object_code
from rushlight.runtime.jit import load, target
from rushlight.runtime.program import CallStep, CopyStep, KernelStep, Program, build, errors_of
from rushlight.runtime.threads import pool, symbols

STEP = 6  # words of a native step: function, table of buffers, count, chunk, chunks, bytes

DRIVER = """
declare void @rl_parallel(ptr, ptr, ptr, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal void @chunk(ptr %step, i64 %number) {
  %function = load ptr, ptr %step
  %buffers.at = getelementptr i64, ptr %step, i64 1
  %count.at = getelementptr i64, ptr %step, i64 2
  %size.at = getelementptr i64, ptr %step, i64 3
  %buffers = load ptr, ptr %buffers.at
  %count = load i64, ptr %count.at
  %size = load i64, ptr %size.at
  %begin = mul i64 %number, %size
  %far = add i64 %begin, %size
  %over = icmp sgt i64 %far, %count
  %end = select i1 %over, i64 %count, i64 %far
  call void %function(ptr %buffers, i64 %begin, i64 %end)
  ret void
}

; Runs steps until one meets an error; the result is how many have run.
define i64 @rl_run(ptr %steps, i64 %count, ptr %pool, ptr %error) {
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %step, label %end

step:
  %i = phi i64 [ 0, %0 ], [ %next, %ran ]
  %offset = mul i64 %i, 6
  %at = getelementptr i64, ptr %steps, i64 %offset
  %function = load ptr, ptr %at
  %copies = icmp eq ptr %function, null
  br i1 %copies, label %copy, label %kernel

copy:
  %table.at = getelementptr i64, ptr %at, i64 1
  %table = load ptr, ptr %table.at
  %source = load ptr, ptr %table
  %target.at = getelementptr i64, ptr %table, i64 1
  %target = load ptr, ptr %target.at
  %bytes.at = getelementptr i64, ptr %at, i64 5
  %bytes = load i64, ptr %bytes.at
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  br label %ran

kernel:
  %chunks.at = getelementptr i64, ptr %at, i64 4
  %chunks = load i64, ptr %chunks.at
  %several = icmp sgt i64 %chunks, 1
  br i1 %several, label %parallel, label %alone

parallel:
  call void @rl_parallel(ptr %pool, ptr @chunk, ptr %at, i64 %chunks)
  br label %checked

alone:
  call void @chunk(ptr %at, i64 0)
  br label %checked

checked:
  %code = load i64, ptr %error
  %failed = icmp ne i64 %code, 0
  br i1 %failed, label %end, label %ran

ran:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %step, label %end

end:
  %done = phi i64 [ 0, %0 ], [ %i, %checked ], [ %count, %ran ]
  ret i64 %done
}
"""


@functools.cache
def driver() -> tuple[Any, Any]:
    """The native function that runs steps."""
    library = load([object_code(DRIVER, optimize=1)], symbols())
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
    )
    return kind(library.address("rl_run")), library


class Executable:
    """A compiled graph. ``run`` takes and returns arrays, and writes where the graph does."""

    def __init__(self, graph: Graph) -> None:
        self.source = graph
        self.seconds: dict[str, float] = {}  # what each phase of compiling took
        begin = time.perf_counter()
        cache, key = Cache(folder()), files.key(graph, target().vector_bytes)
        kept = cache.get(key)
        self.was_kept = kept is not None  # whether the program was on disk
        if kept is not None:
            self.program, code = files.decode(kept)
            self.seconds["read"] = time.perf_counter() - begin
        else:
            code = self.compile()
            cache.put(key, files.encode(self.program, code))
        self.library = load([code]) if code else None
        self.idle: list[Binding] = []
        self.lock = threading.Lock()

    def compile(self) -> bytes:
        """Makes the program; the result is its object code."""
        graph, plan = self.lowered
        begin = time.perf_counter()
        self.program = build(graph, plan, target().vector_bytes)
        lowered = time.perf_counter()
        code = object_code(self.program.text) if self.program.kernels else b""
        self.seconds |= {"loops": lowered - begin, "LLVM": time.perf_counter() - lowered}
        return code

    def kernel_text(self, name: str) -> str:
        """The LLVM assembly of a kernel."""
        if not self.program.kernels:
            self.program.kernels = build(self.graph, self.plan, target().vector_bytes).kernels
        return self.program.kernels[name]

    @functools.cached_property
    def lowered(self) -> tuple[Graph, Plan]:
        """The graph after all passes, and the plan of how to run it."""
        return pipeline.lower(self.source, self.seconds)

    @property
    def graph(self) -> Graph:
        return self.lowered[0]

    @property
    def plan(self) -> Plan:
        return self.lowered[1]

    def run(self, inputs: Sequence[np.ndarray], captured: Sequence[Any]) -> list[np.ndarray]:
        """The outputs of the graph for these inputs and captured values."""
        with self.lock:
            binding = self.idle.pop() if self.idle else Binding(self)
        try:
            return binding.run(inputs, captured)
        finally:
            binding.release()
            with self.lock:
                self.idle.append(binding)


class Binding:
    """The memory of one running call: arena, tables of addresses, arrays for library calls."""

    def __init__(self, executable: Executable) -> None:
        program = self.program = executable.program
        self.executable = executable
        self.memory = Arena(program.arena)
        self.error = np.zeros(2, np.int64)
        self.arrays: list[Any] = [None] * len(program.slots)
        self.addresses = np.zeros(len(program.slots) + 1, np.int64)
        self.outputs = [i for i, slot in enumerate(program.slots) if slot.where == "output"]
        self.leaves = [
            (i, slot.where == "input", slot.place, slot.shape)
            for i, slot in enumerate(program.slots)
            if slot.where in ("input", "captured")
        ]
        self.written = written_slots(program)
        self.copied: list[tuple[np.ndarray, np.ndarray]] = []
        self.context = quiet_context()
        self.fixed()
        self.tables()

    def fixed(self) -> None:
        """Addresses and arrays that are the same at every call."""
        self.addresses[-1] = self.error.ctypes.data
        for i, slot in enumerate(self.program.slots):
            if slot.where == "arena":
                raw = self.memory.bytes[slot.place : slot.place + slot.nbytes]
                self.arrays[i] = raw.view(slot.dtype).reshape(slot.shape)
                self.addresses[i] = self.memory.address + slot.place
            elif slot.where == "constant":
                self.arrays[i] = self.program.constants[slot.place]
                self.addresses[i] = self.arrays[i].ctypes.data

    def tables(self) -> None:
        """One table with the addresses of the buffers of all steps, and the native steps."""
        which: list[int] = []
        native: list[list[int]] = []
        self.parts: list[Any] = []  # (first native step, how many) or a library call
        begin = 0
        library = self.executable.library
        last = len(self.program.slots)
        for step in self.program.steps:
            if isinstance(step, CallStep):
                if len(native) > begin:
                    self.parts.append((begin, len(native) - begin))
                self.parts.append(Library(self, step))
                begin = len(native)
                continue
            position = len(which)
            if isinstance(step, KernelStep):
                assert library is not None
                chunks = -(-step.parts // max(1, step.chunk))
                native.append(
                    [library.address(step.name), position, step.parts, step.chunk, chunks, 0]
                )
                which += [*step.slots, last]
            else:
                nbytes = self.program.slots[step.source].nbytes
                native.append([0, position, 0, 0, 0, nbytes])
                which += [step.source, step.target]
        if len(native) > begin:
            self.parts.append((begin, len(native) - begin))
        self.kernels = [s for s in self.program.steps if not isinstance(s, CallStep)]
        self.which = np.array(which, np.int64)
        self.table = np.zeros(len(which), np.int64)
        self.steps = np.array(native, np.int64).reshape(-1, STEP)
        self.steps[:, 1] = self.table.ctypes.data + 8 * self.steps[:, 1]
        self.parallel = bool((self.steps[:, 4] > 1).any())
        self.first = self.steps.ctypes.data
        self.error_at = self.error.ctypes.data

    def run(self, inputs: Sequence[np.ndarray], captured: Sequence[Any]) -> list[np.ndarray]:
        results = self.begin(inputs, captured)
        if self.parallel:
            pool().begin()
        try:
            for part in self.parts:
                self.execute(part)
        finally:
            if self.parallel:
                pool().end()
        self.end()
        return results

    def begin(self, inputs: Sequence[np.ndarray], captured: Sequence[Any]) -> list[np.ndarray]:
        """Makes the outputs, and writes down where everything is."""
        self.take(inputs, captured)
        results = []
        for i in self.outputs:
            slot = self.program.slots[i]
            array = self.arrays[i] = np.empty(slot.shape, slot.dtype)
            self.addresses[i] = array.__array_interface__["data"][0]
            results.append(array)
        self.addresses.take(self.which, out=self.table)
        return results

    def execute(self, part: Any) -> None:
        """Runs a library call, or some native steps: (the first, how many)."""
        threads = pool()
        if isinstance(part, Library):
            if self.parallel:
                threads.pause()
            try:
                part.run()
            finally:
                if self.parallel:
                    threads.resume()
        else:
            begin, count = part
            run, _ = driver()
            done = run(self.first + begin * STEP * 8, count, threads.address, self.error_at)
            if done != count:
                self.fail(begin + done)

    def end(self) -> None:
        """Gives what was written to copies on to where it belongs."""
        for array, own in self.copied:
            array[...] = own

    def take(self, inputs: Sequence[np.ndarray], captured: Sequence[Any]) -> None:
        """Arrays of outside: their addresses; those with odd strides are copied, there and back."""
        self.copied.clear()
        arrays, addresses = self.arrays, self.addresses
        for i, is_input, place, _ in self.leaves:
            array = inputs[place] if is_input else captured[place]
            if array is arrays[i]:
                continue
            if isinstance(array, np.ndarray):
                if not array.flags.c_contiguous:
                    own = np.ascontiguousarray(array)
                    if i in self.written:
                        self.copied.append((array, own))
                    array = own
                addresses[i] = array.__array_interface__["data"][0]
            arrays[i] = array

    def release(self) -> None:
        """Forgets the arrays of a call that somebody else holds from now on."""
        for i in self.outputs:
            self.arrays[i] = None
        for i, is_input, _, _ in self.leaves:
            if is_input or self.copied:
                self.arrays[i] = None

    def fail(self, number: int) -> None:
        """Raises the error that a kernel has met."""
        code, position = int(self.error[0]), int(self.error[1])
        self.error[:] = 0
        step = self.kernels[number]
        assert isinstance(step, KernelStep)
        executable = self.executable
        make = errors_of(executable.graph, executable.plan, step)
        raise make(code - 1, position)


class Library:
    """A call of an op's eager kernel on arrays of a binding."""

    def __init__(self, binding: Binding, step: CallStep) -> None:
        self.binding, self.step = binding, step
        self.run_quietly: Callable[..., Any] = binding.context.run

    def run(self) -> None:
        self.run_quietly(self.compute)

    def compute(self) -> None:
        step, arrays = self.step, self.binding.arrays
        operands = [None if o is None else seen(arrays[o.slot], o.views) for o in step.operands]
        attrs = step.attrs
        if step.generator is not None:
            attrs = {**attrs, "generator": arrays[step.generator]}
        y = step.op.compute(operands, attrs)
        several = y if isinstance(y, tuple) else (y,)
        for slot, value in zip(step.results, several, strict=True):
            if slot is not None:
                arrays[slot][...] = value


def seen(array: Any, views: Sequence[tuple[Any, Any]]) -> Any:
    for op, attrs in views:
        array = op.compute([array], attrs)
    return array


def written_slots(program: Program) -> set[int]:
    """The slots of inputs and captured values that the program writes to."""
    found: set[int] = set()
    for step in program.steps:
        if isinstance(step, CopyStep):
            found.add(step.target)
        elif isinstance(step, KernelStep):
            found.update(step.slots)
    return found
