"""Datasets and functions for the tests, where worker processes can import them."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.utils.data import Dataset, IterableDataset, get_worker_info


class Pairs(Dataset):
    """Sample ``i`` is a vector of ``i`` and the number ``i``; one sample may misbehave."""

    def __init__(self, length: int = 20, at: int = -1, act: Callable[[], Any] | None = None):
        self.length = length
        self.at = at
        self.act = act

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        if index == self.at and self.act is not None:
            return self.act()
        return rl.full((3,), float(index)), index


class Slow(Pairs):
    """Earlier samples take longer, so that batches arrive in another order than asked for."""

    def __getitem__(self, index: int) -> Any:
        time.sleep((self.length - index) * 2e-4)
        return super().__getitem__(index)


class Workers(Dataset):
    """A sample is what the worker that loads it knows of itself."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        assert info is not None
        return info.id, info.num_workers, info.seed, info.dataset is self, os.getpid()


class Noise(Dataset):
    """Samples that draw from the process's streams, or from those of a worker thread."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        if info is None or info.rng is None:
            return index, float(rl.rand(())), random.random(), np.random.rand()
        own = info.rng
        return (
            index,
            float(rl.rand(())),
            own.random_generator.random(),
            own.numpy_generator.random(),
        )


class Count(IterableDataset):
    """0 to ``stop - 1``, in shares."""

    def __init__(self, stop: int, at: int = -1) -> None:
        self.first, self.stop, self.step = 0, stop, 1
        self.at = at

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        if info is not None:
            self.first, self.step = info.id, info.num_workers
        for i in range(self.first, self.stop, self.step):
            if i == self.at:
                raise ValueError("no such number")
            yield i


class NeedsTwo(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def raise_value_error() -> None:
    raise ValueError("broken sample")


def raise_key_error() -> None:
    raise KeyError("name")


def raise_needs_two() -> None:
    raise NeedsTwo(1, 2)


def stop_iteration() -> None:
    raise StopIteration


def kill_worker() -> None:
    os.kill(os.getpid(), 9)


def hang() -> None:
    time.sleep(60)


def ragged() -> Any:
    return rl.zeros(4), 7


def as_list(samples: list[Any]) -> list[Any]:
    return samples


def local_function() -> Any:
    return (lambda: 0), 7


def numbers(loader: Any) -> list[list[int]]:
    """The second parts of the samples, batch by batch."""
    return [batch[1].tolist() for batch in loader]
