"""One seed, one order: batches and random streams of the loader equal PyTorch's."""

from __future__ import annotations

import random
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import rushlight as rl
import rushlight.utils.data

torch = pytest.importorskip("torch")
ours, theirs = rl.utils.data, torch.utils.data
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on few cores

Make = Callable[[ModuleType, ModuleType], list[Any]]
Point = namedtuple("Point", "x y")


def plain(value: Any) -> Any:
    """Tensors as dtype, shape and numbers; containers by class."""
    if isinstance(value, (rl.Tensor, torch.Tensor)):
        return str(value.dtype).rpartition(".")[2], tuple(value.shape), value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(v) for v in value]
    return value


def epochs(lib: ModuleType, data: ModuleType, make: Make) -> Any:
    """What two epochs of each loader yield, and where the random streams are afterwards."""
    lib.manual_seed(3)
    random.seed(3)
    batches = [[plain(b) for b in loader] for loader in make(lib, data) for _ in range(2)]
    return batches, lib.get_rng_state().tolist(), random.random()


def tensors(lib: ModuleType, data: ModuleType) -> Any:
    return data.TensorDataset(lib.arange(46.0).reshape(23, 2), lib.arange(23))


def batch_sampler(lib: ModuleType, data: ModuleType, by: str) -> Any:
    """A sampler that draws as soon as it is asked."""

    class Shuffled(data.Sampler):
        def __iter__(self) -> Iterator[list[int]]:
            order = list(range(23))
            if by == "python":
                random.shuffle(order)
            else:
                order = lib.randperm(23).tolist()
            return iter([order[:11], order[11:]])

    return Shuffled()


SAMPLERS: dict[str, Callable[[ModuleType, ModuleType], Any]] = {
    "random": lambda lib, data: data.RandomSampler(range(23)),
    "some": lambda lib, data: data.RandomSampler(range(23), num_samples=9),
    "several times": lambda lib, data: data.RandomSampler(range(23), num_samples=60),
    "replacement": lambda lib, data: data.RandomSampler(range(23), True, 77),
    "generator": lambda lib, data: data.RandomSampler(
        range(23), generator=lib.Generator().manual_seed(8)
    ),
    "replacement, generator": lambda lib, data: data.RandomSampler(
        range(23), True, 70, lib.Generator().manual_seed(8)
    ),
    "subset": lambda lib, data: data.SubsetRandomSampler([3, 1, 4, 15, 9, 2, 6, 5]),
    "weighted": lambda lib, data: data.WeightedRandomSampler(range(1, 24), 50),
    "weighted, once": lambda lib, data: data.WeightedRandomSampler(range(1, 24), 23, False),
    "distributed": lambda lib, data: data.DistributedSampler(range(23), 3, 1, seed=5),
}

LOADERS: dict[str, Make] = {
    "plain": lambda lib, data: [data.DataLoader(tensors(lib, data), 4)],
    "shuffle": lambda lib, data: [data.DataLoader(tensors(lib, data), 4, True)],
    "drop last": lambda lib, data: [data.DataLoader(tensors(lib, data), 4, True, drop_last=True)],
    "single": lambda lib, data: [data.DataLoader(tensors(lib, data), None, True)],
    "a tensor": lambda lib, data: [data.DataLoader(lib.arange(9), 2, True)],
    "generator": lambda lib, data: [
        data.DataLoader(range(23), 4, True, generator=lib.Generator().manual_seed(1))
    ],
    "python": lambda lib, data: [
        data.DataLoader(range(23), batch_sampler=batch_sampler(lib, data, "python"))
    ],
    "eager": lambda lib, data: [
        data.DataLoader(range(23), batch_sampler=batch_sampler(lib, data, "torch"))
    ],
    "lengths": lambda lib, data: [
        data.DataLoader(part, 3, True) for part in data.random_split(tensors(lib, data), [10, 8, 5])
    ],
    "fractions": lambda lib, data: [
        data.DataLoader(part, 3, True)
        for part in data.random_split(range(23), [0.5, 0.3, 0.2], lib.Generator().manual_seed(2))
    ],
    "several at once": lambda lib, data: list(
        zip(data.DataLoader(range(9), 2, True), data.DataLoader(range(9), 3, True), strict=False)
    ),
}

WORKERS: dict[str, Make] = {
    "shuffle": lambda lib, data: [
        data.DataLoader(tensors(lib, data), 4, True, num_workers=2),
        data.DataLoader(tensors(lib, data), 4, True, num_workers=2, persistent_workers=True),
    ],
    "generator": lambda lib, data: [
        data.DataLoader(range(23), 4, True, num_workers=w, generator=g)
        for g in [lib.Generator().manual_seed(1)]
        for w in (1, 2)
    ],
    "asked": lambda lib, data: [
        data.DataLoader(range(23), batch_sampler=batch_sampler(lib, data, by), num_workers=1)
        for by in ("python", "torch")
    ],
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers(name: str) -> None:
    def make(lib: ModuleType, data: ModuleType) -> list[Any]:
        sampler = SAMPLERS[name](lib, data)
        return [sampler, data.DataLoader(range(23), 4, sampler=sampler)]

    assert epochs(rl, ours, make) == epochs(torch, theirs, make)


@pytest.mark.parametrize("make", LOADERS.values(), ids=LOADERS)
def test_loaders(make: Make) -> None:
    assert epochs(rl, ours, make) == epochs(torch, theirs, make)


@pytest.mark.parametrize("make", WORKERS.values(), ids=WORKERS)
def test_workers(make: Make) -> None:
    assert epochs(rl, ours, make) == epochs(torch, theirs, make)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [None, 1, 3])
