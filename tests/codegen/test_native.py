"""Every op's rule, compiled, gives what its eager kernel gives."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn
from rushlight.ops import registry
from rushlight.ops.base import Op
from rushlight.symbol import TraceError
from tests.codegen.kernels import Graph, results
from tests.codegen.rules import TOLERANCE, Case, Run

UNDEFINED = ("empty", "empty_like", "empty_strided", "empty_permuted")
REFUSALS = (
    *(RuntimeError, TypeError, ValueError, IndexError, OverflowError, AssertionError),
    *(NotImplementedError, TraceError),
)
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]


def agree(case: Case) -> None:
    """Native results of widths 16 and 32 equal the eager ones."""
    graph = Graph()
    inputs = [None if a is None else graph.input(a) for a in case.operands]
    node = graph(case.op.full_name, *inputs, **case.attrs)
    several = isinstance(node.type, tuple)
    outputs = [graph.item(node, n) for n in range(len(node.type))] if several else [node]
    for width in (16, 32):
        found = results(graph.group(*outputs), graph.values, width)
        for output, y in zip(outputs, found, strict=True):
            expected = graph.values[output]
            tolerance = TOLERANCE.get(expected.dtype.name, 0)
            np.testing.assert_allclose(
                y.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance
            )


def ruled(op: Op) -> bool:
    return bool(op.at or op.scatter or op.scan) and not op.dynamic and op.name not in UNDEFINED


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
@pytest.mark.parametrize("name", sorted(registry))
def test_native_code_agrees(name: str, dtype: str) -> None:
    """Of all nodes that the samples of an op make, gradients included."""
    kind = getattr(rl, dtype)
    met = set()
    for sample in registry[name].samples:
        try:
            run = Run(registry[name], sample, kind, kind.is_floating_point)
            cases = [] if run.random else list(run.cases())
        except REFUSALS:
            continue  # not for this dtype
        for case in cases:
            if ruled(case.op) and not case.is_complex and case.key not in met:
                met.add(case.key)
                agree(case)
