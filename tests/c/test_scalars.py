"""Numbers as C reads them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rushlight.c.scalars import literal
from rushlight.c.snippets import Snippets, bare


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (True, "b1", "1"),
        (-5, "i8", "(-5)"),
        (300, "u8", "44"),
        (-(2**31), "i32", "(-2147483647 - 1)"),
        (2**40, "i64", "INT64_C(1099511627776)"),
        (2**64 - 1, "u64", "UINT64_C(18446744073709551615)"),
        (1.0, "f32", "1.0f"),
        (-0.0, "f64", "(-0.0)"),
        (1e300, "f32", "INFINITY"),
        (math.nan, "f64", "(double)NAN"),
        (0.1, "bf16", "0.100097656f"),
    ],
)
def test_literals(number: float, kind: str, text: str) -> None:
    assert literal(number, kind) == text


def test_floats_keep_every_bit() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 2000, dtype=np.uint32)
    for x in bits.view(np.float32):
        if np.isfinite(x):
            assert np.float32(float(literal(float(x), "f32").strip("()f"))) == x


def test_parentheses() -> None:
    assert bare("((a) + (b))") == "(a) + (b)"
    assert bare("(int)(x)") == "(int)(x)"


def test_functions_come_after_those_that_they_call() -> None:
    snippets = Snippets()
    assert snippets.call("round_f16", "(x + y)") == "round_f16(x + y)"
    names = list(snippets.texts)
    assert names.index("bits_f32_u32") < names.index("narrow_f16") < names.index("round_f16")
    with pytest.raises(KeyError):
        snippets.call("no_such_function")