def test_streams(workers: int, batch_size: int | None) -> None:
    def make(lib: ModuleType, data: ModuleType) -> list[Any]:
        class Uneven(data.IterableDataset):
            """The workers have streams of different lengths."""

            def __iter__(self) -> Iterator[int]:
                number = data.get_worker_info().id
                return iter(range(100 * number, 100 * number + 2 + 4 * number))

        return [data.DataLoader(Uneven(), batch_size, num_workers=workers)]

    assert epochs(rl, ours, make) == epochs(torch, theirs, make)


class Noise(ours.Dataset):
    """Draws from all three streams of the process."""

    lib: ModuleType = rl

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return self.lib.rand(2).tolist(), random.random(), np.random.rand(3).tolist()


class TorchNoise(Noise):
    lib = torch


def test_random_stream_of_worker_threads() -> None:
    class Draws(Noise):
        def __getitem__(self, index: int) -> Any:
            return self.lib.rand(2).tolist(), self.lib.initial_seed()

    drawn = []
    for lib, data in ((rl, ours), (torch, theirs)):
        Draws.lib = lib
        lib.manual_seed(4)
        drawn.append(list(data.DataLoader(Draws(), None, num_workers=2)))
    assert drawn[0] == drawn[1]


def test_random_streams_of_worker_processes() -> None:
    drawn = []
    for lib, data, dataset in ((rl, ours, Noise()), (torch, theirs, TorchNoise())):
        lib.manual_seed(4)
        loader = data.DataLoader(
            dataset, None, num_workers=2, multiprocessing_context="fork", prefetch_factor=1
        )
        drawn.append(list(loader))
    assert drawn[0] == drawn[1]


SAMPLES: dict[str, Callable[[ModuleType], Any]] = {
    "tensors": lambda lib: lib.ones(2, 3),
    "scalars": lambda lib: lib.tensor(3),
    "numbers": lambda lib: (1, 2.5, True),
    "numpy": lambda lib: (np.ones(2, np.float32), np.float64(2), np.int16(3), np.bool_(True)),
    "text": lambda lib: ("a", b"b"),
    "dict": lambda lib: {"a": 1, "b": {"c": (lib.zeros(1), "s")}},
    "ordered": lambda lib: OrderedDict(z=1, a=[1, 2]),
    "named": lambda lib: Point(lib.ones(1), [2.0, {"k": 3}]),
    "range": lambda lib: range(3),
}


@pytest.mark.parametrize("make", SAMPLES.values(), ids=SAMPLES)
def test_collate_and_convert(make: Callable[[ModuleType], Any]) -> None:
    mine, other = make(rl), make(torch)
    assert plain(ours.default_collate([mine, mine])) == plain(theirs.default_collate([other] * 2))
    assert plain(ours.default_convert(mine)) == plain(theirs.default_convert(other))


class Stream(ours.IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


class TorchStream(theirs.IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


REFUSED: dict[str, Callable[[ModuleType, ModuleType], Any]] = {
    "batch_size": lambda lib, data: data.DataLoader([1], 0),
    "workers": lambda lib, data: data.DataLoader([1], num_workers=-1),
    "timeout": lambda lib, data: data.DataLoader([1], timeout=-1),
    "prefetch": lambda lib, data: data.DataLoader([1], prefetch_factor=2),
    "persistent": lambda lib, data: data.DataLoader([1], persistent_workers=True),
    "sampler": lambda lib, data: data.DataLoader([1], sampler=[0], shuffle=True),
    "batch_sampler": lambda lib, data: data.DataLoader([1], 2, batch_sampler=[[0]]),
    "drop_last": lambda lib, data: data.DataLoader([1], None, drop_last=True),
    "context": lambda lib, data: data.DataLoader([1], multiprocessing_context="spawn"),
    "no context": lambda lib, data: data.DataLoader([1], num_workers=1, multiprocessing_context=3),
    "inline timeout": lambda lib, data: iter(data.DataLoader([1], timeout=1)),
    "empty": lambda lib, data: data.DataLoader([], shuffle=True),
    "fixed": lambda lib, data: setattr(data.DataLoader([1]), "sampler", None),
    "stream": lambda lib, data: data.DataLoader(
        (Stream if lib is rl else TorchStream)(), shuffle=True
    ),
    "ragged": lambda lib, data: data.default_collate([lib.ones(2), lib.ones(3)]),
    "uneven": lambda lib, data: data.default_collate([[1], [1, 2]]),
    "nothing": lambda lib, data: data.default_collate([None]),
    "sizes": lambda lib, data: data.TensorDataset(lib.ones(2), lib.ones(3)),
    "split": lambda lib, data: data.random_split([1, 2], [1, 2]),
    "rank": lambda lib, data: data.DistributedSampler([1], 2, 2),
    "no rank": lambda lib, data: data.DistributedSampler([1]),
    "concat": lambda lib, data: data.ConcatDataset([]),
    "weights": lambda lib, data: data.WeightedRandomSampler([[1.0]], 1),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_errors_have_the_same_class(call: Callable[[ModuleType, ModuleType], Any]) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 - whatever PyTorch raises
        call(torch, theirs)
    with pytest.raises(type(expected.value)):
        call(rl, ours)
