"""Executable: a program bound to memory, called with arrays.

Kernels run in native code one after the other, without coming back to Python between them; only
a library call interrupts that. Two threads may call one executable: each has tables of its own.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from operator import is_
from typing import Any

import numpy as np

from rushlight.autograd.modes import quiet_context
from rushlight.config import config
from rushlight.graph.ir import Graph
from rushlight.memory import make_room
from rushlight.passes import pipeline
from rushlight.passes.memory_order import Orders, in_memory_order
from rushlight.passes.order import Plan
from rushlight.runtime import files, natives
from rushlight.runtime.ahead import Ahead
from rushlight.runtime.arena import Arena
from rushlight.runtime.assembly import build
from rushlight.runtime.cache import Cache, folder
from rushlight.runtime.control import found_inside
from rushlight.runtime.driver import COPY, COUNT, ERROR, GROW, JUMP, ROW, STEP, WORDS, driver
from rushlight.runtime.host import put_aside
from rushlight.runtime.jit import target
from rushlight.runtime.keeper import Keeper
from rushlight.runtime.parts import errors_of
from rushlight.runtime.program import (
    CallStep,
    CopyStep,
    CountStep,
    GrowStep,
    JumpStep,
    KernelStep,
    RowStep,
    Step,
)
from rushlight.runtime.rooms import rooms
from rushlight.runtime.threads import PATIENCE, pool
from rushlight.runtime.verify import verify
from rushlight.runtime.workshop import Module, Workshop
from rushlight.tensor import Tensor

clock, empty = time.perf_counter, np.empty
FEW_ROWS = 16  # of a stack at first
WORTH_KEEPING = 1 << 15  # bytes of tensors that are quicker looked at than packed
WORTH_WAKING = 8  # chunks of a part for which sleeping workers are woken
SOON = PATIENCE / 2  # seconds between two runs of a part: who is woken is awake at the next one

Arrays = tuple[Any, ...]
NO_ORDERS: Orders = {}


class Executable:
    """A compiled graph. ``run`` takes and returns arrays, and writes where the graph does."""

    def __init__(
        self,
        graph: Graph,
        holders: Sequence[Tensor | None] = (),
        ahead: Ahead | None = None,
        orders: Orders = NO_ORDERS,
    ) -> None:
        """Compiles a graph.

        Args:
            holders: the captured tensors that a call may look at, by their numbers: what is made
                of them alone is kept from call to call.
            ahead: brings in the memory of the first call.
            orders: how the dimensions of leaves lie in memory, where that is not their own order.
        """
        self.orders = orders_by_number(graph, orders)
        graph = in_memory_order(graph, orders)
        self.source, self.holders, self.ahead = graph, holders, ahead
        self.still = [i for i, t in enumerate(holders) if t is not None and config.keep_packed]
        if sum([graph.captured[i].type.nbytes for i in self.still]) < WORTH_KEEPING:
            self.still = []
        self.seconds: dict[str, float] = {}  # what each phase of compiling took
        cache, key = Cache(folder()), files.key(graph, self.still)
        entry = None if config.dump else cache.get(key)  # passes that print must run
        self.was_kept = self.read(entry)  # whether the program was on disk
        if not self.was_kept:
            modules = self.compile()
            cache.put(key, files.encode(self.program, b"".join([m.code for m in modules])))
            self.bind(modules)
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
            ends = [*accumulate([size for _, size in self.program.modules], initial=0)]
            pairs = zip(self.program.modules, pairwise(ends), strict=True)
            self.bind([Module(names, code[a:b]) for (names, _), (a, b) in pairs])
        except Exception:
            return False
        self.seconds["read"] = time.perf_counter() - begin
        return True

    def bind(self, modules: Sequence[Module]) -> None:
        """Finds all kernels in the modules, which live as long as the program."""
        self.modules = {name: module for module in modules for name in module.names}
        self.addresses: dict[str, int] = {}  # of shared functions
        self.idle = [Binding(self)]
        if self.ahead is not None:
            rooms.keep(self.ahead.arena(self.program.arena))

    def function(self, name: str, shared: bool) -> int:
        """Where a native function is: one of the program, or one that all programs share."""
        if shared:
            if name not in self.addresses:
                self.addresses[name] = natives.address(name)
            return self.addresses[name]
        return self.modules[name].library.address(name)

    def compile(self) -> list[Module]:
        """Makes the program; the result is its native code."""
        graph, plan = self.lowered
        begin = time.perf_counter()
        with Workshop() as workshop:
            workshop.add(driver)
            self.program = build(graph, plan, target(), workshop, self.still)
            verify(self.program, natives.registers())
            lowered = time.perf_counter()
            modules = workshop.modules(self.program)
        self.program.modules = [([*module.names], len(module.code)) for module in modules]
        self.seconds |= {"loops": lowered - begin, "LLVM": time.perf_counter() - lowered}
        return modules

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

    def plan_at(self, path: Sequence[tuple[int, int]]) -> Plan:
        """The plan of the graph inside nodes to which a path leads."""
        return found_inside(self.graph, self.plan, path)[1]

    def errors(self, step: KernelStep) -> Sequence[Callable[[int], Exception]]:
        """The exceptions that a kernel can end with, for the position that was met."""
        return errors_of(self.plan_at(step.path), step)

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


def orders_by_number(graph: Graph, orders: Orders) -> dict[int, tuple[int, ...]]:
    """The orders of leaves by their slots: inputs first, then what is captured."""
    leaves = enumerate((*graph.inputs, *graph.captured))
    return {i: orders[node] for i, node in leaves if node in orders}


class Binding:
    """The memory of one running call: table of addresses, arrays for library calls, its room.

    A call gives native code one tuple: inputs, what is captured, outputs. Library calls see the
    same arrays by their slots.
    """

    def __init__(self, executable: Executable) -> None:
        program = self.program = executable.program
        self.executable = executable
        self.keeper = Keeper(program, executable.holders) if program.early else None
        self.error = np.zeros(WORDS, np.int64)
        self.arrays: list[Any] = [None] * len(program.slots)
        self.copied: list[tuple[np.ndarray, np.ndarray]] = []
        self.readers: list[list[tuple[Library, int]]] = [[] for _ in program.slots]
        self.parts: list[Any] = []  # what to run, one after the other: Native, Library or Jump
        self.kernels: list[Step] = []  # the native steps
        self.stacks: dict[int, np.ndarray] = {}  # their memory, by slots
        self.skipped = 0  # early parts that this call need not run
        self.border()
        self.tabulate()
        self.fix()
        calls = any([isinstance(part, Library) for part in self.parts])
        self.enter: Callable[..., None] | None = quiet_context().run if calls else None
        make_room(sum([slot.nbytes for slot in program.slots if slot.where == "output"]))

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
        orders = self.executable.orders
        self.turned = [(i, order) for i, order in orders.items() if i < self.first]
        self.axes = [orders.get(self.first + i) for i in range(len(source.captured))]
        self.used = used = {slot for step in self.program.steps for slot in seen_by(step)}
        self.end = len(leaves)  # where outputs begin in that tuple
        passing = (*range(self.first), *made)
        self.shown = [(i, self.numbers[i]) for i in passing if i in used]

    def tabulate(self) -> None:
        """One table with the addresses of the buffers of all steps, and the native steps."""
        which: list[int] = []  # the slot of each address
        native: list[list[int]] = []
        firsts: list[int] = []  # for each native step the first one of its part
        rows: list[int] = []  # for each step how many native ones are before it
        begin = early = 0
        last = len(self.program.slots)
        asked = jumps_by_python(self.program.steps)
        lands = {asked[number].to: 0 for number in asked}  # the parts where their jumps lead to
        for number, step in enumerate(self.program.steps):
            if number in lands:
                begin = self.cut(native, begin)
                lands[number] = len(self.parts)
            if number == self.program.early:
                begin, early = self.cut(native, begin), len(which)
            rows.append(len(native))
            if isinstance(step, CallStep) or number in asked:
                self.cut(native, begin)
                self.parts.append(
                    Library(self, step) if isinstance(step, CallStep) else Jump(self, asked[number])
                )
                begin = len(native)
                continue
            row, buffers = self.native(step, last)
            row[1] = len(which)
            native.append(row)
            firsts.append(begin)
            which += buffers
            self.kernels.append(step)
        rows.append(len(native))
        self.cut(native, begin)
        lands[len(self.program.steps)] = len(self.parts)
        for part in self.parts:
            if isinstance(part, Jump):
                part.to = lands[part.step.to]
        for row, first, step in zip(native, firsts, self.kernels, strict=True):
            if isinstance(step, JumpStep):
                row[3] = rows[step.to] - first
        self.late = {*which[early:], *self.used}  # the slots that every call reads
        self.which, self.table = which, np.zeros(len(which), np.int64)
        self.steps = np.array(native, np.int64).reshape(-1, STEP)
        self.steps[:, 1] = self.table.ctypes.data + 8 * self.steps[:, 1]

    def native(self, step: Step, error: int) -> tuple[list[int], Sequence[int]]:
        """The words of a native step, and the slots whose addresses are in its table."""
        match step:
            case KernelStep():
                function = self.executable.function(step.name, step.shared)
                chunks = -(-step.parts // max(1, step.chunk))
                return [function, 0, step.parts, step.chunk, chunks, 0], (*step.slots, error)
            case CopyStep():
                nbytes = self.program.slots[step.source].nbytes
                return [0, 0, 0, 0, COPY, nbytes], step
            case RowStep():
                return [0, 0, step.from_stride, step.to_stride, ROW, step.nbytes], step[:3]
            case JumpStep():
                return [0, 0, step.number, 0, JUMP, 0], (step.slot,)
            case CountStep():
                return [0, 0, step.by, 0, COUNT, 0], (step.counter,)
            case GrowStep():
                return [0, 0, FEW_ROWS, 0, GROW, 0], (step.counter,)
        raise TypeError(f"{step} is no native step")

    def cut(self, native: list[list[int]], begin: int) -> int:
        """The native steps from ``begin`` on become a part; the next one begins where they end."""
        if len(native) > begin:
            chunks = [step[4] if step[0] else 0 for step in native[begin:]]
            self.parts.append(Native(self, begin, chunks))
        return len(native)

    def fix(self) -> None:
        """Addresses and arrays that are the same at every call; and pairs for the others."""
        addresses = {len(self.program.slots): self.error.ctypes.data}
        for i, slot in enumerate(self.program.slots):
            if slot.where == "arena":
                addresses[i] = slot.place  # in a room that begins at address 0, see ``move``
            elif slot.where == "kept":
                assert self.keeper is not None
                addresses[i] = self.keeper.memory.address + slot.place
                self.see(i, self.keeper.memory)
            elif slot.where == "constant":
                self.put(i, self.program.constants[slot.place])
                addresses[i] = self.arrays[i].ctypes.data
            elif slot.where == "stack":
                addresses[i] = self.make_room(i, FEW_ROWS)
            elif slot.where == "function":
                addresses[i] = self.executable.function(*self.program.functions[slot.place])
        slots = self.program.slots
        inside = [i < len(slots) and slots[i].where == "arena" for i in self.which]
        self.base, self.inside = 0, np.array(inside, bool).nonzero()[0]
        if self.program.arena:
            rooms.enter(self, self.program.arena)
        pairs, first = [], self.table.ctypes.data
        self.table[:] = [addresses.get(which, 0) for which in self.which]
        for place, which in enumerate(self.which):
            if which not in addresses:
                pairs.append((self.numbers[which], first + 8 * place))
        self.pairs = np.array(pairs, np.int64).reshape(-1, 2)
        natives = [part for part in self.parts if isinstance(part, Native)]
        placing = natives[: 1 + (self.keeper is not None)]  # one of them is the first to run
        for part in natives:
            part.describe(self.pairs if part in placing else self.pairs[:0])
        self.jumps = any([isinstance(part, Jump) for part in self.parts])

    def move(self, room: Arena) -> None:
        """Goes to a room: what lies between steps has its addresses there from now on."""
        self.table[self.inside] += room.address - self.base
        self.base = room.address
        for i in self.used:
            if self.program.slots[i].where == "arena":
                self.see(i, room)

    def see(self, slot: int, memory: Arena) -> None:
        """Library calls see an array in memory, if they use the slot."""
        if slot in self.used:
            _, begin, shape, dtype = self.program.slots[slot]
            raw = memory.bytes[begin : begin + self.program.slots[slot].nbytes]
            self.put(slot, raw.view(dtype).reshape(shape))

    def make_room(self, stack: int, rows: int) -> int:
        """Memory for so many rows of a stack, with those that are there; the result is where."""
        old, size = self.stacks.get(stack), self.program.slots[stack].nbytes
        new = self.stacks[stack] = np.empty(rows * size, np.uint8)
        if old is not None:
            new[: old.size] = old
        return new.ctypes.data

    def put(self, slot: int, array: Any) -> None:
        """Gives a slot its array, and tells who reads it."""
        self.arrays[slot] = array
        for library, k in self.readers[slot]:
            library.see(k)

    def run(self, inputs: Sequence[np.ndarray], captured: Sequence[Any]) -> Arrays:
        if not self.program.arena:
            return self.call(inputs, captured)
        room = rooms.take(self.program.arena)
        try:
            if room.address != self.base:
                self.move(room)
            return self.call(inputs, captured)
        finally:
            rooms.give(room)

    def call(self, inputs: Sequence[np.ndarray], captured: Sequence[Any]) -> Arrays:
        if self.keeper is not None:
            self.skipped = int(self.keeper.is_current(captured))
        arrays = self.begin(inputs, captured)
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
        if self.turned:
            inputs = [*inputs]
            for i, order in self.turned:
                inputs[i] = inputs[i].transpose(order)
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
            order = self.axes[i]
            seen = value if order is None else value.transpose(order)
            odd = isinstance(seen, np.ndarray) and not seen.flags.c_contiguous
            needed = not self.skipped or self.first + i in self.late
            self.held[i] = None if odd else value
            self.ready[i] = self.straight(self.first + i, seen) if odd and needed else seen
            self.put(self.first + i, self.ready[i])

    def execute(self, arrays: Arrays) -> None:
        """Runs the program on the arrays of a call."""
        self.run_parts(arrays)

    def run_parts(self, arrays: Arrays) -> None:
        if self.jumps:  # the first native part may come later, or not at all
            driver().place(arrays, self.pairs.ctypes.data, len(self.pairs))
        number, count = self.skipped, len(self.parts)
        while number < count:
            part = self.parts[number]
            number += 1
            try:
                if part.run(arrays):
                    number = part.to
            except Exception as error:
                if isinstance(part, Library):
                    self.locate(error, part.step)
                raise

    def release(self) -> None:
        """Forgets the arrays of a call that somebody else holds from now on."""
        for slot, _ in self.shown:
            self.put(slot, None)
        self.copied.clear()

    def resume(self, number: int) -> None:
        """Does what a native step has stopped for: more memory for a stack, or an error.

        A jump stops so that Python can be interrupted, which happens right here.
        """
        step = self.kernels[number]
        if isinstance(step, JumpStep):
            return
        if isinstance(step, GrowStep) and not self.error[0]:
            rows = 2 * int(self.steps[number, 2])
            self.table[np.array(self.which) == step.stack] = self.make_room(step.stack, rows)
            self.steps[number, 2] = rows
            return
        code, position = int(self.error[0]), int(self.error[1])
        self.error[:ERROR] = 0
        assert isinstance(step, KernelStep)
        error = self.executable.errors(step)[code - 1](position)
        self.locate(error, step)
        raise error

    def locate(self, error: Exception, step: KernelStep | CallStep) -> None:
        """Notes the user's lines that a step comes from."""
        nodes = self.executable.plan_at(step.path).steps[step.origin].nodes
        lines = {f"{n.source.file}:{n.source.line}": None for n in nodes if n.source is not None}
        place = f"in the compiled function, at {', '.join(lines)}"
        if lines and sys.version_info >= (3, 11):
            error.add_note(place)
        elif lines:
            error.args = (f"{error} ({place})", *error.args[1:])


