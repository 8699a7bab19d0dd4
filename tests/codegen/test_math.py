"""Functions of generated code against NumPy, the C library and, exhaustively, their own float64."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from rushlight.codegen import llvm
from rushlight.codegen.evaluate import NUMPY, SIMPLE
from rushlight.codegen.kernel import Stage, Store, make_kernel
from rushlight.codegen.math import EXPANSIONS
from rushlight.codegen.pull import Buffer
from rushlight.codegen.values import MATH, Builder, Value
from rushlight.kernels import special
from rushlight.runtime import jit

FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
COUNT = 2**20

# The greatest error in units in the last place: of float32; of float64, beside that of the oracle.
ERRORS = {
    "exp": (1.5, 1.5), "exp2": (1.5, 1.6), "expm1": (1.6, 2.0), "sigmoid": (3.2, 3.2),
    "tanh": (2.5, 2.4), "sinh": (2.4, 3.4), "cosh": (1.8, 1.9), "log": (1.0, 0.9),
    "log1p": (1.5, 1.5), "log2": (1.1, 1.1), "log10": (1.0, 1.0), "asinh": (1.9, 1.8),
    "acosh": (2.3, 2.2), "atanh": (2.2, 2.2), "rsqrt": (1.5, 1.5), "pow": (0.6, 1.8),
    "hypot": (1.0, 1.0), "sin": (2.0, 0.8), "cos": (2.0, 0.8), "tan": (3.2, 2.2),
    "asin": (2.4, 2.2), "acos": (1.2, 1.2), "atan": (2.2, 2.2), "atan2": (2.2, 2.2),
    "erf": (2.1, 3.5), "erfc": (3.6, 4.5), "lgamma": (0.6, 5.0), "digamma": (0.6, 5.0),
    "fmod": (0, 0),
}  # fmt: skip
BINARY = ("pow", "atan2", "fmod", "hypot")
UNARY = [name for name in MATH if name not in BINARY]
EVERYWHERE = ("exp", "log", "sin", "cos", "tanh", "sigmoid", "erf", "rsqrt", "sqrt")
EDGES = (
    0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 0.46875, 0.6931, 0.70710677, 1.4142135, 0.7853982, 1e-3,
    88.5, 88.73, 89.42, 103.9, 104.1, 127.5, 128.0, 149.0, 150.0, 709.7, 745.2, 1023.5, 1075.0,
    131071.9, 131073.0, 2.0**23, 2.0**24 + 2, 2.0**30 + 1, 2.0**53, 2.0**100, 3.4028235e38,
    1.1754944e-38, 1.4e-45, 1e22, 1.7976931348623157e308, 2.2250738585072014e-308, 5e-324,
    math.inf, math.nan,
)  # fmt: skip


class Native:
    """A function of arrays, compiled as a kernel of one stage."""

    def __init__(self, function: Callable[..., Value], kinds: tuple[str, ...], width: int = 32):
        b = Builder()
        i = b.loop("i", COUNT)
        buffers = [Buffer(kind, (COUNT,)) for kind in kinds]
        y = function(b, *[b.load(x, x.kind, (i,)) for x in buffers])
        result = Buffer(y.kind, (COUNT,))
        stage = Stage((), stores=(Store(result, i, y),))
        kernel = make_kernel(b, [i.data], [stage], i.data, 1)
        self.library = jit.load([jit.compile_ir(llvm.emit({"f": kernel}, width))])
        self.function = FUNCTION(self.library.address("f"))
        self.order = [buffers.index(x) for x in kernel.inputs]
        self.dtype = NUMPY[y.kind]

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        y = np.empty(len(arrays[0]), self.dtype)
        slot = np.zeros(2, np.int64)
        addresses = [arrays[k].ctypes.data for k in self.order]
        table = (ctypes.c_void_p * (len(addresses) + 2))(
            *addresses, y.ctypes.data, slot.ctypes.data
        )
        self.function(ctypes.addressof(table), 0, len(y))
        return y


@cache
def native(name: str, kind: str, width: int = 32) -> Native:
    operands = 2 if name in BINARY else 1
    return Native(lambda b, *xs: b.call(name, *xs), (kind,) * operands, width)


def ulps(y: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Errors in units in the last place; infinite where a NaN, an infinity or a sign is wrong."""
    with np.errstate(all="ignore"):
        rounded = expected.astype(y.dtype)
        unit = np.spacing(np.maximum(np.abs(rounded), np.finfo(y.dtype).tiny))
        error = np.abs(y.astype(expected.dtype) - expected) / unit.astype(expected.dtype)
    same = (y == rounded) | (np.isnan(y) & np.isnan(expected))
    error = np.where(same & ~np.isfinite(y), 0, error)
    zeros = (y == 0) & (expected == 0) & (np.signbit(y) != np.signbit(expected))
    return np.where(np.isnan(error) | zeros, np.inf, error)


