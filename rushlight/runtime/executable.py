"""Executable: a program bound to memory, called with arrays.

Kernels run in native code one after the other, without coming back to Python between them; only
a library call interrupts that. Two threads may call one executable: each uses an arena of its own.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from operator import is_
from typing import Any

import numpy as np

from rushlight.autograd.modes import quiet_context
from rushlight.config import config
from rushlight.graph.ir import Graph
from rushlight.passes import pipeline
from rushlight.passes.order import Plan
from rushlight.runtime import files, natives
from rushlight.runtime.arena import Arena
from rushlight.runtime.assembly import build, errors_of
from rushlight.runtime.cache import Cache, folder
from rushlight.runtime.driver import STEP, driver
from rushlight.runtime.host import put_aside
from rushlight.runtime.jit import Library as Loaded
from rushlight.runtime.jit import load, target
from rushlight.runtime.keeper import Keeper
from rushlight.runtime.program import CallStep, KernelStep, Step
from rushlight.runtime.threads import pool
from rushlight.runtime.verify import verify
from rushlight.runtime.workshop import Workshop
from rushlight.tensor import Tensor

empty = np.empty
WORTH_WAKING = 8  # chunks of a part for which sleeping workers are woken

Arrays = tuple[Any, ...]


class Executable:
    """A compiled graph. ``run`` takes and returns arrays, and writes where the graph does."""

    def __init__(self, graph: Graph, holders: Sequence[Tensor | None] = ()) -> None:
        """Compiles a graph.

        Args:
            holders: the captured tensors that a call may look at, by their numbers: what is made
                of them alone is kept from call to call.
        """
        self.source, self.holders = graph, holders
        self.still = [i for i, t in enumerate(holders) if t is not None and config.keep_packed]
        self.seconds: dict[str, float] = {}  # what each phase of compiling took
        cache, key = Cache(folder()), files.key(graph, target().vector_bytes, self.still)
        entry = None if config.dump else cache.get(key)  # passes that print must run
        self.was_kept = self.read(entry)  # whether the program was on disk
        if not self.was_kept:
            code = self.compile()
            cache.put(key, files.encode(self.program, code))
            self.bind(code)
            put_aside()

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
        self.libraries: dict[str, Loaded] = {}  # by the names of kernels
        place = 0
        for names, size in self.program.modules:
            self.libraries |= dict.fromkeys(names, load([code[place : place + size]]))
            place += size
        self.idle = [Binding(self)]

    def function(self, name: str, shared: bool) -> int:
        """Where a native function is: one of the program, or one that all programs share."""
        if shared:
            return natives.address(name)
        return self.libraries[name].address(name)

    def compile(self) -> bytes:
        """Makes the program; the result is its object code."""
        graph, plan = self.lowered
        begin = time.perf_counter()
        with Workshop() as workshop:
            self.program = build(graph, plan, target(), workshop, self.still)
            verify(self.program, natives.registers())
            lowered = time.perf_counter()
            modules = workshop.codes(self.program)
        self.program.modules = [(names, len(code)) for names, code in modules]
        self.seconds |= {"loops": lowered - begin, "LLVM": time.perf_counter() - lowered}
        return b"".join([code for _, code in modules])

    def kernel_text(self, name: str) -> str:
        """The LLVM assembly of a kernel."""
        if not self.program.kernels:
            self.program.kernels = build(self.graph, self.plan, target(), still=self.still).kernels
        return self.program.kernels[name]

    @functools.cached_property
    def lowered(self) -> tuple[Graph, Plan]:
        """The graph after all passes, and the plan of how to run it."""
        return pipeline.lower(self.source, self.seconds, self.still)

    @property
    def graph(self) -> Graph:
        return self.lowered[0]

    @property
    def plan(self) -> Plan:
        return self.lowered[1]

    def run(self, inputs: Sequence[np.ndarray], captured: Sequence[Any]) -> Arrays:
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


class Binding:
    """The memory of one running call: arena, table of addresses, arrays for library calls.

    A call gives native code one tuple: inputs, what is captured, outputs. Library calls see the
    same arrays by their slots.
    """

    def __init__(self, executable: Executable) -> None:
        program = self.program = executable.program
        self.executable = executable
        self.memory = Arena(program.arena)
        self.keeper = Keeper(program, executable.holders) if program.early else None
        self.error = np.zeros(2, np.int64)
        self.arrays: list[Any] = [None] * len(program.slots)
        self.copied: list[tuple[np.ndarray, np.ndarray]] = []
        self.readers: list[list[tuple[Library, int]]] = [[] for _ in program.slots]
        self.parts: list[Native | Library] = []  # what to run, one after the other
        self.skipped = 0  # early parts that this call need not run
        self.border()
        self.tabulate()
        self.fix()
        calls = any([isinstance(part, Library) for part in self.parts])
        self.enter: Callable[..., None] | None = quiet_context().run if calls else None

    def border(self) -> None:
        """What comes from outside and goes there: the numbers of slots in the tuple of a call."""
        source, slots = self.executable.source, self.program.slots
        made = [i for i, slot in enumerate(slots) if slot.where == "output"]
        self.outputs = [(slots[i].shape, slots[i].dtype) for i in made]
        targets = [target for target, _ in source.writes]
        leaves = (*source.inputs, *source.captured)
        self.written = {i for i, node in enumerate(leaves) if node in targets}
        self.first = len(source.inputs)  # the slot of the first captured value
        self.held: list[Any] = [None] * len(source.captured)  # as they were at the last call
        self.ready: list[Any] = [None] * len(source.captured)  # as the program takes them
        self.numbers = {slot: number for number, slot in enumerate((*range(len(leaves)), *made))}
        used = {slot for step in self.program.steps for slot in seen_by(step)}
        self.end = len(leaves)  # where outputs begin in that tuple
        passing = (*range(self.first), *made)
        self.shown = [(i, self.numbers[i]) for i in passing if i in used]

    def tabulate(self) -> None:
        """One table with the addresses of the buffers of all steps, and the native steps."""
        which: list[int] = []  # the slot of each address
        native: list[list[int]] = []
        begin = 0
        last = len(self.program.slots)
        for number, step in enumerate(self.program.steps):
            if number == self.program.early:
                self.cut(native, begin)
                begin = len(native)
            if isinstance(step, CallStep):
                self.cut(native, begin)
                self.parts.append(Library(self, step))
                begin = len(native)
            elif isinstance(step, KernelStep):
                function = self.executable.function(step.name, step.shared)
                chunks = -(-step.parts // max(1, step.chunk))
                native.append([function, len(which), step.parts, step.chunk, chunks, 0])
                which += [*step.slots, last]
            else:
                nbytes = self.program.slots[step.source].nbytes
                native.append([0, len(which), 0, 0, 0, nbytes])
                which += [step.source, step.target]
        self.cut(native, begin)
        self.kernels = [s for s in self.program.steps if not isinstance(s, CallStep)]
        self.which, self.table = which, np.zeros(len(which), np.int64)
        self.steps = np.array(native, np.int64).reshape(-1, STEP)
        self.steps[:, 1] = self.table.ctypes.data + 8 * self.steps[:, 1]

    def cut(self, native: list[list[int]], begin: int) -> None:
        """The native steps from ``begin`` on become a part."""
        if len(native) > begin:
            self.parts.append(Native(self, begin, [step[4] for step in native[begin:]]))

    def fix(self) -> None:
        """Addresses and arrays that are the same at every call; and pairs for the others."""
        addresses = {len(self.program.slots): self.error.ctypes.data}
        for i, slot in enumerate(self.program.slots):
            if slot.where == "arena":
                raw = self.memory.bytes[slot.place : slot.place + slot.nbytes]
                self.put(i, raw.view(slot.dtype).reshape(slot.shape))
                addresses[i] = self.memory.address + slot.place
            elif slot.where == "kept":
                assert self.keeper is not None
                addresses[i] = self.keeper.memory.address + slot.place
            elif slot.where == "constant":
                self.put(i, self.program.constants[slot.place])
                addresses[i] = self.arrays[i].ctypes.data
            elif slot.where == "function":
                addresses[i] = self.executable.function(*self.program.functions[slot.place])
        pairs = []
        for place, which in enumerate(self.which):
            if which in addresses:
                self.table[place] = addresses[which]
            else:
                pairs.append((self.numbers[which], self.table.ctypes.data + 8 * place))
        self.pairs = np.array(pairs, np.int64).reshape(-1, 2)
        natives = [part for part in self.parts if isinstance(part, Native)]
        first = natives[: 1 + (self.keeper is not None)]  # one of them is the first to run
        for part in natives:
            part.describe(self.pairs if part in first else self.pairs[:0])

    def put(self, slot: int, array: Any) -> None:
        """Gives a slot its array, and tells who reads it."""
        self.arrays[slot] = array
        for library, k in self.readers[slot]:
            library.see(k)

    def run(self, inputs: Sequence[np.ndarray], captured: Sequence[Any]) -> Arrays:
        arrays = self.begin(inputs, captured)
        if self.keeper is not None:
            self.skipped = int(self.keeper.is_current(captured))
        if self.enter is None:
            self.execute(arrays)
        else:
            self.enter(self.execute, arrays)
        if self.keeper is not None and not self.skipped:
            self.keeper.made()
        for array, own in self.copied:
            array[...] = own
        return arrays[self.end :]

    def begin(self, inputs: Sequence[np.ndarray], captured: Sequence[Any]) -> Arrays:
        """All arrays of a call; outputs are new ones."""
        if captured and not all(map(is_, captured, self.held)):
            self.hold(captured)
        found = [*inputs, *self.ready]
        for i, array in enumerate(inputs):
            if not array.flags.c_contiguous:
                found[i] = self.straight(i, array)
        for shape, dtype in self.outputs:
            found.append(empty(shape, dtype))
        arrays = tuple(found)
        for slot, number in self.shown:
            self.put(slot, arrays[number])
        return arrays

    def straight(self, slot: int, array: np.ndarray) -> np.ndarray:
        """An array with odd strides is copied, there and, if it is written to, back."""
        own = np.ascontiguousarray(array)
        if slot in self.written:
            self.copied.append((array, own))
        return own

    def hold(self, captured: Sequence[Any]) -> None:
        """Looks at what is captured; what must be copied is looked at again at the next call."""
        for i, (value, before) in enumerate(zip(captured, self.held, strict=True)):
            if value is before:
                continue
            odd = isinstance(value, np.ndarray) and not value.flags.c_contiguous
            self.held[i] = None if odd else value
            self.ready[i] = self.straight(self.first + i, value) if odd else value
            self.put(self.first + i, self.ready[i])

    def execute(self, arrays: Arrays) -> None:
        for part in self.parts[self.skipped :]:
            try:
                part.run(arrays)
            except Exception as error:
                if isinstance(part, Library):
                    self.locate(error, part.step.origin)
                raise

    def release(self) -> None:
        """Forgets the arrays of a call that somebody else holds from now on."""
        for slot, _ in self.shown:
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
        place = f"in the compiled function, at {', '.join(lines)}"
        if lines and sys.version_info >= (3, 11):
            error.add_note(place)
        elif lines:
            error.args = (f"{error} ({place})", *error.args[1:])


class Native:
    """Native steps that follow each other.

    Workers that sleep are woken only for loops that last longer than waking them does; those that
    are still awake help with short ones too.
    """

    def __init__(self, binding: Binding, first: int, chunks: list[int]) -> None:
        self.binding, self.first, self.count = binding, first, len(chunks)
        shared = sum([n for n in chunks if n > 1])
        self.shared, self.wakes = shared > 0, shared >= WORTH_WAKING
        self.call = driver().call

    def describe(self, pairs: np.ndarray) -> None:
        """Writes down what the driver is to do; it begins by placing ``pairs``."""
        binding = self.binding
        self.steps = binding.steps.ctypes.data + self.first * STEP * 8
        error, places = binding.error.ctypes.data, pairs.ctypes.data
        self.part = np.array([self.steps, self.count, error, places, len(pairs)], np.int64)
        self.at = self.part.ctypes.data

    def run(self, arrays: Arrays) -> None:
        if not self.shared:
            done = self.call(self.at, arrays, 0)
        else:
            threads = pool()
            if self.wakes:
                threads.begin()
            try:
                done = self.call(self.at, arrays, threads.address)
            finally:
                if self.wakes:
                    threads.end()
        if done != self.count:
            self.binding.fail(self.first + done)


class Library:
    """A call of an op's eager kernel on arrays of a binding."""

    def __init__(self, binding: Binding, step: CallStep) -> None:
        self.binding, self.step = binding, step
        self.operands: list[Any] = [None] * len(step.operands)
        self.fresh: set[int] = set()  # operands whose arrays are not those of the last call
        self.copies: set[int] = set()  # operands that are no views, but must be copied at each call
        for k, operand in enumerate(step.operands):
            if operand is not None:
                binding.readers[operand.slot].append((self, k))

    def see(self, k: int) -> None:
        """An operand's array is another one now; it is looked at when it has its values."""
        self.operands[k] = None
        self.fresh.add(k)

    def look(self, k: int) -> None:
        slot, views = self.step.operands[k]  # type: ignore[misc]
        array = seen = self.binding.arrays[slot]
        for op, attrs in views:
            seen = op.compute([seen], attrs)
        if not np.may_share_memory(seen, array):
            self.copies.add(k)
        self.operands[k] = seen

    def run(self, _: Arrays) -> None:
        for k in self.fresh | self.copies:
            self.look(k)
        self.fresh.clear()
        try:
            self.compute()
        finally:
            for k in self.copies:
                self.operands[k] = None

    def compute(self) -> None:
        step, arrays = self.step, self.binding.arrays
        attrs = step.attrs
        if step.generator is not None:
            attrs = {**attrs, "generator": arrays[step.generator]}
        if step.op.compute_into is not None and step.results[0] is not None:
            step.op.compute_into(self.operands, attrs, arrays[step.results[0]])
            return
        y = step.op.compute(self.operands, attrs)
        several = y if isinstance(y, tuple) else (y,)
        for slot, value in zip(step.results, several, strict=True):
            if slot is not None:
                arrays[slot][...] = value


def seen_by(step: Step) -> Iterator[int]:
    """The slots whose arrays a library call reads or writes."""
    if isinstance(step, CallStep):
        yield from [operand.slot for operand in step.operands if operand is not None]
        yield from [slot for slot in (*step.results, step.generator) if slot is not None]
