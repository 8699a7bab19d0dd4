"""Elementwise ops beside PyTorch's: at kinks and poles, in place, and what backward keeps."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

POINTS = np.array(
    [0, 1, -1, 0.5, -0.5, 2, -2, 1.5, 2.5, 3, 1e-30, -1e-30, 1e30, np.inf, -np.inf, np.nan]
)
PAIRS = np.array(list(itertools.product(POINTS, POINTS))).T
INSIDE = np.random.default_rng(0).uniform(0.1, 0.9, (2, 3, 4))

UNARY_NAMES = """
    abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad erf erfc erfinv exp exp2 expm1 floor
    frac isfinite isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2 logical_not logit
    nan_to_num neg positive rad2deg reciprocal relu round rsqrt sigmoid sign signbit sin sinc sinh
    sqrt square tan tanh trunc hardshrink
"""
BINARY_NAMES = """
    add atan2 copysign div eq fmax fmin fmod ge hypot logaddexp logaddexp2 lt maximum minimum mul
    nextafter pow remainder sub xlogy
"""
UNARY, BINARY = UNARY_NAMES.split(), BINARY_NAMES.split()
# PyTorch has no derivative of the first three in place, and a wrong one of the last.
ODD = ("acosh", "asinh", "atanh", "logical_not")
WRITERS = [n for n in UNARY if hasattr(torch.Tensor, f"{n}_") and n not in ODD]

KINKS: dict[str, Callable[[Any, Any], Any]] = {
    **{f"x ** {e}": (lambda rl, x, e=e: x**e) for e in (0, 0.5, 1, 2, 3, -1, -2, -0.5, 1.5)},
    **{f"{e} ** x": (lambda rl, x, e=e: e**x) for e in (0, 0.5, 1, 2)},
    "clamp(0, 1)": lambda rl, x: rl.clamp(x, 0, 1),
    "clamp(1, 0)": lambda rl, x: rl.clamp(x, 1, 0),
    "clamp(min=0)": lambda rl, x: x.clamp(min=0),
    "clamp(max=1)": lambda rl, x: x.clamp(max=1),
    "threshold": lambda rl, x: rl.threshold(x, 0.5, 3.0),
    "relu, sqrt": lambda rl, x: x.relu().sqrt(),
    "clamp, sqrt": lambda rl, x: x.clamp(min=0).sqrt(),
    "where": lambda rl, x: rl.where(x > 0, x.sqrt(), x * 0 + 1),
}

KEPT: dict[str, Callable[..., Any]] = {
    **{n: (lambda rl, a, b, n=n: getattr(rl, n)(a)) for n in UNARY if n != "positive"},
    **{n: (lambda rl, a, b, n=n: getattr(rl, n)(a, b)) for n in BINARY},
    "a ** 2": lambda rl, a, b: a**2,
    "2 ** a": lambda rl, a, b: 2**a,
    "a / 2": lambda rl, a, b: a / 2,
    "2 / a": lambda rl, a, b: 2 / a,
    "where": lambda rl, a, b: rl.where(a > b, a, b),
    "softmax": lambda rl, a, b: a.softmax(1),
    "log_softmax": lambda rl, a, b: a.log_softmax(1),
    "lerp": lambda rl, a, b: rl.lerp(a, b, 0.3),
    "addcmul": lambda rl, a, b: rl.addcmul(a, a, b),
    "addcdiv": lambda rl, a, b: rl.addcdiv(a, a, b),
    "clamp": lambda rl, a, b: rl.clamp(a, 0.2, 0.8),
}


def values_and_gradients(library: Any, function: Callable[..., Any], *arrays: Any) -> list[Any]:
    leaves = [library.from_numpy(a.copy()).requires_grad_() for a in arrays]
    y = function(library, *leaves)
    if y.requires_grad:
        y.sum().backward()
    grads = [library.zeros_like(t) if t.grad is None else t.grad for t in leaves]
    return [t.detach().numpy() for t in (y, *grads)]


def check(function: Callable[..., Any], *arrays: Any) -> None:
    expected = values_and_gradients(torch, function, *arrays)
    got = values_and_gradients(rl, function, *arrays)
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", UNARY)
def test_special_points(name: str) -> None:
    check(lambda rl, x: getattr(rl, name)(x), POINTS)


@pytest.mark.parametrize("name", BINARY)
def test_pairs_of_special_points(name: str) -> None:
    check(lambda rl, a, b: getattr(rl, name)(a, b), *PAIRS)


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_rounded_quotients_of_special_points(mode: str) -> None:
    check(lambda rl, a, b: rl.div(a, b, rounding_mode=mode), *PAIRS)


@pytest.mark.parametrize("name", KINKS)
def test_kinks(name: str) -> None:
    check(KINKS[name], POINTS)


@pytest.mark.parametrize("name", WRITERS)
def test_in_place_on_a_result_and_on_a_view(name: str) -> None:
    def write(rl: Any, a: Any, b: Any) -> Any:
        y, z = a * b, b * a
        getattr(y, f"{name}_")()
        getattr(z[1], f"{name}_")()
        return y * a + z

    check(write, *INSIDE)


@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "**", "%"])
def test_in_place_operators(symbol: str) -> None:
    def write(rl: Any, a: Any, b: Any) -> Any:
        names = {"y": a * 1, "z": b * 1, "b": b}
        exec(f"y {symbol}= b; z {symbol}= 2", names)
        return names["y"] * a + names["z"] * b

    check(write, *INSIDE)


@pytest.mark.parametrize("written", ["result", "first", "second"])
@pytest.mark.parametrize("name", KEPT)
def test_what_may_be_written_to_before_backward(name: str, written: str) -> None:
    def survives(library: Any) -> bool:
        leaves = [library.from_numpy(x.copy()).requires_grad_() for x in INSIDE]
        a, b = [x * 1 for x in leaves]
        y = KEPT[name](library, a, b)
        if not y.requires_grad:
            return True
        {"result": y, "first": a, "second": b}[written].add_(1)
        try:
            y.sum().backward()
        except RuntimeError:
            return False
        return True

    assert survives(rl) == survives(torch)


def test_rrelu_draws_the_same_slopes() -> None:
    def train(rl: Any, x: Any) -> Any:
        rl.manual_seed(3)
        return rl.rrelu(x, 0.1, 0.3, True)

    check(train, INSIDE - 0.5)