def samples(kind: str, spread: float, seed: int = 0, count: int = 2**19) -> np.ndarray:
    """Edges of both signs, any bits, and numbers of common size."""
    rng = np.random.default_rng(seed)
    dtype, integer = (np.float32, np.uint32) if kind == "f32" else (np.float64, np.uint64)
    with np.errstate(over="ignore", under="ignore"):
        edges = np.array([*EDGES, *[-x for x in EDGES]], dtype)
    some = rng.integers(0, np.iinfo(integer).max, count, dtype=integer, endpoint=True).view(dtype)
    common = (rng.standard_normal(count) * spread).astype(dtype)
    return np.concatenate([edges, some, common])[: 2 * count]


def pairs(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Samples beside samples, and every edge beside every edge."""
    x, y = samples(kind, 3.0), samples(kind, 8.0, seed=1)
    n = 2 * len(EDGES)
    x[: n * n], y[: n * n] = np.repeat(x[:n], n), np.tile(y[:n], n)
    x[-(2**17) :] = np.abs(x[-(2**17) :])
    y[-(2**16) :] = np.rint(y[-(2**16) :])
    return x, y


def reference(name: str) -> Callable[..., Any]:
    return {
        "sigmoid": lambda x: np.where(x < 0, np.exp(x), 1) / (1 + np.exp(-np.abs(x))),
        "lgamma": special.lgamma,
        "digamma": special.digamma,
    }.get(name, SIMPLE[name])


def test_every_function_has_an_expansion():
    assert set(EXPANSIONS) == set(MATH) == set(ERRORS)


@pytest.mark.parametrize("name", UNARY)
def test_float32(name):
    x = samples("f32", 3.0)
    with np.errstate(all="ignore"):
        expected = reference(name)(x.astype(np.float64))
    error = ulps(native(name, "f32")(x), expected)
    worst = np.argmax(error)
    assert error[worst] <= ERRORS[name][0], f"{error[worst]} ulp at {float(x[worst])!r}"


@pytest.mark.parametrize("name", BINARY)
def test_float32_pairs(name):
    x, y = pairs("f32")
    with np.errstate(all="ignore"):
        expected = reference(name)(x.astype(np.float64), y.astype(np.float64))
    error = ulps(native(name, "f32")(x, y), expected)
    worst = np.argmax(error)
    assert error[worst] <= ERRORS[name][0], f"{error[worst]} ulp at {x[worst]!r}, {y[worst]!r}"


long = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="needs a longer float64")


@long
@pytest.mark.parametrize("name", [n for n in UNARY if n not in ("lgamma", "digamma")])
def test_float64(name):
    slow = {"erf": math.erf, "erfc": math.erfc}
    x = samples("f64", 3.0, count=2**15)
    with np.errstate(all="ignore"):
        if name in slow:
            expected = np.array([slow[name](v) for v in x.tolist()])
        else:
            expected = reference(name)(x.astype(np.longdouble))
    error = ulps(native(name, "f64")(x), expected)
    worst = np.argmax(error)
    assert error[worst] <= ERRORS[name][1], f"{error[worst]} ulp at {float(x[worst])!r}"


@long
@pytest.mark.parametrize("name", BINARY)
def test_float64_pairs(name):
    x, y = [v[: 2**16] for v in pairs("f64")]
    with np.errstate(all="ignore"):
        expected = reference(name)(x.astype(np.longdouble), y.astype(np.longdouble))
    error = ulps(native(name, "f64")(x, y), expected)
    worst = np.argmax(error)
    assert error[worst] <= ERRORS[name][1], f"{error[worst]} ulp at {x[worst]!r}, {y[worst]!r}"


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_gamma_float64(name):
    """As the eager kernels: relative to |y| + 1 below 0, where the function has zeros."""
    x = samples("f64", 10.0, count=2**14)
    x = x[(np.abs(x) < 1e100) | np.isnan(x)]
    y, expected = native(name, "f64")(x), reference(name)(x)
    assert ulps(y, expected)[x > 0].max() <= 8
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)
    for v in (0.3, 1.2, 2.5, 3.9, 17.0, 1e5):
        known = math.lgamma(v) if name == "lgamma" else float(special.digamma(np.array(v)))
        assert native(name, "f64")(np.array([v]))[0] == pytest.approx(known, rel=1e-14)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_power_has_the_special_cases_of_c(kind):
    special_ones = np.array(
        [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e30, -1e30, np.inf, -np.inf, np.nan],
        NUMPY[kind],
    )
    n = len(special_ones)
    x, y = np.repeat(special_ones, n), np.tile(special_ones, n)
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    found = native("pow", kind)(x, y)
    special_results = ~np.isfinite(expected) | (expected == 0) | (np.abs(expected) == 1)
    np.testing.assert_array_equal(found[special_results], expected[special_results])
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected) & ~np.isnan(expected))


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        ("exp", [0, -np.inf], [1, 0]),
        ("exp2", [-3, 0, 10], [0.125, 1, 1024]),
        ("log2", [0.125, 1, 2**20], [-3, 0, 20]),
        ("log", [1, 0], [0, -np.inf]),
        ("cos", [0], [1]),
        ("tanh", [30, -30, np.inf], [1, -1, 1]),
        ("sigmoid", [0, 800, -np.inf], [0.5, 1, 0]),
        ("erf", [7, -7], [1, -1]),
        ("erfc", [0, -7, 50], [1, 2, 0]),
        ("rsqrt", [4, np.inf], [0.5, 0]),
    ],
)
def test_exact(name, x, y, kind):
    found = native(name, kind)(np.array(x, NUMPY[kind]))
    np.testing.assert_array_equal(found, np.array(y, NUMPY[kind]))


@pytest.mark.parametrize("name", ["exp", "sin", "log", "pow", "fmod"])
def test_every_width_gives_the_same(name):
    xs = pairs("f32") if name in BINARY else (samples("f32", 3.0),)
    xs = tuple([x[: 2**14 + 3] for x in xs])
    np.testing.assert_array_equal(native(name, "f32")(*xs), native(name, "f32", 16)(*xs))


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_no_wave_exceeds_one(name):
    """Around its extrema: at every float32 number near the first, at many near the others."""
    first, last = np.array([1.55, 1.59], np.float32).view(np.int32)
    near = np.arange(first, last, dtype=np.int32).view(np.float32)
    k = np.random.default_rng(0).integers(-83000, 83000, 2**16)
    others = (k * (math.pi / 2)).astype(np.float32)
    around = [(others.view(np.int32) + step).view(np.float32) for step in range(-2, 3)]
    x = np.concatenate([near, -near, near - np.float32(math.pi / 2), *around])
    y = np.abs(native(name, "f32")(x))
    assert y.max() == 1


def single_error(name: str, b: Builder, bits: Value) -> Value:
    """The error of a float32 function in units in the last place, by its float64 expansion."""
    x = bits.bits("f32")

    def function(x: Value) -> Value:
        return b.unary("sqrt", x) if name == "sqrt" else b.call(name, x)

    y, expected = function(x), function(x.cast("f64"))
    size = b.unary("abs", expected)
    size = b.where(size > 2.0**-126, size, 2.0**-126)
    unit = (size.bits("i64") & (0x7FF << 52)).bits("f64") * 2.0**-23
    error = b.unary("abs", y.cast("f64") - expected) / unit
    same = y.eq(expected.cast("f32")) & b.unary("abs", y).eq(math.inf)
    error = b.where(same | (b.isnan(y) & b.isnan(expected)), 0, error)
    return b.where(b.isnan(error), math.inf, error).cast("f32")


def greatest_error(name: str, step: int = 1) -> tuple[float, float]:
    """Over all float32 numbers, and where it is."""
    measure = Native(partial(single_error, name), ("i32",))

    def block(start: int) -> tuple[float, int]:
        bits = np.arange(start, min(start + step * COUNT, 2**32), step, np.int64).astype(np.uint32)
        error = measure(bits.view(np.int32))
        worst = int(np.argmax(error))
        return float(error[worst]), int(bits[worst])

    with ThreadPoolExecutor(2) as pool:
        error, place = max(pool.map(block, range(0, 2**32, step * COUNT)))
    return error, float(np.uint32(place).view(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERYWHERE)
def test_all_float32_numbers(name):
    error, x = greatest_error(name)
    assert error <= {"sqrt": (0.5,), **ERRORS}[name][0] + 1e-6, f"{error} ulp at {x!r}"
