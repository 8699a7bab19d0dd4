"""Rows of a profile as text: a table in the width of the terminal."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from rushlight.profiler.report import Row
from rushlight.runtime.table import quantity, seconds, shortened

NARROW = 24  # columns that the name has at least


class Column(NamedTuple):
    """A column of numbers: its head, its text, and how soon a narrow terminal does without it."""

    head: str
    text: Callable[[Row, float], str]
    value: Callable[[Row], float]
    spare: int = 0


def rate(amount: float, time: float, unit: str) -> str:
    return f"{quantity(amount / time, unit)}/s" if amount and time else "–"


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


CALLS = Column("calls", lambda row, _: str(row.count), lambda row: row.count)
SELF = Column("self", lambda row, _: seconds(row.own), lambda row: row.own)
SHARE = Column("share", lambda row, wall: percent(row.own, wall), lambda row: row.own)
TOTAL = Column("total", lambda row, _: seconds(row.total), lambda row: row.total)
MEAN = Column("mean", lambda row, _: seconds(row.total / row.count), lambda r: r.cpu_time, 4)
FORWARD = Column("forward", lambda row, _: spent(row.forward), lambda row: row.forward)
BACKWARD = Column("backward", lambda row, _: spent(row.backward), lambda row: row.backward)
FLOPS = Column("FLOP/s", lambda row, _: rate(row.flops, row.busy, "FLOP"), lambda row: row.flops, 2)
BYTES = Column("bytes/s", lambda row, _: rate(row.moved, row.busy, "B"), lambda row: row.moved, 3)
BEST = Column("of best", lambda row, _: near(row), lambda row: row.share_of_best, 1)
MEMORY = Column("memory", lambda row, _: quantity(row.allocated, "B"), lambda row: row.allocated, 5)


def spent(t: float) -> str:
    return seconds(t) if t > 0 else "–"


def near(row: Row) -> str:
    return percent(row.best, row.busy) if row.best else "–"


COSTS = (FLOPS, BYTES, BEST, MEMORY)
COLUMNS = {
    "op": (CALLS, SELF, SHARE, TOTAL, MEAN, *COSTS),
    "kernel": (CALLS, SELF, SHARE, MEAN, *COSTS),
    "line": (CALLS, SELF, SHARE, FORWARD, BACKWARD, *COSTS),
    "module": (CALLS, SELF, SHARE, FORWARD, BACKWARD, *COSTS),
    "thread": (CALLS, SELF, SHARE, FORWARD, BACKWARD, *COSTS),
}

ORDERS: dict[str, Callable[[Row], Any]] = {
    "self": lambda row: row.own,
    "total": lambda row: row.total,
    "mean": lambda row: row.cpu_time,
    "calls": lambda row: row.count,
    "flops": lambda row: row.flops,
    "bytes": lambda row: row.moved,
    "memory": lambda row: row.allocated,
    "forward": lambda row: row.forward,
    "backward": lambda row: row.backward,
    "name": lambda row: row.key,
}
TORCH_ORDERS = {
    "cpu_time": "mean", "cpu_time_total": "total", "self_cpu_time_total": "self", "count": "calls",
    "cpu_memory_usage": "memory", "self_cpu_memory_usage": "memory",
}  # fmt: skip
HEADS = {"mean": "mean", "flops": "FLOP/s", "bytes": "bytes/s", "memory": "memory"}
"""The columns that a narrow terminal might do without, by the orders that need them."""
DEVICE_ORDERS = tuple(
    [
        f"{own}{device}_{what}"
        for own in ("", "self_")
        for device in ("cuda", "device", "xpu")
        for what in ("time", "time_total", "memory_usage")
    ]
)  # of devices that are not there: all rows are equal


def ordered(rows: Iterable[Row], sort_by: str | None) -> list[Row]:
    """Rows, the largest first; names from A to Z."""
    name = TORCH_ORDERS.get(sort_by or "self", sort_by or "self")
    if name in DEVICE_ORDERS:
        return list(rows)
    if name not in ORDERS:
        known = ", ".join([*ORDERS, *TORCH_ORDERS])
        raise ValueError(f"sort_by: expected one of {known}, got {sort_by!r}")
    return sorted(rows, key=ORDERS[name], reverse=name != "name")


def text(
    rows: Sequence[Row],
    group_by: str,
    wall: float,
    row_limit: int = -1,
    width: int = 0,
    name_width: int = 0,
    sort_by: str | None = None,
) -> str:
    """A table of rows as they are ordered, the first ``row_limit`` of them if that is positive."""
    decides = HEADS.get(TORCH_ORDERS.get(sort_by or "", sort_by or ""))
    width = max(60, width or shutil.get_terminal_size().columns)
    shown = rows[:row_limit] if row_limit > 0 else rows
    columns = list(COLUMNS[group_by])
    names = [call_it(row) for row in shown]
    while True:
        cells = [[column.head for column in columns]]
        cells += [[column.text(row, wall) for column in columns] for row in shown]
        widths = [max([len(line[i]) for line in cells]) for i in range(len(columns))]
        room = width - sum(widths) - 2 * len(widths)
        spare = [column for column in columns if column.spare and column.head != decides]
        if room >= min(NARROW, max(map(len, names), default=0)) or not spare:
            break
        columns.remove(max(spare, key=lambda column: column.spare))
    longest = max([len(group_by), *map(len, names)])
    room = max(8, min(room, longest, name_width or longest))
    keep_end = group_by == "line"
    lines = []
    for name, line in zip([group_by, *names], cells, strict=True):
        numbers = "  ".join([f"{cell:>{n}}" for cell, n in zip(line, widths, strict=True)])
        lines.append(f"{shortened(name, room, keep_end):<{room}}  {numbers}".rstrip())
    if len(shown) < len(rows):
        lines.append(f"… and {len(rows) - len(shown)} more")
    return "\n".join(lines)


def call_it(row: Row) -> str:
    """How a row is called, with the shapes and lines that it is told apart by."""
    name = row.key.removeprefix(os.getcwd() + os.sep)
    if row.input_shapes:
        name += f" {row.input_shapes}"
    return f"{name} {' ← '.join(row.stack)}" if row.stack else name
