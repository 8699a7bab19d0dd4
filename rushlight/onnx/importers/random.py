"""Random numbers, from Rushlight's generator; a seed in the file asks for one of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import dtypes
from rushlight.onnx.importers.conversion import element_named
from rushlight.onnx.importers.registry import op
from rushlight.ops import ops
from rushlight.random import Generator
from rushlight.tensor import Tensor


def source(seed: float | None) -> Generator | None:
    return None if seed is None else Generator().manual_seed(int(seed))


def kind(dtype: int | None, like: dtypes.dtype) -> dtypes.dtype:
    return like if dtype is None else dtypes.from_numpy(element_named(dtype))


@op("RandomNormal")
def normal(
    *,
    shape: Sequence[int],
    dtype: int = 1,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Tensor:
    draw = ops.randn(list(shape), generator=source(seed))
    return (mean + scale * draw).to(kind(dtype, dtypes.float32))


@op("RandomNormalLike")
def normal_like(
    x: Tensor, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: Any = None
) -> Tensor:
    draw = ops.randn(x.shape, generator=source(seed))
    return (mean + scale * draw).to(kind(dtype, x.dtype))


@op("RandomUniform")
def uniform(
    *,
    shape: Sequence[int],
    dtype: int = 1,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Tensor:
    draw = ops.rand(list(shape), generator=source(seed))
    return (low + (high - low) * draw).to(kind(dtype, dtypes.float32))


@op("RandomUniformLike")
def uniform_like(
    x: Tensor, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: Any = None
) -> Tensor:
    draw = ops.rand(x.shape, generator=source(seed))
    return (low + (high - low) * draw).to(kind(dtype, x.dtype))


@op("Bernoulli")
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    return (ops.rand(x.shape, generator=source(seed)) < x).to(kind(dtype, x.dtype))


@op("Multinomial")
def multinomial(
    x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Tensor:
    """Classes drawn by their logarithmic probabilities."""
    chances = ops.softmax(x, -1)
    drawn = ops.multinomial(chances, sample_size, replacement=True, generator=source(seed))
    return drawn.to(kind(dtype, dtypes.int32))
