"""Kernels as C functions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import Tensor
from rushlight.c.kernels import function
from rushlight.c.snippets import Snippets
from rushlight.codegen.kernel import Stage, Store, make_kernel
from rushlight.codegen.pull import Buffer, Columns
from rushlight.codegen.values import Loop
from tests.c.building import check


def test_values_are_computed_before_one_of_them_is_stored() -> None:
    """An output may lie where an input does: what is read there is read first."""
    b = Columns()
    i = b.variable(loop := Loop("i", 8))
    source, old, first, second = [Buffer("f32", (8,)) for _ in range(4)]
    stores = (
        Store(first, i, b.load(source, "f32", (i,)) * 2),
        Store(second, i, b.load(old, "f32", (i,)) + 1),
    )
    kernel = make_kernel(b, [loop], [Stage((), stores=stores)], loop, 1)
    lines = [line.strip() for line in function(kernel, Snippets()).text.splitlines()]
    assert lines[2:6] == [
        "const float v1 = x0[i] * 2.0f;",
        "const float v2 = x1[i] + 1.0f;",
        "y0[i] = v1;",
        "y1[i] = v2;",
    ]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_long_chains_and_long_sums(tmp_path: Path) -> None:
    def functions(x: Tensor, y: Tensor) -> object:
        for _ in range(120):
            x = F.gelu(x) * 1.01
        return x, y.sum(), y.mean(1), y.std(0), y.softmax(-1), y.amin(0), y.argmax()

    rl.manual_seed(0)
    check(functions, rl.randn(5), rl.randn(37, 1001), folder=tmp_path)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_sums_of_nothing_and_of_negative_zeros(tmp_path: Path) -> None:
    def functions(x: Tensor, none: Tensor, one: Tensor) -> object:
        sums = [(t.sum(), t.sum(0), t.sum(1), t.cumsum(0)) for t in (x, none, one)]
        return [1 / y for parts in sums for y in parts]  # which tells -0.0 from 0.0

    check(
        functions, *[rl.full(shape, -0.0) for shape in ((5, 300), (0, 3), (1, 3))], folder=tmp_path
    )
