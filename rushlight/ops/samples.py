"""How an op says what it can be tried with: inputs that work, and inputs that must fail.

Tests build the tensors: a ``T`` without dtype is made in every dtype the op supports, contiguous
and with odd strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import dtypes


class T:
    """A tensor to be made: random in [low, high], or of given ``values``.

    ``distinct`` values are a shuffled ramp (no ties), for ops with kinks where values meet.
    """

    __slots__ = ("distinct", "dtype", "grad", "high", "low", "shape", "values")

    def __init__(
        self,
        *shape: int,
        dtype: dtypes.dtype | None = None,
        low: float = -2.0,
        high: float = 2.0,
        values: Sequence[Any] | float | None = None,
        distinct: bool = False,
        grad: bool = True,
    ) -> None:
        self.shape, self.dtype, self.low, self.high = shape, dtype, low, high
        self.values, self.distinct, self.grad = values, distinct, grad

    def __repr__(self) -> str:
        return f"T({', '.join(map(str, self.shape))})"


class S:
    """A call that works: ``S(T(3, 4), dim=1)`` stands for ``op(tensor, dim=1)``."""

    __slots__ = ("args", "kwargs")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs

    def __repr__(self) -> str:
        words = [*map(repr, self.args), *(f"{k}={v!r}" for k, v in self.kwargs.items())]
        return f"({', '.join(words)})"


class Fails(S):
    """A call that must raise ``error`` with a message that ``match`` (a pattern) finds."""

    __slots__ = ("error", "match")

    def __init__(self, error: type[Exception], match: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.error, self.match = error, match


def unary_samples(low: float = -2.0, high: float = 2.0) -> list[S]:
    """A matrix, an empty one, a scalar and odd sizes, with values in [low, high]."""
    return [S(T(*shape, low=low, high=high)) for shape in ((3, 4), (2, 0, 3), (), (5, 1, 7))]


def binary_samples(
    low: float = -2.0, high: float = 2.0, second: tuple[float, float] | None = None
) -> list[S]:
    """Equal shapes, broadcast ones, scalars and empties; ``second`` bounds the other operand."""
    a, b = second or (low, high)
    shapes = [
        ((3, 4), (3, 4)),
        ((3, 4), (4,)),
        ((3, 1), (1, 4)),
        ((), ()),
        ((2, 3), ()),
        ((0, 3), (3,)),
    ]
    return [S(T(*x, low=low, high=high), T(*y, low=a, high=b)) for x, y in shapes]
