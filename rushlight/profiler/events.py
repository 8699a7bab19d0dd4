"""What happened while a profile ran: events in threads, each inside the one that was running."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from rushlight.autograd.modes import local
from rushlight.errors import PACKAGE
from rushlight.graph.ir import Source
from rushlight.graph.modules import Paths
from rushlight.nn.module import Module
from rushlight.runtime.executable import Executable
from rushlight.tensor import Tensor

CALL = Module.__call__.__code__  # what runs all modules
OURS = ("op", "backward")  # kinds of events inside of which no code of the user's runs


class Array(NamedTuple):
    """What is known of an operand or a result."""

    shape: tuple[int, ...]
    dtype: np.dtype
    nbytes: int  # in memory: repeated elements count once

    @property
    def size(self) -> int:
        """How many elements are computed with, repeated ones each time."""
        return math.prod(self.shape)


def described(array: np.ndarray) -> Array:
    nbytes = array.nbytes
    if 0 in array.strides:
        own = [n for n, stride in zip(array.shape, array.strides, strict=True) if stride]
        nbytes = array.itemsize * int(np.prod(own))
    return Array(array.shape, array.dtype, nbytes)


def arrays_in(values: Iterable[Any]) -> Iterator[np.ndarray]:
    """The arrays of the tensors among ``values``, or in lists of them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value._array
        elif isinstance(value, (tuple, list)):
            yield from [part._array for part in value if isinstance(part, Tensor)]


class Event:
    """Something that took time in a thread.

    ``kind`` is "op", "backward" (the rule of an op's derivative), "kernel", "call" or "copy" (a
    step of a compiled program), "update" (of an optimizer's parameters), "range" (what the user
    gave a name), "pass" (all of a backward) or "work" (steps of optimizers, custom functions,
    compiled ones and their compilation).
    """

    __slots__ = (
        "allocated", "attrs", "begin", "end", "inside", "kind", "name", "op", "operands", "parent",
        "results", "rule", "shapes", "source", "stack", "step", "thread",
    )  # fmt: skip

    def __init__(self, name: str, kind: str, thread: Thread, parent: Event | None) -> None:
        self.name, self.kind, self.thread, self.parent = name, kind, thread, parent
        self.begin = self.end = self.inside = 0.0  # seconds; ``inside``: of the events in it
        self.source: Source | None = None
        self.stack: tuple[Source, ...] = ()
        self.op: Any = None
        self.rule: Any = None  # of backward on bare arrays
        self.shapes: list[Any] = []  # of the operands whose gradients it computes
        self.attrs: dict[str, Any] = {}
        self.operands: tuple[Array | None, ...] = ()
        self.results: tuple[Array, ...] = ()
        self.allocated = 0  # bytes of memory that the results hold and the operands do not
        self.step: tuple[Executable, int] | None = None  # of a compiled program

    @property
    def total(self) -> float:
        return self.end - self.begin

    @property
    def own(self) -> float:
        """The seconds that no event inside took."""
        return self.total - self.inside

    def given(self, operands: Iterable[Any], attrs: dict[str, Any]) -> None:
        """Notes the operands of an op: tensors, or what else stands in their places."""
        found = [described(t._array) if isinstance(t, Tensor) else None for t in operands]
        self.operands, self.attrs = tuple(found), attrs

    def returned(self, result: Any, given: Sequence[Any]) -> None:
        """Notes what an op has made of its arguments."""
        if not self.operands:
            self.operands = tuple(map(described, arrays_in(given)))
        found = list(arrays_in(result if isinstance(result, (tuple, list)) else (result,)))
        old = list(arrays_in(given))
        self.results = tuple(map(described, found))
        fresh = [a for a in found if not any([np.may_share_memory(a, b) for b in old])]
        self.allocated = sum([a.nbytes for a in fresh])

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}, {1e6 * self.total:.1f} µs>"


class Thread:
    """The events of one thread, in the order of their ends, and the one that is running."""

    def __init__(self) -> None:
        thread = threading.current_thread()
        self.number, self.name = threading.get_ident(), thread.name
        self.events: list[Event] = []
        self.running: Event | None = None


class Recorder:
    """Notes events, from any thread.

    Args:
        stacks: whether all lines on the way to an event are noted, or the innermost one alone.
    """

    active: Recorder | None = None  # the one of the profile that is running

    def __init__(self, stacks: bool = False) -> None:
        self.stacks = stacks
        self.threads: list[Thread] = []
        self.own = threading.local()
        self.paths = Paths()
        self.origin = time.perf_counter()

    @classmethod
    def now(cls) -> Recorder | None:
        """Who notes what happens in this thread: nobody without a profile, or in a trace."""
        return cls.active if local.state.trace is None else None

    @property
    def thread(self) -> Thread:
        """The events of the calling thread."""
        try:
            return self.own.thread
        except AttributeError:
            thread = self.own.thread = Thread()
            self.threads.append(thread)
            return thread

    def begin(self, name: str, kind: str, source: Source | None = None) -> Event:
        """Something begins; where it comes from is read off the stack unless it is known."""
        thread = self.thread
        around = thread.running
        event = thread.running = Event(name, kind, thread, around)
        if source is not None:
            event.source, event.stack = source, (source,)
        elif around is not None and around.kind in OURS:
            event.source, event.stack = around.source, around.stack
        else:
            event.source, event.stack = self.place()
        event.begin = time.perf_counter() - self.origin
        return event

    def finish(self, event: Event) -> None:
        """What began has ended."""
        event.end = time.perf_counter() - self.origin
        around, thread = event.parent, event.thread
        thread.running = around
        thread.events.append(event)
        if around is not None:
            around.inside += event.end - event.begin

    def add(self, name: str, kind: str, begin: float, end: float) -> Event:
        """Something that was timed by others, within what is running now."""
        thread = self.thread
        around = thread.running
        event = Event(name, kind, thread, around)
        event.begin, event.end = begin, end
        if around is not None:
            around.inside += end - begin
            event.source, event.stack = around.source, around.stack
        thread.events.append(event)
        return event

    def place(self) -> tuple[Source | None, tuple[Source, ...]]:
        """The user's line that is running, with its module, and the lines on the way there."""
        frame: FrameType | None = sys._getframe(1)
        lines: list[tuple[str, int]] = []
        modules: list[Any] = []
        while frame is not None:
            code = frame.f_code
            if code is CALL:
                modules.append(frame.f_locals["self"])
            elif self.stacks or not lines:
                if not code.co_filename.startswith(PACKAGE):
                    lines.append((code.co_filename, frame.f_lineno))
            frame = frame.f_back
        if not lines:
            return None, ()
        inner = self.paths.path(modules[::-1])
        stack = (Source(*lines[0], inner), *[Source(*line) for line in lines[1:]])
        return stack[0], stack

    def close(self) -> Sequence[Event]:
        """All events in the order of their beginnings; those that still run end now."""
        for thread in self.threads:
            while thread.running is not None:
                self.finish(thread.running)
        events = [event for thread in self.threads for event in thread.events]
        return sorted(events, key=lambda event: (event.begin, -event.end))
