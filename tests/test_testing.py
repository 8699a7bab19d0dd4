"""assert_close is silent about what is close, and says how and where other things differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.testing import assert_allclose, assert_close

X = rl.tensor([[1.0, 2.0], [3.0, 4.0]])
NAN = rl.tensor([float("nan")])

CLOSE: list[tuple[Any, Any, dict[str, Any]]] = [
    (X, X + 1e-6, {}),
    (X, X + 0.5, {"rtol": 0, "atol": 0.6}),
    (X.bfloat16(), X.bfloat16() * 1.01, {}),
    (X, X.double(), {"check_dtype": False}),
    (X.t(), X.t().contiguous(), {}),
    (NAN, NAN, {"equal_nan": True}),
    (rl.ones(0), rl.ones(0), {}),
    ({"a": [X, 1.0]}, {"a": (X, 1.0)}, {}),
    (None, None, {}),
    (np.ones(2), rl.ones(2, dtype=rl.float64), {}),
]
APART: list[tuple[Any, Any, dict[str, Any], str]] = [
    (X, X + rl.tensor([0.0, 1.0]), {}, r"Mismatched elements: 2 / 4 \(50.0%\)"),
    (X, X + rl.tensor([0.0, 1.0]), {}, r"absolute difference: 1.0 at index \(0, 1\) \(up to 1e-05"),
    (X, X[:1], {}, r"'shape' do not match: rushlight.Size\(\[2, 2\]\) != rushlight.Size\(\[1, 2\]"),
    (X, X.double(), {}, "'dtype' do not match: rushlight.float32 != rushlight.float64"),
    (X, X.t().contiguous().t(), {"check_stride": True}, r"'stride\(\)' do not match: \(2, 1\)"),
    (NAN, NAN, {}, "absolute difference: nan"),
    (rl.tensor([True]), rl.tensor([False]), {}, "Tensor-likes are not equal"),
    ([1, 2.0], [1, 2.5], {}, r"Expected 2.5 but got 2.0[^$]*occurred for item \[1\]"),
    ([X], [X, X], {}, "length of the sequences mismatch: 1 != 2"),
    ({"a": 1}, {"b": 1}, {}, r"Missing keys in the actual mapping: \['b'\]"),
    (1, 1.0, {}, r"The \(d\)types do not match"),
    (None, 1, {}, "None mismatch"),
    (X, X + 1, {"msg": "as I said"}, "^as I said$"),
    (X, X + 1, {"msg": "loss: {}".format}, "^loss: Tensor-likes are not close"),
]


@pytest.mark.parametrize(("actual", "expected", "options"), CLOSE)
def test_close(actual: Any, expected: Any, options: dict[str, Any]) -> None:
    assert_close(actual, expected, **options)


@pytest.mark.parametrize(("actual", "expected", "options", "pattern"), APART)
def test_apart(actual: Any, expected: Any, options: dict[str, Any], pattern: str) -> None:
    with pytest.raises(AssertionError, match=pattern):
        assert_close(actual, expected, **options)


def test_what_cannot_be_compared() -> None:
    with pytest.raises(TypeError, match="No comparison pair"):
        assert_close(X, "X")
    with pytest.raises(TypeError, match="No comparison pair"):
        assert_close(X, 1.0)
    with pytest.raises(ValueError, match="got no atol"):
        assert_close(X, X, rtol=1e-3)


def test_the_old_form() -> None:
    assert_allclose(X.double(), X.tolist())
    with pytest.raises(AssertionError, match="not close"):
        assert_allclose(X, X + 1)
