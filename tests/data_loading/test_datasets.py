from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight.utils.data import (
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from tests.data_loading.samples import Count, Pairs


def test_abstract_datasets_say_what_is_missing() -> None:
    with pytest.raises(NotImplementedError, match="should implement __getitem__"):
        Dataset()[0]
    with pytest.raises(TypeError, match="has no len"):
        len(Dataset())


def test_classes_take_a_type_argument() -> None:
    class Numbers(Dataset[int]):
        pass

    assert issubclass(Numbers, Dataset)


def test_tensors_of_different_lengths_are_refused() -> None:
    with pytest.raises(AssertionError, match=r"Size mismatch between tensors: \[3\], \[4, 2\]"):
        TensorDataset(rl.zeros(3), rl.zeros(4, 2))


def test_sums_of_datasets() -> None:
    both = Pairs(3) + Pairs(2)
    assert isinstance(both, ConcatDataset)
    assert [both[i][1] for i in range(5)] == [0, 1, 2, 0, 1]
    assert both[-1][1] == 1
    assert list(Count(2) + Count(3)) == [0, 1, 0, 1, 2]


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: ConcatDataset([]), AssertionError, "should not be an empty iterable"),
        (lambda: ConcatDataset([Count(2)]), AssertionError, "does not support IterableDataset"),
        (lambda: ConcatDataset([[1]])[-2], ValueError, "should not exceed dataset length"),
        (lambda: ConcatDataset([[1]])[1], IndexError, "index 1 is out of range .* length 1"),
        (lambda: list(ChainDataset([[1]])), AssertionError, "only supports IterableDataset"),
        (lambda: StackDataset(), ValueError, "At least one dataset"),
        (lambda: StackDataset([1], a=[1]), ValueError, "both types are given"),
        (lambda: StackDataset([1], [1, 2]), ValueError, r"Size mismatch .*: \[1, 2\]"),
        (lambda: random_split([1, 2], [1, 2]), ValueError, r"\[1, 2\] sum to 3, the length is 2"),
        (lambda: random_split([1, 2], [2.0, -1.0]), ValueError, "index 0 is not between 0 and 1"),
    ],
)
def test_bad_datasets_are_refused(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


def test_stacks_load_a_batch_of_each_part_at_once() -> None:
    class Batches(Dataset):
        def __len__(self) -> int:
            return 6

        def __getitems__(self, indices: list[int]) -> list[int]:
            return [10 * i for i in indices]

    stack = StackDataset(Batches(), range(6))
    x, y = next(iter(DataLoader(stack, batch_size=3)))
    assert x.tolist() == [0, 10, 20]
    assert y.tolist() == [0, 1, 2]
    named = StackDataset(a=Batches(), b=range(6))
    assert next(iter(DataLoader(named, batch_size=2)))["a"].tolist() == [0, 10]
    Batches.__getitems__ = lambda self, indices: [1]  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="Expected 2, got 1"):
        next(iter(DataLoader(named, batch_size=2)))


def test_a_subset_that_changes_samples_must_do_so_for_batches() -> None:
    class Doubled(Subset):
        def __getitem__(self, index: Any) -> Any:
            return 2 * super().__getitem__(index)

    with pytest.raises(NotImplementedError, match="Doubled overrides __getitem__ but not"):
        Doubled(range(4), [0, 1])


def test_a_dataset_of_tensors_that_changes_samples_is_loaded_sample_by_sample() -> None:
    class Doubled(TensorDataset):
        def __getitem__(self, index: Any) -> Any:
            (x,) = super().__getitem__(index)
            return 2 * x

    assert next(iter(DataLoader(Doubled(rl.arange(4)), batch_size=4))).tolist() == [0, 2, 4, 6]


def test_split_by_fractions_shares_what_remains() -> None:
    parts = random_split(range(10), [0.25, 0.25, 0.5])
    assert [len(part) for part in parts] == [3, 2, 5]
    assert sorted(i for part in parts for i in part.indices) == list(range(10))
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        random_split(range(1), [0.5, 0.5])


def test_batches_of_tensors_keep_dtype_shape_and_gradient() -> None:
    x = rl.arange(12.0).reshape(6, 2).requires_grad_()
    y = rl.arange(6, dtype=rl.uint8)
    subset = Subset(TensorDataset(x, y), [5, 3, 1])
    a, b = next(iter(DataLoader(subset, batch_size=2)))
    assert a.tolist() == [[10.0, 11.0], [6.0, 7.0]]
    assert b.dtype is rl.uint8
    a.sum().backward()
    assert x.grad.sum(1).tolist() == [0, 0, 0, 2, 0, 2]


def test_streams_are_datasets() -> None:
    assert issubclass(IterableDataset, Dataset)
    assert [x.tolist() for x in DataLoader(Count(5), batch_size=2)] == [[0, 1], [2, 3], [4]]
