"""A graph as the nodes of an ONNX file: names for values, initializers for constants.

An exporter of an op is a function of the writer, the node and the names of its operands:

    @exports("relu")
    def relu(w: Writer, node: Node, x: str) -> str:
        return w("Relu", x)
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np

from rushlight import dtypes
from rushlight.dims import symbols_of
from rushlight.graph.ir import CAPTURED, CONSTANT, INPUT, ITEM, Graph, Node, TensorType, compute
from rushlight.graph.script.says import Say
from rushlight.graph.streams import STATE
from rushlight.onnx.elements import NUMBERS
from rushlight.onnx.options import OnnxExporterError
from rushlight.onnx.sizes import Measures
from rushlight.ops.views import View

DRAWS = ("Random", "Dropout")  # nodes whose results differ though their inputs are the same
SMALL = 1 << 12  # bytes of a result that may be larger than what it is computed from

Names = Any
"""The name of a value, or a tuple of names for a node with several results."""


class Exporter(NamedTuple):
    """How an op is written, from which version of ONNX on, and whether it is never taken apart."""

    write: Callable[..., Names]
    since: int
    whole: bool


EXPORTERS: dict[str, Exporter] = {}


def exports(
    *ops: str, since: int = 0, whole: bool = True
) -> Callable[[Callable[..., Names]], Callable[..., Names]]:
    """Registers a function as the exporter of ``ops``.

    Args:
        since: in files of earlier versions, what an op decomposes into is written in its place.
        whole: an op that can be decomposed is not.
    """

    def register(write: Callable[..., Names]) -> Callable[..., Names]:
        for op in ops:
            EXPORTERS[op] = Exporter(write, since, whole)
        return write

    return register


@dataclass(slots=True)
class Entry:
    """One node of a file."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    source: str = ""


@dataclass(slots=True)
class Body:
    """The graph of a file, or of a branch or loop in it."""

    inputs: list[tuple[str, TensorType]] = field(default_factory=list)
    nodes: list[Entry] = field(default_factory=list)
    outputs: list[tuple[str, TensorType]] = field(default_factory=list)
    known: dict[Any, Names] = field(default_factory=dict)  # entries that are there already


