"""Python's ``multiprocessing``, and `spawn`. Tensors are sent to other processes as copies."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing import *  # noqa: F403 - PyTorch's module has all of Python's names
from typing import Any


class ProcessRaisedException(Exception):
    """A process that `spawn` started ended with an error."""


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> list[Any] | None:
    """Calls ``fn(i, *args)`` in ``nprocs`` processes, i from 0, and waits for them to end.

    Args:
        join: whether to wait; otherwise the processes are returned.
        daemon: whether the processes end with this one.
        start_method: how processes start, as in Python's `get_context`.
    """
    context: Any = multiprocessing.get_context(start_method)
    started = []
    for index in range(nprocs):
        process = context.Process(target=fn, args=(index, *args), daemon=daemon)
        process.start()
        started.append(process)
    if not join:
        return started
    for index, process in enumerate(started):
        process.join()
        if process.exitcode:
            raise ProcessRaisedException(
                f"Process {index} terminated with exit code {process.exitcode}"
            )
    return None
