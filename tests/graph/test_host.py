"""A float that changes between calls is one inside the function, whatever is done with it."""

from __future__ import annotations

import copy
import json
import math
import numbers
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.graph.host import Host, Numbers, in_words

VALUES = (0.5, 0.6, 0.75, 2.0)

RECORDED: dict[str, Callable[[Any, Any], Any]] = {
    "beside integers": lambda x, s: rl.arange(3) * s + x,
    "beside halves": lambda x, s: rl.ones(2, dtype=rl.float16) * s * 2,
    "beside doubles": lambda x, s: rl.ones(1, dtype=rl.float64) * (s + 1e-12),
    "beside complex ones": lambda x, s: rl.ones(1, dtype=rl.complex64) * s,
    "arithmetic": lambda x, s: x * (2 - s * 3 / 4 + s // 0.3 - s % 0.3 + (-s) ** 2 + 2**s),
    "unary": lambda x, s: x * abs(-s) + (+s),
    "of integers": lambda x, s: (s * 2) * rl.arange(3),
    "a sum": lambda x, s: x * sum([s, s]),
    "a choice": lambda x, s: rl.where(x > 0, s, 0.0),
    "a choice of integers": lambda x, s: rl.where(x > 0, s, rl.zeros(1, dtype=rl.int64)),
    "a limit": lambda x, s: x.clamp(max=s),
    "between": lambda x, s: rl.lerp(x, x * 2, s),
    "in place": lambda x, s: (x * 1).mul_(s).add_(x, alpha=s),
    "a power": lambda x, s: s**x,
    "isinstance": lambda x, s: x * 2 if isinstance(s, float) and isinstance(s, numbers.Real) else x,
    "compared with no number": lambda x, s: x * s if s not in (None, "auto") else x,
    "returned": lambda x, s: (x, s, [s * 2]),
    "copied": lambda x, s: x * copy.deepcopy({"s": s})["s"],
}

BY_VALUE: dict[str, Callable[[Any, Any], Any]] = {
    "round": lambda x, s: x * round(s) + round(s, 1),
    "int": lambda x, s: x * int(s * 10),
    "math": lambda x, s: x * math.sqrt(s) + math.floor(s) + math.isnan(s),
    "a format": lambda x, s: x * float(f"{s:.1f}") + float("%.1f" % s) + float(str(s)),  # noqa: UP031
    "is_integer": lambda x, s: x * s.is_integer() + s.as_integer_ratio()[0],
    "a key": lambda x, s: x * {0.5: 1.0, 0.6: 2.0, 0.75: 3.0, 2.0: 4.0}[s],
    "hash": lambda x, s: x * (hash(s) % 7),
    "complex": lambda x, s: x * complex(s, 1) + s * 1j,
    "a power that is complex": lambda x, s: x * (-s) ** s,
    "numpy": lambda x, s: (
        x * np.float64(s) + float((np.ones(2) * s).sum()) + float(np.array([s])[0])
    ),
    "divmod": lambda x, s: x * divmod(s, 0.3)[0],
    "type": lambda x, s: x * 2 if type(s) is float else x,
    "json": lambda x, s: x * json.loads(json.dumps([s]))[0],
    "full": lambda x, s: rl.full((2,), s),
    "a literal": lambda x, s: rl.tensor([s, 1.0]) + rl.tensor(s),
    "an argument of an op": lambda x, s: F.leaky_relu(-x, s),
    "a range": lambda x, s: rl.arange(0.0, s, 0.2),
}

DECIDED: dict[str, Callable[[Any, Any], Any]] = {
    "compared": lambda x, s: x * 2 if s > 0.55 else x,
    "the larger one": lambda x, s: x * max(s, 0.65),
    "one of": lambda x, s: x * (2.0 if s in (0.5, 0.6) else 1.0),
    "not": lambda x, s: x * (not s),
    "two of them": lambda x, s: x * (s * s < s),
    "equal": lambda x, s: x * (s == 0.5) + (s != s),
}


def shown(result: Any) -> str:
    if isinstance(result, rl.Tensor):
        return f"{result.dtype} {result.tolist()}"
    if isinstance(result, (tuple, list)):
        return f"{type(result).__name__} {[shown(item) for item in result]}"
    return f"{type(result).__name__} {result!r}"


@pytest.mark.parametrize("name", [*RECORDED, *BY_VALUE, *DECIDED])
def test_the_function_sees_a_float(name: str) -> None:
    function = (RECORDED | BY_VALUE | DECIDED)[name]
    compiled = rl.compile(function, fullgraph=True)
    for s in VALUES:
        assert shown(compiled(rl.ones(1), s)) == shown(function(rl.ones(1), s)), s
    if name in RECORDED:  # one program for the first value, and one for all others
        assert len(compiled.known) == 2
        assert all([len(made) == 1 for made in compiled.known.values()])


def test_numbers_of_numpy_are_floats() -> None:
    compiled = rl.compile(lambda x, s: rl.arange(3) * s + x * isinstance(s, np.float64))
    for s in np.linspace(0.1, 0.5, 4):
        expected = rl.arange(3) * s + rl.ones(3)
        found = compiled(rl.ones(3), s)
        assert found.dtype is expected.dtype is rl.float32
        assert rl.equal(found, expected)
    assert len(compiled.known) == 2


def test_errors_are_those_of_floats() -> None:
    compiled = rl.compile(lambda x, s: x * (1 / s))
    assert [compiled(rl.ones(1), s).item() for s in (0.5, 0.25)] == [2, 4]
    with pytest.raises(ZeroDivisionError):
        compiled(rl.ones(1), 0.0)
    assert compiled(rl.ones(1), 0.125).item() == 8
    attribute = rl.compile(lambda x, s: x * s.missing if s else x)
    attribute(rl.ones(1), 0.0)
    with pytest.raises(AttributeError, match="'float' object has no attribute 'missing'"):
        attribute(rl.ones(1), 0.5)


def test_zeros_and_nan_are_values_of_their_own() -> None:
    function = lambda x, s: x * math.copysign(1, s)  # noqa: E731
    compiled = rl.compile(function)
    for s in (1.0, 0.0, -0.0, float("nan"), 0.0, -0.0, float("nan")):
        assert compiled(rl.ones(1), s).item() == function(rl.ones(1), s).item()
    assert sum([len(made) for made in compiled.known.values()]) == 4


def test_too_many_values_end_in_dynamic_mode() -> None:
    compiled = rl.compile(lambda x, s: x * round(s))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(40):
            assert compiled(rl.ones(1), i + 0.25).item() == i
    assert len(caught) == 1
    assert "a float that changes is needed" in str(caught[0].message)
    assert "test_host.py:" in str(caught[0].message)


def test_gradients_with_a_number_that_changes() -> None:
    w = rl.ones(3, requires_grad=True)

    @rl.compile(fullgraph=True)
    def step(x, s):
        ((x * w).sum() * s).backward()

    for s in VALUES:
        w.grad = None
        step(rl.ones(3), s)
        assert rl.equal(w.grad, rl.full((3,), s))
    assert sum([len(made) for made in step.known.values()]) == 2


class Noted:
    """In the place of a trace, whose conditions do not matter."""

    def decide(self, question: Any, answer: Any) -> None:
        pass


def test_the_same_arithmetic_is_one_number() -> None:
    current = [0.5]
    host: Any = Host(Numbers(Noted()), lambda: current[0])  # type: ignore[arg-type]
    assert host + 1 is host + 1
    assert host + 1 is not host + 1.0
    double = host * 2
    current[0] = 3.0
    assert float(double) == 6.0


def test_who_asks_for_types_is_named() -> None:
    def scaled(x, s):
        return x * 2 if type(s) is float else x

    compiled = rl.compile(scaled)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i in range(40):
            assert compiled(rl.ones(1), i + 0.25).item() == 2
    assert len(caught) == 1
    line = scaled.__code__.co_firstlineno
    assert f"needed as a number of Python's at {__file__}:{line} (type)" in str(caught[0].message)


def test_numbers_are_called_by_what_they_are_computed_from() -> None:
    rate: Any = Host(Numbers(Noted()), lambda: 0.5, "lr")  # type: ignore[arg-type]
    nameless: Any = Host(Numbers(Noted()), lambda: 0.5)  # type: ignore[arg-type]
    assert in_words(rate) == "lr"
    assert in_words(-rate) == "minus lr"
    assert in_words(1 - rate * 2) == "1 minus (lr times 2)"
    assert in_words(nameless) == in_words(nameless + 1) == ""
    for _ in range(5):
        rate = rate * rate
    assert in_words(rate) == ""  # it would be long


@pytest.mark.parametrize("steps", [5, 40, 1500])
def test_formulas_of_many_steps(steps):
    """A number that is used twice in each step is read once."""

    def f(x, rate: float):
        for _ in range(steps):
            rate = rate * 0.5 + rate * 0.5
        return x * rate

    compiled = rl.compile(f, fullgraph=True)
    for rate in (0.5, 0.75, 3.0):
        assert compiled(rl.ones(2), rate).tolist() == [rate] * 2
