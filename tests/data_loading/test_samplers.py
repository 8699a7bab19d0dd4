from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: RandomSampler([]), ValueError, "positive integer value, but got num_samples=0"),
        (lambda: RandomSampler([1], num_samples=-1), ValueError, "but got num_samples=-1"),
        (lambda: RandomSampler([1], replacement=1), TypeError, "boolean value, but got .*=1"),
        (lambda: WeightedRandomSampler([1.0], 0), ValueError, "but got num_samples=0"),
        (lambda: WeightedRandomSampler([1.0], True), ValueError, "but got num_samples=True"),
        (lambda: WeightedRandomSampler([[1.0]], 1), ValueError, r"have shape \(1, 1\)"),
        (lambda: WeightedRandomSampler([1.0], 1, 2), ValueError, "boolean value, but got .*=2"),
        (lambda: BatchSampler([1], 0, False), ValueError, "but got batch_size=0"),
        (lambda: BatchSampler([1], 2.0, False), ValueError, "but got batch_size=2.0"),
        (lambda: BatchSampler([1], 2, None), ValueError, "but got drop_last=None"),
        (lambda: DistributedSampler([1], 2, 2), ValueError, r"Invalid rank 2, .* \[0, 1\]"),
        (lambda: iter(Sampler()), NotImplementedError, "should implement __iter__"),
    ],
)
def test_bad_samplers_are_refused(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


def test_without_replacement_each_index_comes_once_before_any_comes_again() -> None:
    indices = list(RandomSampler(range(4), num_samples=10))
    assert sorted(indices[:4]) == sorted(indices[4:8]) == [0, 1, 2, 3]
    assert len(indices) == len(RandomSampler(range(4), num_samples=10)) == 10


def test_indices_of_a_subset() -> None:
    assert sorted(SubsetRandomSampler([7, 5, 5])) == [5, 5, 7]


def test_batches_of_any_iterable() -> None:
    batches = BatchSampler(iter("abcde"), 2, drop_last=False)
    assert list(batches) == [["a", "b"], ["c", "d"], ["e"]]
    assert len(BatchSampler(range(5), 2, True)) == 2
    assert len(BatchSampler(range(5), 2, False)) == 3


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("length", [2, 11, 12])
def test_the_shares_of_processes_cover_the_data(length: int, drop_last: bool) -> None:
    shares = [DistributedSampler(range(length), 3, rank, drop_last=drop_last) for rank in range(3)]
    indices = [list(share) for share in shares]
    assert {len(part) for part in indices} == {len(shares[0])}
    taken = sorted(i for part in indices for i in part)
    if drop_last:
        assert len(set(taken)) == len(taken)
    else:
        assert set(taken) == set(range(length))
    shares[0].set_epoch(1)
    assert length < 3 or list(shares[0]) != indices[0]


def test_the_environment_tells_rank_and_number_of_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ValueError, match=r"process group has not been initialized: .* RANK"):
        DistributedSampler(range(4), num_replicas=2)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert list(DistributedSampler(range(4), shuffle=False)) == [1, 3]


def test_only_the_seed_is_drawn_from_the_default_generator() -> None:
    rl.manual_seed(0)
    list(RandomSampler(range(1000)))
    after = rl.get_rng_state()
    rl.manual_seed(0)
    list(RandomSampler(range(10), replacement=True))
    assert rl.get_rng_state().equal(after)
