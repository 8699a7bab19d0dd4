"""Who prints while a function is traced: a graph prints at each call, so the function is converted.

What is printed by a trace that is given up must not appear, nor half a line of it: the first word
ends the trace.
"""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections.abc import Iterator
from typing import Any

from rushlight.errors import user_line
from rushlight.symbol import Undecided


class Printing(Undecided):
    """The function prints, which it shall do at each call."""

    optional = True


class Listener(io.TextIOBase):
    """Standard output, to which all threads may write but the one that traces."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.thread = stream, threading.get_ident()
        self.heard: Printing | None = None

    def write(self, text: str) -> int:
        if threading.get_ident() != self.thread:
            return self.stream.write(text)
        self.heard = Printing(f"the function prints at {user_line()}")
        raise self.heard

    def flush(self) -> None:
        self.stream.flush()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def fileno(self) -> int:
        return self.stream.fileno()


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """Raises :class:`Printing` if this thread prints, also where the function catches that.

    >>> with listening():
    ...     print("ready")
    Traceback (most recent call last):
    rushlight.graph.listener.Printing: the function prints at ...
    """
    stream = sys.stdout
    listener = sys.stdout = Listener(stream)
    try:
        yield
    finally:
        if sys.stdout is listener:
            sys.stdout = stream
    if listener.heard is not None:
        raise listener.heard
