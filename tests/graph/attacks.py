"""Graphs with false attributes: verification refuses them, or they do no harm."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.compile import graph as graph_of
from rushlight.graph.ir import Graph, Node, interpret, rebuild
from rushlight.graph.verify import verify
from rushlight.ops import registry
from rushlight.ops.base import Op
from rushlight.runtime.executable import Executable
from tests.sampling import Maker, flat

UNDEFINED = (
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided",
    "sound", "sort", "argsort", "cdist",
)  # fmt: skip
"""Ops whose results are arbitrary, or whose attributes say the same thing twice."""
NUMBERS = (-7, -1, 0, 1, 2, 1000)


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
        yield from [n for n in {*NUMBERS, value + 1, value - 1} if n != value]
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


def attacks(graph: Graph) -> Iterator[Graph]:
    """The graph with one attribute of one node changed."""
    for target in graph.nodes():
        if not isinstance(target.op, Op):
            continue
        for name, value in target.attrs.items():
            for other in others(value):
                attrs = {**target.attrs, name: other}

                def change(node: Node, inputs: Any, attrs: Any = attrs, at: Node = target) -> Node:
                    return replace(node, inputs=inputs, attrs=attrs if node is at else node.attrs)

                yield rebuild(graph, change)


def arrays_for(graph: Graph) -> list[np.ndarray]:
    source = np.random.default_rng(0)
    made = []
    for node in graph.inputs:
        kind = node.type.dtype.numpy
        made.append(np.asarray(source.random(node.type.shape) * 2 + 0.1).astype(kind, order="C"))
    return made


def survive(graph: Graph) -> str:
    """What becomes of a false graph."""
    try:
        verify(graph)
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


def run(begin: int, end: int) -> dict[str, int]:
    seen: dict[str, int] = {}
    for name, op in list(registry.items())[begin:end]:
        if name in UNDEFINED:
            continue
        print(name, end=" ", file=sys.stderr, flush=True)
        for graph in graphs(op):
            try:
                verify(graph)
            except Exception as error:
                print(f"{name} is refused: {error}", graph)
                continue
            for number, false in enumerate(attacks(graph)):
                if number > 60:
                    break
                outcome = survive(false)
                if outcome.startswith("MISMATCH"):
                    outcome = f"{name}: {outcome}"
                    if outcome not in seen:
                        print(outcome, false, file=sys.stdout, flush=True)
                seen[outcome] = seen.get(outcome, 0) + 1
    return seen


if __name__ == "__main__":
    for outcome, count in sorted(run(int(sys.argv[1]), int(sys.argv[2])).items()):
        print(count, outcome)
