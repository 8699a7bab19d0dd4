"""Memory of a program, brought in while its function is traced.

Linux clears pages when they are first written to, which takes about as long as a trace. How many
bytes the program of a function needs is noted on disk beside the programs; the next process that
traces the function lets a thread of its own touch as many, as long as it is at work itself.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from rushlight.runtime.arena import Arena
from rushlight.runtime.cache import Cache, fingerprint, folder, key_of
from rushlight.runtime.rooms import rooms
from rushlight.settings import get_num_threads

LARGE = 8 << 20  # bytes from which on it is worth a thread
PIECE = 4 << 20  # bytes that are touched before the thread looks whether it shall end


class Ahead:
    """The arena that the program of ``function`` had in another process, if it was large.

    >>> ahead = Ahead(len)
    >>> ahead.arena(1000) is None  # the first time, nobody knows
    True
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.cache = Cache(folder())
        self.key = key_of("arena", fingerprint(), *place_of(function))
        noted = self.cache.get(self.key)
        self.size = int(noted) if noted is not None and noted.isdigit() else 0
        self.ready: Arena | None = None
        self.over = False
        if self.size >= LARGE and get_num_threads() > 1 and not rooms.have(self.size):
            self.ready = Arena(self.size)
            self.thread = threading.Thread(target=self.touch, args=(self.ready,), daemon=True)
            self.thread.start()

    def touch(self, arena: Arena) -> None:
        """Writes to each page; NumPy lets other threads of Python run meanwhile."""
        for begin in range(0, self.size, PIECE):
            if self.over:
                return
            arena.bytes[begin : begin + PIECE : mmap.PAGESIZE] = 0

    def arena(self, size: int) -> Arena | None:
        """The arena that is ready, if it has that size. Another size is noted."""
        ready = self.end()
        if size != self.size and size >= LARGE:
            self.cache.put(self.key, str(size).encode())
        return ready if size == self.size else None

    def end(self) -> Arena | None:
        """Stops; nobody writes to the arena any more."""
        ready, self.ready, self.over = self.ready, None, True
        if ready is not None:
            self.thread.join()
        return ready


def place_of(function: Any) -> tuple[str, ...]:
    """What a function, or an object by its class, goes by in all processes."""
    if isinstance(function, MethodType):
        function = function.__func__
    if isinstance(function, FunctionType):
        code = function.__code__
        return (
            function.__module__,
            function.__qualname__,
            code.co_filename,
            str(code.co_firstlineno),
        )
    kind = type(function)
    return kind.__module__, kind.__qualname__
