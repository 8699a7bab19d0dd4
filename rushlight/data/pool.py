"""The workers of a loader: a thread each, which loads by itself or has a process load."""

from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import BaseContext
from multiprocessing.reduction import ForkingPickler
from typing import Any

from rushlight.data.processes import GRACE, Process
from rushlight.data.streams import State
from rushlight.data.worker import Answer, Plan, Task, Worker


class Signals:
    """What the threads of a pool look at between tasks."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.epoch = 0  # tasks of earlier ones are dropped
        self.stopping = False


class Pool:
    """Workers with a queue of tasks each, and one queue of their answers.

    They end when ``stop`` is called, when the pool is dropped, and when the interpreter exits.
    """

    def __init__(
        self, plan: Plan, context: BaseContext | None, streams: Mapping[int, State]
    ) -> None:
        """``streams``: where the random streams of workers are to go on, by number."""
        self.plan = plan
        self.streams = dict(streams)  # the workers' random streams, after what was given out
        self.user: weakref.ref[Any] | None = None  # the iterator that is being served
        self.signals = Signals()
        self.tasks: list[Any] = [queue.SimpleQueue() for _ in range(plan.num_workers)]
        self.answers: Any = queue.SimpleQueue()
        self.processes: list[Process] = []
        threads: list[threading.Thread] = []
        # What it is given must not lead back to the pool.
        self.stop = weakref.finalize(self, stop, self.signals, self.tasks, threads, self.processes)
        begin: list[Callable[[], Worker | Process]] = [
            partial(Worker, plan, number, streams.get(number)) for number in range(plan.num_workers)
        ]
        if plan.kind == "process":
            self.start_processes(context or get_context("spawn"), streams)
            begin = [process.begin for process in self.processes]
        for number, tasks in enumerate(self.tasks):
            thread = threading.Thread(
                target=run,
                args=(begin[number], tasks, self.answers, self.signals),
                name=f"DataLoader worker thread {number}",
                daemon=True,
            )
            thread.start()
            threads.append(thread)

    def start_processes(self, context: BaseContext, streams: Mapping[int, State]) -> None:
        forked = context.get_start_method() == "fork"
        plan = self.plan if forked else bytes(ForkingPickler.dumps(self.plan))
        for number in range(self.plan.num_workers):
            self.processes.append(Process(context, plan, number, streams.get(number)))

    def is_free(self) -> bool:
        """Whether it serves no iterator, and could serve one."""
        free = self.user is None or self.user() is None
        alive = self.stop.alive and self.signals.owner == os.getpid()
        return free and alive and all(process.is_alive() for process in self.processes)

    def begin_epoch(self, user: Any) -> int:
        self.user = weakref.ref(user)
        self.signals.epoch += 1
        return self.signals.epoch

    def answer(self, timeout: float | None) -> tuple[Task, Answer]:
        """The next answer to a task of this epoch; ``queue.Empty`` after ``timeout`` seconds."""
        while True:
            task, answer = self.answers.get(timeout=timeout)
            if task.epoch == self.signals.epoch:
                return task, answer


def run(begin: Callable[[], Worker | Process], tasks: Any, answers: Any, signals: Signals) -> None:
    """The life of a thread of a pool: it ends with the task None."""
    worker = begin()
    while (task := tasks.get()) is not None:
        if task.epoch == signals.epoch and not signals.stopping:
            answers.put((task, worker.answer(task)))


def stop(
    signals: Signals, tasks: list[Any], threads: list[threading.Thread], processes: list[Process]
) -> None:
    """Ends threads and processes: those that load at the moment have ``GRACE`` seconds left."""
    if signals.owner != os.getpid():
        return  # a fork of the program: the workers are not its own
    signals.stopping = True
    for waiting in tasks:
        waiting.put(None)
    join(threads)
    for thread, process in zip(threads, processes, strict=False):
        if thread.is_alive():
            process.kill()  # which ends the thread's wait for an answer
            join([thread])
        process.hang_up()
    for process in processes:
        process.join()


def join(threads: list[threading.Thread]) -> None:
    deadline = time.monotonic() + GRACE
    for thread in threads:
        if thread is not threading.current_thread():  # garbage may be collected in any
            thread.join(max(0.0, deadline - time.monotonic()))
