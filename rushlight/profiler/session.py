"""``profile``: what ran, how long, how often, at which line, and how near to the machine's best."""

from __future__ import annotations

import functools
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ContextDecorator
from typing import Any

from rushlight.profiler import chrome, hooks
from rushlight.profiler.averages import EventList
from rushlight.profiler.events import Event, Recorder
from rushlight.profiler.page import notebook, page
from rushlight.profiler.report import Entry, Row, entries_of, rows_of
from rushlight.profiler.schedule import ProfilerAction, ProfilerActivity, always
from rushlight.profiler.table import ordered, text
from rushlight.runtime.costs import machine
from rushlight.runtime.table import count, quantity, seconds

LINES = 10  # of the user's that ``print`` shows, and twice as many ops
one_at_a_time = threading.Lock()


class profile:  # noqa: N801 - PyTorch's spelling
    """Measures all ops, backward rules and steps of compiled programs that run in a block.

    ``print(p)`` shows where time went, by op and by line; :meth:`save` makes a page with a time
    line. Without a profile nothing is measured, and nothing is slower.

    Args:
        activities: accepted as PyTorch has it; all happens on the CPU
        schedule: which steps are recorded, see :func:`rl.profiler.schedule`; call :meth:`step`
            after each
        on_trace_ready: called with the profile when a cycle of the schedule, or all, is recorded
        record_shapes, profile_memory, with_flops, with_modules: always on
        with_stack: all lines on the way to an op are noted, not only the innermost
        acc_events: whether cycles of a schedule are added up; else each begins anew

    >>> x = rl.ones(100, 100, requires_grad=True)
    >>> with rl.profile() as p:
    ...     (x @ x).relu().sum().backward()
    >>> [row.key for row in p.averages("op") if "backward of" in row.key]
    ['backward of sum', 'backward of relu', 'backward of mm']
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = True,
        profile_memory: bool = True,
        with_stack: bool = False,
        with_flops: bool = True,
        with_modules: bool = True,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.schedule = schedule or always
        self.steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.with_stack, self.acc_events = with_stack, acc_events
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self.metadata: dict[str, Any] = {}
        self.recorded: list[Event] = []
        self.wall = 0.0
        self._recorder: Recorder | None = None
        self._step: Event | None = None

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begins; so does a ``with`` block."""
        self.step_num = 0
        self.turn(self.schedule(0))

    def stop(self) -> None:
        """Ends; what was recorded stays."""
        records = self.current_action.records
        self.turn(ProfilerAction.NONE)
        if records and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """Says that a step of the training loop has ended."""
        before = self.current_action
        self.step_num += 1
        after = self.schedule(self.step_num)
        if before is ProfilerAction.RECORD_AND_SAVE:
            self.turn(ProfilerAction.NONE)
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self.turn(after)

    def turn(self, action: ProfilerAction) -> None:
        """Does from now on what ``action`` says."""
        notes = self._recorder
        if notes is not None and self._step is not None:
            notes.finish(self._step)
            self._step = None
        if action.records and notes is None:
            self._begin()
        elif not action.records and notes is not None:
            self._end(notes)
        self.current_action = action
        if self._recorder is not None and self.steps:
            self._step = self._recorder.begin(f"ProfilerStep#{self.step_num}", "range")

    def _begin(self) -> None:
        with one_at_a_time:
            if Recorder.active is not None:
                raise RuntimeError(
                    "a profile is running already: they cannot be nested. End the outer one "
                    "first, or give a part of it a name with rl.profiler.record_function"
                )
            if not self.acc_events:
                self.recorded, self.wall = [], 0.0
            hooks.install()
            self._recorder = Recorder.active = Recorder(self.with_stack)

    def _end(self, notes: Recorder) -> None:
        spent = time.perf_counter() - notes.origin
        with one_at_a_time:
            self._recorder = Recorder.active = None
            hooks.remove()
        events = notes.close()
        for event in events:
            event.begin, event.end = event.begin + self.wall, event.end + self.wall
        self.recorded.extend(events)
        self.wall += spent
        self.__dict__.pop("entries", None)

    @functools.cached_property
    def entries(self) -> list[Entry]:
        """All events with their costs, in the order of their beginnings."""
        return entries_of(self.recorded)

    def averages(self, group_by: str = "op") -> EventList:
        """One row for each op, line, module, kernel or thread, in the order of their beginnings.

        Args:
            group_by: ``"op"``, ``"line"``, ``"module"``, ``"kernel"`` (steps of compiled programs)
                or ``"thread"``
        """
        return EventList(rows_of(self.entries, group_by), group_by, self.wall)

    def table(
        self, sort_by: str | None = None, group_by: str = "op", row_limit: int = -1, width: int = 0
    ) -> str:
        """The rows of :meth:`averages` as text; see :meth:`EventList.table` for the orders."""
        rows = ordered(self.averages(group_by), sort_by)
        return text(rows, group_by, self.wall, row_limit, width, sort_by=sort_by)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """:meth:`averages` by op; also by the shapes of operands or the innermost lines."""
        rows = rows_of(self.entries, "op", group_by_input_shape, group_by_stack_n)
        return EventList(rows, "op", self.wall)

    def events(self) -> EventList:
        """A row for each event, in the order of their beginnings."""
        found = [row for entry in self.entries for row in rows_of([entry], shapes=True)]
        return EventList(found, "op", self.wall)

    def total_average(self) -> Row:
        """One row for all."""
        return self.averages().total_average()

    @property
    def summary(self) -> str:
        """What all of it amounts to."""
        busy = sum([event.total for event in self.recorded if event.parent is None])
        roots = [entry for entry in self.entries if entry.parent is None]
        flops, moved = (
            sum([e.inclusive.flops for e in roots]),
            sum([e.inclusive.moved for e in roots]),
        )
        threads = len({entry.event.thread for entry in self.entries})
        here = machine()
        return (
            f"{seconds(self.wall)}, {seconds(busy)} of them in {count(len(roots), 'event')} "
            f"({count(len(self.entries), 'event')} with those inside) of "
            f"{count(threads, 'thread')}\n"
            f"{quantity(flops, 'FLOP')}, {quantity(moved, 'B')} moved; at best: "
            f"{quantity(here.flops, 'FLOP')}/s, {quantity(here.traffic[-1][1], 'B')}/s from memory"
        )

    def __str__(self) -> str:
        tables = [self.summary, self.table(row_limit=2 * LINES)]
        tables.append(self.table(group_by="line", row_limit=LINES))
        return "\n\n".join(tables)

    def __repr__(self) -> str:
        return f"<profile of {len(self.recorded)} events in {seconds(self.wall)}>"

    def _repr_html_(self) -> str:
        tables = {group: ordered(self.averages(group), "self") for group in ("op", "line")}
        return notebook(tables, self.wall, self.summary)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a page for a browser: the time line, and tables by op, line and kernel.

        What is called ``*.json`` or ``*.json.gz`` is the trace of :meth:`export_chrome_trace`.
        """
        name = os.fspath(path)
        if name.endswith((".json", ".json.gz")):
            return self.export_chrome_trace(path)
        if not name.endswith((".html", ".htm")):
            raise ValueError(
                f"save: expected a name that ends with .html (page) or .json (trace), got {name!r}"
            )
        contents = page(self.entries, self.wall, self.summary)
        with open(path, "w", encoding="utf-8") as file:
            file.write(contents)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace for https://ui.perfetto.dev; compressed if it is called ``*.gz``."""
        chrome.write(path, chrome.trace(self.entries, self.metadata))

    def export_stacks(
        self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total"
    ) -> None:
        """Writes lines ``outer;inner;op microseconds``, of which flame graphs are drawn.

        They are as deep as ``with_stack`` makes them.
        """
        if metric not in ("self_cpu_time_total", "self_cuda_time_total"):
            raise ValueError(f"export_stacks: metric must be self_cpu_time_total, got {metric!r}")
        scale = 1e6 if metric == "self_cpu_time_total" else 0.0
        with open(path, "w", encoding="utf-8") as file:
            for entry in self.entries:
                lines = [f"{s.file}({s.line})" for s in reversed(entry.event.stack)]
                file.write(f"{';'.join([*lines, entry.name])} {int(scale * entry.event.own)}\n")

    def add_metadata(self, key: str, value: str) -> None:
        """Adds a text to the trace that :meth:`export_chrome_trace` writes."""
        self.metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Adds JSON to that trace."""
        self.metadata[key] = json.loads(value)


class record_function(ContextDecorator):  # noqa: N801 - PyTorch's spelling
    """Gives a part of a program a name in profiles: a ``with`` block, or a decorated function.

    >>> with rl.profile() as p:
    ...     with rl.profiler.record_function("two ops"):
    ...         y = rl.ones(3).exp().sum()
    >>> p.events()[0].key, p.events()[0].count
    ('two ops', 1)
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self.running: list[tuple[Recorder, Event] | None] = []

    def __enter__(self) -> record_function:
        notes = Recorder.now()
        self.running.append(None if notes is None else (notes, notes.begin(self.name, "range")))
        return self

    def __exit__(self, *exception: object) -> None:
        entered = self.running.pop()
        if entered is not None:
            notes, event = entered
            notes.finish(event)

    def _recreate_cm(self) -> record_function:
        return record_function(self.name, self.args)


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, **options: Any
) -> Callable[[profile], None]:
    """For ``on_trace_ready``: writes traces into a folder, as TensorBoard's plugin reads them."""

    def handle(p: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        p.export_chrome_trace(os.path.join(dir_name, name))

    return handle


def supported_activities() -> set[ProfilerActivity]:
    """What can be profiled."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """Whether PyTorch's own tracer is there; Rushlight has one of its own."""
    return False


__all__: Sequence[str] = (
    "kineto_available",
    "profile",
    "record_function",
    "supported_activities",
    "tensorboard_trace_handler",
)
