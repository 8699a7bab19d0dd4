"""Generated code computes what eager kernels do: all kinds, sizes and ways through memory."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from rushlight.codegen import llvm
from rushlight.dtypes import float32, from_numpy
from rushlight.graph.ir import Node
from rushlight.runtime import jit
from tests.codegen.kernels import Compiled, Graph, check

KINDS = (
    *(np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
    *(np.float16, ml_dtypes.bfloat16, np.float32, np.float64),
)


def floats(*shape: int) -> np.ndarray:
    return np.random.standard_normal(shape).astype(np.float32)


def numbers(kind: Any, *shape: int) -> np.ndarray:
    """Numbers of a kind, small enough to add some."""
    if kind is np.bool_:
        return np.random.randint(0, 2, shape).astype(np.bool_)
    if np.dtype(kind).kind in "iu":
        return np.random.randint(0 if np.dtype(kind).kind == "u" else -9, 9, shape).astype(kind)
    return (np.random.randint(-16, 16, shape) / 4).astype(kind)


def total(g: Graph, x: Node, dim: Any, keepdim: bool = False) -> Node:
    return g("sum", x, dim=dim, keepdim=keepdim, dtype=None)


@pytest.mark.parametrize("size", [1, 2, 7, 8, 31, 64, 100, 1000])
def test_elementwise_chains_of_any_size(size: int) -> None:
    g = Graph()
    x, y = g.input(floats(size)), g.input(floats(size))
    z = g("add", g("mul", x, y), g.constant(0.5))
    check(g, z, g("maximum", g("neg", z), x))


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind: Any) -> None:
    g = Graph()
    x, y = g.input(numbers(kind, 5, 37)), g.input(numbers(kind, 37))
    check(g, g("add", x, y), g("mul", x, y), g("maximum", x, y), g("lt", x, y))
    g = Graph()
    x = g.input(numbers(kind, 6, 37))
    check(g, g("amax", x, dim=(1,), keepdim=False))
    if kind is not np.bool_:
        g = Graph()
        x = g.input(numbers(kind, 6, 37))
        check(g, total(g, x, (1,)), total(g, x, (0,)), rtol=1e-6)


@pytest.mark.parametrize("source", KINDS)
def test_casts(source: Any) -> None:
    g = Graph()
    x = g.input(np.abs(numbers(source, 40)))
    check(g, *[g("cast", x, dtype=from_numpy(np.dtype(kind))) for kind in KINDS])


@pytest.mark.parametrize("half", [True, False])
@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_16_bit_floats_are_rounded_to_even(kind: Any, half: bool) -> None:
    x = np.concatenate([floats(500), floats(500) * 1e-6, floats(500) * 1e5])
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519, 65520, 3e38, 6e-8, 2e-8, 1e-40]
    x = np.concatenate([x, np.array(special, np.float32)])
    g = Graph()
    y = g("cast", g.input(x), dtype=from_numpy(np.dtype(kind)))
    check(g, y, g("cast", y, dtype=float32), half=half)
    g = Graph()
    every = np.arange(2**16, dtype=np.uint16).view(kind)
    check(g, g("cast", g.input(every), dtype=float32), half=half)


def test_floats_out_of_range_become_integers_as_in_eager_mode() -> None:
    x = np.array([1e10, -1e10, 1e20, np.nan, np.inf, -np.inf, 300.7, -1.5, 255.9, 3e9], np.float32)
    for kind in (np.int8, np.int16, np.int32, np.int64, np.uint8):
        g = Graph()
        with np.errstate(invalid="ignore"):
            y = g("cast", g.input(np.tile(x, 5)), dtype=from_numpy(np.dtype(kind)))
        check(g, y)


@pytest.mark.parametrize(
    "shapes", [((4, 1, 9), (5, 1)), ((3, 1), (1, 40)), ((), (3, 4)), ((7,),) * 2]
)
def test_broadcasting(shapes: tuple[tuple[int, ...], ...]) -> None:
    g = Graph()
    a, b = [g.input(floats(*shape)) for shape in shapes]
    check(g, g("sub", a, b))


@pytest.mark.parametrize("dims", list(itertools.permutations(range(3))))
def test_permutations_and_reshapes(dims: tuple[int, ...]) -> None:
    g = Graph()
    x = g("permute", g.input(floats(4, 6, 10)), dims=dims)
    y = g("view", g("exp", x), shape=(24, 10))
    check(g, g("add", y, g.input(floats(10))), rtol=1e-6)


def test_a_reshape_that_no_split_can_follow() -> None:
    g = Graph()
    x = g("view", g("permute", g.input(floats(6, 35)), dims=(1, 0)), shape=(14, 15))
    check(g, g("add", x, g.input(floats(14, 1))))


@pytest.mark.parametrize("shape", [(7, 9), (3, 5, 40), (70, 33), (2, 1, 300)])
def test_reductions_over_any_dimensions(shape: tuple[int, ...]) -> None:
    for count in range(1, len(shape) + 1):
        for dim in itertools.combinations(range(len(shape)), count):
            g = Graph()
            x = g.input(floats(*shape))
            y = total(g, g("mul", x, x), dim)
            z = g("exp", g("mean", x, dim=dim, keepdim=True))
            check(g, y, z, rtol=1e-5)


@pytest.mark.parametrize("size", [1, 1000, 8193, 100_003])
def test_full_sums_are_accurate(size: int) -> None:
    g = Graph()
    x = np.abs(floats(size))
    y = total(g, g.input(x), None)
    compiled = Compiled(g.group(y), g.values)
    np.testing.assert_allclose(compiled()[y], x.sum(dtype=np.float64), rtol=3e-7)


@pytest.mark.parametrize("columns", [32, 64, 96, 192, 1000])
@pytest.mark.parametrize("width", [16, 32])
def test_parts_of_whole_vectors_have_no_rest(columns: int, width: int) -> None:
    """A promise about the bounds of parts leaves code out, and changes no bit."""
    g = Graph()
    x = g.input(floats(60, columns))
    group = g.group(total(g, g("exp", x), (0,)))
    compiled = Compiled(group, g.values, width)
    (expected,) = compiled().values()
    (kernel,) = compiled.kernels
    grain = 32
    text = llvm.function("k0", kernel, width, grain=grain if columns % grain == 0 else 1)
    assert (len(text) < len(llvm.function("k0", kernel, width))) is (columns % grain == 0)
    compiled.library = jit.load([jit.compile_ir(llvm.module([text]))])
    compiled.functions = [type(compiled.functions[0])(compiled.library.address("k0"))]
    for parts in (1, columns // 32):
        (found,) = compiled(parts).values()
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(40_000, 9), (3000, 1000), (70, 4097)])
def test_long_columns_are_summed_accurately(shape: tuple[int, int]) -> None:
    g = Graph()
    x = np.abs(floats(*shape))
    y = total(g, g.input(x), (0,))
    compiled = Compiled(g.group(y), g.values)
    np.testing.assert_allclose(compiled()[y], x.sum(0, dtype=np.float64), rtol=1e-6)


@pytest.mark.parametrize("dim", [0, 1])
def test_rows_in_several_stages(dim: int) -> None:
    for columns in (10, 50, 1001):
        g = Graph()
        x = g.input(floats(40, columns))
        check(g, g("softmax", x, dim=(dim,)), rtol=1e-5)
        g = Graph()
        x, w = g.input(floats(40, columns)), g.input(floats(columns))
        mean = g("mean", x, dim=(dim,), keepdim=True)
        c = g("sub", x, mean)
        variance = g("mean", g("mul", c, c), dim=(dim,), keepdim=True)
        scale = g("rsqrt", g("add", variance, g.constant(1e-5)))
        check(g, g("mul", g("mul", c, scale), w), mean, scale, rtol=1e-5)


def test_a_fold_in_a_fold() -> None:
    g = Graph()
    x = g("amax", g.input(floats(5, 6, 20)), dim=(2,), keepdim=False)
    check(g, total(g, g("exp", x), (1,)), rtol=1e-5)


def test_a_fold_that_rows_do_not_change() -> None:
    g = Graph()
    x = g.input(floats(30))
    check(g, g("mul", g.input(floats(5, 30)), g("sub", x, total(g, x, (0,), True))), rtol=1e-5)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_of_extremes(name: str) -> None:
    x = np.round(floats(9, 40) * 2)
    x[2, 3] = x[2, 30] = np.nan
    x[1] = -np.inf
    x[4] = np.inf
    for dim in (0, 1, None):
        g = Graph()
        check(g, g(name, g.input(x), dim=dim, keepdim=False))
    g = Graph()
    check(g, g(name, g.input(np.round(floats(70_001))), dim=None, keepdim=False))


@pytest.mark.parametrize("name", ["amax", "amin"])
def test_extremes_hand_nan_on(name: str) -> None:
    x = floats(9, 40)
    x[2, 3] = np.nan
    for dim in ((0,), (1,), (0, 1)):
        g = Graph()
        check(g, g(name, g.input(x), dim=dim, keepdim=False))


def test_padding_and_joining_load_what_is_there() -> None:
    g = Graph()
    x, y = g.input(floats(3, 5, 30)), g.input(floats(3, 5, 12))
    padded = g("constant_pad_nd", x, pads=((0, 0), (1, 2), (3, 4)), value=1.5)
    check(g, padded)
    g = Graph()
    x, y = g.input(floats(3, 5, 30)), g.input(floats(3, 5, 12))
    check(g, g("cat", x, y, dim=2, kind=np.dtype(np.float32)))


@pytest.mark.parametrize("kind", [np.int64, np.int32])
def test_gathers(kind: Any) -> None:
    index = np.random.randint(0, 10, (7, 9)).astype(kind)
    g = Graph()
    y = g("embedding", g.input(floats(10, 40)), g.input(index), padding=-1, by_frequency=False)
    check(g, g("exp", y), rtol=1e-6)
    g = Graph()
    index = np.random.randint(0, 10, (7, 40)).astype(np.int64)
    check(g, g("gather", g.input(floats(10, 40)), g.input(index), dim=0))


@pytest.mark.parametrize("place", [0, 5, 36, 39])
def test_an_index_out_of_range_is_an_error(place: int) -> None:
    g = Graph()
    x, index = floats(10, 40), np.zeros((1, 40), np.int64)
    node = g.input(index)
    y = g("gather", g.input(x), node, dim=0)
    wrong = index.copy()
    wrong[0, place] = 10
    with pytest.raises(Exception) as eager:  # noqa: PT011 - it must be the same below
        y.op.compute([x, wrong], y.attrs)
    g.values[node] = wrong
    for width in (16, 32):
        compiled = Compiled(g.group(y), g.values, width)
        with pytest.raises(type(eager.value)) as native:
            compiled()
        assert str(native.value) == str(eager.value)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scans(dim: int) -> None:
    for name in ("cumsum", "cumprod"):
        g = Graph()
        x = g.input(floats(4, 9, 33))
        check(g, g(name, g("mul", x, x), dim=dim), rtol=1e-6)


def test_scatters() -> None:
    index = np.random.randint(0, 7, (9, 33))
    for dim in (0, 1):
        g = Graph()
        x, source = g.input(floats(33, 40)), g.input(floats(9, 33))
        check(g, g("scatter_add", x, source, g.input(index), dim=dim), rtol=1e-6)
    g = Graph()
    index = np.random.randint(0, 10, 300)
    x, source = g.input(floats(10, 300)), g.input(floats(300, 300))
    check(g, g("index_add", x, source, g.input(index), dim=0, alpha=1), rtol=1e-5)


def test_shifts_beyond_the_width() -> None:
    x = np.array([1, -1, 5, -(2**31), 2**31 - 1] * 9, np.int32)
    by = np.repeat(np.array([0, 1, 5, 31, 32, 33, 63, 64, 100], np.int32), 5)
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        g = Graph()
        check(g, g(name, g.input(x), g.input(by)))


def test_division_of_integers_never_traps() -> None:
    g = Graph()
    x = g.input(np.array([-(2**63), -(2**63), 7, -7] * 9))
    y = g.input(np.array([-1, 1, -2, 2] * 9))
    check(g, g("floor_divide", x, y))


def test_rare_values() -> None:
    x = np.concatenate([floats(70), floats(5) * 1e9, floats(200)])
    for name in ("sin", "cos", "tan"):
        g = Graph()
        check(g, g(name, g.input(x)), rtol=1e-6)


def test_an_output_may_take_the_memory_of_an_input() -> None:
    g = Graph()
    x = g.input(floats(33, 70))
    y = g("sub", x, g("amax", x, dim=(1,), keepdim=True))
    z = g("mul", x, g.constant(2.0))
    compiled = Compiled(g.group(y, z), g.values, late=[y, z])
    source = compiled.memory[compiled.kernels[0].inputs[0]]
    expected = [g.values[y], g.values[z]]
    table = compiled.tables[0][0]
    for place, result in enumerate(expected, 1):
        before = source.copy()
        kept = table[place]
        table[place] = source.ctypes.data
        compiled()
        np.testing.assert_array_equal(source, result)
        source[:] = before
        table[place] = kept
