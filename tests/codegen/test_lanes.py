"""Formulas of NumPy, computed by the instructions that they write, are NumPy's results."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rushlight.codegen.lanes import LANES, Code
from rushlight.kernels.box_muller import libm_cos, libm_log, libm_sin
from rushlight.kernels.multiply_add import multiply_add
from rushlight.runtime.jit import compile_ir, load

COUNTS = (0, 1, LANES - 1, LANES, LANES + 1, 3 * LANES + 2)


def computed(formula: Callable[[Any], Any], x: np.ndarray, dtype: Any) -> np.ndarray:
    """The formula by native code, on vectors and on what is left behind them."""
    code = Code()

    def body(index: str, lanes: int) -> None:
        code.store(formula(code.load("%x", index, x.dtype, lanes)).astype(dtype), "%y", index)

    code.each("0", "%count", body)
    head = "define void @run(ptr %x, ptr %y, i64 %count) {"
    text = [*code.declared.values(), head, *code.lines, "  ret void", "}"]
    library = load([compile_ir("\n".join(text))])
    y = np.full(x.size + 1, 1, dtype)
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    run = ctypes.CFUNCTYPE(None, pointer, pointer, count)(library.address("run"))
    run(x.ctypes.data, y.ctypes.data, x.size)
    assert y[-1] == 1  # nothing is written behind the end
    return y[:-1]


FLOATING: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: (1 - x) * x / (x + np.float32(2)) - 0.25,
    "roots": lambda x: np.sqrt(np.floor(x * 10)),
    "negative": lambda x: -x,
    "rounded once": lambda x: multiply_add(x, x, x) if x.dtype == np.float32 else x,
    "counted": lambda x: (x * 100).astype(np.int32).astype(x.dtype),
    "relations": lambda x: (x < 0.5).astype(x.dtype) + (x >= 0.7) + (x == x),
}
INTEGRAL: dict[str, Callable[[Any], Any]] = {
    "logic": lambda x: (x & 0xFFFF) ^ (x | 3),
    "shifts": lambda x: (x << 7) ^ (x >> 11),
    "wrapping": lambda x: x * x + x - 5,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FLOATING)
def test_floating_formulas(name: str, dtype: Any) -> None:
    for count in COUNTS:
        x = np.random.random(count).astype(dtype)
        expected = FLOATING[name](x)
        assert computed(FLOATING[name], x, dtype).tobytes() == expected.astype(dtype).tobytes()


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
@pytest.mark.parametrize("name", INTEGRAL)
def test_integral_formulas(name: str, dtype: Any) -> None:
    limits = np.iinfo(dtype)
    for count in COUNTS:
        x = np.random.randint(limits.min, limits.max, count, dtype)
        np.testing.assert_array_equal(computed(INTEGRAL[name], x, dtype), INTEGRAL[name](x))


def test_bits_of_numbers() -> None:
    x = np.random.random(20).astype(np.float32)
    result = computed(lambda x: x.view(np.int32) >> 23, x, np.int32)
    np.testing.assert_array_equal(result, x.view(np.int32) >> 23)


def test_bools_in_memory() -> None:
    x = np.random.random(20)
    np.testing.assert_array_equal(computed(lambda x: x < 0.5, x, np.bool_), x < 0.5)


def test_choices_and_fused_operations() -> None:
    x = np.random.random(20)
    result = computed(lambda x: x.where(x < 0.5, 1 - x), x, np.float64)
    np.testing.assert_array_equal(result, np.where(x < 0.5, x, 1 - x))
    np.testing.assert_allclose(computed(lambda x: x.fma(x, x), x, np.float64), x * x + x, 1e-15)


@pytest.mark.parametrize(
    ("ufunc", "function"), [(libm_log, math.log), (libm_cos, math.cos), (libm_sin, math.sin)]
)
def test_functions_of_the_c_library(ufunc: Any, function: Callable[[float], float]) -> None:
    x = np.random.random(50) + 0.01
    np.testing.assert_array_equal(computed(ufunc, x, np.float64), [function(t) for t in x])
