"""Tasks that run beside each other, for work that leaves the lock of the interpreter."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Generic, TypeVar

from rushlight.settings import get_num_threads

T = TypeVar("T")
Own = TypeVar("Own", bound="Tasks")


def once(make: Callable[[], T]) -> Callable[[], T]:
    """``make``, whose first result is that of all calls, and the only one.

    (``functools.cache`` lets two threads make one each, and what one of them uses is freed.)
    """
    made: list[T] = []
    lock = threading.Lock()

    @functools.wraps(make)
    def get() -> T:
        if not made:
            with lock:
                if not made:
                    made.append(make())
        return made[0]

    return get


class Task(Generic[T]):
    """A call that some thread makes; ``result`` is there when :meth:`Tasks.finish` has returned."""

    __slots__ = ("call", "error", "result")

    def __init__(self, call: Callable[[], T]) -> None:
        self.call = call
        self.result: T
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self.call()
        except BaseException as error:
            self.error = error


class Tasks:
    """Calls that the other threads of the machine make while the caller goes on.

    In ``with``, they are finished at the end. Threads end with them, so none is left when the
    process forks or ends. What was not begun when an exception leaves the block is not done.

    >>> from rushlight.runtime.tasks import Tasks
    >>> with Tasks() as tasks:
    ...     found = [tasks.add(lambda n=n: n * n) for n in range(3)]
    >>> [task.result for task in found]
    [0, 1, 4]
    """

    def __init__(self) -> None:
        self.waiting: SimpleQueue[Task[Any] | None] = SimpleQueue()
        self.tasks: list[Task[Any]] = []
        self.helpers: list[threading.Thread] = []
        self.most = get_num_threads() - 1

    def add(self, call: Callable[[], T]) -> Task[T]:
        """Lets somebody make a call, which must not depend on those before it."""
        task = Task(call)
        self.tasks.append(task)
        self.waiting.put(task)
        if len(self.helpers) < min(self.most, len(self.tasks)):
            helper = threading.Thread(target=self.help, name="rushlight-task")
            try:
                helper.start()
                self.helpers.append(helper)
            except RuntimeError:  # the system gives no more threads: fewer do the work
                self.most = len(self.helpers)
        return task

    def help(self) -> None:
        """Makes calls until there is nothing more to wait for."""
        while (task := self.waiting.get()) is not None:
            task.run()

    def finish(self) -> None:
        """Makes what is left of the calls, and waits for the others; raises what one has raised.

        An error of the caller's own calls is the end of it: those after it are not made.
        """
        try:
            while (task := self.next()) is not None:
                task.result = task.call()
        finally:
            self.end()
        for task in self.tasks:
            if task.error is not None:
                raise task.error

    def next(self) -> Task[Any] | None:
        try:
            return self.waiting.get_nowait()
        except Empty:
            return None

    def end(self) -> None:
        """Waits for what has begun."""
        while self.next() is not None:
            pass
        for _ in self.helpers:
            self.waiting.put(None)
        for helper in self.helpers:
            helper.join()
        self.helpers = []

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.end()
