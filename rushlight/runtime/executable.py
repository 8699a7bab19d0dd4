"""Executable: a program bound to memory, called with arrays.

Kernels run in native code one after the other, without coming back to Python between them; only
a library call interrupts that. Two threads may call one executable: each uses an arena of its own.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.autograd.modes import quiet_context
from rushlight.config import config
from rushlight.graph.ir import Graph
from rushlight.passes import pipeline
from rushlight.passes.order import Plan
from rushlight.runtime import files
from rushlight.runtime.arena import Arena
from rushlight.runtime.cache import Cache, folder, object_code
from rushlight.runtime.jit import load, target
from rushlight.runtime.program import CallStep, KernelStep, build, errors_of
from rushlight.runtime.threads import pool, symbols

WORTH_WAKING = 8  # chunks of a part for which sleeping workers are woken
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
        cache, key = Cache(folder()), files.key(graph, target().vector_bytes)
        entry = None if config.dump else cache.get(key)  # passes that print must run
        self.was_kept = self.read(entry)  # whether the program was on disk
        if not self.was_kept:
            code = self.compile()
            cache.put(key, files.encode(self.program, code))
            self.bind(code)

    def read(self, entry: bytes | None) -> bool:
        """Takes the program that an entry of the cache holds, if there is one and it makes sense.

        Contents that nobody has damaged can be false all the same; what they break is not known.
        """
        begin = time.perf_counter()
        if entry is None:
            return False
        try:
            self.program, code = files.decode(entry)
            self.bind(code)
        except Exception:
            return False
        self.seconds["read"] = time.perf_counter() - begin
        return True

    def bind(self, code: bytes) -> None:
        """Loads the object code, and finds all kernels in it."""
        self.library = load([code]) if code else None
        self.idle = [Binding(self)]

    def compile(self) -> bytes:
        """Makes the program; the result is its object code."""
        graph, plan = self.lowered
        begin = time.perf_counter()
        self.program = build(graph, plan, target())
        lowered = time.perf_counter()
        code = object_code(self.program.text) if self.program.kernels else b""
        self.seconds |= {"loops": lowered - begin, "LLVM": time.perf_counter() - lowered}
        return code

    def kernel_text(self, name: str) -> str:
        """The LLVM assembly of a kernel."""
        if not self.program.kernels:
            self.program.kernels = build(self.graph, self.plan, target()).kernels
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
        try:
            binding = self.idle.pop()
        except IndexError:
            binding = Binding(self)
        try:
            return binding.run(inputs, captured)
        finally:
            binding.release()
            self.idle.append(binding)


def address_of(array: np.ndarray) -> int:
    """Where the elements begin; the first way is the quicker one."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # read-only, empty, or of a type that buffers do not know
        return array.ctypes.data


