"""Proof that the loops of a graph stay inside its values, for graphs that come from a file.

A rule of an op (``at``, ``scatter``, ``scan``) names the elements that it reads and writes by index
values, whose least and greatest are known from the loops around them. If all are inside for each
node by itself, they are so for the loops that nodes are fused into.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from rushlight.codegen.evaluate import Evaluation
from rushlight.codegen.traverse import walk
from rushlight.codegen.values import INDEX, Builder, Source, Value
from rushlight.graph.attributes import nested
from rushlight.graph.control import Control
from rushlight.graph.ir import Graph, Node, TensorType
from rushlight.ops.base import Op
from rushlight.ops.families import Pointwise
from rushlight.ops.views import View
from rushlight.passes.clusters import is_library, types

TRIED = 1 << 22  # indices that are computed one by one, where bounds say too little
LARGEST = 1 << 62  # of what indices are made of: they must not overflow
OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
LIMITS = {
    "lt": (None, -1), "le": (None, 0), "gt": (1, None), "ge": (0, None), "eq": (0, 0),
    "ne": (None, None),
}  # fmt: skip
"""Of x − y, if the relation of x and y holds."""

Limits = tuple[int | None, int | None]


def check_reach(graph: Graph) -> None:
    """An error if a node of a graph, whose types are right, would read or write elsewhere.

    >>> from rushlight.graph.parse import parse
    >>> check_reach(parse("graph(%0: f32[3]):\\n  %1: f32[3] = exp(%0)\\n  return %1"))
    """
    for node in graph.nodes():
        for inner in nested(node.attrs):
            check_reach(inner)
        if not isinstance(node.op, Op) or isinstance(node.op, Control) or is_plain(node.op):
            continue
        seen = isinstance(node.op, View) and not node.op.library  # by library calls, too
        if seen or not is_library(node):
            try:
                Reach().check(node)
            except Exception as error:
                raise TypeError(f"{node.op.full_name}: {error}") from None


def is_plain(op: Op) -> bool:
    """Whether an op reads what broadcasting brings to an index, as its rule of types has found."""
    return type(op).at is Pointwise.at and type(op).infer is Pointwise.infer


class Reach(Builder):
    """The elements that a node reads and writes; conditions narrow what indices can be."""

    def __init__(self) -> None:
        super().__init__()
        self.assumed: list[tuple[Value, Limits]] = []

    def check(self, node: Node) -> None:
        """An error unless all of them are there."""
        shape = types(node)[0].shape
        if 0 in shape:
            return
        op, sources = node.op, [self.source(n) for n in node.inputs]
        index = self.indices(shape)
        if op.scatter is not None:
            rule = op.scatter(self, *sources, **node.attrs)
            rule.start(index)
            if 0 not in rule.sizes:
                target, _ = rule.element(self.indices(rule.sizes))
                self.visit(shape, target)
        elif op.scan is not None:
            rule = op.scan(self, *sources, **node.attrs)
            if not 0 <= rule.dim < max(1, len(shape)):
                raise TypeError(f"it runs along dimension {rule.dim} of {len(shape)}")
            rule.element(index)
        else:
            op.at(self, index, *sources, **node.attrs)

    def indices(self, shape: Sequence[int]) -> tuple[Value, ...]:
        return tuple([self.loop(f"i{n}", size) for n, size in enumerate(shape)])

    def source(self, node: Node | None) -> Source | None:
        """An operand whose elements are asked for."""
        if node is None:
            return None
        kind: TensorType = node.type
        scalar = "f64" if kind.dtype.is_complex else kind.kind  # of views alone, which move it

        def read(index: Sequence[Any]) -> Value:
            if kind.size:  # else no element of it is ever looked at
                self.visit(kind.shape, index)
            return self.load(node, scalar, index)

        return Source(kind.shape, scalar, read)

    def visit(self, shape: Sequence[int], index: Sequence[Any]) -> None:
        """An error unless an index, in all turns of the loops, is one of ``shape``."""
        for j, n in zip(index, shape, strict=True):
            if not self.inside(self.position(j), n):
                raise IndexError(f"an index of a dimension of size {n} can be out of range")

    def inside(self, position: Value, size: int) -> bool:
        """Whether an index is always in 0 … size − 1."""
        bounds = self.bounds(position)
        if bounds is None or bounds[0] < 0 or bounds[1] >= size:
            bounds = self.tried(position)
        return bounds is not None and bounds[0] >= 0 and bounds[1] < size

    def tried(self, position: Value) -> tuple[int, int] | None:
        """The bounds of an index by computing it, if it depends on loops alone, and not many."""
        parts = walk([position])
        loops = [v.data for v in parts if v.op == "var"]
        count = math.prod([loop.size for loop in loops])
        if not 0 < count <= TRIED or any([v.op in ("load", "fold", "checked") for v in parts]):
            return None
        found = Evaluation(loops, {}).of(position)
        return int(np.min(found)), int(np.max(found))

    def bounds(self, x: Value) -> tuple[int, int] | None:
        if x.op == "where" and x.kind == INDEX:
            condition, a, b = x.args
            with self.given(condition, True):
                first = self.bounds(a)
            with self.given(condition, False):
                second = self.bounds(b)
            found = first and second and (min(first[0], second[0]), max(first[1], second[1]))
        elif x.op == "fold" and x.data.how in ("max", "min") and x.kind == INDEX:
            empty = any([loop.size == 0 for loop in x.data.loops])
            found = None if empty else self.bounds(x.args[0])
        else:
            found = super().bounds(x)
        if found is not None and max(-found[0], found[1]) >= LARGEST:
            raise OverflowError("an index is too large for native code")
        return self.narrowed(x, found) if self.assumed and x.op != "constant" else found

    def narrowed(self, x: Value, found: tuple[int, int] | None) -> tuple[int, int] | None:
        """Bounds of ``x`` within those that conditions on sums of it and known indices leave."""
        low, high = found if found is not None else (None, None)
        outside, self.assumed = self.assumed, []
        for y, (least, most) in outside:
            for sign, begin, end in ((1, least, most), (-1, most, least)):
                rest = self.bounds(self.affine([(x, 1), (y, -sign)]))  # x = rest + sign · y
                if rest is None:
                    continue
                if begin is not None:
                    at_least = rest[0] + sign * begin
                    low = at_least if low is None else max(low, at_least)
                if end is not None:
                    at_most = rest[1] + sign * end
                    high = at_most if high is None else min(high, at_most)
        self.assumed = outside
        return None if low is None or high is None else (low, high)

    @contextmanager
    def given(self, condition: Value, holds: bool) -> Iterator[None]:
        """Where a condition on indices holds, or does not."""
        before = len(self.assumed)
        self.assumed += self.limits(condition, holds)
        yield
        del self.assumed[before:]

    def limits(self, condition: Value, holds: bool) -> Iterator[tuple[Value, Limits]]:
        """What a condition says about indices: they are between two numbers."""
        if condition.op == ("and" if holds else "or"):
            for part in condition.args:
                yield from self.limits(part, holds)
        elif condition.op in LIMITS and condition.args[0].kind == INDEX:
            x, y = condition.args
            relation = condition.op if holds else OPPOSITE[condition.op]
            yield self.affine([(x, 1), (y, -1)]), LIMITS[relation]
