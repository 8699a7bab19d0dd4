"""Loops over rows: what needs no loop is done for all rows at once, before it or after it.

    h' = tanh(x[t] W + h U)     x W before; of the gradients of W and U, sums of a product for each
                                row, one product each after

A product of many rows is quicker than many of a few. What it is made of lies in memory for all
rows, as does what it makes. Sums of rows are rounded in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.dims import symbols_of
from rushlight.graph.attributes import nested, with_nested
from rushlight.graph.control import Control
from rushlight.graph.ir import (
    CAPTURED,
    CONSTANT,
    INPUT,
    ITEM,
    Graph,
    Node,
    TensorType,
    constant,
    copy,
    item,
    rebuild,
    walk,
)
from rushlight.graph.residuals import is_cheap, rebuilt
from rushlight.graph.rewrite import EXPAND, VIEW, number_of
from rushlight.ops.base import Op, registry
from rushlight.ops.views import View
from rushlight.passes.simplify import simplify

SCAN = registry["control.scan"]
ADD, MM, SUM, PERMUTE, SLICE, INDEX, INDEX_PUT = [
    registry[name] for name in ("add", "mm", "sum", "permute", "slice", "index", "index_put")
]
LARGE = 1 << 28  # bytes for all rows from which on they are rather made one by one


def spread_rows(graph: Graph) -> Graph:
    """The graph whose loops over rows have before and after them what can be there.

    >>> def last(h, x, w):
    ...     return rl.scan(lambda h, row: (h * (row @ w), None), h, x)[0]
    >>> traced = rl.graph(last, rl.ones(2, 3), rl.ones(9, 2, 4), rl.ones(4, 3))
    >>> [n.op.name for n in spread_rows(traced).nodes() if isinstance(n.op, Op)]
    ['view', 'mm', 'view', 'scan']
    """
    if not any([node.op is SCAN for node in graph.nodes()]):
        return graph
    return simplify(spread(graph))


def spread(graph: Graph) -> Graph:
    results: dict[Node, list[Node]] = {}

    def change(node: Node, inputs: tuple[Node | None, ...]) -> Node:
        if isinstance(node.op, Control):
            inner = with_nested(node.attrs, map(spread, nested(node.attrs)))
            made = Node(node.op, inputs, inner, node.type, node.source)
            if node.op is SCAN and not symbols_of(sizes_in(made)):
                results[node] = Spread(made).results()
            return made
        if node.op is ITEM and node.inputs[0] in results:
            return results[node.inputs[0]][node.attrs["index"]]
        return copy(node, inputs)

    return rebuild(graph, change)


def sizes_in(node: Node) -> list[Any]:
    """The sizes of all that a loop is made of."""
    nodes = [n for n in (node, *node.attrs["body"].nodes()) if n.type is not None]
    types = [t for n in nodes for t in (n.type if isinstance(n.type, tuple) else (n.type,))]
    return [node.attrs["length"], *[t.shape for t in types]]


class Spread:
    """A loop over rows on its way to a smaller one."""

    def __init__(self, node: Node) -> None:
        attrs: Any = node.attrs
        self.node, self.length, self.reverse = node, attrs["length"], attrs["reverse"]
        body, operands = attrs["body"], [n for n in node.inputs if n is not None]
        count, whole = attrs["carried"], len(body.inputs)
        self.carried = list(body.inputs[:count])
        self.first = dict(zip(self.carried, operands, strict=False))
        self.rows = dict(zip(body.inputs[count:], operands[count:], strict=False))
        self.captured = dict(zip(body.captured, operands[whole:], strict=True))
        self.outputs = list(body.outputs)
        self.found: dict[int, Node] = {}  # results that are known outside, by number
        self.stacks: dict[Node, Node] = {}  # values of all rows, and what stands for them outside
        self.known: dict[tuple[Node, bool], Node | None] = {}
        self.outer: dict[Node, Node | None] = {}

    def results(self) -> list[Node]:
        """The results of the loop."""
        self.replace(self.counters())
        self.replace(self.rows_by_number())
        self.replace({n: self.capture(n) for n in self.nodes() if self.is_invariant(n)})
        self.replace(self.products())
        self.uses = self.count_uses()
        count = len(self.carried)
        for again in (False, True):  # what is stacked for a product can be summed, too
            for i in [i for i in range(count) if i not in self.found]:
                self.accumulate(i, again)
        for i, y in enumerate(self.outputs[count:], count):
            self.found[i] = self.outside(y, late=True) or self.stack(y)
        return self.rebuilt()

    def nodes(self) -> list[Node]:
        return [n for n in walk(self.outputs) if isinstance(n.op, Op)]

    def replace(self, new: dict[Node, Node]) -> None:
        """Puts other nodes of the body in the place of some."""
        if new:
            self.outputs = rebuilt(self.outputs, new)

    def row(self, kind: TensorType, outside: Node) -> Node:
        """One more row of a value that there is outside for all rows."""
        node = Node(INPUT, (), {}, kind)
        self.rows[node] = outside
        return node

    def all_rows(self, kind: TensorType) -> TensorType:
        return TensorType((self.length, *kind.shape), kind.dtype)

    def make(self, op: Any, inputs: Sequence[Node], kind: TensorType, **attrs: Any) -> Node:
        return Node(op, tuple(inputs), attrs, kind, self.node.source)

    def shaped(self, x: Node, shape: tuple[int, ...]) -> Node:
        kind = TensorType(shape, x.type.dtype)
        return x if x.type == kind else self.make(VIEW, [x], kind, shape=shape)

    # What is known before the loop.

    def counters(self) -> dict[Node, Node]:
        """Carried integers to which each step adds the same number, as rows."""
        found = {}
        for i, before in enumerate(self.carried):
            begin, by = number_of(self.first[before]), self.increment(i)
            if begin is None or by is None:
                continue
            values = int(begin) + int(by) * np.arange(self.length + 1).astype(begin.dtype)
            last, values = values[-1:], values[-2::-1] if self.reverse else values[:-1]
            shape = before.type.shape
            found[before] = self.row(before.type, constant(values.reshape(-1, *shape).copy()))
            self.found[i] = constant(last.reshape(shape).copy())
        return found

    def increment(self, i: int) -> Any:
        before, after = self.carried[i], self.outputs[i]
        if after.op is not ADD or before.type.dtype.category != dtypes.INT:
            return None
        left, right = after.inputs
        if right is before:
            left, right = right, left
        return number_of(right) if left is before and before.type.size == 1 else None

    def rows_by_number(self) -> dict[Node, Node]:
        """Rows of captured values that are asked for by counting numbers."""
        found = {}
        for node in self.nodes():
            if node.op is not INDEX or node.attrs["layout"] != (True,):
                continue
            x, index = node.inputs
            table, which = self.captured.get(x), self.rows.get(index)
            if table is None or which is None or which.op is not CONSTANT or index.type.shape:  # type: ignore[union-attr]
                continue
            begin, *_ = values = which.attrs["value"]
            if begin < 0 or values[-1] >= table.type.shape[0] or any(np.diff(values) != 1):
                continue
            kind, attrs = self.all_rows(node.type), {"dim": 0, "start": int(begin), "step": 1}
            part = self.make(SLICE, [table], kind, **attrs, end=int(begin) + self.length)
            found[node] = self.row(node.type, table if table.type == kind else part)
        return found

    def is_invariant(self, node: Node) -> bool:
        """Whether a value is the same at each step, and dear."""
        return not is_cheap(node) and not isinstance(node.op, View) and bool(self.still(node))

    def capture(self, node: Node) -> Node:
        made = Node(CAPTURED, (), {}, node.type)
        self.captured[made] = self.still(node)
        return made

    def still(self, node: Node | None) -> Node | None:
        """What a value of the body is outside, if it is made of captured values and constants."""
        if node is None:
            return None
        if node not in self.outer:
            self.outer[node] = self.moved_out(node)
        return self.outer[node]

    def moved_out(self, node: Node) -> Node | None:
        if node.op is CONSTANT or node in self.captured:
            return self.captured.get(node, node)
        if not is_plain(node) or None in node.inputs:
            return None
        inputs = [self.still(n) for n in node.inputs]
        return None if None in inputs or not inputs else copy(node, tuple(inputs))

    def products(self) -> dict[Node, Node]:
        """Products of rows by captured values, as rows of one."""
        found = {}
        for node in self.nodes():
            if node.op is MM:
                made = self.outside(node, late=False)
                if made is not None:
                    found[node] = self.row(node.type, made)
        return found

    def outside(self, x: Node, late: bool) -> Node | None:
        """A value of all rows, made outside: before the loop, or ``late`` of what is stacked."""
        key = (x, late)
        if key not in self.known:
            self.known[key] = self.rows.get(x)
            if isinstance(x.op, Op) and is_plain(x) and self.length * x.type.nbytes <= LARGE:
                self.known[key] = self.lifted(x, late)
            if late and self.known[key] is None and self.still(x) is None:
                self.known[key] = self.stack(x)
        return self.known[key]

    def lifted(self, x: Node, late: bool) -> Node | None:
        if isinstance(x.op, View):
            return self.lifted_view(x, late)
        if x.op is MM and not (late and self.uses[x] > 1):
            left, right = x.inputs
            rows, weight = self.outside(left, late), self.still(right)  # type: ignore[arg-type]
            if rows is None or weight is None:
                return None
            count, (depth, columns) = self.length * x.type.shape[0], weight.type.shape
            kind = TensorType((count, columns), x.type.dtype)
            product = self.make(MM, [self.shaped(rows, (count, depth)), weight], kind)
            return self.shaped(product, (self.length, *x.type.shape))
        if late or x.op.emit is None:
            return None
        rank, operands = len(x.type.shape), []
        for n in x.inputs:
            if n is None:
                return None
            found = self.still(n)
            if found is None:
                rows = self.outside(n, late)
                if rows is None:
                    return None
                found = self.shaped(rows, self.padded(n, rank))
            operands.append(found)
        return Node(x.op, tuple(operands), x.attrs, self.all_rows(x.type), x.source)

    def padded(self, x: Node, rank: int) -> tuple[int, ...]:
        """The shape of all rows of a value, each with so many dimensions."""
        return self.length, *[1] * (rank - len(x.type.shape)), *x.type.shape

    def lifted_view(self, x: Node, late: bool) -> Node | None:
        (given,) = x.inputs
        assert given is not None
        if late and x.op is SLICE and given not in self.rows and given not in self.stacks:
            return None
        rows = self.outside(given, late) if x.op in (VIEW, PERMUTE, EXPAND, SLICE) else None
        if rows is None:
            return None
        kind, rank, attrs = self.all_rows(x.type), len(given.type.shape), dict(x.attrs)
        if x.op is VIEW:
            return self.shaped(rows, kind.shape)
        if x.op is PERMUTE:
            attrs["dims"] = (0, *[d % rank + 1 for d in attrs["dims"]])
        elif x.op is SLICE:
            attrs["dim"] = attrs["dim"] % rank + 1
        else:
            rows, attrs["size"] = (
                self.shaped(rows, self.padded(given, len(x.type.shape))),
                kind.shape,
            )
        return self.make(x.op, [rows], kind, **attrs)

    # What is known after the loop.

    def stack(self, x: Node) -> Node:
        """What stands for the values that the loop makes for all rows."""
        if x not in self.stacks:
            self.stacks[x] = Node(INPUT, (), {}, self.all_rows(x.type))
        return self.stacks[x]

    def count_uses(self) -> dict[Node, int]:
        uses = dict.fromkeys(self.carried, 0)
        for node in [*walk(self.outputs)]:
            uses.setdefault(node, 0)
            for n in [n for n in node.inputs if n is not None]:
                uses[n] += 1
        for node in self.outputs:
            uses[node] += 1
        return uses

    def accumulate(self, i: int, sums: bool) -> None:
        """A carried value to which each step only adds, as a sum after the loop."""
        before, after = self.carried[i], self.outputs[i]
        if after.op is not ADD or self.uses[before] != 1 or self.uses[after] != 1:
            return
        if before not in after.inputs or after.type != before.type:
            return
        left, right = after.inputs
        total = self.total(right if left is before else left, sums)
        if total is not None and total.type == after.type:
            first = self.first[before]
            zero = number_of(first) == 0
            self.found[i] = total if zero else self.make(ADD, [first, total], after.type)

    def total(self, x: Node, sums: bool) -> Node | None:
        """The sum of a value over all rows, if it is a product or something like it."""
        if x.op is ADD:
            parts = [self.total(n, sums) for n in x.inputs if n is not None and n.type == x.type]
            if len(parts) < 2 or None in parts:
                return None
            return self.make(ADD, parts, x.type)  # type: ignore[arg-type]
        if x.op in (VIEW, PERMUTE):
            inner = self.total(x.inputs[0], sums)  # type: ignore[arg-type]
            return None if inner is None else copy(x, (inner,))
        if x.op is MM:
            return self.total_of_products(x, sums)
        if x.op is SUM and sums:
            return self.total_of_sums(x)
        if x.op is INDEX_PUT and x.attrs["layout"] == (True,) and x.attrs["accumulate"]:
            target, values, index = x.inputs
            given = [self.outside(n, late=True) for n in (values, index)]  # type: ignore[arg-type]
            if number_of(target) == 0 and None not in given:
                return copy(x, (self.still(target), *given))
        return None

    def total_of_products(self, x: Node, sums: bool) -> Node | None:
        """Σ P Q = [P₁ P₂ …] [Q₁ Q₂ …]ᵀ, and of what stays the same Σ P W = (Σ P) W."""
        left, right = [n for n in x.inputs if n is not None]
        fixed = self.still(left), self.still(right)
        if any(fixed):
            p, q = [w or self.total(n, sums) for w, n in zip(fixed, (left, right), strict=True)]
            return None if p is None or q is None else self.make(MM, [p, q], x.type)
        rows, depth = left.type.shape
        count, columns = self.length * depth, right.type.shape[1]
        p, q = self.outside(left, late=True), self.outside(right, late=True)
        if p is None or q is None:
            return None
        kind = TensorType((self.length, depth, rows), x.type.dtype)
        turned = self.shaped(self.make(PERMUTE, [p], kind, dims=(0, 2, 1)), (count, rows))
        kind = TensorType((rows, count), x.type.dtype)
        p, q = self.make(PERMUTE, [turned], kind, dims=(1, 0)), self.shaped(q, (count, columns))
        return self.make(MM, [p, q], x.type)

    def total_of_sums(self, x: Node) -> Node | None:
        """Sums over dimensions of a value that is there for all rows anyway."""
        (given,) = x.inputs
        rows = self.stacks.get(given) or self.rows.get(given)  # type: ignore[arg-type]
        if rows is None or given.type.dtype != x.type.dtype:  # type: ignore[union-attr]
            return None
        rank, dims = len(given.type.shape), x.attrs["dim"]  # type: ignore[union-attr]
        dims = range(rank) if dims is None else dims
        dims = (0, *sorted([d % rank + 1 for d in dims]))
        shape = tuple([n for d, n in enumerate(rows.type.shape) if d not in dims])
        kind = TensorType(shape, x.type.dtype)
        return self.shaped(self.make(SUM, [rows], kind, dim=dims, keepdim=False), x.type.shape)

    def rebuilt(self) -> list[Node]:
        """The loop of what is left, and the results, made of its own."""
        count = len(self.carried)
        kept = [i for i in range(count) if i not in self.found]
        carried = [self.carried[i] for i in kept]
        body = Graph(
            (*carried, *self.rows),
            tuple(self.captured),
            (*[self.outputs[i] for i in kept], *self.stacks),
        )
        states = [(kept.index(i), kept.index(j)) for i, j in self.node.attrs["states"]]
        attrs = {
            "body": body,
            "carried": len(kept),
            "length": self.length,
            "reverse": self.reverse,
            "states": tuple(states),
        }
        types = [n.type for n in (*carried, *self.stacks.values())]
        operands = [*[self.first[n] for n in carried], *self.rows.values(), *self.captured.values()]
        made = Node(SCAN, tuple(operands), attrs, tuple(types), self.node.source)
        for place, i in enumerate(kept):
            self.found[i] = item(made, place)
        stacks = enumerate(self.stacks.values(), len(kept))
        return rebuilt(
            [self.found[i] for i in range(len(self.outputs))],
            {node: item(made, place) for place, node in stacks},
        )


def is_plain(node: Node) -> bool:
    """Whether a value is one result of an op that draws nothing."""
    return (
        isinstance(node.op, Op)
        and not isinstance(node.op, Control)
        and not isinstance(node.type, tuple)
        and "generator" not in node.attrs
    )