class Binding:
    """The memory of one running call: arena, table of addresses, arrays for library calls."""

    def __init__(self, executable: Executable) -> None:
        program = self.program = executable.program
        self.executable = executable
        self.memory = Arena(program.arena)
        self.error = np.zeros(2, np.int64)
        self.error_at = self.error.ctypes.data
        self.arrays: list[Any] = [None] * len(program.slots)
        targets = [target for target, _ in executable.source.writes]
        leaves = (*executable.source.inputs, *executable.source.captured)
        self.written = {i for i, node in enumerate(leaves) if node in targets}
        self.copied: list[tuple[np.ndarray, np.ndarray]] = []
        self.readers: list[list[tuple[Library, int]]] = [[] for _ in program.slots]
        self.parts: list[Native | Library] = []  # what to run, one after the other
        self.tabulate()
        self.fix()
        self.outputs = [
            (i, slot.shape, slot.dtype)
            for i, slot in enumerate(program.slots)
            if slot.where == "output"
        ]
        self.passing = [*range(len(executable.source.inputs)), *[i for i, _, _ in self.outputs]]
        calls = any([isinstance(part, Library) for part in self.parts])
        self.enter: Callable[..., None] | None = quiet_context().run if calls else None

    def tabulate(self) -> None:
        """One table with the addresses of the buffers of all steps, and the native steps."""
        which: list[int] = []  # the slot of each address
        native: list[list[int]] = []
        begin = 0
        last = len(self.program.slots)
        for step in self.program.steps:
            if isinstance(step, CallStep):
                self.cut(native, begin)
                self.parts.append(Library(self, step))
                begin = len(native)
            elif isinstance(step, KernelStep):
                assert self.executable.library is not None
                function = self.executable.library.address(step.name)
                chunks = -(-step.parts // max(1, step.chunk))
                native.append([function, len(which), step.parts, step.chunk, chunks, 0])
                which += [*step.slots, last]
            else:
                nbytes = self.program.slots[step.source].nbytes
                native.append([0, len(which), 0, 0, 0, nbytes])
                which += [step.source, step.target]
        self.cut(native, begin)
        self.kernels = [s for s in self.program.steps if not isinstance(s, CallStep)]
        table = np.zeros(len(which), np.int64)
        self.table = table.data
        self.places: list[list[int]] = [[] for _ in range(last + 1)]  # of a slot in the table
        for place, slot in enumerate(which):
            self.places[slot].append(place)
        self.steps = np.array(native, np.int64).reshape(-1, STEP)
        self.steps[:, 1] = table.ctypes.data + 8 * self.steps[:, 1]

    def cut(self, native: list[list[int]], begin: int) -> None:
        """The native steps from ``begin`` on become a part."""
        if len(native) > begin:
            self.parts.append(Native(self, begin, [step[4] for step in native[begin:]]))

    def fix(self) -> None:
        """Addresses and arrays that are the same at every call."""
        for place in self.places[-1]:
            self.table[place] = self.error_at
        for i, slot in enumerate(self.program.slots):
            if slot.where == "arena":
                raw = self.memory.bytes[slot.place : slot.place + slot.nbytes]
                array = raw.view(slot.dtype).reshape(slot.shape)
                self.put(i, array, self.memory.address + slot.place)
            elif slot.where == "constant":
                array = self.program.constants[slot.place]
                self.put(i, array, address_of(array))

    def put(self, slot: int, array: Any, address: int = 0) -> None:
        """Gives a slot its array, and tells who reads it."""
        self.arrays[slot] = array
        for place in self.places[slot]:
            self.table[place] = address
        for library, k in self.readers[slot]:
            library.see(k)

    def run(self, inputs: Sequence[np.ndarray], captured: Sequence[Any]) -> list[np.ndarray]:
        results = self.begin(inputs, captured)
        if self.enter is None:
            self.execute()
        else:
            self.enter(self.execute)
        for array, own in self.copied:
            array[...] = own
        return results

    def begin(self, inputs: Sequence[np.ndarray], captured: Sequence[Any]) -> list[np.ndarray]:
        """Makes the outputs, and writes down where everything is."""
        arrays = self.arrays
        for i, array in enumerate((*inputs, *captured)):
            if array is not arrays[i]:
                self.take(i, array)
        results = []
        for i, shape, dtype in self.outputs:
            array = np.empty(shape, dtype)
            self.put(i, array, address_of(array))
            results.append(array)
        return results

    def take(self, slot: int, array: Any) -> None:
        """A value of outside; an array with odd strides is copied, there and back."""
        if not isinstance(array, np.ndarray):  # a generator
            self.arrays[slot] = array
            return
        if not array.flags.c_contiguous:
            own = np.ascontiguousarray(array)
            if slot in self.written:
                self.copied.append((array, own))
            array = own
        self.put(slot, array, address_of(array))

    def execute(self) -> None:
        for part in self.parts:
            try:
                part.run()
            except Exception as error:
                if isinstance(part, Library):
                    self.locate(error, part.step.origin)
                raise

    def release(self) -> None:
        """Forgets the arrays of a call that somebody else holds from now on."""
        for slot in self.passing:
            self.put(slot, None)
        self.copied.clear()

    def fail(self, number: int) -> None:
        """Raises the error that a kernel has met."""
        code, position = int(self.error[0]), int(self.error[1])
        self.error[:] = 0
        step = self.kernels[number]
        assert isinstance(step, KernelStep)
        executable = self.executable
        error = errors_of(executable.graph, executable.plan, step)(code - 1, position)
        self.locate(error, step.origin)
        raise error

    def locate(self, error: Exception, origin: int) -> None:
        """Notes the user's lines that a step comes from."""
        nodes = self.executable.plan.steps[origin].nodes
        lines = {f"{n.source.file}:{n.source.line}": None for n in nodes if n.source is not None}
        if lines and sys.version_info >= (3, 11):
            error.add_note(f"in the compiled function, at {', '.join(lines)}")


class Native:
    """Native steps that follow each other.

    Workers that sleep are woken only for loops that last longer than waking them does; those that
    are still awake help with short ones too.
    """

    def __init__(self, binding: Binding, first: int, chunks: list[int]) -> None:
        self.binding, self.first, self.count = binding, first, len(chunks)
        shared = sum([n for n in chunks if n > 1])
        self.shared, self.wakes = shared > 0, shared >= WORTH_WAKING
        self.call, _ = driver()

    def run(self) -> None:
        if not self.shared:
            return self.go(0)
        threads = pool()
        if not self.wakes:
            return self.go(threads.address)
        threads.begin()
        try:
            self.go(threads.address)
        finally:
            threads.end()

    def go(self, pool: int) -> None:
        binding = self.binding
        done = self.call(self.at, self.count, pool, binding.error_at)
        if done != self.count:
            binding.fail(self.first + done)

    @functools.cached_property
    def at(self) -> int:
        """The address of the first step."""
        return self.binding.steps.ctypes.data + self.first * STEP * 8


class Library:
    """A call of an op's eager kernel on arrays of a binding."""

    def __init__(self, binding: Binding, step: CallStep) -> None:
        self.binding, self.step = binding, step
        self.operands: list[Any] = [None] * len(step.operands)
        self.copies: list[int] = []  # operands that are no views, but must be copied at each call
        for k, operand in enumerate(step.operands):
            if operand is not None:
                binding.readers[operand.slot].append((self, k))

    def see(self, k: int) -> None:
        """Looks at an operand, whose array is another one now."""
        slot, views = self.step.operands[k]  # type: ignore[misc]
        array = seen = self.binding.arrays[slot]
        if array is not None:
            for op, attrs in views:
                seen = op.compute([seen], attrs)
            if not np.may_share_memory(seen, array) and k not in self.copies:
                self.copies.append(k)
        self.operands[k] = seen

    def run(self) -> None:
        step, arrays = self.step, self.binding.arrays
        for k in self.copies:
            self.see(k)
        attrs = step.attrs
        if step.generator is not None:
            attrs = {**attrs, "generator": arrays[step.generator]}
        if step.op.compute_into is not None:
            (slot,) = step.results
            assert slot is not None
            step.op.compute_into(self.operands, attrs, arrays[slot])
            return
        y = step.op.compute(self.operands, attrs)
        several = y if isinstance(y, tuple) else (y,)
        for slot, value in zip(step.results, several, strict=True):
            if slot is not None:
                arrays[slot][...] = value
