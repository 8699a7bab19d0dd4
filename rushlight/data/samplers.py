"""Samplers: the order in which samples are taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice, repeat
from typing import Any, Generic, TypeVar

from rushlight import dtypes
from rushlight.literals import as_tensor
from rushlight.ops.base import ops
from rushlight.random import Generator
from rushlight.tensor import Tensor

T_co = TypeVar("T_co", covariant=True)
DRAWN_AT_ONCE = 32  # with replacement; PyTorch's number, so that one seed gives one order


def length(data: Sized) -> int:
    """``len(data)``, with a cure where there is none.

    >>> length(x for x in "abc")
    Traceback (most recent call last):
    TypeError: object of type 'generator' has no len(): ...
    """
    if not isinstance(data, Sized):
        raise TypeError(
            f"object of type '{type(data).__name__}' has no len(): a dataset of samples by index "
            "needs __len__, one that is only iterated is an IterableDataset"
        )
    return len(data)


def draw_seed(generator: Generator | None) -> int:
    """A seed for another generator, drawn as PyTorch draws it."""
    return int(ops.empty((), dtype=dtypes.int64).random_(generator=generator).item())


def positive(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


class Sampler(Generic[T_co]):
    """An order: a subclass has ``__iter__``, which yields indices or lists of them.

    ``__len__`` may be left out; ``len`` of the loader then does not work.
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of Sampler should implement __iter__.")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, … up to the length of ``data_source``.

    >>> list(rl.utils.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(length(self.data_source)))

    def __len__(self) -> int:
        return length(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order, or random indices.

    Args:
        replacement: whether each index is drawn from all; otherwise each comes once before any
            comes again.
        num_samples: how many to draw; by default as many as ``data_source`` has.
        generator: what to draw from; by default one of its own, seeded from the default one.

    >>> _ = rl.manual_seed(0)
    >>> list(rl.utils.data.RandomSampler(range(5)))
    [1, 3, 4, 2, 0]
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        positive("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many indices an iteration yields; the length of the data may change."""
        return length(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, count = length(self.data_source), self.num_samples
        generator = self.generator
        if generator is None:
            generator = Generator()
            generator.manual_seed(draw_seed(None))
        chunk = DRAWN_AT_ONCE if self.replacement else n
        for start in range(0, count - count % chunk + 1, chunk):
            size = min(chunk, count - start)
            if self.replacement:
                yield from ops.randint(n, (size,), generator=generator).tolist()
            else:
                yield from ops.randperm(n, generator=generator).tolist()[:size]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order.

    >>> _ = rl.manual_seed(0)
    >>> list(rl.utils.data.SubsetRandomSampler([10, 20, 30]))
    [30, 10, 20]
    """

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in ops.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Random indices, each with a probability in proportion to its weight.

    >>> _ = rl.manual_seed(0)
    >>> list(rl.utils.data.WeightedRandomSampler([0.0, 1.0, 1.0], 4))
    [2, 2, 1, 2]
    """

    weights: Tensor
    num_samples: int
    replacement: bool

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        positive("num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        self.weights = as_tensor(weights, dtype=dtypes.float64)
        if self.weights.ndim != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = self.weights.multinomial(
            self.num_samples, self.replacement, generator=self.generator
        )
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The indices of another sampler in lists of ``batch_size``.

    >>> list(rl.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    >>> list(rl.utils.data.BatchSampler(range(5), batch_size=2, drop_last=True))
    [[0, 1], [2, 3]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        positive("batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices, shortest = iter(self.sampler), self.batch_size if self.drop_last else 1
        while len(batch := list(islice(indices, self.batch_size))) >= shortest:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return (count if self.drop_last else count + self.batch_size - 1) // self.batch_size


class EndlessSampler(Sampler[None]):
    """Requests for samples of a stream, which have no number and no known end."""

    def __iter__(self) -> Iterator[None]:
        return repeat(None)