class Writer:
    """Writes nodes, each once, after those that they depend on.

    Args:
        opset: the version of ONNX's operators.
        fold: whether what does not depend on inputs is computed now.
        places: where the symbols for sizes can be read.
        possible: whether symbols can be certain numbers.
    """

    def __init__(
        self,
        opset: int,
        fold: bool = True,
        places: Mapping[str, tuple[str, int, int]] | None = None,
        possible: Callable[[Any], bool] | None = None,
    ) -> None:
        self.opset, self.fold, self.possible = opset, fold, possible
        self.measures = Measures(self, places or {})
        self.root = self.body = Body()
        self.initializers: dict[str, np.ndarray] = {}
        self.by_content: dict[Any, str] = {}
        self.values: dict[Node, Names] = {}
        self.arrays: dict[Node, Any] = {}  # of nodes that do not depend on inputs
        self.titles: dict[Node, str] = {}  # of captured values
        self.parameters: set[Node] = set()  # captured values that are learnt
        self.used: dict[Node | None, set[int]] = {}  # which of several results are
        self.shared: set[Node] = set()  # values that are used more than once
        self.taken: set[str] = {""}
        self.counts: dict[str, int] = {}  # of names, as far as they have numbers
        self.now: Node | None = None

    def __call__(self, kind: str, *inputs: str | None, outputs: int = 1, **attrs: Any) -> Any:
        """A node of ONNX: the name of its result, or a tuple of ``outputs`` of them."""
        given = tuple([name or "" for name in inputs])
        key = (kind, given, outputs, repr(attrs))
        found = self.body.known.get(key)
        if found is None:
            found = tuple([self.fresh(kind.lower()) for _ in range(outputs)])
            source = "" if self.now is None or self.now.source is None else str(self.now.source)
            self.body.nodes.append(Entry(kind, given, found, attrs, source))
            inner = any([isinstance(value, Body) for value in attrs.values()])
            if not inner and not kind.startswith(DRAWS):
                self.body.known[key] = found
        return found[0] if outputs == 1 else found

    def fresh(self, name: str) -> str:
        """``name`` if nothing is called so yet, else with a number."""
        found = name
        while found in self.taken:
            self.counts[name] = self.counts.get(name, 0) + 1
            found = f"{name}_{self.counts[name]}"
        self.taken.add(found)
        return found

    def constant(self, value: Any, dtype: Any = None, name: str = "") -> str:
        """The name of an initializer with these elements; equal ones of one name are one.

        Weights that merely begin alike stay apart: a loaded model may train them.
        """
        array = np.asarray(value, dtype.numpy if isinstance(dtype, dtypes.dtype) else dtype)
        key = (array.dtype, array.shape, digest(array), name)
        if key not in self.by_content:
            found = self.by_content[key] = self.fresh(name or "constant")
            self.initializers[found] = array
        return self.by_content[key]

    def cast(self, x: str, dtype: dtypes.dtype) -> str:
        return self("Cast", x, to=NUMBERS[dtype.numpy])

    def like(self, value: Any, node: Node) -> str:
        """A number of the dtype of a node."""
        return self.constant(value, node.type.dtype)

    def ints(self, *numbers: Any, scalar: bool = False) -> str:
        """Sizes, positions or axes: a vector of integers, or a ``scalar``."""
        if all([isinstance(n, int) for n in numbers]):
            return self.constant(np.array(numbers[0] if scalar else numbers, np.int64))
        return self.measures.size(numbers[0]) if scalar else self.measures.vector(numbers)

    def need_numbers(self, sizes: Sequence[Any]) -> None:
        """An error if some of these sizes change."""
        if not all([isinstance(n, int) for n in sizes]):
            raise self.refusal("its sizes must be numbers: leave them out of dynamic_axes")

    def product(self, sizes: Sequence[Any]) -> str:
        """The product of sizes, as a value."""
        return self.ints(prod(sizes), scalar=True)

    def rows(self, length: Any) -> str:
        """The numbers 0, 1, … below a length."""
        ends = [self.ints(n, scalar=True) for n in (0, length, 1)]
        return self("Range", *ends)

    def filled(self, value: Any, kind: TensorType) -> str:
        """A tensor of equal elements."""
        one = np.array([value], kind.dtype.numpy)
        return self("ConstantOfShape", self.ints(*kind.shape), value=one)

    def transposed(self, node: Node) -> str:
        """A matrix with its dimensions exchanged."""
        if node in self.arrays and not self.is_learnt(node):
            return self.constant(self.arrays[node].T, name=self.title(node, "transposed"))
        return self("Transpose", self.name(node), perm=[1, 0])

    def title(self, node: Node, change: str) -> str:
        """What a weight is called once it is not quite itself any more."""
        return f"{self.titles[node]}_{change}" if node in self.titles else ""

    def reshape(self, x: str, *shape: Any) -> str:
        """``x`` in another shape, in which −1 or one size that changes follows from the others."""
        numbers = [n for n in shape if isinstance(n, int)]
        if len(numbers) == len(shape) - 1 and min(numbers, default=1) > 0:
            shape = tuple([n if isinstance(n, int) else -1 for n in shape])
        changes = -1 not in shape and len(numbers) < len(shape)  # any of them may be 0
        zeros = {"allowzero": 1} if (changes or 0 in numbers) and self.opset >= 14 else {}
        return self("Reshape", x, self.ints(*shape), **zeros)

    def alias(self, name: str, own: str) -> None:
        """Another name for a value, in the body that is being written."""
        self.body.nodes.append(Entry("Identity", (name,), (own,), {}))

    def end(self, body: Body, results: Sequence[tuple[str, TensorType]]) -> None:
        """Makes values the outputs of a body that is being written, under names of its own."""
        for name, kind in results:
            own = self.fresh(name)
            self.alias(name, own)
            body.outputs.append((own, kind))

    def close(self, results: Sequence[tuple[str, str, TensorType]]) -> None:
        """Makes values the outputs of the file: each has a name so far, and gets another one."""
        made = {name for entry in self.root.nodes for name in entry.outputs}
        given: dict[str, str] = {}
        for name, own, kind in results:
            if name in made and name not in given:
                given[name] = own
            else:  # an input or constant, or a value that is an output already
                self.alias(name, own)
            self.root.outputs.append((own, kind))
        rename(self.root, given)
        read = prune(self.root)
        self.initializers = {name: a for name, a in self.initializers.items() if name in read}

    def uses(self, node: Node) -> set[int]:
        """Which of the results of a node others use."""
        return self.used.get(node, set())

    def name(self, node: Node | None) -> Names:
        """The name of a node's value; one that is known becomes an initializer now."""
        if node is None:
            return None
        if node not in self.values:
            array = self.arrays[node]
            if node not in self.parameters and self.is_learnt(node):
                self.values[node] = self.written(node)
            elif isinstance(array, tuple):
                self.values[node] = tuple([self.constant(part) for part in array])
            else:
                self.values[node] = self.constant(array, name=self.titles.get(node, ""))
        return self.values[node]

    def is_learnt(self, node: Node) -> bool:
        """Whether a node is a parameter or a view of one, which keeps it whole in the file.

        Runtimes compute views of initializers once.
        """
        while node not in self.parameters:
            exporter = EXPORTERS.get(node.op.full_name)
            if not isinstance(node.op, View) or exporter is None or exporter.since > self.opset:
                return False
            node = operand(node)
        return True

    def write(self, graph: Graph) -> list[str]:
        """Writes all nodes that outputs depend on; their names."""
        nodes = graph.nodes()
        for node in nodes:
            if node.op is ITEM:
                self.used.setdefault(node.inputs[0], set()).add(node.attrs["index"])
        uses = Counter([n for node in nodes for n in node.inputs if n is not None])
        uses.update(graph.outputs)
        self.shared.update([node for node, count in uses.items() if count > 1])
        for node in nodes:
            if node.op not in (INPUT, CAPTURED) and node not in self.values:
                self.now = node
                self.write_node(node)
        return [self.name(node) for node in graph.outputs]

    def write_node(self, node: Node) -> None:
        if self.is_known(node):
            self.arrays[node] = compute(node, [n and self.arrays[n] for n in node.inputs])
            return
        if node.op is ITEM:
            (whole,) = node.inputs
            self.values[node] = self.name(whole)[node.attrs["index"]]
            return
        self.values[node] = self.written(node)

    def written(self, node: Node) -> Names:
        """The results of a node that its exporter writes."""
        exporter = EXPORTERS.get(node.op.full_name)
        operands = [self.name(n) for n in node.inputs]
        if exporter is None or exporter.since > self.opset:
            exporter = EXPORTERS["formula"] if node.op.emit is not None else exporter
        if exporter is None:
            raise self.refusal("ONNX has no such operator")
        if exporter.since > self.opset:
            raise self.refusal(f"it needs opset_version={exporter.since} or later")
        if node.attrs.get("generator") is None and STATE in [n.type for n in node.inputs if n]:
            raise self.refusal("it draws random numbers inside a branch or loop")
        return exporter.write(self, node, *operands)

    def is_known(self, node: Node) -> bool:
        """Whether a node does not depend on inputs, and is worth computing now."""
        if node.op is CONSTANT:
            return True
        if not all([n is None or n in self.arrays for n in node.inputs]):
            return False
        if isinstance(node.op, Say):
            return False  # it would speak now
        if node.op is ITEM:
            return True
        kinds = node.type if isinstance(node.type, tuple) else (node.type,)
        moving = symbols_of([*[kind.shape for kind in kinds], *node.attrs.values()])
        if not self.fold or moving:
            return False
        given = sum([n.type.nbytes for n in node.inputs if n is not None])
        return sum([kind.nbytes for kind in kinds]) <= max(given, SMALL)

    @contextmanager
    def inside(self) -> Iterator[Body]:
        """A body of its own for what is written meanwhile: a branch, or a step of a loop.

        It sees all values of outside; those that it makes mean nothing there.
        """
        outer, self.body = self.body, Body()
        before = dict(self.values)
        try:
            yield self.body
        finally:
            self.body, self.values = outer, before

    def refusal(self, why: str) -> OnnxExporterError:
        """The error for the op that is being written."""
        assert self.now is not None
        source = self.now.source
        place = f" at {source.file}:{source.line}" if source else ""
        module = f" in {source.module}" if source and source.module else ""
        name = self.now.op.title or self.now.op.full_name
        return OnnxExporterError(f"{name}{module}{place} cannot be exported: {why}")


def operand(node: Node, number: int = 0) -> Any:
    """One of the operands of a node, which it has."""
    return node.inputs[number]


def rename(body: Body, names: Mapping[str, str]) -> None:
    """Gives values other names, in a body and all that it holds."""
    for entry in body.nodes:
        entry.inputs = tuple([names.get(name, name) for name in entry.inputs])
        entry.outputs = tuple([names.get(name, name) for name in entry.outputs])
        for value in entry.attrs.values():
            if isinstance(value, Body):
                rename(value, names)


def prune(body: Body) -> set[str]:
    """Drops nodes that nobody uses; the names that a body reads."""
    read = {name for name, _ in body.outputs}
    kept = []
    for entry in reversed(body.nodes):
        if not read.isdisjoint(entry.outputs):
            kept.append(entry)
            read.update(entry.inputs)
            read.update(*[prune(x) for x in entry.attrs.values() if isinstance(x, Body)])
    body.nodes = kept[::-1]
    return read


def digest(array: np.ndarray) -> bytes:
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return hashlib.sha256(content.data).digest()
