"""Nodes of a graph as scalar values: an element of a result, pulled back to loads from memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight import dtypes
from rushlight.codegen.traverse import Free, substitute, walk
from rushlight.codegen.values import FLOATS, INDEX, UNSIGNED, Builder, Loop, Source, Value
from rushlight.graph.attributes import DTYPES, LONG
from rushlight.graph.ir import CONSTANT, ITEM, Node


@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """Memory that a kernel reads or writes, C-contiguous.

    ``node`` is whose value it holds; memory between two kernels of one group has none, and memory
    that is only of use within one row is ``local``.
    """

    kind: str
    shape: tuple[int, ...]
    node: Node | None = None
    local: bool = False

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype(self) -> dtypes.dtype:
        return DTYPES[LONG[self.kind]]


def identity(how: str, kind: str, op: str = "fold") -> Any:
    """What a fold or a scan starts from: combined with it, nothing changes but a sum of −0.0.

    As NumPy has it, a sum starts from 0.0, but a running sum from its first element.
    """
    if how in ("and", "mul"):
        return 1
    if how == "or" or (how == "add" and kind not in FLOATS):
        return 0
    if how == "add":
        return -0.0 if op == "scan" else 0.0
    greatest = how in ("min", "argmin")
    if kind in FLOATS:
        return math.inf if greatest else -math.inf
    if kind == "b1":
        return int(greatest)
    bits = 64 if kind == INDEX else int(kind[1:])
    if kind in UNSIGNED:
        return 2**bits - 1 if greatest else 0
    return 2 ** (bits - 1) - 1 if greatest else -(2 ** (bits - 1))


class Columns(Builder):
    """A builder whose folds over the same sizes run over the same loop variables.

    So the values in the bodies of a softmax's maximum and of its sum are the same objects. Folds
    inside of a fold that do depend on its variables get variables of the next level.
    """

    def __init__(self) -> None:
        super().__init__()
        self.free = Free()
        self.loops: dict[tuple[tuple[int, ...], int], tuple[Loop, ...]] = {}
        self.open: dict[tuple[int, ...], int] = {}

    def level(self, sizes: tuple[int, ...], level: int) -> tuple[Loop, ...]:
        """The loop variables of folds over ``sizes``."""
        found = self.loops.get((sizes, level))
        if found is None:
            names = [f"c{level or ''}{'xyzuvw'[n % 6]}" for n in range(len(sizes))]
            found = tuple([Loop(name, size) for name, size in zip(names, sizes, strict=True)])
            self.loops[sizes, level] = found
        return found

    def fold(self, how: str, sizes: Sequence[Any], body: Callable[..., Any]) -> Value:
        sizes = tuple(sizes)
        level = self.open.get(sizes, 0)
        loops = self.level(sizes, level)
        self.open[sizes] = level + 1
        inner = body(*[self.variable(loop) for loop in loops])
        self.open[sizes] = level
        args = inner if isinstance(inner, tuple) else (inner,)
        kind = args[-1].kind
        if 0 in sizes:
            return self.constant(identity(how, kind), kind)
        for lower in range(level):
            other = self.level(sizes, lower)
            if not self.bound(args, loops, other):
                names = {
                    self.variable(a): self.variable(b) for a, b in zip(loops, other, strict=True)
                }
                args, loops = tuple(substitute(self, args, names)), other
                break
        loops = tuple([loop for loop in loops if loop.size != 1])
        return self.folded(how, args, loops)

    def bound(self, args: Iterable[Value], loops: Sequence[Loop], other: Sequence[Loop]) -> bool:
        """Whether ``other`` means something already where values depend on ``loops``."""
        for v in walk(args):
            free = self.free(v)
            if v.op == "fold" and not free.isdisjoint(loops):
                if not set(other).isdisjoint(v.data.loops):
                    return True
        return any([not self.free(a).isdisjoint(other) for a in args])


class Pull:
    """The nodes of a group as expressions; what is outside of the group is loaded from memory."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.b = Columns()
        self.inside = frozenset(nodes)
        self.buffers: dict[Node, Buffer] = {}
        self.known: dict[tuple[Node, tuple[Value, ...]], Any] = {}

    def buffer(self, node: Node) -> Buffer:
        """The memory of a node's value."""
        found = self.buffers.get(node)
        if found is None:
            found = self.buffers[node] = Buffer(node.type.kind, node.type.shape, node)
        return found

    def source(self, node: Node | None) -> Source | None:
        """A node as an operand of ``Op.at``."""
        if node is None:
            return None
        return Source(node.type.shape, node.type.kind, lambda index: self.element(node, index))

    def element(self, node: Node, index: Sequence[Any]) -> Any:
        """The element at ``index``; a tuple of them for a node with several results."""
        own = self.position(node, index)
        found = self.known.get((node, own))
        if found is None:
            self.operands_first(node, own)
            found = self.known[node, own] = self.compute(node, own)
        return found

    def position(self, node: Node, index: Sequence[Any]) -> tuple[Value, ...]:
        kind = node.type if not isinstance(node.type, tuple) else node.type[0]
        zero = self.b.constant(0, INDEX)
        return tuple(
            [zero if n == 1 else self.b.position(j) for n, j in zip(kind.shape, index, strict=True)]
        )

    def operands_first(self, node: Node, index: tuple[Value, ...]) -> None:
        """Pulls a chain of elementwise nodes from its beginning, which keeps recursion flat."""
        chain, stack = [], [(node, index)]
        seen = {(node, index)}
        while stack:
            chain.append(stack.pop())
            n, i = chain[-1]
            if n not in self.inside or n.op is ITEM or n.op.emit is None:
                continue
            for operand in n.inputs:
                if operand is None:
                    continue
                key = (operand, self.position(operand, i[len(i) - len(operand.type.shape) :]))
                if key not in seen and key not in self.known:
                    seen.add(key)
                    stack.append(key)
        for n, i in reversed(chain[1:]):
            if (n, i) not in self.known and n in self.inside and n.op is not ITEM and n.op.emit:
                self.known[n, i] = self.compute(n, i)

    def compute(self, node: Node, index: tuple[Value, ...]) -> Any:
        if not isinstance(node.type, tuple) and node.type.size == 0:
            return self.b.constant(0, node.type.kind)  # no element of it is ever looked at
        if node not in self.inside or (node.op is ITEM and node.inputs[0] not in self.inside):
            return self.load(node, index)
        if node.op is ITEM:
            assert node.inputs[0] is not None
            return self.element(node.inputs[0], index)[node.attrs["index"]]
        found = node.op.at(self.b, index, *[self.source(n) for n in node.inputs], **node.attrs)
        if isinstance(node.type, tuple):
            return tuple([v.cast(t.kind) for v, t in zip(found, node.type, strict=True)])
        return found.cast(node.type.kind)

    def load(self, node: Node, index: tuple[Value, ...]) -> Value:
        if node.op is CONSTANT and node.attrs["value"].size == 1:
            return self.b.constant(node.attrs["value"].reshape(-1)[0], node.type.kind)
        buffer = self.buffer(node)
        return self.b.load(buffer, buffer.kind, (linear(self.b, index, buffer.shape),))


def strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The distance of neighbours in each dimension of a C-contiguous array."""
    steps = [1] * len(shape)
    for n in range(len(shape) - 2, -1, -1):
        steps[n] = steps[n + 1] * (shape[n + 1] if shape[n + 1] != 0 else 1)
    return tuple(steps)


def linear(b: Builder, index: Sequence[Any], shape: Sequence[int]) -> Value:
    """The place of an element in a C-contiguous array."""
    terms = zip([b.position(j) for j in index], strides(shape), strict=True)
    return b.affine(list(terms))


def unravel(b: Builder, place: Value, shape: Sequence[int]) -> tuple[Value, ...]:
    """The index of the element at a place of a C-contiguous array."""
    steps = strides(shape)
    return tuple([(place // step) % size for step, size in zip(steps, shape, strict=True)])
