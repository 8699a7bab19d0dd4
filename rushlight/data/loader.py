"""DataLoader: batches of a dataset, in an order, loaded here or by workers."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

from rushlight.data.collate import default_collate, default_convert
from rushlight.data.datasets import IterableDataset
from rushlight.data.iterator import PREFETCHED, InlineIterator, LoaderIterator, WorkersIterator
from rushlight.data.pool import Pool
from rushlight.data.samplers import BatchSampler, EndlessSampler, RandomSampler, SequentialSampler
from rushlight.data.state import Position, restore_generators
from rushlight.errors import kind
from rushlight.random import Generator

T_co = TypeVar("T_co", covariant=True)
WORKER_KINDS = ("thread", "process")
FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader(Generic[T_co]):
    """The batches of a dataset; iterating over it is one epoch.

    The same seed gives the same order as in PyTorch, whatever the number and kind of workers.
    Workers are threads, which start at once and share memory; a dataset that computes much in
    Python gains from ``worker_kind="process"``.

    Args:
        dataset: something with ``__getitem__`` and ``__len__``, or an :class:`IterableDataset`.
        batch_size: samples in a batch; None for single samples.
        shuffle: whether every epoch has another random order.
        sampler: yields the indices, instead of ``shuffle``.
        batch_sampler: yields lists of indices, instead of ``batch_size``, ``shuffle``,
            ``sampler`` and ``drop_last``.
        num_workers: how many workers load ahead; 0 loads in the calling thread.
        collate_fn: makes a batch of a list of samples, by default :func:`default_collate`.
        pin_memory: for accelerators, of which there is none.
        drop_last: whether to leave out a last batch that is smaller.
        timeout: seconds to wait for a batch of a worker; 0 waits for ever.
        worker_init_fn: called in each worker with its number before it loads.
        multiprocessing_context: how worker processes start, by default ``"spawn"``.
        generator: what the order and the workers' seeds are drawn from.
        prefetch_factor: how many batches each worker loads ahead, by default 2.
        persistent_workers: whether the workers stay for the next epoch.
        in_order: False gives out batches as workers finish them.
        worker_kind: ``"thread"`` or ``"process"``; the latter is the default if a
            ``multiprocessing_context`` is given.

    Example::

        >>> from rushlight.utils.data import DataLoader, TensorDataset
        >>> _ = rl.manual_seed(0)
        >>> dataset = TensorDataset(rl.arange(5.0), rl.tensor([0, 1, 0, 1, 0]))
        >>> for x, label in DataLoader(dataset, batch_size=2, shuffle=True, num_workers=2):
        ...     print(x, label)
        tensor([1., 4.]) tensor([1, 0])
        tensor([2., 3.]) tensor([0, 1])
        tensor([0.]) tensor([0])

    Training resumes in the middle of an epoch from ``state_dict()``::

        >>> loader = DataLoader(range(6), batch_size=2, shuffle=True)
        >>> batches = iter(loader)
        >>> first, state = next(batches), loader.state_dict()
        >>> another = DataLoader(range(6), batch_size=2, shuffle=True, num_workers=1)
        >>> another.load_state_dict(state)
        >>> [x.tolist() for x in another] == [x.tolist() for x in batches]
        True
    """

    _pool: Pool | None = None  # persistent workers
    _position: Position | None = None  # in the epoch that was begun last
    _resumed: Position | None = None  # where the next epoch is to begin
    _told_length: int | None = None  # what the length of a stream was said to be
    _initialized = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        worker_kind: str | None = None,
    ) -> None:
        check_workers(num_workers, timeout, prefetch_factor, persistent_workers, worker_kind)
        if generator is not None and not isinstance(generator, Generator):
            raise TypeError(f"generator should be a Generator or None, got {kind(generator)}")
        iterable = isinstance(dataset, IterableDataset)
        if iterable:
            check_stream(shuffle, sampler, batch_sampler)
        check_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if num_workers and prefetch_factor is None:
            prefetch_factor = PREFETCHED
        self.dataset = dataset
        self._iterable = iterable
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.worker_kind = worker_kind or ("process" if multiprocessing_context else "thread")
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.generator = generator
        self.persistent_workers = persistent_workers
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None:
            if iterable:
                sampler = EndlessSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self._initialized = True
        self.check_worker_number_rationality()

    @property
    def multiprocessing_context(self) -> BaseContext | None:
        """How worker processes are started; None means ``spawn``."""
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: str | BaseContext | None) -> None:
        if context is not None and self.num_workers == 0:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading "
                f"(num_workers > 0), but got num_workers={self.num_workers}"
            )
        if context is not None and self.worker_kind == "thread":
            raise ValueError("multiprocessing_context needs worker_kind='process', not 'thread'")
        if isinstance(context, str):
            if context not in get_all_start_methods():
                raise ValueError(
                    "multiprocessing_context option should specify a valid start method in "
                    f"{get_all_start_methods()!r}, but got multiprocessing_context={context!r}"
                )
            context = get_context(context)
        if not isinstance(context, BaseContext | None):
            raise TypeError(
                "multiprocessing_context option should be a valid context object or a string "
                f"specifying the start method, but got multiprocessing_context={context}"
            )
        self._multiprocessing_context = context

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_pool": None}  # a copy has workers of its own

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> LoaderIterator:
        if self.num_workers == 0 and self.timeout:
            raise AssertionError(f"timeout={self.timeout} needs num_workers > 0")
        self.check_worker_number_rationality()
        kind = WorkersIterator if self.num_workers else InlineIterator
        iterator = kind(self, self._resumed)
        self._position, self._resumed = iterator.position, None
        return iterator

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)
        length = self._told_length = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else math.ceil(length / self.batch_size)

    def state_dict(self) -> dict[str, Any]:
        """The position in the epoch that was begun last, as numbers, strings and tensors.

        The batches that were given out count, not those that workers loaded ahead. The state of
        the default generator is not part of it: see :func:`rl.get_rng_state`.
        """
        position = self._resumed or self._position
        if position is None or position.streams is None:
            position = Position.of(self)
        return position.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The next iteration goes on after the batches that were given out at ``state_dict()``.

        The number and the kind of workers may be others. Samples that draw random numbers in
        workers are the same if these are, too.
        """
        position = Position.from_state_dict(state_dict, self)
        self._resumed = self._position = None
        if position.streams is None:
            restore_generators(self, position)
        else:
            self._resumed = position

    def check_worker_number_rationality(self) -> None:
        """Warns of more worker processes than the machine has cores."""
        cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
        if self.worker_kind == "process" and self.num_workers > (cores or 1):
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our "
                f"suggested max number of worker in current system is {cores}, which is smaller "
                "than what this DataLoader is going to create. Please be aware that excessive "
                "worker creation might get DataLoader running slow or even freeze, lower the "
                "worker number to avoid potential slowness/freeze if necessary.",
                stacklevel=3,
            )


def check_workers(
    num_workers: int,
    timeout: float,
    prefetch_factor: int | None,
    persistent_workers: bool,
    worker_kind: str | None,
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable "
            f"multiprocessing. Got num_workers={num_workers}"
        )
    if timeout < 0:
        raise ValueError(f"timeout option should be non-negative, got timeout={timeout}")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing. let num_workers > "
            "0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if worker_kind not in (None, *WORKER_KINDS):
        raise ValueError(f"worker_kind should be one of {WORKER_KINDS}, got {worker_kind!r}")


def check_stream(shuffle: bool | None, sampler: Any, batch_sampler: Any) -> None:
    """Refuses an order of an ``IterableDataset``, which has its own."""
    given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                f"{name}={value}"
            )


def check_order(
    batch_size: int | None,
    shuffle: bool | None,
    sampler: Any,
    batch_sampler: Any,
    drop_last: bool,
) -> None:
    """Refuses arguments that exclude each other."""
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                "drop_last"
            )
    elif batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )
