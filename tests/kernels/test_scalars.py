"""NumPy kernels on scalars of a program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rushlight.codegen.values import Builder
from rushlight.kernels.scalars import Scalar, run


def scalar(kind: str = "f32") -> Any:
    b: Any = Builder()
    return Scalar(b, b.load("x", kind, (b.loop("i", 8),)))


def test_a_kernel_says_what_it_computes() -> None:
    b: Any = Builder()
    x = b.load("x", "f32", (b.loop("i", 8),))
    y = run(b, lambda x: np.where(x > 0, x, np.exp(x) - 1), (x,))
    assert y is b.where(x > 0, x, b.exp(x) - 1)


def test_it_may_write_as_to_an_array() -> None:
    x = scalar()
    y = x + 1
    same = y
    same *= x
    np.sqrt(y, out=y)
    assert y is same
    assert y.value is x.b.unary("sqrt", (x.value + 1) * x.value)


@pytest.mark.parametrize(
    ("kind", "other", "dtype"),
    [
        ("f32", 1.5, "f4"), ("f32", np.float64(1.5), "f8"), ("i32", 1.5, "f8"), ("b1", 1, "i8"),
        ("u8", 1, "u1"), ("u8", np.int16(1), "i2"), ("f32", np.array(2, np.int64), "f8"),
    ],
)  # fmt: skip
def test_promotion_is_that_of_numpy(kind: str, other: object, dtype: str) -> None:
    assert (scalar(kind) * other).dtype == np.dtype(dtype)


def test_a_branch_on_a_value_is_refused() -> None:
    with pytest.raises(TypeError, match="branches on a value"):
        bool(scalar() > 0)
