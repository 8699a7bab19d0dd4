"""Who prints while a function is traced: a graph prints at each call, so the function is converted.

What is printed by a trace that is given up must not appear, nor half a line of it: the first word
ends the trace. Where only a graph is wanted, plain texts are printed once, when its trace is over.
"""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.errors import user_line
from rushlight.symbol import Undecided


class Printing(Undecided):
    """The function prints, which it shall do at each call."""

    optional = True


class Listener(io.TextIOBase):
    """Standard output, to which all threads may write but the one that traces.

    What that one writes is given to ``hear``; ``flush`` is called when somebody waits to see it.
    """

    def __init__(self, stream: Any, hear: Callable[[str], None], flush: Callable[[], None]) -> None:
        self.stream, self.thread = stream, threading.get_ident()
        self.hear, self.flushed = hear, flush
        self.over = False  # a stream is flushed once more when it is dropped

    def write(self, text: str) -> int:
        if threading.get_ident() != self.thread:
            return self.stream.write(text)
        self.hear(text)
        return len(text)

    def flush(self) -> None:
        if self.over:
            return
        if threading.get_ident() == self.thread:
            self.flushed()
        self.stream.flush()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def fileno(self) -> int:
        return self.stream.fileno()


@contextlib.contextmanager
def standing_in(hear: Callable[[str], None], flush: Callable[[], None]) -> Iterator[None]:
    """A :class:`Listener` in the place of standard output."""
    stream = sys.stdout
    listener = sys.stdout = Listener(stream, hear, flush)
    try:
        yield
    finally:
        listener.over = True
        if sys.stdout is listener:
            sys.stdout = stream


@contextlib.contextmanager
def listening() -> Iterator[None]:
    """Raises :class:`Printing` if this thread prints, also where the function catches that.

    >>> with listening():
    ...     print("ready")
    Traceback (most recent call last):
    rushlight.graph.listener.Printing: the function prints at ...
    """
    heard: list[Printing] = []

    def refuse(text: str) -> None:
        heard.append(Printing(f"the function prints at {user_line()}"))
        raise heard[-1]

    with standing_in(refuse, lambda: None):
        yield
    if heard:
        raise heard[-1]


@contextlib.contextmanager
def held_back(shown: bool = True) -> Iterator[None]:
    """What this thread prints comes in the end if it is ``shown``, and not at all after an error.

    A flush lets it through: a debugger asks for something.

    >>> with held_back(), contextlib.suppress(ValueError), held_back():
    ...     print("given up")
    ...     raise ValueError
    >>> with held_back():
    ...     print("done")
    done
    """
    stream, texts = sys.stdout, list[str]()

    def release() -> None:
        stream.write("".join(texts))
        texts.clear()

    with standing_in(texts.append, release):
        yield
    if shown:
        release()
