from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import rushlight as rl
from rushlight.utils.data import DataLoader, Dataset, RandomSampler, Sampler, TensorDataset
from tests.data_loading.samples import (
    Count,
    NeedsTwo,
    Pairs,
    Slow,
    numbers,
    raise_key_error,
    raise_needs_two,
    raise_value_error,
    stop_iteration,
)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"batch_size": 0}, ValueError, "positive integer value, but got batch_size=0"),
        ({"batch_size": 2.5}, ValueError, "but got batch_size=2.5"),
        ({"num_workers": -1}, ValueError, "should be non-negative.* Got num_workers=-1"),
        ({"timeout": -1}, ValueError, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, ValueError, "could only be specified in multiprocessing"),
        ({"prefetch_factor": -1, "num_workers": 1}, ValueError, "should be non-negative"),
        ({"persistent_workers": True}, ValueError, "needs num_workers > 0"),
        ({"sampler": [0], "shuffle": True}, ValueError, "mutually exclusive with shuffle"),
        ({"batch_sampler": [[0]], "batch_size": 2}, ValueError, "exclusive with batch_size, shuf"),
        ({"batch_sampler": [[0]], "shuffle": True}, ValueError, "exclusive with batch_size, shuf"),
        ({"batch_sampler": [[0]], "sampler": [0]}, ValueError, "exclusive with batch_size, shuf"),
        ({"batch_sampler": [[0]], "drop_last": True}, ValueError, "exclusive with batch_size"),
        ({"batch_size": None, "drop_last": True}, ValueError, "exclusive with drop_last"),
        ({"multiprocessing_context": "spawn"}, ValueError, "but got num_workers=0"),
        ({"multiprocessing_context": "no", "num_workers": 1}, ValueError, "valid start method"),
        ({"multiprocessing_context": 3, "num_workers": 1}, TypeError, "valid context object"),
        (
            {"multiprocessing_context": "spawn", "num_workers": 1, "worker_kind": "thread"},
            ValueError,
            "needs worker_kind='process'",
        ),
        ({"worker_kind": "fibre"}, ValueError, r"one of \('thread', 'process'\), got 'fibre'"),
    ],
)
def test_arguments_that_cannot_be(
    options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        DataLoader(Pairs(), **options)


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}])
def test_a_stream_has_no_order_to_choose(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=f"IterableDataset: expected unspecified {name} option"):
        DataLoader(Count(3), **options)


def test_what_only_iterating_refuses() -> None:
    with pytest.raises(AssertionError, match="timeout=1 needs num_workers > 0"):
        iter(DataLoader(Pairs(), timeout=1))
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(DataLoader(Pairs(), num_workers=1, prefetch_factor=0))
    with pytest.raises(ValueError, match="num_samples=0"):
        DataLoader([], shuffle=True)
    assert list(DataLoader([])) == []


def test_attributes_are_fixed_once_it_is_made() -> None:
    loader = DataLoader(Pairs(), batch_size=4)
    for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after"):
            setattr(loader, name, None)
    loader.num_workers = 1
    assert len(numbers(loader)) == len(loader) == 5


def test_pinning_memory_warns_that_there_is_no_accelerator() -> None:
    with pytest.warns(UserWarning, match="no accelerator is found"):
        iter(DataLoader(Pairs(), pin_memory=True))
    with pytest.warns(UserWarning, match="pin_memory") as caught:
        next(iter(DataLoader(Pairs(), pin_memory=True)))
    assert caught[0].filename == __file__
    loader = DataLoader(Pairs(), pin_memory=True, pin_memory_device="cuda")
    both = pytest.warns(UserWarning, match="pin_memory_device is deprecated")
    with pytest.warns(UserWarning, match="no accelerator is found"), both:
        iter(loader)


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"drop_last": True, "shuffle": True}])
def test_the_order_does_not_depend_on_the_number_of_workers(
    workers: int, options: dict[str, Any]
) -> None:
    rl.manual_seed(7)
    expected = numbers(DataLoader(Pairs(23), batch_size=4, **options))
    state = rl.get_rng_state()
    rl.manual_seed(7)
    loader = DataLoader(Slow(23), batch_size=4, num_workers=workers, **options)
    assert numbers(loader) == expected
    assert rl.get_rng_state().equal(state)


