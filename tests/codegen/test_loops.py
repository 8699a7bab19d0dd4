"""What loops become of a group: which are joined, split, vectorised, cut in stages and parts."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.codegen import llvm
from rushlight.codegen.kernel import Kernel
from rushlight.codegen.loops import lower
from rushlight.graph.ir import Node
from tests.codegen.kernels import Graph, check


def floats(*shape: int) -> np.ndarray:
    return np.random.standard_normal(shape).astype(np.float32)


def shape_of(kernel: Kernel) -> tuple[list[int], list[list[int]], int]:
    """The sizes of rows, of the loops of each stage, and of the vectorised loop."""
    assert kernel.vector is not None
    stages = [[loop.size for loop in stage.loops] for stage in kernel.stages]
    return [loop.size for loop in kernel.rows], stages, kernel.vector.size


def one(graph: Graph, *outputs: Node) -> Kernel:
    (kernel,) = lower(graph.group(*outputs))
    return kernel


def test_loops_without_broadcasting_are_one() -> None:
    g = Graph()
    x, y = g.input(floats(3, 4, 5)), g.input(floats(3, 4, 5))
    kernel = one(g, g("mul", g("add", x, y), x))
    assert shape_of(kernel) == ([60], [[]], 60)
    assert kernel.count == 60


def test_broadcasting_keeps_the_loops_it_needs() -> None:
    g = Graph()
    kernel = one(g, g("add", g.input(floats(3, 4, 5, 6)), g.input(floats(4, 1, 1))))
    assert shape_of(kernel) == ([3, 4, 30], [[]], 30)
    g = Graph()
    kernel = one(g, g("add", g.input(floats(3, 4, 5, 6)), g.input(floats(6))))
    assert shape_of(kernel) == ([60, 6], [[]], 6)


def test_kernels_of_different_sizes_have_one_text() -> None:
    texts = []
    for shape in ((1000,), (7, 3), (5,), (70, 30, 11)):
        g = Graph()
        x = g.input(floats(*shape))
        kernel = one(g, g("mul", g("exp", x), g.constant(0.5)))
        texts.append(llvm.function("NAME", kernel, 32))
    assert len(set(texts)) == 1


def test_a_reshape_there_and_back_is_nothing() -> None:
    g = Graph()
    x = g("view", g.input(floats(4, 6)), shape=(2, 2, 6))
    y = g("view", g("neg", x), shape=(24,))
    assert shape_of(one(g, y)) == ([24], [[]], 24)


def test_a_reshape_across_dimensions_splits_a_loop() -> None:
    g = Graph()
    x = g("permute", g.input(floats(4, 6, 5)), dims=(1, 0, 2))
    kernel = one(g, g("add", g("view", x, shape=(24, 5)), g.input(floats(24, 1))))
    assert shape_of(kernel) == ([6, 4, 5], [[]], 5)
    assert "floor" not in str(kernel)


def test_outputs_may_have_different_shapes() -> None:
    g = Graph()
    y = g("exp", g.input(floats(4, 6)))
    z = g("view", g("neg", y), shape=(3, 8))
    assert shape_of(one(g, y, z)) == ([24], [[]], 24)


def test_a_softmax_has_three_stages_and_keeps_its_exponentials() -> None:
    g = Graph()
    kernel = one(g, g("softmax", g.input(floats(20, 30)), dim=(1,)))
    assert shape_of(kernel) == ([20], [[30], [30], [30]], 30)
    locals_ = [s for stage in kernel.stages for s in stage.stores if s.buffer.local]
    assert len(locals_) == 1
    assert str(kernel).count("exp") > 0
    assert "exp" not in repr(kernel.stages[2].stores[0].value.args[0])


def test_folds_of_one_level_share_a_loop() -> None:
    g = Graph()
    x = g.input(floats(20, 30))
    a = g("sum", x, dim=(1,), keepdim=False, dtype=None)
    b = g("amax", x, dim=(1,), keepdim=False)
    kernel = one(g, a, b)
    assert [len(stage.folds) for stage in kernel.stages] == [2, 0]


def test_column_sums_are_vectorised_over_columns() -> None:
    g = Graph()
    y = g("sum", g.input(floats(20, 100)), dim=(0,), keepdim=False, dtype=None)
    assert shape_of(one(g, y)) == ([100], [[20], []], 100)


def test_the_mean_of_channels_goes_along_memory() -> None:
    g = Graph()
    y = g("mean", g.input(floats(4, 6, 7, 7)), dim=(0, 2, 3), keepdim=False)
    assert shape_of(one(g, y)) == ([6], [[4, 49], []], 49)


def test_a_long_fold_is_cut_in_parts() -> None:
    g = Graph()
    y = g("sum", g.input(floats(100_003)), dim=None, keepdim=False, dtype=None)
    first, second = lower(g.group(y))
    assert first.window is not None
    assert first.count == first.window.part.size > 1
    assert second.count == 1
    assert first.outputs[0] in second.inputs


def test_late_outputs_are_stored_last() -> None:
    g = Graph()
    x = g.input(floats(20, 30))
    y = g("neg", x)
    z = g("sub", x, g("amax", x, dim=(1,), keepdim=True))
    (kernel,) = lower(g.group(y, z), late=[y])
    assert [len(stage.stores) for stage in kernel.stages] == [0, 2]
    (kernel,) = lower(g.group(y, z))
    assert [len(stage.stores) for stage in kernel.stages] == [1, 1]


def test_nothing_to_compute_needs_no_kernel() -> None:
    g = Graph()
    assert lower(g.group(g("exp", g.input(floats(0, 3))))) == []


def test_a_long_chain_is_pulled_without_recursion() -> None:
    g = Graph()
    y = g.input(floats(4))
    for _ in range(2000):
        y = g("neg", y)
    assert one(g, y).count == 4


@pytest.mark.parametrize("dim", [0, 1])
def test_a_scan_is_vectorised_over_other_dimensions(dim: int) -> None:
    g = Graph()
    kernel = one(g, g("cumsum", g.input(floats(30, 40)), dim=dim))
    assert (kernel.vector is not None) == (dim == 0)
    assert kernel.stages[0].scans


def test_rows_of_a_scatter_are_vectorised() -> None:
    g = Graph()
    index = g.input(np.random.randint(0, 10, 50))
    y = g("index_add", g.input(floats(10, 24)), g.input(floats(50, 24)), index, dim=0, alpha=1)
    start, write = lower(g.group(y))
    assert start.count == 240
    assert shape_of(write) == ([], [[50, 24]], 24)
    assert len(write.errors) == 1


@pytest.mark.parametrize("shape", [(70, 45), (33, 5, 40), (64, 64)], ids=str)
def test_a_transposed_copy_goes_through_whole_lines(shape: tuple[int, ...]) -> None:
    g = Graph()
    y = g("permute", g.input(floats(*shape)), dims=tuple(range(len(shape)))[::-1])
    kernel = one(g, y)
    assert kernel.window is not None
    assert kernel.rows[0] is kernel.window.part
    assert kernel.rows[-2].size == shape[-1]  # whose neighbours are in the same line
    check(g, y)
