"""Products of rows that are gathered from a small table: each of its rows is multiplied once.

Of 96 characters, 2048 places of a text have at most 96 different vectors. Their product with a
weight is that of the table, gathered; the gradients of both come of one sum for each character:

    E[i] W = (E W)[i]      Aᵀ E[i] = Sᵀ E      scatter(A W, i) = S W      with S = scatter(A, i)

The last two round sums in another order. Rows of E that are not used add nothing, whatever they
hold, and get no gradient, whatever W holds: where a row is not used, zeros take its place.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from rushlight.dims import Size, example, is_known
from rushlight.dtypes import bool_
from rushlight.graph.ir import Node, TensorType, constant
from rushlight.graph.rewrite import EXPAND, VIEW, Rewriter, number_of
from rushlight.ops.base import registry

MM, PERMUTE, WHERE, GT = [registry[name] for name in ("mm", "permute", "where", "gt")]
EMBEDDING, INDEX_ADD = registry["embedding"], registry["index_add"]
CLAMP_MIN, CLAMP_MAX = registry["clamp_min"], registry["clamp_max"]

OFTEN = 4  # times that a row of the table is used on average, for which this pays
LARGE = 1 << 22  # multiply-adds for which it does
KINDS = ("f32", "f64")


class Gathered(NamedTuple):
    """The rows ``which`` of ``table``, by the node that gathers them."""

    node: Node
    table: Node
    which: Node


def multiply_first(node: Node, rewriter: Rewriter) -> Node | None:
    """A product of gathered rows, or a scattered one, in which each row of the table comes once."""
    if node.op is MM and node.type.kind in KINDS:
        return Gathering(node, rewriter).product()
    if node.op is INDEX_ADD and node.type.kind in KINDS:
        return Gathering(node, rewriter).scattered()
    return None


class Gathering:
    """Makes the nodes of one product."""

    def __init__(self, node: Node, rewriter: Rewriter) -> None:
        self.node, self.normal = node, rewriter.normal
        self.make = partial(rewriter.make, source=node.source)

    def product(self) -> Node | None:
        """E[i] W, or Aᵀ E[i], or E[i]ᵀ A."""
        node = self.node
        left, right = operands(node)
        (rows, depth), columns = left.type.shape, right.type.shape[1]
        cost = rows * depth * columns
        found = self.gathered(left)
        if found is not None and worth(rows, found.table, cost):
            kind = TensorType((found.table.type.shape[0], columns), node.type.dtype)
            each = self.make(MM, (found.table, right), {}, kind)
            return self.make(EMBEDDING, (each, found.which), found.node.attrs, node.type)
        for x, other in ((right, self.turned(left)), (self.turned(left), right)):
            found = self.gathered(x)
            if found is not None and worth(depth, found.table, cost):
                sums = self.sums(other, found.which, found.table)
                table = self.used(found.table, found.which, found.table)
                pair = (sums, table) if x is right else (table, sums)
                return self.make(MM, (self.turned(pair[0]), pair[1]), {}, node.type)
        return None

    def turned(self, x: Node) -> Node:
        return self.make(PERMUTE, (x,), {"dims": (1, 0)})

    def scattered(self) -> Node | None:
        """scatter(A W, i)."""
        node = self.node
        target, x, index = operands(node)
        if len(node.type.shape) != 2 or node.attrs["dim"] != 0 or node.attrs["alpha"] != 1:
            return None
        while x.op in (VIEW, PERMUTE) and keeps_last(x):
            index, (x,) = self.undone(x, index), operands(x)
        if x.op is not MM or number_of(target) != 0:
            return None
        a, w = operands(x)
        rows, depth = a.type.shape
        if not worth(rows, node, rows * depth * w.type.shape[1]):
            return None
        product = self.make(MM, (self.sums(a, index, node), w), {}, node.type)
        return self.used(product, index, node)

    def gathered(self, x: Node) -> Gathered | None:
        """How the rows of a matrix are gathered from a table, if they are."""
        moves = []
        while x.op in (VIEW, PERMUTE) and keeps_last(x):
            moves.append(x)
            (x,) = operands(x)
        if x.op is not EMBEDDING:
            return None
        table, index = operands(x)
        for move in reversed(moves):
            index = self.done(move, index)
        return Gathered(x, table, index)

    def done(self, move: Node, index: Node) -> Node:
        """The indices of rows, moved as the rows are."""
        if move.op is VIEW:
            return self.make(VIEW, (index,), {"shape": move.type.shape[:-1]})
        return self.make(PERMUTE, (index,), {"dims": order(move)})

    def undone(self, move: Node, index: Node) -> Node:
        """The indices of rows as they were before these were moved."""
        (before,) = operands(move)
        if move.op is VIEW:
            return self.make(VIEW, (index,), {"shape": before.type.shape[:-1]})
        dims = tuple([int(d) for d in np.argsort(order(move))])
        return self.make(PERMUTE, (index,), {"dims": dims})

    def sums(self, a: Node, index: Node, table: Node) -> Node:
        """S: the sum of all rows of A that belong to a row of the table."""
        shape = (table.type.shape[0], *a.type.shape[1:])
        zeros = self.filled(0, TensorType(shape, a.type.dtype))
        return self.make(INDEX_ADD, (zeros, a, index), {"dim": 0, "alpha": 1}, zeros.type)

    def used(self, x: Node, index: Node, table: Node) -> Node:
        """The rows of x that are used; zeros for the others.

        An index beyond the table is an error, which the op that gathers is to raise, not this.
        """
        for op, bound in ((CLAMP_MIN, 0), (CLAMP_MAX, table.type.shape[0] - 1)):
            limit = self.filled(bound, TensorType((), index.type.dtype))
            index = self.make(op, (index, limit), {}, index.type)
        ones = self.filled(1, TensorType(index.type.shape, x.type.dtype))
        counts = self.sums(ones, index, table)
        zero = self.filled(0, TensorType((), x.type.dtype))
        flags = self.make(GT, (counts, zero), {}, TensorType(counts.type.shape, bool_))
        column = self.make(VIEW, (flags,), {"shape": (x.type.shape[0], 1)})
        return self.make(WHERE, (column, x, zero), {}, x.type)

    def filled(self, number: int, kind: TensorType) -> Node:
        one = self.normal(constant(np.asarray(number, kind.dtype.numpy)))
        return self.make(EXPAND, (one,), {"size": kind.shape}) if kind.shape else one


def operands(node: Node) -> list[Node]:
    return [n for n in node.inputs if n is not None]


def worth(rows: Size, table: Node, cost: Size) -> bool:
    """Whether rows come often enough, and a product is large enough; usual sizes decide."""
    height = table.type.shape[0]
    return is_known([height]) and example(rows) >= OFTEN * height and example(cost) >= LARGE


def keeps_last(move: Node) -> bool:
    """Whether a view or permutation moves whole rows: the last dimension stays what it is."""
    (before,) = operands(move)
    if move.op is VIEW:
        return before.type.shape[-1:] == move.type.shape[-1:] != ()
    dims = move.attrs["dims"]
    return len(dims) > 1 and dims[-1] % len(dims) == len(dims) - 1


def order(move: Node) -> tuple[int, ...]:
    """How a permutation moves all dimensions but the last."""
    dims = move.attrs["dims"]
    return tuple([d % len(dims) for d in dims[:-1]])
