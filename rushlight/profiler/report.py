"""Events put together: by op, by line, by module, by kernel or by thread."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rushlight.graph.ir import Source
from rushlight.ops.base import Composite
from rushlight.profiler.events import Array, Event
from rushlight.profiler.programs import steps_of
from rushlight.runtime.costs import Cost, op_flops, rule_flops

BACKWARD = ("backward", "pass")
NOTHING = Cost(0, 0, 0)
STEPS = ("kernel", "call", "copy")


@dataclass(slots=True)
class Sums:
    """Costs of several events: operations, bytes, and the seconds the machine could need."""

    flops: int = 0
    moved: int = 0
    seconds: float = 0.0

    def add(self, cost: Cost) -> None:
        self.flops += cost.flops or 0
        self.moved += cost.moved
        self.seconds += cost.seconds


class Entry:
    """An event with what is known about it once all have ended.

    ``cost`` and ``own_allocated`` are those of the event itself, ``inclusive`` and ``allocated``
    are sums over it and all events in it.
    """

    __slots__ = (
        "allocated", "backward", "cost", "event", "inclusive", "kind", "lines", "name",
        "own_allocated", "parent",
    )  # fmt: skip

    def __init__(self, event: Event, parent: Entry | None) -> None:
        self.event, self.parent = event, parent
        self.name, self.kind = event.name, event.kind
        self.lines: dict[Source | None, float] = {event.source: 1.0}  # with the part of each
        self.backward: bool = event.kind in BACKWARD or (parent is not None and parent.backward)
        self.cost: Cost | None = None
        self.inclusive = Sums()
        if event.step is not None:
            executable, number = event.step
            step = steps_of(executable)[number]
            self.name, self.lines = step.what, dict(step.lines)
            self.cost = step.cost.times(event.attrs["runs"])
        elif not any([outer.cost is not None for outer in self.ancestors()]):
            self.cost = cost_of(event)
        counts = self.cost is not None or event.kind == "work"  # else what is in it has made it
        self.allocated = self.own_allocated = event.allocated if counts else 0

    def ancestors(self) -> Iterator[Entry]:
        outer = self.parent
        while outer is not None:
            yield outer
            outer = outer.parent


def cost_of(event: Event) -> Cost | None:
    """What an op, a rule of backward or an update costs; None for what is made of others."""
    op, results = event.op, event.results
    operands = [x for x in event.operands if x is not None]
    if event.kind == "update":
        flops = event.attrs["calls"] * sum([x.size for x in results]) // max(1, len(results))
        return Cost(sum([x.nbytes for x in operands]), sum([x.nbytes for x in results]), flops)
    if op is None or isinstance(op, Composite) or not results:
        if event.kind == "backward" and results:  # a sum over broadcast dimensions
            return Cost(operands[0].nbytes, results[0].nbytes, operands[0].size)
        return None
    if event.rule is not None:
        kind = results[0].dtype
        shapes = event.shapes
        given = [
            None if s is None else Array(s, kind, kind.itemsize * math.prod(s)) for s in shapes
        ]
        flops = rule_flops(op, event.rule, operands[0], given, event.attrs)
    else:
        flops = op_flops(op, event.attrs, results[0], event.operands) if operands else 0
    if not event.allocated and event.kind == "op" and not event.name.endswith("_"):
        return NOTHING  # a view
    return Cost(sum([x.nbytes for x in operands]), sum([x.nbytes for x in results]), flops)


def entries_of(events: Sequence[Event]) -> list[Entry]:
    """Entries in the order of events, which is that of their beginnings."""
    known: dict[Event, Entry] = {}
    for event in events:
        parent = None if event.parent is None else known.get(event.parent)
        known[event] = Entry(event, parent)
    for entry in known.values():
        cost = entry.cost or NOTHING
        for each in (entry, *entry.ancestors()):
            each.inclusive.add(cost)
            each.allocated += entry.own_allocated if each is not entry else 0
    return list(known.values())


@dataclass
class Row:
    """All events of one group. Times are in seconds here, PyTorch's attributes in microseconds.

    Of groups of ops, ``flops``, ``moved``, ``best`` and ``allocated`` include the events inside,
    and ``busy``, the time they are compared with, is the total; of other groups they do not.
    """

    key: str
    kind: str = ""
    count: int = 0
    total: float = 0.0
    own: float = 0.0
    busy: float = 0.0
    forward: float = 0.0  # of ``own``
    backward: float = 0.0
    flops: float = 0.0
    moved: float = 0.0  # bytes read and written
    best: float = 0.0  # seconds that the machine could need
    allocated: float = 0.0
    own_flops: float = 0.0  # without the events inside
    own_moved: float = 0.0
    own_best: float = 0.0
    own_allocated: float = 0.0
    input_shapes: list[list[int]] = field(default_factory=list)
    stack: list[str] = field(default_factory=list)

    def add_own(self, part: float, entry: Entry) -> None:
        """Adds a part of an event without those inside."""
        event, cost = entry.event, entry.cost or NOTHING
        self.own += part * event.own
        self.own_flops += part * (cost.flops or 0)
        self.own_moved += part * cost.moved
        self.own_best += part * min(cost.seconds, event.own or cost.seconds)
        self.own_allocated += part * entry.own_allocated
        if entry.backward:
            self.backward += part * event.own
        else:
            self.forward += part * event.own

    def add(self, part: float, busy: float, cost: Cost | Sums, allocated: int) -> None:
        """Adds a part of an event: its time, its cost, its memory."""
        self.busy += part * busy
        self.flops += part * (cost.flops or 0)
        self.moved += part * cost.moved
        self.best += part * min(cost.seconds, busy or cost.seconds)  # what it took is possible
        self.allocated += part * allocated

    @property
    def cpu_time_total(self) -> float:
        return 1e6 * self.total

    @property
    def self_cpu_time_total(self) -> float:
        return 1e6 * self.own

    @property
    def cpu_time(self) -> float:
        """The mean of all calls."""
        return self.cpu_time_total / max(1, self.count)

    @property
    def cpu_memory_usage(self) -> int:
        return int(self.allocated)

    @property
    def self_cpu_memory_usage(self) -> int:
        return int(self.own_allocated)

    @property
    def share_of_best(self) -> float:
        """How near to the machine's best it comes: 1 is as quick as can be."""
        return self.best / self.busy if self.busy else 0.0


