"""Numbers that only the graph knows: as Python's own, errors included."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl

WHOLE: dict[str, Callable[[Any], Any]] = {
    "int": lambda x: int(x.sum()),
    "int of item": lambda x: int(x.sum().item()),
    "round": lambda x: round(x.sum().item()),
    "floor": lambda x: math.floor(x.sum().item()),
    "ceil": lambda x: math.ceil(x.sum().item()),
    "trunc": lambda x: math.trunc(x.sum().item()),
    "in a branch": lambda x: int(x.sum()) if x.sum().isfinite() else -1,
}
NUMBERS = (1.5, -2.7, 0.0, -0.5, float("nan"), float("inf"), float("-inf"), 9.0e18, -(2.0**63))


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """The result, or the error."""
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.bfloat16])
@pytest.mark.parametrize("name", WHOLE)
def test_a_float_as_an_int_or_the_error_of_python(name: str, dtype: rl.dtype) -> None:
    compiled = rl.compile(WHOLE[name], fullgraph=True)
    for number in NUMBERS:
        x = rl.tensor([number], dtype=dtype)
        assert outcome(compiled, x) == outcome(WHOLE[name], x)


def test_a_number_of_steps_that_is_none() -> None:
    @rl.compile(fullgraph=True)
    def count(x: Any) -> Any:
        total = 0
        for i in range(int(x)):
            total = total + i
        return total

    assert count(rl.tensor(4.0)) == 6
    with pytest.raises(ValueError, match="cannot convert float NaN to integer"):
        count(rl.tensor(float("nan")))


def test_an_int_of_more_than_64_bits_is_an_error() -> None:
    with pytest.raises(OverflowError, match="a graph has 64 bits"):
        rl.compile(lambda x: int(x.sum()), fullgraph=True)(rl.tensor([1e30]))


def member(x: Any) -> Any:
    return x * 2 if x.sum() in (3, 6) else x


def no_member(x: Any) -> Any:
    n = int(x.sum())
    return x if n not in [3, n + 1, x.max()] else -x


def between(x: Any) -> Any:
    return x + 1 if 0 < x.sum() in (3.0, 9.0) else x


@pytest.mark.parametrize("function", [member, no_member, between])
def test_membership(function: Callable[..., Any]) -> None:
    compiled = rl.compile(function, fullgraph=True)
    for n in (1.0, 2.0, 3.0, 0.0, -1.0):
        x = rl.full((3,), n)
        assert rl.equal(compiled(x), function(x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: math.hypot(x.sum().item(), 2.0),
        lambda x: math.copysign(3.0, x.sum().item()),
        lambda x: math.fmod(x.sum().item(), 2),
        lambda x: math.degrees(x.sum().item()),
        lambda x: math.radians(x.sum().item()),
    ],
    ids=["hypot", "copysign", "fmod", "degrees", "radians"],
)
def test_functions_of_math(function: Callable[..., Any]) -> None:
    compiled = rl.compile(function, fullgraph=True)
    for n in (5.5, -7.25, 0.0):
        assert compiled(rl.tensor([n])) == pytest.approx(function(rl.tensor([n])), rel=1e-12)
