"""A profile as a trace that Perfetto and chrome://tracing open."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.profiler.events import Thread
from rushlight.profiler.report import Entry

CATEGORIES = {"op": "cpu_op", "backward": "cpu_op", "range": "user_annotation", "work": "python"}


def trace(entries: Sequence[Entry], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Complete events ("ph": "X") in microseconds; threads have their names."""
    process = os.getpid()
    threads: dict[Thread, None] = dict.fromkeys([entry.event.thread for entry in entries])
    found: list[dict[str, Any]] = [note("process_name", process, 0, "rushlight")]
    found += [note("thread_name", process, thread.number, thread.name) for thread in threads]
    found += [complete(entry, process) for entry in entries]
    return {"schemaVersion": 1, "displayTimeUnit": "ms", **metadata, "traceEvents": found}


def note(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "ts": 0, "args": {"name": name}}


def complete(entry: Entry, process: int) -> dict[str, Any]:
    event = entry.event
    about: dict[str, Any] = {"kind": entry.kind, "direction": direction(entry)}
    lines = [f"{s.file}:{s.line}" for s in entry.lines if s is not None]
    if lines:
        about["lines"] = lines
    modules = [s.module for s in entry.lines if s is not None and s.module]
    if modules:
        about["module"] = modules[0]
    if event.operands:
        about["Input Dims"] = [[] if x is None else list(x.shape) for x in event.operands]
        about["Input type"] = ["" if x is None else x.dtype.name for x in event.operands]
    if entry.cost is not None:
        about |= {"flops": entry.cost.flops, "bytes": entry.cost.moved}
    if entry.allocated:
        about["allocated"] = entry.allocated
    return {
        "ph": "X",
        "cat": CATEGORIES.get(entry.kind, "kernel"),
        "name": entry.name,
        "pid": process,
        "tid": event.thread.number,
        "ts": round(1e6 * event.begin, 3),
        "dur": round(1e6 * event.total, 3),
        "args": about,
    }


def direction(entry: Entry) -> str:
    return "backward" if entry.backward else "forward"


def write(path: str | os.PathLike[str], contents: Mapping[str, Any]) -> None:
    """Writes JSON; compressed if the path ends with ``.gz``."""
    text = json.dumps(contents, separators=(",", ":"), allow_nan=False)
    if os.fspath(path).endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as packed:
            packed.write(text)
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
