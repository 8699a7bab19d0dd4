"""Groups built by hand with example values, and kernels run on them."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

import rushlight as rl  # noqa: F401 - registers the ops
from rushlight import dtypes
from rushlight.codegen import llvm
from rushlight.codegen.evaluate import NUMPY
from rushlight.codegen.kernel import Kernel
from rushlight.codegen.loops import lower
from rushlight.graph.ir import INPUT, ITEM, Node, TensorType, constant, type_of
from rushlight.ops.base import registry
from rushlight.runtime import jit

FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True)
class Group:
    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]


class Graph:
    """Nodes with the arrays they hold."""

    def __init__(self) -> None:
        self.values: dict[Node, Any] = {}
        self.nodes: list[Node] = []

    def input(self, array: np.ndarray) -> Node:
        node = Node(INPUT, (), {}, TensorType(array.shape, dtypes.from_numpy(array.dtype)))
        self.values[node] = np.array(array, order="C")
        return node

    def constant(self, number: Any, kind: Any = np.float32) -> Node:
        node = constant(np.asarray(number, kind))
        self.values[node] = node.attrs["value"]
        return node

    def __call__(self, name: str, *inputs: Node | None, **attrs: Any) -> Node:
        op = registry[name]
        with np.errstate(all="ignore"):
            y = op.compute([None if n is None else self.values[n] for n in inputs], attrs)
        y = tuple([np.asarray(p) for p in y]) if isinstance(y, tuple) else np.asarray(y)
        node = Node(op, inputs, attrs, type_of(y))
        self.values[node] = y
        self.nodes.append(node)
        return node

    def item(self, node: Node, index: int) -> Node:
        item = Node(ITEM, (node,), {"index": index}, node.type[index])
        self.values[item] = self.values[node][index]
        self.nodes.append(item)
        return item

    def group(self, *outputs: Node) -> Group:
        return Group(tuple(self.nodes), outputs)


class Compiled:
    """Kernels in memory, with buffers for all they need."""

    def __init__(
        self,
        group: Group,
        values: dict[Node, Any],
        width: int = 32,
        half: bool = True,
        **options: Any,
    ) -> None:
        self.kernels = lower(group, **options)
        names = [f"k{n}" for n in range(len(self.kernels))]
        self.text = llvm.emit(dict(zip(names, self.kernels, strict=True)), width, half)
        self.library = jit.load([jit.compile_ir(self.text)])
        self.functions = [FUNCTION(self.library.address(name)) for name in names]
        self.memory: dict[Any, np.ndarray] = {}
        self.values = values
        self.tables = [self.table(kernel) for kernel in self.kernels]

    def table(self, kernel: Kernel) -> tuple[Any, np.ndarray]:
        addresses = []
        for buffer in kernel.inputs:
            if buffer.node is not None and buffer not in self.memory:
                self.memory[buffer] = np.array(self.values[buffer.node], order="C")
            addresses.append(self.memory[buffer].ctypes.data)
        for buffer in kernel.outputs:
            if buffer not in self.memory:
                self.memory[buffer] = np.empty(buffer.shape, NUMPY[buffer.kind])
            addresses.append(self.memory[buffer].ctypes.data)
        slot = np.zeros(2, np.int64)
        table = (ctypes.c_void_p * (len(addresses) + 1))(*addresses, slot.ctypes.data)
        return table, slot

    def __call__(self, parts: int = 1) -> dict[Node, np.ndarray]:
        for kernel, function, (table, slot) in zip(
            self.kernels, self.functions, self.tables, strict=True
        ):
            edges = [kernel.count * n // parts for n in range(parts + 1)]
            for begin, end in itertools.pairwise(edges):
                function(ctypes.addressof(table), begin, end)
            if slot[0]:
                number, position = int(slot[0]) - 1, int(slot[1])
                slot[:] = 0
                raise kernel.errors[number](position)
        found = [b for k in self.kernels for b in k.outputs if b.node is not None]
        return {b.node: self.memory[b].copy() for b in found if b.node is not None}


def results(group: Group, values: dict[Node, Any], width: int = 32, **options: Any) -> list[Any]:
    """The outputs of a group, which are the same when its kernels run in several parts."""
    compiled = Compiled(group, values, width, **options)
    once, again = compiled(1), compiled(3)
    for node in group.outputs:
        if node in once:
            same(once[node], again[node])
    return [
        once.get(node, np.empty(node.type.shape, node.type.dtype.numpy)) for node in group.outputs
    ]


def same(a: np.ndarray, b: np.ndarray) -> None:
    """Equal arrays, NaN included, of bfloat16 too."""
    exact = np.float64 if a.dtype.kind in "fV" else a.dtype
    with np.errstate(invalid="ignore"):  # signalling NaN
        np.testing.assert_array_equal(a.astype(exact), b.astype(exact))


def check(
    graph: Graph,
    *outputs: Node,
    widths: tuple[int, ...] = (16, 32),
    rtol: float = 0,
    **options: Any,
) -> None:
    """Native results equal the eager ones."""
    for width in widths:
        found = results(graph.group(*outputs), graph.values, width, **options)
        for node, y in zip(outputs, found, strict=True):
            expected = graph.values[node]
            assert y.shape == expected.shape
            if rtol and node.type.dtype.is_floating_point:
                np.testing.assert_allclose(
                    y.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=rtol
                )
            else:
                same(y, expected)
