"""Fractional max pooling: windows at random distances, so that the size may shrink by any ratio.

Each plane draws where its windows begin (Graham, "Fractional Max-Pooling", 2014). The elements of
all windows are gathered side by side, and plain max pooling does the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.kernels.pooling import Window
from rushlight.ops.base import composite, need_tensor, ops, registry
from rushlight.ops.pooling import (
    Sizes,
    last_dims,
    need_dtype,
    need_planes,
    per_dimension,
    with_indices,
)
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor, wrap

Ratios = float | Sequence[float]


def fractional(
    rank: int,
    input: Any,
    kernel_size: Sizes,
    output_size: Sizes | None,
    output_ratio: Ratios | None,
    return_indices: bool,
    samples: Tensor | None,
) -> Any:
    name = f"fractional_max_pool{rank}d"
    x = need_tensor(name, input)
    need_dtype(name, x, "f")
    need_planes(name, x._array.shape, rank)
    lead, plane = x._array.shape[:-rank], x._array.shape[-rank:]
    size = per_dimension(name, "kernel_size", kernel_size, rank)
    counts = results(name, plane, output_size, output_ratio)
    for n, k, count in zip(plane, size, counts, strict=True):
        if k < 1:
            raise RuntimeError(f"{name}() kernel_size must be greater than zero, but got {k}")
        if count < 0 or count + k - 1 > n:
            raise RuntimeError(
                f"{name}(): {count} windows of size {k} are too large relative to input size {n}"
            )
    if samples is None:
        samples = ops.rand(x._array.shape[0] if len(lead) > 1 else 1, lead[-1], rank, dtype=x.dtype)
    drawn = need_samples(name, x, rank, samples).reshape(*lead, rank)
    if rank == 2:
        drawn = drawn[..., ::-1]  # PyTorch draws for the width first
    elements = []
    for d, (n, k, count) in enumerate(zip(plane, size, counts, strict=True)):
        first = starts(drawn[..., d], n, k, count)
        elements.append((first[..., None] + np.arange(k)).reshape(*lead, count * k))
        dim = len(lead) + d
        shape = list(x._array.shape)
        shape[dim] = count * k
        index = elements[-1].reshape(*lead, *[1] * d, count * k, *[1] * (rank - d - 1))
        x = x.gather(dim, wrap(np.broadcast_to(index, shape)))
    windows = tuple([Window(c * k, c, k, k) for c, k in zip(counts, size, strict=True)])
    pool = registry[f"nn.functional.max_pool{rank}d"]
    attrs = {"windows": windows, "return_indices": return_indices, "dims": last_dims(rank)}
    y = pool.apply((x,), attrs)
    return (y[0], wrap(places(y[1]._array, elements, plane))) if return_indices else y


def results(name: str, plane: Sequence[int], size: Any, ratio: Any) -> tuple[int, ...]:
    """The size that ``output_size`` or ``output_ratio`` asks for."""
    rank = len(plane)
    if size is not None:
        return per_dimension(name, "output_size", size, rank)
    if ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    each = tuple(ratio) if isinstance(ratio, (tuple, list)) else (ratio,) * rank
    if len(each) != rank:
        raise ValueError(
            f"{name} requires output_ratio to either be a single number or one for each of {rank} "
            f"dimensions, but got {ratio}"
        )
    return tuple([int(n * r) for n, r in zip(plane, each, strict=True)])


def need_samples(name: str, x: Tensor, rank: int, samples: Any) -> np.ndarray:
    """The random numbers of each plane, one for each dimension."""
    shape = x._array.shape
    images = shape[0] if len(shape) == rank + 2 else 1
    array = need_tensor(name, samples, "_random_samples", 6)._array
    if array.ndim != 3 or len(array) < images or array.shape[1:] != (shape[-rank - 1], rank):
        raise RuntimeError(
            f"{name}(): Expect _random_samples of shape [{images}, {shape[-rank - 1]}, {rank}], "
            f"one for each image, channel and dimension; got {list(array.shape)}"
        )
    if array.dtype != x._array.dtype:
        raise RuntimeError(
            f"{name}(): Expect _random_samples to have the same dtype as input, {x.dtype}; got "
            f"{samples.dtype}"
        )
    return array[:images]


def starts(drawn: np.ndarray, n: int, k: int, count: int) -> np.ndarray:
    """Where the ``count`` windows of size ``k`` begin in each plane, which drew one number."""
    kind = drawn.dtype if drawn.dtype not in dtypes.HALF else np.dtype(np.float32)
    drawn, step = drawn.astype(kind)[..., None], kind.type((n - k) / max(count - 1, 1))
    i = np.arange(count, dtype=kind)
    first = ((i + drawn) * step).astype(np.int64) - (drawn * step).astype(np.int64)
    first[..., -1:] = n - k
    return first


def places(index: np.ndarray, elements: list[np.ndarray], plane: Sequence[int]) -> np.ndarray:
    """Where the elements at ``index`` of the gathered planes stand in the planes themselves."""
    if not index.size:
        return index
    inside = np.unravel_index(index, [e.shape[-1] for e in elements])
    lead = index.shape[: index.ndim - len(plane)]
    old = [
        np.take_along_axis(e, i.reshape(*lead, -1), -1).reshape(index.shape)
        for e, i in zip(elements, inside, strict=True)
    ]
    return np.ravel_multi_index(old, plane)


def fractional_samples(rank: int) -> dict[str, Any]:
    """The samples and error samples of fractional max pooling over ``rank`` dimensions."""
    plane = (5, 4, 4)[:rank] if rank == 3 else (6, 5)
    x = T(1, 1, *plane, distinct=True)
    kind, drawn = dtypes.float32, T(1, 1, rank, low=0, high=1, grad=False)
    return {
        "samples": [
            S(x, 2, 2),
            S(T(1, *plane, distinct=True), 2, output_ratio=(0.5,) * rank, return_indices=True),
            S(x, (1, 2, 2)[:rank], (3, 2, 2)[:rank], _random_samples=drawn),
            S(x, 2, 1),
            S(x, 2, 0),
            S(T(0, 2, *plane), 2, 2),
        ],
        "errors": [
            Fails(TypeError, "must be Tensor, not float", 1.5, 2, 2),
            Fails(ValueError, "requires specifying either an output_size or an output", x, 2),
            Fails(ValueError, f"one for each of {rank} dim", x, 2, output_ratio=(0.5,) * 4),
            Fails(RuntimeError, "7 windows of size 2 are too large relative to input", x, 2, 7),
            Fails(RuntimeError, "kernel_size must be greater than zero, but got 0", x, 0, 2),
            Fails(RuntimeError, rf"{rank + 1}D or {rank + 2}D", T(4), 2, 2),
            Fails(RuntimeError, "Expect _random_samples of", x, 2, 2, _random_samples=T(1, 1, 4)),
            Fails(
                RuntimeError,
                "the same dtype as input",
                T(1, 1, *plane, dtype=kind),
                2,
                2,
                _random_samples=T(1, 1, rank, dtype=dtypes.float64),
            ),
            Fails(NotImplementedError, "for 'Long'", T(1, *plane, dtype=dtypes.int64), 2, 2),
        ],
    }


@composite(namespace="nn.functional", method=False, **fractional_samples(2))
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest elements of windows that begin at random distances in the last two dimensions.

    Args:
        input: (N, C, H, W) or (C, H, W).
        kernel_size: the size of a window.
        output_size: how many windows there are.
        output_ratio: ``output_size`` divided by the size of ``input``, in its place.
        return_indices: also return where in its plane each result stands, counted row by row.

    >>> rl.nn.functional.fractional_max_pool2d(rl.rand(1, 3, 9, 9), 2, output_size=6).shape
    rushlight.Size([1, 3, 6, 6])
    """
    return fractional(
        2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


@composite(namespace="nn.functional", method=False, **fractional_samples(3))
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest elements of windows that begin at random distances in the last three dimensions.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        kernel_size: the size of a window.
        output_size: how many windows there are.
        output_ratio: ``output_size`` divided by the size of ``input``, in its place.
        return_indices: also return where in its volume each result stands, counted in C order.

    >>> x = rl.rand(1, 3, 8, 8, 8)
    >>> rl.nn.functional.fractional_max_pool3d(x, 2, output_ratio=(0.5, 0.5, 0.5)).shape
    rushlight.Size([1, 3, 4, 4, 4])
    """
    return fractional(
        3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


for rank in (2, 3):
    with_indices(f"fractional_max_pool{rank}d", rank, "x, 1, output_size=1")
