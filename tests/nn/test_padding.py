"""Padding layers: what stands in the border, on each side, and how they print."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight import nn

ROW = [[0.0, 1.0, 2.0, 3.0]]


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (nn.CircularPad1d((1, 2)), [3, 0, 1, 2, 3, 0, 1]),
        (nn.ReflectionPad1d((1, 2)), [1, 0, 1, 2, 3, 2, 1]),
        (nn.ReplicationPad1d((1, 2)), [0, 0, 1, 2, 3, 3, 3]),
        (nn.ConstantPad1d((1, 2), 9.0), [9, 0, 1, 2, 3, 9, 9]),
        (nn.ZeroPad1d((1, 2)), [0, 0, 1, 2, 3, 0, 0]),
        (nn.ZeroPad1d((-1, 1)), [1, 2, 3, 0]),
    ],
)
def test_what_stands_in_the_border(layer: nn.Module, expected: list[float]) -> None:
    assert layer(rl.tensor(ROW)).tolist() == [expected]


@pytest.mark.parametrize("kind", ["Circular", "Reflection", "Replication", "Zero"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_paddings_are_given_from_the_last_dimension_on(kind: str, rank: int) -> None:
    layer = getattr(nn, f"{kind}Pad{rank}d")
    sides = (1, 2, 3, 0, 2, 1)[: 2 * rank]
    x = rl.rand(2, 3, *(6, 5, 4)[:rank])
    expected = [n + sides[2 * i] + sides[2 * i + 1] for i, n in enumerate(reversed(x.shape[2:]))]
    y = layer(sides)(x)
    assert tuple(y.shape[2:]) == tuple(reversed(expected))
    assert rl.equal(layer(1)(x), layer((1,) * (2 * rank))(x))
    assert repr(layer(2)) == f"{kind}Pad{rank}d({(2,) * (2 * rank)})"


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_constant_is_printed_with_its_value(rank: int) -> None:
    layer = getattr(nn, f"ConstantPad{rank}d")(1, 3.5)
    assert repr(layer) == f"ConstantPad{rank}d(padding={(1,) * (2 * rank)}, value=3.5)"
    assert isinstance(getattr(nn, f"ZeroPad{rank}d")(1), getattr(nn, f"ConstantPad{rank}d"))


@pytest.mark.parametrize(
    ("layer", "shape", "error", "message"),
    [
        (nn.CircularPad2d(1), (4, 4), ValueError, r"3D or 4D input \(got 2D input\)"),
        (nn.CircularPad1d(5), (2, 4), RuntimeError, "wrapping around more than once"),
        (nn.ReflectionPad1d(4), (2, 4), RuntimeError, "less than the corresponding input dim"),
        (nn.ReplicationPad3d(1), (4, 4), (RuntimeError, NotImplementedError), "adding"),
    ],
)
def test_impossible_borders_are_refused(
    layer: nn.Module, shape: tuple[int, ...], error: Any, message: str
) -> None:
    with pytest.raises(error, match=message):
        layer(rl.ones(shape))
