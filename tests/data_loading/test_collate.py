from __future__ import annotations

from collections import OrderedDict, UserDict, namedtuple
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.utils.data import DataLoader, default_collate, default_convert
from rushlight.utils.data._utils.collate import collate, default_collate_fn_map

Point = namedtuple("Point", "x y")


def test_nested_samples_keep_their_form() -> None:
    sample = {"a": (1, [2.0, "s"]), "p": Point(rl.ones(2), b"b")}
    batch = default_collate([sample, sample])
    assert batch["a"][0].tolist() == [1, 1]
    assert batch["a"][1][0].dtype is rl.float64
    assert list(batch["a"][1][1]) == ["s", "s"]
    assert isinstance(batch["p"], Point)
    assert batch["p"].x.shape == (2, 2)


def test_classes_of_mappings_and_lists_are_kept() -> None:
    class Row(list):
        pass

    assert type(default_collate([OrderedDict(a=1), OrderedDict(a=2)])) is OrderedDict
    assert type(default_collate([UserDict(a=1), UserDict(a=2)])) is UserDict
    assert type(default_collate([Row([1]), Row([2])])) is Row
    assert default_collate([range(2), range(2)])[1].tolist() == [1, 1]
    assert type(default_convert(Row([np.ones(1)]))) is Row
    assert default_convert(range(2)) == [0, 1]


def test_numbers_arrays_and_their_dtypes() -> None:
    assert default_collate([True, False]).dtype is rl.bool
    assert default_collate([1, 2]).dtype is rl.int64
    assert default_collate([np.float32(1), np.float32(2)]).dtype is rl.float32
    assert default_collate([np.ones(2, np.int16)] * 2).dtype is rl.int16
    assert default_collate([rl.tensor(1.5, dtype=rl.bfloat16)] * 2).dtype is rl.bfloat16
    assert default_collate([rl.ones(2), rl.ones(2, dtype=rl.float64)]).dtype is rl.float64


def test_a_batch_does_not_share_memory_with_the_samples() -> None:
    x = rl.zeros(2)
    batch = default_collate([x])
    batch += 1
    assert x.tolist() == [0, 0]


def test_gradients_flow_to_the_samples() -> None:
    x = rl.ones(3, requires_grad=True)
    default_collate([x[:2], x[1:]]).sum().backward()
    assert x.grad.tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    ("samples", "kind", "message"),
    [
        ([rl.zeros(3), rl.zeros(4)], RuntimeError, r"\[3\] at entry 0 and \[4\] at entry 1"),
        ([rl.zeros(2, 3), rl.zeros(3, 2)], RuntimeError, r"\[2, 3\] at entry 0 and \[3, 2\]"),
        ([rl.zeros(3), rl.zeros(3, 2)], RuntimeError, r"\[3\] at entry 0 and \[3, 2\]"),
        ([rl.tensor(1.0), rl.ones(1)], RuntimeError, r"\[\] at entry 0 and \[1\] at entry 1"),
        ([rl.ones(1), rl.tensor(1.0)], RuntimeError, r"\[1\] at entry 0 and \[\] at entry 1"),
        ([np.zeros(3), np.zeros(4)], RuntimeError, r"\[3\] at entry 0 and \[4\] at entry 1"),
        ([[1, 2], [1]], RuntimeError, r"of equal size, but got sizes \[2, 1\]"),
        ([rl.zeros(3), 1], TypeError, "element 1 in argument 0, but got int"),
        ([None, None], TypeError, "found <class 'NoneType'>"),
        ([np.array(["a"])], TypeError, "must contain tensors, numpy arrays, .*; found <U1"),
        ([{"a": 1}, {"b": 1}], KeyError, "a"),
    ],
)
def test_ragged_and_strange_samples(
    samples: list[Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        default_collate(samples)


def test_the_loader_names_the_items_that_do_not_fit() -> None:
    rows = [rl.zeros(3), rl.zeros(3), rl.zeros(4)]
    place = r"\[3\] at entry 0 and \[4\] at entry 1[\s\S]*in the batch of items 1, 2"
    for workers in (0, 1):
        loader = DataLoader(rows, batch_sampler=[[1, 2]], num_workers=workers)
        with pytest.raises(RuntimeError, match=place):
            list(loader)


def test_rules_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def count(batch: Any, *, collate_fn_map: Any = None) -> str:
        return f"{len(batch)} sets"

    assert collate([{1}, {2}], collate_fn_map={set: count}) == "2 sets"
    monkeypatch.setitem(default_collate_fn_map, rl.Tensor, count)
    assert default_collate([rl.ones(1)]) == "1 sets"
    dataset = rl.utils.data.TensorDataset(rl.ones(4))
    assert list(DataLoader(dataset, batch_size=4)) == [["4 sets"]]


def test_convert_leaves_alone_what_it_does_not_know() -> None:
    assert default_convert(3) == 3
    assert default_convert("word") == "word"
    assert default_convert(np.array(["word"])).dtype.kind == "U"
    assert default_convert(np.float32(2)).dtype is rl.float32
    assert default_convert(Point(np.ones(1), 2)).x.tolist() == [1]
    assert default_convert((1, 2)) == [1, 2]
