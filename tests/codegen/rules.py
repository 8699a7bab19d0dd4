"""Graph nodes that the samples of ops make, with their operands and results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import rushlight as rl
from rushlight.codegen.evaluate import evaluate, evaluate_scan, evaluate_scatter
from rushlight.graph.ir import CONSTANT, ITEM
from rushlight.graph.trace import Trace
from rushlight.ops.base import Op
from rushlight.ops.samples import S
from tests.sampling import Maker, flat

TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}


class Case(NamedTuple):
    """A node: its op, what it is given and what it gives."""

    op: Op
    operands: Sequence[Any]
    attrs: dict[str, Any]
    results: Sequence[np.ndarray]

    @property
    def key(self) -> Any:
        """What two cases have in common if one tells no more than the other."""
        kinds = [None if a is None else (a.shape, a.dtype.name) for a in self.operands]
        return self.op.name, str(kinds), repr(self.attrs)

    @property
    def is_complex(self) -> bool:
        arrays = [a for a in (*self.operands, *self.results) if a is not None]
        return any(a.dtype.kind == "c" for a in arrays)


class Run:
    """A sample of an op as a graph, perhaps with its gradients, computed node by node."""

    def __init__(self, op: Any, sample: S, dtype: Any, backward: bool) -> None:
        maker = Maker(dtype=dtype, grad=backward)
        args, kwargs = maker.make(list(sample.args)), maker.make(sample.kwargs)
        arrays = [t._array.copy() for t in maker.tensors]
        trace = Trace()

        def run() -> list[Any]:
            for t in maker.tensors:
                trace.input(t)
            results = flat(op.call(*args, **kwargs))
            self.count = len(results)
            roots = [y.sum() for y in results if y.requires_grad and y.is_floating_point()]
            leaves = [t for t in maker.tensors if t.requires_grad]
            if roots and leaves:
                found = rl.autograd.grad(roots, leaves, allow_unused=True)
                results += [g for g in found if g is not None]
            return results

        self.graph = trace.finish(trace.call(run))
        self.random = bool(trace.random.known)
        self.known: dict[Any, Any] = dict(zip(self.graph.inputs, arrays, strict=True))
        self.captures = trace.captures

    def cases(self) -> Iterator[Case]:
        """The nodes of the graph, computed by the kernels of their ops."""
        known = self.known
        known.update({c.node: c.tensor._array for c in self.captures})
        for node in self.graph.nodes():
            if node in known:
                continue
            if node.op is CONSTANT:
                known[node] = node.attrs["value"]
            elif node.op is ITEM:
                known[node] = known[node.inputs[0]][node.attrs["index"]]
            else:
                operands = [None if n is None else dense(known[n]) for n in node.inputs]
                with np.errstate(all="ignore"):
                    known[node] = y = node.op.compute(operands, node.attrs)
                results = [np.asarray(part) for part in (y if isinstance(y, tuple) else (y,))]
                yield Case(node.op, operands, dict(node.attrs), results)

    @property
    def results(self) -> list[np.ndarray]:
        """What the op itself returned, once all nodes are computed."""
        return [self.known[node] for node in self.graph.outputs[: self.count]]


def dense(array: Any) -> np.ndarray:
    """C-contiguous, as operands in a program are."""
    return np.array(array, order="C")


def evaluated(case: Case, which: int, shape: Sequence[int]) -> np.ndarray:
    """A result of the node as its rule of code generation has it."""
    op, attrs = case.op, case.attrs
    if op.scatter is not None:
        return evaluate_scatter(shape, case.operands, lambda b, *x: op.scatter(b, *x, **attrs))
    if op.scan is not None:
        return evaluate_scan(shape, case.operands, lambda b, *x: op.scan(b, *x, **attrs))

    def at(b: Any, i: Any, *sources: Any) -> Any:
        y = op.at(b, i, *sources, **attrs)
        return y[which] if isinstance(y, tuple) else y

    return evaluate(shape, case.operands, at)


def agree(case: Case) -> None:
    """An error unless the rule gives what the kernel gave, but for rounding."""
    for which, expected in enumerate(case.results):
        if expected.size:
            found = evaluated(case, which, expected.shape).astype(expected.dtype)
            same(found, expected)


def same(found: np.ndarray, expected: np.ndarray) -> None:
    error = TOLERANCE.get(expected.dtype.name, 0)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(found.astype(wide), expected.astype(wide), error, error)
