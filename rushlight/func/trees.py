"""Nested tuples, lists and dicts, seen as the list of their leaves."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

Rebuild = Callable[[Iterator[Any]], Any]


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Rebuild]:
    """The leaves of ``tree``, and the function that makes such a tree of as many new leaves.

    >>> leaves, rebuild = flatten({"a": (1, 2), "b": [3]})
    >>> leaves
    [1, 2, 3]
    >>> rebuild(iter("xyz"))
    {'a': ('x', 'y'), 'b': ['z']}
    """
    if is_leaf is not None and is_leaf(tree):
        return [tree], next
    if isinstance(tree, dict):
        parts = [flatten(value, is_leaf) for value in tree.values()]
    elif isinstance(tree, (tuple, list)):
        parts = [flatten(value, is_leaf) for value in tree]
    else:
        return [tree], next

    def rebuild(leaves: Iterator[Any]) -> Any:
        children = [part(leaves) for _, part in parts]
        if isinstance(tree, dict):
            # A copy keeps what a dict knows beside its items, as a defaultdict does.
            rebuilt = copy.copy(tree)
            rebuilt.update(zip(tree, children, strict=True))
            return rebuilt
        return getattr(type(tree), "_make", type(tree))(children)

    return [leaf for found, _ in parts for leaf in found], rebuild


def spread(prefix: Any, tree: Any, name: str) -> list[Any]:
    """For each leaf of ``tree`` what ``prefix`` says of it or of a branch it is on.

    >>> spread((0, None), ({"w": 1, "b": 2}, 3), "in_dims")
    [0, 0, None]
    """
    if not isinstance(prefix, (tuple, list, dict)):
        return [prefix] * len(flatten(tree)[0])
    same = isinstance(tree, (tuple, list, dict)) and len(tree) == len(prefix)
    if not same or isinstance(tree, dict) != isinstance(prefix, dict):
        raise ValueError(f"vmap: {name}={prefix!r} does not have the structure of what it is for")
    pairs = (
        [(prefix[key], tree[key]) for key in tree]
        if isinstance(tree, dict)
        else zip(prefix, tree, strict=True)
    )
    return [entry for part, branch in pairs for entry in spread(part, branch, name)]
