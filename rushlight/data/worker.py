"""A worker: what answers the requests for batches, in a thread or in a process of its own."""

from __future__ import annotations

import copy
import enum
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from rushlight.data.datasets import Dataset
from rushlight.data.failure import Failure
from rushlight.data.fetch import IterableFetcher, MapFetcher
from rushlight.data.streams import ProcessStreams, State, ThreadStreams, process_streams


class Task(NamedTuple):
    """A request for the ``number``-th batch of the ``epoch``-th epoch of these workers."""

    epoch: int
    number: int
    index: Any


class Loaded(NamedTuple):
    """A batch, and where the worker's random streams were after it."""

    batch: Any
    streams: State


class Ending(enum.Enum):
    """The answer of a worker whose stream of samples has ended."""

    EXHAUSTED = enum.auto()


Answer = Loaded | Failure | Ending


@dataclass(frozen=True)
class WorkerInfo:
    """Which worker the calling code runs in.

    ``dataset`` is the worker's own copy. ``rng`` has the generators of a worker thread, seeded
    with ``seed``; a worker process draws from the process's own.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: ThreadStreams | None = None
    worker_method: str | None = "multiprocessing"


class Current(threading.local):
    """``info`` is that of the worker the calling thread is."""

    info: WorkerInfo | None = None


current = Current()


def get_worker_info() -> WorkerInfo | None:
    """What the worker that calls it is: ``id``, ``num_workers``, ``seed``, ``dataset``, ``rng``.

    In the main program it is None.

    >>> rl.utils.data.get_worker_info()
    """
    return current.info


@dataclass(frozen=True)
class Plan:
    """What all workers of a loader are to do."""

    dataset: Any
    iterable: bool
    batched: bool
    drop_last: bool
    collate: Callable[[Any], Any]
    init: Callable[[int], Any] | None
    num_workers: int
    base_seed: int
    kind: str

    def fetcher(self, dataset: Any) -> MapFetcher | IterableFetcher:
        if self.iterable:
            return IterableFetcher(dataset, self.collate, self.batched, self.drop_last)
        return MapFetcher(dataset, self.collate, self.batched)


class Worker:
    """Answers tasks, in the thread that made it."""

    def __init__(self, plan: Plan, number: int, streams: State | None) -> None:
        """``streams`` is where an earlier worker's random streams were, to go on from there."""
        self.plan = plan
        self.name = f"DataLoader worker {plan.kind} {number}"
        self.epoch = -1
        self.failure: Failure | None = None
        try:
            self.begin(plan, number)
            if streams is not None:
                self.streams.restore(streams)
        except BaseException as error:
            self.failure = Failure.of(error, self.name)

    def begin(self, plan: Plan, number: int) -> None:
        self.streams: ThreadStreams | ProcessStreams
        seed = plan.base_seed + number
        if plan.kind == "thread":
            self.streams = own = ThreadStreams(seed)
            self.dataset = own_copy(plan.dataset)
            current.info = WorkerInfo(number, plan.num_workers, seed, self.dataset, own, "thread")
        else:
            self.streams = process_streams
            process_streams.seed(plan.base_seed, number)
            self.dataset = plan.dataset
            current.info = WorkerInfo(number, plan.num_workers, seed, self.dataset)
        if plan.init is not None:
            plan.init(number)

    def answer(self, task: Task) -> Answer:
        if self.failure is not None:
            return self.failure
        try:
            if task.epoch != self.epoch:
                self.fetcher = self.plan.fetcher(self.dataset)
                self.epoch = task.epoch
            return Loaded(self.fetcher.fetch(task.index), self.streams.state())
        except StopIteration:
            return Ending.EXHAUSTED
        except BaseException as error:
            return Failure.of(error, self.name)


def own_copy(value: Any, known: dict[int, Any] | None = None) -> Any:
    """A copy of a dataset, and of the datasets it is made of, that shares all their data.

    What a thread sets on its own (an open file, a share of a stream) others do not see.
    """
    known = {} if known is None else known
    if isinstance(value, Dataset):
        if id(value) not in known:
            own = known[id(value)] = copy.copy(value)
            vars(own).update({name: own_copy(part, known) for name, part in vars(own).items()})
        return known[id(value)]
    if type(value) in (list, tuple) and value and isinstance(value[0], Dataset):
        return type(value)([own_copy(part, known) for part in value])
    if type(value) is dict and isinstance(next(iter(value.values()), None), Dataset):
        return {name: own_copy(part, known) for name, part in value.items()}
    return value
