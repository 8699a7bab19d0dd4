"""False graphs: verification refuses them, or they do no harm.

python -m tests.graph.attacks 0 50 [rules]

The process ends at once where native code reads or writes beyond an operand or a result. With
``rules`` no kernel is tried on zeros, as none is on large operands.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.codegen.reach import check_reach, is_plain
from rushlight.compile import graph as graph_of
from rushlight.graph.attributes import nested
from rushlight.graph.ir import INPUT, ITEM, Graph, Node, TensorType, interpret, rebuild
from rushlight.graph.verify import result_types, verify
from rushlight.ops import registry
from rushlight.ops.base import Op
from rushlight.runtime import executable
from rushlight.runtime.executable import Executable
from tests.runtime.guarded import guarded
from tests.sampling import Maker, flat

UNDEFINED = (
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided",
    "sound", "sort", "argsort", "cdist",
)  # fmt: skip
"""Ops whose results are arbitrary, or whose attributes say the same thing twice."""
NUMBERS = (-7, -1, 0, 1, 2, 1000)
DTYPES = (rl.float32, rl.float64, rl.int64, rl.int32, rl.bool, rl.float16)
Types = Sequence[TensorType | None]


def graphs(op: Op) -> Iterator[Graph]:
    """The graphs of the samples of an op, with gradients."""
    for sample in op.samples[:3]:
        maker = Maker(dtype=rl.float32, grad=True)
        args, kwargs = maker.make(list(sample.args)), maker.make(sample.kwargs)

        def call(args: Any, kwargs: Any) -> Any:
            return flat(op.call(*args, **kwargs))

        try:
            found = graph_of(call, args, kwargs)
        except Exception:
            continue
        if not found.captured and not found.writes:
            yield found


def others(value: Any) -> Iterator[Any]:
    """Values in the place of an attribute."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from [n for n in dict.fromkeys([*NUMBERS, value + 1, value - 1]) if n != value]
    elif isinstance(value, tuple):
        yield ()
        yield (*value, *value)
        for i, part in enumerate(value):
            for other in others(part):
                made = (*value[:i], other, *value[i + 1 :])
                yield type(value)(*made) if hasattr(value, "_fields") else made
    elif isinstance(value, slice):
        for parts in others((value.start, value.stop, value.step)):
            if len(parts) == 3:
                yield slice(*parts)
    elif value is None:
        yield from (0, 1, (0,))


def other_types(kind: TensorType) -> Iterator[TensorType]:
    """Types in the place of an operand's."""
    shape = kind.shape
    shapes = [shape[1:], shape[:-1], (2, *shape), (*shape, 2), ()]
    for d, n in enumerate(shape):
        shapes += [(*shape[:d], m, *shape[d + 1 :]) for m in (n - 1, n + 1, 1, 0, 40) if m >= 0]
    yield from [TensorType(other, kind.dtype) for other in dict.fromkeys(shapes) if other != shape]
    yield from [TensorType(shape, dtype) for dtype in DTYPES if dtype is not kind.dtype]


