"""Datasets: where samples come from, by number or as a stream."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from rushlight.data.failure import Place, note
from rushlight.ops.base import ops
from rushlight.random import Generator
from rushlight.tensor import Tensor

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by number: a subclass has ``__getitem__`` and, for most samplers, ``__len__``.

    It may have ``__getitems__(indices)`` too, which returns the samples of a batch at once.

    >>> class Squares(rl.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...
    ...     def __getitem__(self, index):
    ...         return index**2
    >>> list(rl.utils.data.DataLoader(Squares(), batch_size=3))
    [tensor([0, 1, 4]), tensor([9])]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Samples as a stream: a subclass has ``__iter__``.

    Each worker of a loader iterates over a copy of its own, so ``__iter__`` should ask
    :func:`get_worker_info` for its share.

    >>> class Count(rl.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         worker = rl.utils.data.get_worker_info()
    ...         first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
    ...         return iter(range(first, 6, step))
    >>> list(rl.utils.data.DataLoader(Count(), batch_size=4))
    [tensor([0, 1, 2, 3]), tensor([4, 5])]
    >>> list(rl.utils.data.DataLoader(Count(), batch_size=2, num_workers=2))
    [tensor([0, 2]), tensor([1, 3]), tensor([4]), tensor([5])]
    """

    def __add__(self, other: Dataset[T_co]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Sample ``i`` is the ``i``-th row of each tensor.

    >>> x, y = rl.arange(6.0).reshape(3, 2), rl.tensor([0, 1, 0])
    >>> rl.utils.data.TensorDataset(x, y)[1]
    (tensor([2., 3.]), tensor(1))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if len({tensor.size(0) for tensor in tensors}) > 1:
            shapes = ", ".join(str(list(tensor.shape)) for tensor in tensors)
            raise AssertionError(f"Size mismatch between tensors: {shapes}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([tensor[index] for tensor in self.tensors])

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Datasets side by side: a sample is a tuple, or a dict if the datasets were named.

    >>> pairs = rl.utils.data.StackDataset([1, 2], ["one", "two"])
    >>> pairs[1]
    (2, 'two')
    >>> rl.utils.data.StackDataset(number=[1, 2], word=["one", "two"])[0]
    {'number': 1, 'word': 'one'}
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like "
                "input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        lengths = [len(dataset) for dataset in self._parts()]
        if len(set(lengths)) > 1:
            raise ValueError(f"Size mismatch between datasets: {lengths}")
        self._length = lengths[0]

    def _parts(self) -> Iterable[Any]:
        return self.datasets.values() if isinstance(self.datasets, dict) else self.datasets

    def _sample(self, parts: Sequence[Any]) -> Any:
        named = isinstance(self.datasets, dict)
        return dict(zip(self.datasets, parts, strict=True)) if named else tuple(parts)

    def __getitem__(self, index: Any) -> Any:
        return self._sample([dataset[index] for dataset in self._parts()])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        columns = [items_of(dataset, indices) for dataset in self._parts()]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(
                    "Nested dataset's output size mismatch. "
                    f"Expected {len(indices)}, got {len(column)}"
                )
        return [self._sample(parts) for parts in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """Datasets one after the other.

    >>> both = rl.utils.data.ConcatDataset([[1, 2], [3]])
    >>> len(both), both[2], both[-3]
    (3, 3, 1)
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> T_co:
        if idx < -len(self):
            raise ValueError("absolute value of index should not exceed dataset length")
        if idx >= len(self):
            raise IndexError(f"index {idx} is out of range for a dataset of length {len(self)}")
        index = idx % len(self)
        part = bisect_right(self.cumulative_sizes, index)
        return self.datasets[part][index - (self.cumulative_sizes[part - 1] if part else 0)]


class ChainDataset(IterableDataset[Any]):
    """Streams one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _streams(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._streams():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._streams())


class Subset(Dataset[T_co]):
    """The samples of a dataset whose numbers are in ``indices``.

    >>> rl.utils.data.Subset("abcdef", [4, 0])[0]
    'e'
    """

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        kind = type(self)
        overridden = kind.__getitem__ is not Subset.__getitem__
        if overridden and kind.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{kind.__name__} overrides __getitem__ but not __getitems__, which the "
                "DataLoader calls. Add\n\n"
                "def __getitems__(self, indices):\n"
                "    return [self[index] for index in indices]"
            )
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        return items_of(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[Any]]:
    """Subsets of random samples that share none.

    Args:
        lengths: how many samples each subset has; or fractions that sum to 1, which are rounded
            down, and what remains goes one by one to the subsets from the first on.

    >>> generator = rl.Generator().manual_seed(0)
    >>> parts = rl.utils.data.random_split(range(10), [0.7, 0.3], generator)
    >>> [list(part) for part in parts]
    [[4, 1, 7, 5, 3, 9, 0], [8, 6, 2]]
    """
    total = len(dataset)
    sizes: Sequence[Any] = lengths
    if math.isclose(sum(sizes), 1) and sum(sizes) <= 1:
        sizes = counts_of(sizes, total)
    if sum(sizes) != total:
        raise ValueError(
            "Sum of input lengths does not equal the length of the input dataset! "
            f"{list(sizes)} sum to {sum(sizes)}, the length is {total}"
        )
    indices = ops.randperm(total, generator=generator).tolist()
    ends = accumulate(sizes)
    return [
        Subset(dataset, indices[end - size : end]) for size, end in zip(sizes, ends, strict=True)
    ]


def counts_of(fractions: Sequence[float], total: int) -> list[int]:
    """How many of ``total`` samples fall to each fraction."""
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    counts = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(counts)):
        counts[i % len(counts)] += 1
    for i, count in enumerate(counts):
        if count == 0:
            warnings.warn(
                f"Length of split at index {i} is 0. This might result in an empty dataset.",
                stacklevel=3,
            )
    return counts


def items_of(dataset: Any, indices: list[Any]) -> Any:
    """The samples of a batch; an error tells the index."""
    at_once = getattr(dataset, "__getitems__", None)
    if at_once is not None:
        return at_once(indices)
    items, index = [], None
    try:
        for index in indices:
            items.append(dataset[index])
    except Exception as error:
        note(error, item_place(dataset, index))
        raise
    return items


def item_place(dataset: Any, index: Any) -> Place:
    try:
        length = f" (length {len(dataset)})"
    except TypeError:
        length = ""
    return Place(f"in item {index!r} of {type(dataset).__name__}{length}")