Key = Callable[[Entry], dict[Any, float]]


def by_op(entry: Entry) -> dict[Any, float]:
    return {entry.name: 1.0}


def by_line(entry: Entry) -> dict[Any, float]:
    return {None if s is None else (s.file, s.line): part for s, part in entry.lines.items()}


def by_module(entry: Entry) -> dict[Any, float]:
    found: dict[Any, float] = {}
    for source, part in entry.lines.items():
        name = source.module if source is not None else ""
        found[name] = found.get(name, 0.0) + part
    return found


def by_kernel(entry: Entry) -> dict[Any, float]:
    return {(entry.name, entry.event.step): 1.0} if entry.kind in STEPS else {}


def by_thread(entry: Entry) -> dict[Any, float]:
    return {entry.event.thread: 1.0}


GROUPS: dict[str, tuple[Key, Callable[[Any, Entry], str]]] = {
    "op": (by_op, lambda key, entry: key),
    "line": (by_line, lambda key, entry: "(no line)" if key is None else f"{key[0]}:{key[1]}"),
    "module": (by_module, lambda key, entry: key or "(no module)"),
    "kernel": (by_kernel, lambda key, entry: entry.name),
    "thread": (by_thread, lambda key, entry: key.name),
}
"""How to group: the groups of an entry with its part in each, and what a group is called."""


def rows_of(
    entries: Sequence[Entry], group_by: str = "op", shapes: bool = False, stack: int = 0
) -> list[Row]:
    """One row for each group; with ``shapes`` or ``stack``, operands and lines are told apart."""
    if group_by not in GROUPS:
        raise ValueError(f"group_by: expected one of {', '.join(GROUPS)}, got {group_by!r}")
    keys, label = GROUPS[group_by]
    inclusive = group_by == "op"
    rows: dict[Any, Row] = {}
    for entry in entries:
        event = entry.event
        operands = [list(x.shape) for x in event.operands if x is not None] if shapes else []
        lines = [f"{s.file}({s.line})" for s in event.stack[:stack]]
        for key, part in keys(entry).items():
            whole = (key, str(operands), *lines)
            row = rows.get(whole)
            if row is None:
                row = rows[whole] = Row(label(key, entry), entry.kind)
                row.input_shapes, row.stack = operands, lines
            row.add_own(part, entry)
            if not any([key in keys(outer) for outer in entry.ancestors()]):
                row.count += 1
                row.total += part * event.total
                if inclusive:
                    row.add(part, event.total, entry.inclusive, entry.allocated)
            if not inclusive:
                row.add(part, event.own, entry.cost or NOTHING, entry.own_allocated)
    return list(rows.values())