class Native:
    """Native steps that follow each other.

    Workers that sleep are woken for loops that last longer than waking them does, and for short
    ones that come again and again; those that are still awake help with any.
    """

    def __init__(self, binding: Binding, first: int, chunks: list[int]) -> None:
        self.binding, self.first, self.count = binding, first, len(chunks)
        shared = sum([n for n in chunks if n > 1])
        self.shared, self.wakes = shared > 0, shared >= WORTH_WAKING
        self.call, self.ended = driver().call, 0.0

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
            if done != self.count:
                self.go_on(done, 0)
            return
        threads = pool()
        wakes = self.wakes or clock() - self.ended < SOON
        if wakes:
            threads.begin()
        try:
            done = self.call(self.at, arrays, threads.address)
            if done != self.count:
                self.go_on(done, threads.address)
        finally:
            if wakes:
                threads.end()
            self.ended = clock()

    def go_on(self, done: int, threads: int) -> None:
        """Runs the rest, after a step that has stopped."""
        error = self.binding.error.ctypes.data
        while done != self.count:
            self.binding.resume(self.first + done)
            done = driver().run_from(self.steps, done, self.count, threads, error)


class Jump:
    """A jump over library calls, which Python makes."""

    to = 0  # the part where it leads to

    def __init__(self, binding: Binding, step: JumpStep) -> None:
        self.binding, self.step = binding, step

    def run(self, _: Arrays) -> bool:
        """Whether to go there."""
        return self.binding.arrays[self.step.slot].item() != self.step.number


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
    elif isinstance(step, JumpStep):
        yield step.slot


def jumps_by_python(steps: Sequence[Step]) -> dict[int, JumpStep]:
    """The jumps, by their numbers, that lead from one part to another: parts end at library calls.

    They end where such a jump is or leads to, too; so one jump may make others such ones.
    """
    jumps = {i: step for i, step in enumerate(steps) if isinstance(step, JumpStep)}
    found: dict[int, JumpStep] = {}
    more = [i for i, step in enumerate(steps) if isinstance(step, CallStep)]
    ends = {end for i in more for end in (i, i + 1)}
    while more:
        more = [
            i
            for i, step in jumps.items()
            if i not in found and any([min(i, step.to) < end < max(i + 1, step.to) for end in ends])
        ]
        found |= {i: jumps[i] for i in more}
        ends |= {end for i in more for end in (i, i + 1, jumps[i].to)}
    return found
