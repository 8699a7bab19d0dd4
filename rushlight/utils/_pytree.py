"""Nested tuples, lists and dicts under the names that PyTorch's own libraries use for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rushlight.func.trees import Rebuild, flatten

PyTree = Any


class TreeSpec:
    """How a tree is built of its leaves."""

    def __init__(self, rebuild: Rebuild, num_leaves: int) -> None:
        self._rebuild = rebuild
        self.num_leaves = num_leaves

    def unflatten(self, leaves: Iterable[Any]) -> PyTree:
        """The tree with other leaves, as many as it had."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"unflatten: expected {self.num_leaves} leaves, but got {len(leaves)} leaves"
            )
        return self._rebuild(iter(leaves))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSpec) and self.structure == other.structure

    def __hash__(self) -> int:
        return hash(self.structure)

    @property
    def structure(self) -> str:
        """The tree written out with ``*`` for every leaf."""
        return repr(self.unflatten([Leaf] * self.num_leaves))

    def __repr__(self) -> str:
        return f"TreeSpec({self.structure})"


class _Star(type):
    def __repr__(cls) -> str:
        return "*"


class Leaf(metaclass=_Star):
    """Stands for a leaf where a tree is written out."""


def tree_flatten(
    tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and how it is built of them.

    >>> leaves, spec = tree_flatten({"a": (1, 2), "b": [3]})
    >>> leaves, spec
    ([1, 2, 3], TreeSpec({'a': (*, *), 'b': [*]}))
    >>> tree_unflatten("xyz", spec)
    {'a': ('x', 'y'), 'b': ['z']}
    """
    leaves, rebuild = flatten(tree, is_leaf)
    return leaves, TreeSpec(rebuild, len(leaves))


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree that a `TreeSpec` describes, with these leaves."""
    return treespec.unflatten(leaves)


def tree_leaves(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> list[Any]:
    """The leaves of a tree."""
    return flatten(tree, is_leaf)[0]


def tree_structure(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> TreeSpec:
    """How a tree is built of its leaves."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any],
    tree: PyTree,
    *rests: PyTree,
    is_leaf: Callable[[PyTree], bool] | None = None,
) -> PyTree:
    """The tree of ``func`` of every leaf, and of the leaves of like trees at the same place.

    >>> tree_map(lambda a, b: a + b, {"x": [1, 2]}, {"x": [10, 20]})
    {'x': [11, 22]}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return spec.unflatten(map(func, leaves, *others))


def tree_map_(
    func: Callable[..., Any],
    tree: PyTree,
    *rests: PyTree,
    is_leaf: Callable[[PyTree], bool] | None = None,
) -> PyTree:
    """Calls ``func`` with every leaf, and returns the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(
    cls: type | tuple[type, ...],
    func: Callable[[Any], Any],
    tree: PyTree,
    is_leaf: Callable[[PyTree], bool] | None = None,
) -> PyTree:
    """The tree of ``func`` of every leaf of a type, and of the other leaves themselves.

    >>> tree_map_only(int, lambda n: -n, (1, "a", 2.0))
    (-1, 'a', 2.0)
    """

    def chosen(leaf: Any) -> Any:
        return func(leaf) if isinstance(leaf, cls) else leaf

    return tree_map(chosen, tree, is_leaf=is_leaf)


def tree_all(
    pred: Callable[[Any], bool], tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> bool:
    """Whether every leaf passes."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(
    pred: Callable[[Any], bool], tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> bool:
    """Whether some leaf passes."""
    return any(map(pred, tree_leaves(tree, is_leaf)))
