"""Worker processes: each answers over a pipe of its own, so that none can block another."""

from __future__ import annotations

import pickle
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.reduction import ForkingPickler
from typing import Any

from rushlight.data.failure import Failure
from rushlight.data.fetch import batch_place
from rushlight.data.streams import State
from rushlight.data.worker import Answer, Plan, Task, Worker
from rushlight.settings import set_num_threads

GRACE = 1.0  # seconds that a worker has to finish what it is loading when it is told to end


class Process:
    """A worker process, as the thread that talks to it sees it."""

    def __init__(
        self, context: BaseContext, plan: Plan | bytes, number: int, streams: State | None
    ) -> None:
        """``plan`` is pickled, or handed on as it is to a process that is forked."""
        self.plan = plan
        self.answered = False
        self.connection, theirs = context.Pipe()
        # A forked process has all that this one has, also this end of the pipe.
        inherited = None if isinstance(plan, bytes) else (plan, self.connection)
        self.process: Any = context.Process(  # type: ignore[attr-defined]
            target=serve,
            args=(theirs, number, streams, inherited),
            name=f"DataLoader worker process {number}",
            daemon=True,
        )
        with interrupts_held_back():
            self.process.start()
        theirs.close()

    def begin(self) -> Process:
        if isinstance(self.plan, bytes):
            with suppress(OSError):  # it is dead, which the first answer will tell
                self.connection.send_bytes(self.plan)
        return self

    def answer(self, task: Task) -> Answer:
        try:
            self.connection.send(task)
            wait([self.connection, self.process.sentinel])
            if not self.connection.poll():
                raise EOFError
            answer = self.connection.recv()
            self.answered = True
            return answer
        except (EOFError, OSError):
            return Failure(RuntimeError, self.obituary(task))
        except Exception as error:  # what was sent or received cannot be pickled
            return Failure.of(error, f"the connection to {self.process.name}")

    def obituary(self, task: Task) -> str:
        self.process.join(GRACE)
        code = self.process.exitcode
        killed = code is not None and code < 0
        cause = f"killed by {signal.Signals(-code).name}" if killed else f"exit code {code}"
        hint = "" if self.answered else ". Does the script have `if __name__ == '__main__':`?"
        return (
            f"DataLoader worker (pid(s) {self.process.pid}) exited unexpectedly: {cause}, "
            f"{batch_place(task.index)}{hint}"
        )

    def is_alive(self) -> bool:
        return self.process.is_alive()

    def hang_up(self) -> None:
        """Lets it end: it reads the end of the pipe."""
        self.connection.close()

    def kill(self) -> None:
        self.process.kill()

    def join(self) -> None:
        """Waits until it has ended, and sees to it."""
        self.process.join(GRACE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def serve(
    connection: Connection,
    number: int,
    streams: State | None,
    inherited: tuple[Plan, Connection] | None,
) -> None:
    """The life of a worker process: it ends when the other end of the pipe is gone."""
    ignore_interrupts()
    plan = None
    if inherited is not None:
        plan, other_end = inherited
        other_end.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the main program was told if it cannot be set
        set_num_threads(1)
    name = f"DataLoader worker process {number}"
    with suppress(EOFError, OSError):
        failure = None
        try:
            # What comes through this pipe was written by the program that started the process.
            worker = Worker(plan or pickle.loads(connection.recv_bytes()), number, streams)
        except Exception as error:
            failure = Failure.of(error, name)
        while True:
            task = connection.recv()
            connection.send_bytes(packed(failure or worker.answer(task), name))


def packed(answer: Answer, name: str) -> Any:
    """``answer`` pickled; what cannot be pickled is told as a failure."""
    try:
        return ForkingPickler.dumps(answer)
    except Exception as error:
        if not isinstance(answer, Failure):
            answer = Failure.of(error, f"{name}, sending its batch")
        return ForkingPickler.dumps(Failure(RuntimeError, answer.text))


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """A process started inside does not see Ctrl-C, which is the main program's to handle."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