def test_single_samples_are_only_converted() -> None:
    loader = DataLoader(Pairs(3), batch_size=None, num_workers=1)
    assert [(x.tolist(), i) for x, i in loader] == [([i] * 3, i) for i in range(3)]
    tensors = TensorDataset(rl.arange(4))
    ((x,),) = DataLoader(tensors, batch_size=None, sampler=[[0, 2]])
    assert x.tolist() == [0, 2]


def test_keys_may_be_anything_that_the_sampler_and_the_dataset_agree_on() -> None:
    words = {"a": 1, "b": 2}
    assert next(iter(DataLoader(words, sampler=["b", "a"], batch_size=2))).tolist() == [2, 1]
    tensors = TensorDataset(rl.arange(5))
    for batch in ([rl.tensor(3), rl.tensor(1)], (3, 1), rl.tensor([3, 1])):
        assert next(iter(DataLoader(tensors, batch_sampler=[batch])))[0].tolist() == [3, 1]
    assert next(iter(DataLoader([1], batch_sampler=[[]], collate_fn=len))) == 0


def test_two_iterations_at_once_and_one_inside_another() -> None:
    for workers, persistent in ((0, False), (2, False), (2, True)):
        loader = DataLoader(
            Pairs(6), batch_size=2, num_workers=workers, persistent_workers=persistent
        )
        first, second = iter(loader), iter(loader)
        assert next(first)[1].tolist() == next(second)[1].tolist() == [0, 1]
        assert len(list(first)) == len(list(second)) == 2
        assert [len(list(loader)) for _ in loader] == [3, 3, 3]


def test_loaders_inside_a_dataset() -> None:
    class Nested(Dataset):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> int:
            inner = DataLoader(Pairs(4), batch_size=2, num_workers=2)
            return sum(x[1].sum().item() for x in inner)

    assert next(iter(DataLoader(Nested(), batch_size=3, num_workers=2))).tolist() == [6, 6, 6]


def test_an_iterator_that_has_ended_stays_so() -> None:
    for workers in (0, 1):
        batches = iter(DataLoader(Pairs(2), num_workers=workers))
        assert len(batches) == len(list(batches)) == 2
        for _ in range(2):
            with pytest.raises(StopIteration):
                next(batches)


def test_loaders_can_be_copied_and_pickled() -> None:
    loader = DataLoader(
        Pairs(4), batch_size=2, shuffle=True, num_workers=1, persistent_workers=True
    )
    next(iter(loader))
    for twin in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert len(numbers(twin)) == 2


@pytest.mark.parametrize("workers", [0, 2])
def test_a_failing_sample_is_named(workers: int) -> None:
    loader = DataLoader(Pairs(20, 17, raise_value_error), batch_size=5, num_workers=workers)
    batches = iter(loader)
    assert [next(batches)[1].tolist()[0] for _ in range(3)] == [0, 5, 10]
    with pytest.raises(ValueError, match=r"in item 17 of Pairs \(length 20\)") as raised:
        next(batches)
    if workers:
        text = str(raised.value)
        assert text.startswith("Caught ValueError in DataLoader worker thread 1, in item 17 of")
        assert "Original Traceback" in text
        assert "samples.py" in text


def test_the_class_of_an_error_is_kept_where_it_can_be() -> None:
    for act, kind, message in (
        (raise_key_error, KeyError, "Original Traceback"),
        (raise_needs_two, RuntimeError, "Caught NeedsTwo in .* item 3"),
        (stop_iteration, RuntimeError, "StopIteration was raised in item 3"),
        (exit, RuntimeError, "Caught SystemExit"),
    ):
        with pytest.raises(kind, match=message):
            list(DataLoader(Pairs(4, 3, act), num_workers=1))
    with pytest.raises(NeedsTwo):
        list(DataLoader(Pairs(4, 3, raise_needs_two)))
    with pytest.raises(RuntimeError, match="StopIteration was raised in item 3"):
        list(DataLoader(Pairs(4, 3, stop_iteration), batch_size=None))


