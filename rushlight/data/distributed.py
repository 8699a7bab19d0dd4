"""The share of each process in an order that all of them know."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sized

from rushlight.data.samplers import Sampler
from rushlight.ops.base import ops
from rushlight.random import Generator


class DistributedSampler(Sampler[int]):
    """Every ``num_replicas``-th index, from ``rank`` on, of an order that all processes share.

    Call :meth:`set_epoch` before each epoch, or every epoch has the same order.

    Args:
        num_replicas: how many processes there are; by default the environment's ``WORLD_SIZE``.
        rank: the number of this process; by default the environment's ``RANK``.
        drop_last: whether all leave out what does not divide evenly; otherwise the first indices
            come again.

    >>> sampler = rl.utils.data.DistributedSampler(range(7), num_replicas=2, rank=0, shuffle=False)
    >>> list(sampler)
    [0, 2, 4, 6]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.dataset = dataset
        self.num_replicas = from_environment("WORLD_SIZE") if num_replicas is None else num_replicas
        self.rank = from_environment("RANK") if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(
                f"Invalid rank {self.rank}, rank should be in the interval "
                f"[0, {self.num_replicas - 1}]"
            )
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        self.epoch = 0
        share = len(dataset) / self.num_replicas
        self.num_samples = math.floor(share) if drop_last else math.ceil(share)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            order = ops.randperm(count, generator=generator).tolist()
        else:
            order = list(range(count))
        if self.total_size > count:
            order *= math.ceil(self.total_size / count)
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Another number gives another order; all processes must set the same."""
        self.epoch = epoch


def from_environment(name: str) -> int:
    if name not in os.environ:
        raise ValueError(
            "Default process group has not been initialized: give num_replicas and rank to "
            f"DistributedSampler, or set the environment variable {name}"
        )
    return int(os.environ[name])
