"""From the indices of a batch to the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.data.collate import collate_tensor_fn, default_collate, default_collate_fn_map
from rushlight.data.datasets import Subset, TensorDataset, item_place, items_of
from rushlight.data.failure import Place, note, place_of
from rushlight.tensor import Tensor, wrap

SHOWN = 12  # indices that a message lists
Collate = Callable[[Any], Any]


class MapFetcher:
    """Loads the samples of a dataset that has ``__getitem__``."""

    def __init__(self, dataset: Any, collate: Collate, batched: bool) -> None:
        self.dataset = dataset
        self.collate = collate
        self.batched = batched
        stacks = collate is default_collate
        stacks = stacks and default_collate_fn_map.get(Tensor) is collate_tensor_fn
        self.gather = gatherer(dataset) if stacks and batched else None

    def fetch(self, index: Any) -> Any:
        """The batch of a list of indices, or the sample of one index."""
        try:
            if not self.batched:
                return self.collate(self.dataset[index])
            batch = None if self.gather is None else self.gather(index)
            return self.collate(items_of(self.dataset, index)) if batch is None else batch
        except StopIteration as error:  # it would end the epoch unnoticed
            note(error, self.place(index))
            raise RuntimeError(f"StopIteration was raised {place_of(error)}") from error
        except BaseException as error:
            note(error, self.place(index))
            raise

    def place(self, index: Any) -> Place:
        return batch_place(index) if self.batched else item_place(self.dataset, index)


class IterableFetcher:
    """Takes the samples of a dataset that has ``__iter__`` as they come."""

    def __init__(self, dataset: Any, collate: Collate, batched: bool, drop_last: bool) -> None:
        self.dataset = dataset
        self.samples = iter(dataset)
        self.collate = collate
        self.batched = batched
        self.drop_last = drop_last
        self.taken = 0
        self.ended = False

    def fetch(self, index: Any) -> Any:
        """The next batch, as long as ``index``, or sample; ``StopIteration`` if there is none."""
        if not self.batched:
            return self.collate(self.take())
        batch: list[Any] = []
        while len(batch) < len(index) and not self.ended:
            try:
                batch.append(self.take())
            except StopIteration:
                self.ended = True
        if not batch or (self.drop_last and len(batch) < len(index)):
            raise StopIteration
        try:
            return self.collate(batch)
        except Exception as error:
            note(error, batch_place(range(self.taken - len(batch), self.taken)))
            raise

    def take(self) -> Any:
        try:
            sample = next(self.samples)
        except StopIteration:
            raise
        except Exception as error:
            note(error, item_place(self.dataset, self.taken))
            raise
        self.taken += 1
        return sample


def gatherer(dataset: Any) -> Callable[[list[Any]], Any] | None:
    """How a batch is taken from tensors at once, collated; None if samples must be loaded singly.

    The function returns None for indices that are not plain numbers.
    """
    kind = type(dataset)
    if kind is Subset:
        inner, indices = gatherer(dataset.dataset), dataset.indices
        return inner and (lambda chosen: inner([indices[i] for i in chosen]))
    if issubclass(kind, TensorDataset) and kind.__getitem__ is TensorDataset.__getitem__:
        if getattr(kind, "__getitems__", None) is None:
            return lambda chosen: rows(dataset.tensors, chosen)
    return None


def rows(tensors: Sequence[Tensor], chosen: list[Any]) -> list[Tensor] | None:
    positions = np.array(chosen)
    if positions.dtype != np.int64:
        return None
    index = wrap(positions)
    return [tensor[index] for tensor in tensors]


def batch_place(index: Any) -> Place:
    if not isinstance(index, (list, tuple, range)):
        return Place(f"in item {index!r}")
    shown = ", ".join([repr(i) for i in index[:SHOWN]])
    return Place(f"in the batch of items {shown}{', …' if len(index) > SHOWN else ''}")
