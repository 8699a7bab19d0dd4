"""An epoch that is broken off and resumed equals one that is not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

import rushlight as rl
from rushlight.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from tests.data_loading.samples import Count, Noise, Pairs, Slow, as_list, numbers

LENGTH = 23


class Shuffled(Sampler[list[int]]):
    """Draws when it is asked, and from Python's generator, as samplers of programs do."""

    def __iter__(self) -> Iterator[list[int]]:
        order = list(range(LENGTH))
        random.shuffle(order)
        return iter([order[i : i + 4] for i in range(0, LENGTH, 4)])

    def __len__(self) -> int:
        return -(-LENGTH // 4)


def generator() -> rl.Generator:
    return rl.Generator().manual_seed(11)


ORDERS: dict[str, Callable[[], dict[str, Any]]] = {
    "sequential": lambda: {"batch_size": 4},
    "shuffled": lambda: {"batch_size": 4, "shuffle": True},
    "drop last": lambda: {"batch_size": 4, "shuffle": True, "drop_last": True},
    "generator": lambda: {"batch_size": 4, "shuffle": True, "generator": generator()},
    "replacement": lambda: {"batch_size": 4, "sampler": RandomSampler(range(LENGTH), True, 40)},
    "own generator": lambda: {
        "batch_size": 4,
        "sampler": RandomSampler(range(LENGTH), True, 70, generator=generator()),
    },
    "weighted": lambda: {"batch_size": 4, "sampler": WeightedRandomSampler(range(1, 24), 30)},
    "subset": lambda: {"batch_size": 4, "sampler": SubsetRandomSampler(range(3, 20), generator())},
    "batches": lambda: {"batch_sampler": BatchSampler(RandomSampler(range(LENGTH)), 3, False)},
    "python": lambda: {"batch_sampler": Shuffled()},
    "distributed": lambda: {"batch_size": 2, "sampler": DistributedSampler(range(LENGTH), 2, 1)},
    "single": lambda: {"batch_size": None, "shuffle": True},
}


def values(batches: Any) -> list[Any]:
    return [x[1].tolist() if isinstance(x[1], rl.Tensor) else x[1] for x in batches]


@pytest.mark.parametrize(("before", "after"), [(0, 0), (0, 2), (2, 0), (2, 3)])
@pytest.mark.parametrize("order", ORDERS)
def test_resumed_in_the_middle(order: str, before: int, after: int) -> None:
    rl.manual_seed(2)
    random.seed(2)
    loader = DataLoader(Pairs(LENGTH), num_workers=before, **ORDERS[order]())
    values(loader)
    batches = iter(loader)
    values(islice(batches, 3))
    state, stream = loader.state_dict(), rl.get_rng_state()
    rest = values(batches)
    python = random.getstate()
    following, end = values(loader), rl.get_rng_state()

    rl.manual_seed(99)
    resumed = DataLoader(Pairs(LENGTH), num_workers=after, **ORDERS[order]())
    resumed.load_state_dict(state)
    rl.set_rng_state(stream)
    assert values(resumed) == rest
    random.setstate(python)
    if order != "python" or bool(before) == bool(after):  # PyTorch asks twice with workers
        assert values(resumed) == following
        assert rl.get_rng_state().equal(end)


def test_a_resumed_epoch_draws_nothing_from_the_default_generator() -> None:
    loader = DataLoader(Pairs(), batch_size=4, shuffle=True)
    next(iter(loader))
    resumed = DataLoader(Pairs(), batch_size=4, shuffle=True, num_workers=1)
    resumed.load_state_dict(loader.state_dict())
    before = rl.get_rng_state()
    assert len(list(resumed)) == 4
    assert rl.get_rng_state().equal(before)


def test_what_was_loaded_ahead_does_not_count() -> None:
    loader = DataLoader(Slow(), batch_size=2, num_workers=2, prefetch_factor=3)
    for batch in loader:
        if batch[1][0] == 4:
            break
    state = loader.state_dict()
    assert state["batches"] == 3
    assert len(numbers(loader)) == 10  # only load_state_dict changes where an epoch begins
    loader.load_state_dict(state)
    assert loader.state_dict() == state
    assert numbers(loader)[0] == [6, 7]
    assert len(numbers(loader)) == 10


def test_resumed_twice_and_resumed_after_the_last_batch() -> None:
    state, seen = None, []
    for _ in range(4):
        loader = DataLoader(Pairs(8), batch_size=2, shuffle=True)
        if state is None:
            rl.manual_seed(0)
            expected = numbers(DataLoader(Pairs(8), batch_size=2, shuffle=True))
            rl.manual_seed(0)
        else:
            loader.load_state_dict(state)
        seen += [next(iter(loader))[1].tolist()]
        state = loader.state_dict()
    assert seen == expected
    loader = DataLoader(Pairs(8), batch_size=2, shuffle=True)
    loader.load_state_dict(state)
    assert list(loader) == []
    assert len(list(loader)) == 4


def test_between_epochs_the_generators_are_the_state() -> None:
    def loader() -> DataLoader[Any]:
        return DataLoader(Pairs(), shuffle=True, generator=generator(), num_workers=1)

    one = loader()
    numbers(one)
    state = one.state_dict()
    expected = numbers(one)
    another = loader()
    another.load_state_dict(state)
    assert numbers(another) == expected


@pytest.mark.parametrize("persistent", [False, True])
def test_random_samples_of_worker_threads_are_resumed_too(persistent: bool) -> None:
    def loader() -> DataLoader[Any]:
        return DataLoader(
            Noise(),
            batch_size=2,
            shuffle=True,
            num_workers=2,
            collate_fn=as_list,
            persistent_workers=persistent,
        )

    rl.manual_seed(0)
    one = loader()
    if persistent:
        list(one)
    batches = iter(one)
    list(islice(batches, 1))
    state = one.state_dict()
    rest = list(batches)
    another = loader()
    another.load_state_dict(state)
    assert list(another) == rest


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_is_read_again_up_to_the_position(workers: int) -> None:
    loader = DataLoader(Count(19), batch_size=2, num_workers=workers)
    batches = iter(loader)
    list(islice(batches, 4))
    state = loader.state_dict()
    rest = [x.tolist() for x in batches]
    resumed = DataLoader(Count(19), batch_size=2, num_workers=workers)
    resumed.load_state_dict(state)
    batches = iter(resumed)
    assert next(batches).tolist() == rest[0]
    assert resumed.state_dict()["batches"] == 5
    assert [x.tolist() for x in batches] == rest[1:]


def test_states_of_other_loaders_are_refused() -> None:
    loader = DataLoader(Pairs(), batch_size=4)
    state = loader.state_dict()
    for other in (
        DataLoader(Pairs(), batch_size=5),
        DataLoader(Pairs(24), batch_size=4),
        DataLoader(Pairs(), batch_size=4, shuffle=True, generator=generator()),
    ):
        with pytest.raises(ValueError, match="with 5 batches an epoch and 0 generators"):
            other.load_state_dict(state)
    for wrong in ({}, {**state, "more": 1}, None):
        with pytest.raises(ValueError, match=r"state has the keys \['base_seed', 'batches'"):
            loader.load_state_dict(wrong)  # type: ignore[arg-type]
    stream = DataLoader(Count(9), num_workers=2)
    next(iter(stream))
    with pytest.raises(ValueError, match=r"num_workers=2, but this one has 0: an IterableDataset"):
        DataLoader(Count(9)).load_state_dict(stream.state_dict())


def test_the_state_is_made_of_plain_things() -> None:
    loader = DataLoader(Noise(), num_workers=1, shuffle=True, generator=generator())
    batches = iter(loader)
    next(batches)

    def check(value: Any) -> None:
        if isinstance(value, dict):
            for key, part in value.items():
                assert isinstance(key, (str, int))
                check(part)
        elif isinstance(value, (list, tuple)):
            for part in value:
                check(part)
        else:
            assert isinstance(value, (int, float, str, rl.Tensor)) or value is None

    check(loader.state_dict())