def test_the_next_batches_can_be_had_after_an_error() -> None:
    for workers in (0, 2):
        batches = iter(DataLoader(Pairs(6, 2, raise_value_error), num_workers=workers))
        got: list[Any] = []
        while len(got) < 6:
            try:
                got.append(next(batches)[1].item())
            except ValueError:
                got.append("error")
        assert got == [0, 1, "error", 3, 4, 5]


class Liar(Dataset):
    def __init__(self, length: Any) -> None:
        self.length = length

    def __len__(self) -> Any:
        return self.length

    def __getitem__(self, index: int) -> int:
        return [0, 1, 2][index]


def test_a_dataset_whose_length_lies() -> None:
    for workers in (0, 1):
        with pytest.raises(IndexError, match=r"in item 3 of Liar \(length 5\)"):
            list(DataLoader(Liar(5), batch_size=2, num_workers=workers))
    with pytest.raises(ValueError, match="should return >= 0"):
        list(DataLoader(Liar(-1)))
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        list(DataLoader(Liar(2.5)))

    class Endless(Count):
        def __len__(self) -> int:
            return 2

    loader = DataLoader(Endless(3))
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="reported to be 2 .* but 3 samples have been fetched"):
        assert len(list(loader)) == 3


def test_the_length_of_a_stream() -> None:
    class Known(Count):
        def __len__(self) -> int:
            return 5

    assert len(DataLoader(Known(5), batch_size=2)) == 3
    assert len(DataLoader(Known(5), batch_size=2, drop_last=True)) == 2
    assert len(DataLoader(Known(5), batch_size=None)) == 5
    with pytest.raises(TypeError, match="has no len"):
        len(DataLoader(Count(5)))


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_dataset_without_a_length(shuffle: bool) -> None:
    class Endless:
        def __getitem__(self, index: int) -> int:
            return index

    with pytest.raises(TypeError, match=r"'Endless' has no len.*needs __len__.*IterableDataset"):
        next(iter(DataLoader(Endless(), shuffle=shuffle)))


def test_streams_with_workers() -> None:
    loader = DataLoader(Count(11), batch_size=2, num_workers=3)
    batches = [x.tolist() for x in loader]
    assert batches == [[0, 3], [1, 4], [2, 5], [6, 9], [7, 10], [8]]
    assert [x.tolist() for x in loader] == batches
    short = DataLoader(Count(11), batch_size=2, num_workers=3, drop_last=True)
    assert [x.tolist() for x in short] == batches[:-1]
    with pytest.raises(ValueError, match="in item 2 of Count"):
        list(DataLoader(Count(11, at=2), batch_size=5))


def test_errors_of_a_sampler_reach_the_caller() -> None:
    class Broken(Sampler[int]):
        def __iter__(self) -> Iterator[int]:
            yield 0
            raise LookupError("no order")

    for workers in (0, 1):
        with pytest.raises(LookupError, match="no order"):
            list(DataLoader(Pairs(3), sampler=Broken(), num_workers=workers))


def test_the_given_generator_decides_alone() -> None:
    rl.manual_seed(0)
    before = rl.get_rng_state()
    orders = []
    for workers in (0, 2):
        generator = rl.Generator().manual_seed(5)
        loader = DataLoader(Pairs(), shuffle=True, generator=generator, num_workers=workers)
        orders.append(numbers(loader))
    assert orders[0] == orders[1]
    assert rl.get_rng_state().equal(before)
    sampler = RandomSampler(range(20), generator=rl.Generator().manual_seed(5))
    assert numbers(DataLoader(Pairs(), sampler=sampler)) != orders[0]  # no base seed was drawn
