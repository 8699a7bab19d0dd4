"""One pass over a loader: in the calling thread, or with workers."""

from __future__ import annotations

import queue
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight import accelerator
from rushlight.data.failure import Failure
from rushlight.data.fetch import batch_place
from rushlight.data.pool import Pool
from rushlight.data.state import Position, begin, begin_again
from rushlight.data.streams import process_streams_at
from rushlight.data.worker import Answer, Ending, Plan, Task
from rushlight.errors import warn

if TYPE_CHECKING:
    from rushlight.data.loader import DataLoader

PREFETCHED = 2  # batches that a worker loads ahead unless it is told


class LoaderIterator(ABC):
    """The batches of an epoch, from its beginning or from a position in it."""

    order: Iterator[Any]
    position: Position

    def __init__(self, loader: DataLoader[Any], resumed: Position | None) -> None:
        warn_of_pinning(loader)
        self.loader = loader
        self.resumed = resumed
        if resumed is None:
            self.order, self.position = begin(loader, self.base_seed())
            self.prepare()
        else:
            assert resumed.streams is not None
            self.position = resumed
            with process_streams_at(resumed.streams):
                self.order = begin_again(loader, resumed)
                self.skip(resumed.batches)

    @abstractmethod
    def base_seed(self) -> int | None:
        """The base seed of workers that are there already, or None."""

    @abstractmethod
    def prepare(self) -> None:
        """Makes ready for the first call of :meth:`load`."""

    @abstractmethod
    def load(self) -> Any:
        """The next batch; ``StopIteration`` after the last."""

    def skip(self, batches: int) -> None:
        """Makes ready for the batch after the first ``batches``; only a stream loads them again."""
        if not self.loader._iterable:
            advance(self.order, batches)
            self.prepare()
            return
        self.prepare()
        with suppress(StopIteration):
            for _ in range(batches):
                self.load()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            batch = self.load()
        except StopIteration:
            self.position.end()
            raise
        self.position.batches += 1
        told = self.loader._told_length
        if told is not None and self.position.batches > told:
            warnings.warn(
                f"Length of IterableDataset {self.loader.dataset} was reported to be {told} (when "
                f"accessing len(dataloader)), but {self.position.batches} samples have been "
                "fetched. With workers, each must take only its share: see IterableDataset.",
                stacklevel=2,
            )
        return batch

    def __len__(self) -> int:
        return len(self.loader._index_sampler)


class InlineIterator(LoaderIterator):
    """Loads each batch when it is asked for, in the thread that asks."""

    def base_seed(self) -> None:
        return None

    def prepare(self) -> None:
        self.fetcher = plan_of(self.loader, self.position.base_seed).fetcher(self.loader.dataset)

    def load(self) -> Any:
        return self.fetcher.fetch(next(self.order))


class Request(NamedTuple):
    """Whom a batch was asked of, and which samples it is made of."""

    worker: int
    index: Any


class WorkersIterator(LoaderIterator):
    """Has workers load ahead, and gives out the batches in the order of the sampler."""

    def __init__(self, loader: DataLoader[Any], resumed: Position | None) -> None:
        if loader.prefetch_factor == 0:
            raise AssertionError("prefetch_factor must be greater than 0 with workers")
        self.requests: dict[int, Request] = {}  # by number, the oldest first
        self.arrived: dict[int, Answer] = {}
        self.sent = 0
        self.active = set(range(loader.num_workers))  # whose stream of samples has not ended
        self.turns = cycle(range(loader.num_workers))
        super().__init__(loader, resumed)

    def base_seed(self) -> int | None:
        pool = self.loader._pool
        return pool.plan.base_seed if pool is not None and pool.is_free() else None

    def prepare(self) -> None:
        loader, position = self.loader, self.position
        if self.resumed is not None or self.base_seed() is None:
            self.pool = Pool(
                plan_of(loader, position.base_seed),
                loader.multiprocessing_context,
                position.workers,
            )
        else:
            assert loader._pool is not None
            self.pool = loader._pool
        if loader.persistent_workers:
            loader._pool = self.pool
        position.workers = self.pool.streams
        self.epoch = self.pool.begin_epoch(self)
        if not loader._iterable:  # each batch of a resumed epoch goes to the worker it went to
            advance(self.turns, position.batches)
        ahead = PREFETCHED if loader.prefetch_factor is None else loader.prefetch_factor
        for _ in range(ahead * loader.num_workers):
            self.send()

    def load(self) -> Any:
        while self.requests:
            number = self.due()
            if number is None:
                self.receive()
                continue
            answer, worker = self.arrived.pop(number), self.requests.pop(number).worker
            if answer is Ending.EXHAUSTED:
                if worker in self.active:
                    self.active.remove(worker)
                    self.send()
                continue
            self.send()
            if isinstance(answer, Failure):
                raise answer.error()
            self.pool.streams[worker] = answer.streams
            return answer.batch
        if self.loader.persistent_workers:
            self.pool.user = None
        else:
            self.pool.stop()
        raise StopIteration

    def due(self) -> int | None:
        """The number of the batch to give out now, if it is here."""
        oldest = next(iter(self.requests))
        if oldest in self.arrived:
            return oldest
        return None if self.loader.in_order else next(iter(self.arrived), None)

    def receive(self) -> None:
        try:
            task, answer = self.pool.answer(self.loader.timeout or None)
        except queue.Empty:
            worker, index = next(iter(self.requests.values()))
            raise RuntimeError(
                f"DataLoader timed out after {self.loader.timeout} seconds, waiting for worker "
                f"{self.loader.worker_kind} {worker} {batch_place(index)}"
            ) from None
        self.arrived[task.number] = answer

    def send(self) -> None:
        """Asks a worker for the next batch, if there is one of each."""
        for index in self.order:
            worker = self.next_worker()
            if worker is not None:
                self.requests[self.sent] = Request(worker, index)
                self.pool.tasks[worker].put(Task(self.epoch, self.sent, index))
                self.sent += 1
            return

    def next_worker(self) -> int | None:
        if self.loader.in_order:
            turns = islice(self.turns, self.loader.num_workers)
            return next((worker for worker in turns if worker in self.active), None)
        busy = [request.worker for request in self.requests.values()]
        return min(self.active, key=busy.count, default=None)


def advance(iterator: Iterator[Any], steps: int) -> None:
    next(islice(iterator, steps, steps), None)


def plan_of(loader: DataLoader[Any], base_seed: int) -> Plan:
    return Plan(
        dataset=loader.dataset,
        iterable=loader._iterable,
        batched=loader._auto_collation,
        drop_last=loader.drop_last,
        collate=loader.collate_fn,
        init=loader.worker_init_fn,
        num_workers=loader.num_workers,
        base_seed=base_seed,
        kind=loader.worker_kind,
    )


def warn_of_pinning(loader: DataLoader[Any]) -> None:
    if not loader.pin_memory:
        return
    if loader.pin_memory_device:
        warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device, "
            f"ignore pin_memory_device='{loader.pin_memory_device}'.",
        )
    if not accelerator.is_available():
        warn(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned "
            "memory won't be used.",
        )