def changed_attributes(attrs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, value in attrs.items():
        yield from [{**attrs, name: other} for other in others(value)]


def changed_operands(types: Types) -> Iterator[Types]:
    for i, kind in enumerate(types):
        if kind is not None:
            yield from [[*types[:i], other, *types[i + 1 :]] for other in other_types(kind)]
            yield [*types[:i], None, *types[i + 1 :]]


def attacks(graph: Graph) -> Iterator[Graph]:
    """The graph with one attribute of one node changed."""
    for target in graph.nodes():
        if not isinstance(target.op, Op):
            continue
        for attrs in changed_attributes(target.attrs):

            def change(node: Node, inputs: Any, attrs: Any = attrs, at: Node = target) -> Node:
                return replace(node, inputs=inputs, attrs=attrs if node is at else node.attrs)

            yield rebuild(graph, change)


def attacks_alone(node: Node) -> Iterator[Graph]:
    """Graphs of one node with other operands or attributes, whose type is right if it has one."""
    types = [None if n is None else n.type for n in node.inputs]
    few = 6 if is_plain(node.op) else None
    changed = [*changed_operands(types)][:few]
    for operands in changed:
        yield alone(node, operands, node.attrs)
    for number, attrs in enumerate(islice(changed_attributes(node.attrs), few)):
        yield alone(node, types, attrs)
        if changed:
            yield alone(node, changed[number % len(changed)], attrs)


def alone(node: Node, types: Types, attrs: Mapping[str, Any]) -> Graph:
    """A graph of this node with other operands and attributes, and the type that its rule gives."""
    try:
        kind = result_types(node.op, types, attrs)
    except Exception:
        kind = node.type
    inputs = [t and Node(INPUT, (), {}, t) for t in types]
    made = Node(node.op, tuple(inputs), attrs, kind)
    outputs = [made]
    if isinstance(kind, tuple):
        outputs = [Node(ITEM, (made,), {"index": i}, part) for i, part in enumerate(kind)]
    return Graph(tuple([n for n in inputs if n is not None]), (), tuple(outputs))


def arrays_for(graph: Graph) -> list[np.ndarray]:
    source = np.random.default_rng(0)
    made = []
    for node in graph.inputs:
        array = guarded(node.type.shape, node.type.dtype.numpy)
        array[...] = (source.random(node.type.shape) * 2 + 0.1).astype(array.dtype)
        made.append(array)
    return made


def survive(graph: Graph) -> str:
    """What becomes of a false graph."""
    try:
        verify(graph)
        check_reach(graph)
    except Exception:
        return "refused"
    inputs = arrays_for(graph)
    try:
        expected: Any = interpret(graph, [a.copy() for a in inputs])[0]
    except Exception as error:
        expected = error
    try:
        found: Any = Executable(graph).run(inputs, ())
    except Exception as error:
        found = error
    if isinstance(found, Exception):
        return "failed"
    if isinstance(expected, Exception):
        return f"MISMATCH: runs in spite of {expected!r:.80}"
    for a, b in zip(expected, found, strict=True):
        same = np.allclose(
            np.asarray(a, np.float64), np.asarray(b, np.float64), 1e-3, 1e-4, equal_nan=True
        ) if a.dtype.kind in "fiub" else True  # fmt: skip
        if not same:
            return "MISMATCH of values"
    return "ran"


def false_graphs(op: Op, seen: set[str]) -> Iterator[tuple[str, Graph]]:
    """False graphs made of an op's samples: whole ones, and of nodes that were not ``seen``."""
    for graph in graphs(op):
        for false in islice(attacks(graph), 60):
            yield op.name, false
        for node in graph.nodes():
            if not isinstance(node.op, Op) or node.op.name in UNDEFINED:
                continue
            if any(nested(node.attrs)) or "generator" in node.attrs:
                continue
            types = [n and str(n.type) for n in node.inputs]
            key = f"{node.op.full_name} {types} {node.attrs}"
            if key not in seen:
                seen.add(key)
                for false in attacks_alone(node):
                    yield node.op.name, false


def run(begin: int, end: int, seen: set[str] | None = None) -> Counter[str]:
    """What became of false graphs of some ops, of which nodes in ``seen`` were met before."""
    executable.empty = guarded
    seen, outcomes = set() if seen is None else seen, Counter[str]()
    for name, op in list(registry.items())[begin:end]:
        if name in UNDEFINED:
            continue
        print(name, end=" ", file=sys.stderr, flush=True)
        for about, false in false_graphs(op, seen):
            outcome = survive(false)
            if outcome.startswith("MISMATCH"):
                outcome = f"{about}: {outcome}"
                if outcome not in outcomes:
                    print(outcome, false, flush=True)
            outcomes[outcome] += 1
    return outcomes


def by_rules_alone() -> None:
    """No kernel is tried from now on, as none is on large operands."""
    sys.modules["rushlight.graph.verify"].TRIED = -1  # type: ignore[attr-defined]


if __name__ == "__main__":
    if sys.argv[3:] == ["rules"]:
        by_rules_alone()
    for outcome, count in sorted(run(int(sys.argv[1]), int(sys.argv[2])).items()):
        print(count, outcome)
