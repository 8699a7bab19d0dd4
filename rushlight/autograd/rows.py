"""Gradients of a tensor that is used many times, from the rows of many uses at once.

The gradient of a weight is a sum over rows, as gᵀ·x of a linear layer. Where a weight meets a few
rows at each of many uses, as in a loop over time or over the nodes of a tree, every use would write
and add a whole weight. So rows of g and x are collected instead, in no more memory than the weight
takes, and become one sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.autograd.tape import Node

FEW = 4  # how often the rows of a use must fit into the memory at least


class Collection:
    """The rows of a backward pass, and what their gradients are added to.

    Args:
        pending: the gradients of leaves so far.
        shared: leaves whose gradient others may hold too.
    """

    def __init__(self, pending: dict[Any, Any], shared: set[Any]) -> None:
        self.pending, self.shared = pending, shared
        self.rows: dict[Any, Rows] = {}

    def takes(self, node: Node, i: int, g: np.ndarray, operands: Sequence[Any]) -> bool:
        """Whether the gradient of a node's operand ``i``, a leaf used before, comes later."""
        plan, leaf, attrs = node.plan, node.edges[i], node.attrs
        partner = plan.rowwise.get(i)
        if partner is None or isinstance(leaf, Node) or not plan.op.adds_up(attrs):
            return False
        key = (leaf, plan.op, i)
        rows = self.rows.get(key)
        if rows is None:
            rule = dict(plan.steps)[i]
            rows = self.rows[key] = Rows(rule, operands, attrs, partner, leaf._array.size)
        elif rows.attrs != attrs:
            return False
        if not rows.suits(g, operands[partner]):
            return False
        if not rows.add(g, operands[partner]):
            self.settle(leaf, rows)
            rows.add(g, operands[partner])
        return True

    def settle(self, leaf: Any, rows: Rows) -> None:
        """Adds the gradient of rows to that of their leaf."""
        if rows.count:
            self.pending[leaf] = self.pending[leaf] + rows.gradient()
            self.shared.discard(leaf)

    def empty(self) -> None:
        """Settles all that is left."""
        for (leaf, *_), rows in self.rows.items():
            self.settle(leaf, rows)


class Rows:
    """Rows of g, and of the operand that they meet, from several uses of one tensor.

    Args:
        rule: what makes the gradient of them, with these ``operands`` and ``attrs``.
        partner: the number of the operand that g's rows meet.
        size: elements that may be collected.
    """

    def __init__(
        self, rule: Any, operands: Sequence[Any], attrs: Mapping[str, Any], partner: int, size: int
    ) -> None:
        self.rule, self.operands, self.attrs = rule, list(operands), attrs
        self.partner, self.size = partner, size
        self.operands[partner] = None
        self.count = self.most = 0
        self.g = self.x = np.empty(0)

    def suits(self, g: np.ndarray, x: np.ndarray) -> bool:
        """Whether the rows of a use fit into the memory, were it empty; the first makes it."""
        count = rows_of(g)
        if count and not self.most and FEW * (g.size + x.size) <= self.size:
            self.most = self.size * count // (g.size + x.size)
            self.g = np.empty((self.most, g.shape[-1]), g.dtype)
            self.x = np.empty((self.most, x.size // count), x.dtype)
        return 0 < count <= self.most

    def add(self, g: np.ndarray, x: np.ndarray) -> bool:
        """Copies the rows of a use, if there is room."""
        count = rows_of(g)
        begin, end = self.count, self.count + count
        if end > self.most:
            return False
        self.g[begin:end] = g.reshape(count, -1)
        self.x[begin:end] = x.reshape(count, -1)
        self.count = end
        return True

    def gradient(self) -> np.ndarray:
        """The sum over all rows, of which none is left."""
        count, self.count = self.count, 0
        operands = [*self.operands]
        operands[self.partner] = self.x[:count]
        return self.rule(self.g[:count], None, *operands, **self.attrs)


def rows_of(g: np.ndarray) -> int:
    """How many rows a gradient has."""
    return g.size // g.shape[-1] if g.size else 0
