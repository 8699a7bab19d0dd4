"""Where a loader is in an epoch, and all that decides what comes next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from rushlight.data.samplers import Sampler, draw_seed
from rushlight.data.streams import State, process_streams
from rushlight.random import Generator
from rushlight.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.data.loader import DataLoader


@dataclass
class Position:
    """How many batches of an epoch were given out, and how the epoch began.

    The order of an epoch is not kept but made again: from the same positions of the generators
    the samplers yield the same indices.
    """

    batches: int
    length: int | None  # of the epoch, to notice another dataset or batch size
    generators: list[Tensor]  # of the loader and its samplers, when the epoch began
    streams: State | None  # of the process, when the epoch began; None between epochs
    base_seed: int = 0
    seed_follows: bool = False  # whether the base seed was drawn after the sampler was asked
    worker_kind: str = "none"
    num_workers: int = 0
    workers: dict[int, State] = field(default_factory=dict)  # their streams after those batches

    @classmethod
    def of(cls, loader: DataLoader[Any]) -> Position:
        """That of a loader between two epochs."""
        states = [generator.get_state() for generator in generators_of(loader)]
        return cls(0, length_of(loader), states, None)

    def end(self) -> None:
        """The epoch is over: there is no position in it any more."""
        self.streams = None

    def hand_over(self, loader: DataLoader[Any]) -> None:
        """Makes it one of ``loader``: other workers do not take over these workers' streams.

        A stream of samples is read again from its beginning, and its random numbers with it.
        """
        same = (self.worker_kind, self.num_workers) == (loader.worker_kind, loader.num_workers)
        if not same or loader._iterable:
            self.workers = {}
        self.worker_kind, self.num_workers = loader.worker_kind, loader.num_workers

    def state_dict(self) -> dict[str, Any]:
        return {**vars(self), "workers": dict(self.workers)}

    @classmethod
    def from_state_dict(cls, state: dict[str, Any], loader: DataLoader[Any]) -> Position:
        """The position in ``state``; ``ValueError`` if it cannot be one of ``loader``."""
        names = {f.name for f in fields(cls)}
        if not isinstance(state, dict) or set(state) != names:
            given = sorted(state) if isinstance(state, dict) else type(state).__name__
            raise ValueError(f"a DataLoader's state has the keys {sorted(names)}, but got {given}")
        position = cls(**state)
        position.workers = {int(number): kept for number, kept in position.workers.items()}
        then = (position.length, len(position.generators))
        here = (length_of(loader), len(generators_of(loader)))
        if then != here:
            raise ValueError(
                f"this state is of a DataLoader with {then[0]} batches an epoch and {then[1]} "
                f"generators, but this one has {here[0]} and {here[1]}: dataset, batch_size, "
                "drop_last and samplers must be the same"
            )
        another_count = position.num_workers != loader.num_workers
        if loader._iterable and position.streams is not None and another_count:
            raise ValueError(
                f"this state is of a DataLoader with num_workers={position.num_workers}, but this "
                f"one has {loader.num_workers}: an IterableDataset can only be resumed with the "
                "same number, since each worker has its own share of the stream"
            )
        return position


def begin(loader: DataLoader[Any], base_seed: int | None) -> tuple[Iterator[Any], Position]:
    """The order of a new epoch, and its beginning: every draw is made where PyTorch makes it.

    Args:
        base_seed: that of the workers, if they are there already.
    """
    sampler = loader._index_sampler
    if loader.num_workers and base_seed is None:
        iter(sampler)  # PyTorch asks twice, and a sampler may draw when it is asked
        base_seed = draw_seed(loader.generator)
    position = Position.of(loader)
    position.streams = process_streams.state()
    position.hand_over(loader)
    order = iter(sampler)
    position.seed_follows = base_seed is None
    position.base_seed = draw_seed(loader.generator) if base_seed is None else base_seed
    return order, position


def begin_again(loader: DataLoader[Any], position: Position) -> Iterator[Any]:
    """The order of the epoch that ``position`` is in, from its beginning.

    The process's streams must be where they were then; the other generators are set here.
    """
    restore_generators(loader, position)
    position.hand_over(loader)
    order = iter(loader._index_sampler)
    if position.seed_follows:
        draw_seed(loader.generator)
    return order


def restore_generators(loader: DataLoader[Any], position: Position) -> None:
    for generator, state in zip(generators_of(loader), position.generators, strict=True):
        generator.set_state(state)


def generators_of(loader: DataLoader[Any]) -> list[Generator]:
    """The generators that a loader and its samplers hold, each once, always in the same order."""
    holders: list[Any] = [loader.batch_sampler, loader.sampler]
    found = [] if loader.generator is None else [loader.generator]
    for holder in holders:  # which grows
        for value in getattr(holder, "__dict__", {}).values():
            if isinstance(value, Generator) and not any(value is known for known in found):
                found.append(value)
            elif isinstance(value, Sampler) and not any(value is known for known in holders):
                holders.append(value)
    return found


def length_of(loader: DataLoader[Any]) -> int | None:
    try:
        return len(loader._index_sampler)
    except (TypeError, NotImplementedError):
        return None
