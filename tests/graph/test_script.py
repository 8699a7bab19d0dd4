"""Python's control flow on tensors: compiled, each function is one program, equal to itself."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from tests.graph.script_programs import POINTS, TABLE


def arguments(point: Any) -> tuple[rl.Tensor, rl.Tensor]:
    rl.manual_seed(3)
    x = rl.tensor(point, requires_grad=True)
    return x, (rl.randn(4, 4) / 2).requires_grad_()


def floats(result: Any) -> list[rl.Tensor]:
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, (tuple, list)):
        return [t for part in result for t in floats(part)]
    tracked = isinstance(result, rl.Tensor) and result.requires_grad
    return [result] if tracked else []


def gradients(function: Any, point: Any) -> tuple[Any, list[rl.Tensor]]:
    """The result, and the gradients of all its elements' squares."""
    given = arguments(point)
    result = function(*given)
    losses = [t.square().sum() for t in floats(result)]
    if losses:
        sum(losses).backward()
    return result, [rl.zeros(t.shape) if t.grad is None else t.grad for t in given]


def programs(compiled: Any) -> int:
    return sum(map(len, compiled.known.values()))


def assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = [*found.values()], [*expected.values()]
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_same(a, b)
    elif isinstance(expected, rl.Tensor):
        assert found.dtype is expected.dtype
        assert rl.allclose(found, expected, rtol=1e-4, atol=1e-5), (found, expected)
    else:
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", TABLE)
def test_compiled_equals_dynamic_mode_in_value_and_gradient(name: str) -> None:
    compiled = rl.compile(TABLE[name], fullgraph=True)
    for point in POINTS:
        found, expected = gradients(compiled, point), gradients(TABLE[name], point)
        assert_same(found[0], expected[0])
        assert_same(found[1], expected[1])
    assert programs(compiled) == 1
