"""Trees of values under the names of torch.utils._pytree."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import pytest

import rushlight as rl
from rushlight.utils._pytree import (
    tree_all,
    tree_any,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_map_,
    tree_map_only,
    tree_structure,
    tree_unflatten,
)

Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    "tree",
    [
        1, None, (), [], {}, (1, [2, {"a": 3}]), Pair(1, (2, 3)), OrderedDict(b=1, a=[2]),
        defaultdict(list, {"x": [1]}),
    ],
)  # fmt: skip
def test_a_tree_is_built_again_of_its_leaves(tree: Any) -> None:
    leaves, spec = tree_flatten(tree)
    again = tree_unflatten(leaves, spec)
    assert again == tree
    assert type(again) is type(tree)
    assert spec.num_leaves == len(leaves)


def test_a_defaultdict_keeps_its_default() -> None:
    doubled = tree_map(lambda x: x * 2, defaultdict(list, {"x": 1}))
    assert doubled["other"] == []
    assert doubled["x"] == 2


def test_structures_are_equal_whatever_the_leaves() -> None:
    assert tree_structure([1, (2,)]) == tree_structure(["a", ("b",)])
    assert tree_structure([1, (2,)]) != tree_structure([1, [2]])


def test_a_map_of_several_trees() -> None:
    assert tree_map(lambda a, b: a - b, Pair(5, [3]), Pair(1, [1])) == Pair(4, [2])


def test_only_tensors_are_changed() -> None:
    batch = {"x": rl.ones(2), "names": ["a", "b"]}
    moved = tree_map_only(rl.Tensor, lambda t: t.double(), batch)
    assert moved["x"].dtype is rl.float64
    assert moved["names"] == ["a", "b"]


def test_a_branch_may_be_a_leaf() -> None:
    tree = [(1, 2), (3, 4)]
    assert tree_leaves(tree, is_leaf=lambda node: isinstance(node, tuple)) == tree


def test_questions_and_effects() -> None:
    seen: list[int] = []
    assert tree_map_(seen.append, [1, [2]]) == [1, [2]]
    assert seen == [1, 2]
    assert tree_any(lambda x: x > 1, seen)
    assert not tree_all(lambda x: x > 1, seen)


def test_too_few_leaves_are_refused() -> None:
    _, spec = tree_flatten((1, 2))
    with pytest.raises(ValueError, match="expected 2 leaves, but got 1"):
        tree_unflatten([1], spec)
