"""What the world tells a function while it is traced: clocks, files, the environment, dice.

A graph would repeat what was read once. Only when the code names something of that kind, the trace
is watched: so it is known what was read indeed, and on which line.
"""

from __future__ import annotations

import builtins
import datetime
import io
import os
import random
import sys
import time
from types import BuiltinFunctionType, FrameType, FunctionType, ModuleType
from typing import Any

from rushlight.errors import PACKAGE
from rushlight.graph.reads import STANDARD, is_users_file

PURE = {
    "abc", "ast", "bisect", "builtins", "cmath", "collections", "contextlib", "copy", "copyreg",
    "dataclasses", "decimal", "enum", "fractions", "functools", "graphlib", "heapq", "inspect",
    "itertools", "json", "keyword", "logging", "math", "numbers", "operator", "pprint", "re",
    "reprlib", "statistics", "string", "struct", "textwrap", "types", "typing", "warnings",
    "weakref",
}  # fmt: skip
"""Modules of Python that do not look at the world; or, as ``logging``, not for the function."""

CODE = (FunctionType, BuiltinFunctionType, type)
SILENT = tuple([STANDARD + name for name in ("logging", "warnings", "linecache", "traceback")])
CLOCKS = (
    "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns",
    "process_time", "process_time_ns", "thread_time", "thread_time_ns", "localtime", "gmtime",
    "ctime", "asctime", "strftime",
)  # fmt: skip
FILES = ("open", "stat", "lstat", "listdir", "scandir", "getcwd", "readlink", "access")

SENSES: dict[Any, str] = {
    **{getattr(time, name): "a clock" for name in CLOCKS if name in vars(time)},
    **{getattr(os, name): "a file" for name in FILES if name in vars(os)},
    io.open: "a file",
    os.urandom: "random numbers of the system",
    builtins.input: "what a person types",
}
ENVIRONMENT = {vars(type(os.environ))[name].__code__ for name in ("__getitem__", "__iter__")}


def is_worldly(value: Any) -> bool:
    """Whether code that names ``value`` may look at the world.

    >>> is_worldly(time), is_worldly(os.environ), is_worldly(open), is_worldly(len)
    (True, True, True, False)
    """
    if isinstance(value, BuiltinFunctionType):
        if value in SENSES:
            return True
        if not value.__module__:  # a method, of what it is bound to
            return is_worldly(value.__self__)
    if isinstance(value, ModuleType):
        name = value.__name__
    else:
        name = (value if isinstance(value, CODE) else type(value)).__module__ or ""
    root = name.partition(".")[0]
    return root in sys.stdlib_module_names and root not in PURE


class World:
    """While it is entered, notes the first look of the user's code at the world.

    >>> with World() as world:
    ...     now = time.time()
    >>> world.seen  # doctest: +ELLIPSIS
    'a clock (time) at ...'
    """

    def __init__(self) -> None:
        self.seen: str | None = None

    def __enter__(self) -> World:
        self.before = sys.getprofile()
        sys.setprofile(self.note)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(self.before)

    def note(self, frame: FrameType, event: str, arg: Any) -> None:
        """Is told by Python of each call."""
        if self.seen is not None:
            return
        if event == "c_call":
            what = sense(arg)
            if what is not None:
                self.see(f"{what} ({arg.__name__})", frame)
        elif event == "call" and frame.f_code in ENVIRONMENT:
            self.see("the environment (os.environ)", frame)

    def see(self, what: str, frame: FrameType | None) -> None:
        """Notes the line of the user's, unless it is an import, a log or ours that looked."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith((PACKAGE, "<frozen importlib", *SILENT)):
                return
            if is_users_file(file):
                self.seen = f"{what} at {file}:{frame.f_lineno}"
                return
            frame = frame.f_back


def sense(function: Any) -> str | None:
    """What a function in C reads from the world, if anything."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, random.Random):
        return "random numbers of Python"
    if owner is datetime.datetime or owner is datetime.date:
        return "a clock" if function.__name__ in ("now", "utcnow", "today") else None
    return SENSES.get(function)
