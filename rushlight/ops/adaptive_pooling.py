"""Pooling to a given size: windows divide the plane as evenly as whole numbers allow.

Where the size divides the plane's the windows are those of plain pooling. Else neighbouring windows
share an element or differ in length: averages are then a resampling, and maxima those of a copy in
which all windows are as long and have elements of their own.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.kernels import pooling as kernels
from rushlight.kernels.pooling import Window
from rushlight.kernels.resampling import Map
from rushlight.layouts import shape_of
from rushlight.ops.base import Op, composite, need_tensor, registry
from rushlight.ops.interpolation import resample
from rushlight.ops.pooling import last_dims, need_dtype, not_ints, plane_put, with_indices
from rushlight.ops.reduce import in_float32
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.windowing import first_largest
from rushlight.tensor import Tensor

Sizes = int | None | Sequence[int | None]
COUNTS = ("no ints", "one int", "two ints", "three ints")


def target(name: str, x: Tensor, size: Any, rank: int) -> tuple[int, ...]:
    """The size to pool the last ``rank`` dimensions to: None leaves one of several as it is."""
    need_dtype(name, x, "f")
    shape = x._array.shape
    each = size if isinstance(size, (tuple, list)) else (size,) * rank
    try:
        numbers = [None if n is None and rank > 1 else n.__index__() for n in each]
    except AttributeError:
        raise not_ints(name, "output_size", size) from None
    if len(numbers) != rank:
        raise RuntimeError(
            f"{name}(): argument 'output_size' should contain {COUNTS[rank]} (got {len(numbers)})"
        )
    if len(shape) not in (rank + 1, rank + 2):
        # PyTorch looks up the sizes of a tuple in the shape, and finds that it is too short.
        error = ValueError if rank > 1 and each is size and len(shape) <= rank else RuntimeError
        raise error(
            f"{name}(): Expected {rank + 1}D or {rank + 2}D tensor, but got {list(shape)}. Input "
            f"dimension should be at least {rank + 1}"
        )
    plane = shape[-rank:]
    sizes = tuple([n if count is None else count for n, count in zip(plane, numbers, strict=True)])
    if any([n < 0 for n in sizes]):
        raise RuntimeError(
            f"{name}(): elements of output_size must be greater than or equal to 0 but received "
            f"{list(sizes)}"
        )
    if 0 in plane:
        empty = len(shape) - rank + plane.index(0)
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input "
            f"has sizes {list(shape)} with dimension {empty} being empty"
        )
    return shape_of(name, [*shape[:-rank], *sizes], x._array.dtype)[-rank:]


def adaptive_errors(rank: int) -> list[Fails]:
    plane = (4,) * rank
    x, several = T(1, 2, *plane), r"output_size' should contain .* int"
    return [
        Fails(TypeError, "must be Tensor, not float", 1.5, 2),
        Fails(TypeError, "'output_size' must be tuple of ints, not float", x, 2.5),
        Fails(RuntimeError, rf"{several}s? \(got {rank + 1}\)", x, (2,) * (rank + 1)),
        Fails(RuntimeError, "greater than or equal to 0 but received", x, -1),
        Fails(RuntimeError, rf"Expected {rank + 1}D or {rank + 2}D tensor, but got \[4\]", T(4), 2),
        Fails(ValueError if rank > 1 else RuntimeError, "at least", T(4), (2,) * rank),
        Fails(RuntimeError, "with dimension 2 being empty", T(1, 2, 0, *plane[1:]), 2),
        Fails(NotImplementedError, "for 'Long'", T(1, *plane, dtype=dtypes.int64), 2),
    ]


def even(plane: Sequence[int], sizes: Sequence[int]) -> tuple[Window, ...] | None:
    """The windows that divide a plane evenly, if they can."""
    if 0 in sizes or any([n % count for n, count in zip(plane, sizes, strict=True)]):
        return None
    sides = zip(plane, sizes, strict=True)
    return tuple([Window(n, count, n // count, n // count) for n, count in sides])


def adaptive_average(rank: int, input: Any, output_size: Any) -> Tensor:
    name = f"adaptive_avg_pool{rank}d"
    x = need_tensor(name, input)
    sizes = target(name, x, output_size, rank)
    plane = x._array.shape[-rank:]
    if sizes == (1,) * rank:
        return x.mean(dim=tuple(range(-rank, 0)), keepdim=True)
    windows = even(plane, sizes)
    if windows is None:
        sides = zip(plane, sizes, strict=True)
        maps = [Map("area", n, count, n / (count or 1)) for n, count in sides]
        return resample(x, tuple(maps), False)
    attrs = {"windows": windows, "padded": True, "divisor": None, "dims": last_dims(rank)}
    return registry[f"nn.functional.avg_pool{rank}d"].apply((x,), attrs)


def average_samples(rank: int) -> list[S]:
    plane = (6, 4, 5)[:rank]
    return [
        S(T(2, 2, *plane), 1),
        S(T(1, 2, *plane), 2),
        S(T(2, *plane), (4, 3, 2)[:rank]),
        S(T(1, *plane), (3, 2, None)[:rank]),
        S(T(0, 2, *plane), 2),
        S(T(1, 1, *plane), 7),
        S(T(1, 1, *plane), 0),
    ]


@composite(
    namespace="nn.functional", method=False, samples=average_samples(1), errors=adaptive_errors(1)
)
def adaptive_avg_pool1d(input: Tensor, output_size: Sizes) -> Tensor:
    """The last dimension of ``input``, (N, C, L) or (C, L), averaged to ``output_size`` elements.

    Element i is the mean from ``floor(i · L / size)`` to ``ceil((i + 1) · L / size)``.

    >>> rl.nn.functional.adaptive_avg_pool1d(rl.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]]), 2)
    tensor([[2., 4.]])
    """
    return adaptive_average(1, input, output_size)


@composite(
    namespace="nn.functional", method=False, samples=average_samples(2), errors=adaptive_errors(2)
)
def adaptive_avg_pool2d(input: Tensor, output_size: Sizes) -> Tensor:
    """The last two dimensions of ``input``, (N, C, H, W) or (C, H, W), averaged to a size.

    ``output_size`` is one number or a pair; None leaves a dimension as it is.

    >>> rl.nn.functional.adaptive_avg_pool2d(rl.arange(8.0).reshape(1, 2, 4), (1, 2))
    tensor([[[2.5000, 4.5000]]])
    """
    return adaptive_average(2, input, output_size)


@composite(
    namespace="nn.functional", method=False, samples=average_samples(3), errors=adaptive_errors(3)
)
def adaptive_avg_pool3d(input: Tensor, output_size: Sizes) -> Tensor:
    """The last three dimensions of ``input``, (N, C, D, H, W) or (C, D, H, W), averaged to a size.

    ``output_size`` is one number or three; None leaves a dimension as it is.

    >>> rl.nn.functional.adaptive_avg_pool3d(rl.arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[3.5000]]]])
    """
    return adaptive_average(3, input, output_size)


@functools.lru_cache(256)
def apart(n: int, count: int) -> np.ndarray:
    """The elements of each window in a row of its own, all as long: the last one is repeated."""
    i = np.arange(count)
    start, stop = i * n // count, -(-(i + 1) * n // count)
    steps = np.arange((stop - start).max(initial=1))
    return np.minimum(start.reshape(-1, 1) + steps, stop.reshape(-1, 1) - 1)


class LargestApart(Op):
    """The largest elements of windows that do not divide their planes evenly, and their places."""

    function = method = False
    differentiable = (0,)

    def check(self, input: Tensor, sizes: tuple[int, ...], return_indices: bool) -> Any:
        return (input,), {"sizes": sizes, "return_indices": return_indices}

    @in_float32
    def eager(self, x, *, sizes, return_indices):
        rank = len(sizes)
        plane = x.shape[x.ndim - rank :]
        elements = [apart(n, count) for n, count in zip(plane, sizes, strict=True)]
        windows = tuple([Window(e.size, len(e), e.shape[1], e.shape[1]) for e in elements])
        if return_indices:
            for dim, each in enumerate(elements, -rank):
                x = x.take(each.reshape(-1), dim)
            y, index = kernels.largest(x, windows, -np.inf)
            return y, places(index, elements, plane)
        for dim, each in enumerate(elements, -rank):
            alone = [Window(n, n, 1) for n in x.shape[x.ndim - rank :]]
            alone[dim] = windows[dim]
            x = kernels.fold(np.maximum, x.take(each.reshape(-1), dim), tuple(alone), -np.inf)
        return x

    def at(self, b, i, x, *, sizes, return_indices):
        dims, plane = last_dims(len(sizes)), x.shape[x.ndim - len(sizes) :]
        longest = [apart(n, count).shape[1] for n, count in zip(plane, sizes, strict=True)]

        def position(*ks: Any) -> list[Any]:
            sides = zip(i[-len(sizes) :], ks, plane, sizes, strict=True)
            return [
                b.min((b.position(o) * n) // count + k, -((-(b.position(o) + 1) * n) // count) - 1)
                for o, k, n, count in sides
            ]

        best, place = first_largest(b, i, x, longest, plane, dims, position)
        return (best, place) if return_indices else best

    def folded(self, attrs, *shapes):
        return ()

    def vjp(self, g, _y, x, *, sizes, return_indices):
        _, index = largest_apart(x, sizes, True)
        return plane_put(g, index, tuple(x.shape[-len(sizes) :]), False)


largest_apart = registry["largest_apart"].call


def places(index: np.ndarray, elements: list[np.ndarray], plane: Sequence[int]) -> np.ndarray:
    """Where the elements at ``index`` of a plane made of ``elements`` stand in the plane itself."""
    if not index.size:
        return index
    inside = np.unravel_index(index, [e.size for e in elements])
    old = [e.reshape(-1).take(i) for e, i in zip(elements, inside, strict=True)]
    return np.ravel_multi_index(old, plane)


def adaptive_largest(rank: int, input: Any, output_size: Any, return_indices: bool) -> Any:
    name = f"adaptive_max_pool{rank}d"
    x = need_tensor(name, input)
    sizes = target(name, x, output_size, rank)
    windows = even(x._array.shape[-rank:], sizes)
    if windows is None:
        return largest_apart(x, sizes, return_indices)
    pool = registry[f"nn.functional.max_pool{rank}d"]
    attrs = {"windows": windows, "return_indices": return_indices, "dims": last_dims(rank)}
    return pool.apply((x,), attrs)


def largest_samples(rank: int) -> list[S]:
    plane = (6, 4, 2)[:rank]
    return [
        S(T(1, 2, *plane, distinct=True), 1),
        S(T(1, 2, *plane, distinct=True), 2, True),
        S(T(1, *plane, distinct=True), (4, 3, 2)[:rank]),
        S(T(1, *plane, distinct=True), (4, 2, None)[:rank], return_indices=True),
        S(T(0, 2, *plane), 2),
        S(T(1, 1, *plane), 0),
    ]


@composite(
    namespace="nn.functional", method=False, samples=largest_samples(1), errors=adaptive_errors(1)
)
def adaptive_max_pool1d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """The largest elements of as many windows as ``output_size`` says over the last dimension.

    Window i of (N, C, L) or (C, L) is from ``floor(i · L / size)`` to ``ceil((i + 1) · L / size)``.
    With ``return_indices`` the places of the results in their rows come along.

    >>> rl.nn.functional.adaptive_max_pool1d(rl.tensor([[1.0, 4.0, 3.0, 2.0, 5.0]]), 2)
    tensor([[4., 5.]])
    """
    return adaptive_largest(1, input, output_size, return_indices)


@composite(
    namespace="nn.functional", method=False, samples=largest_samples(2), errors=adaptive_errors(2)
)
def adaptive_max_pool2d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """The largest elements of as many windows as ``output_size`` says over the last two dimensions.

    ``output_size`` is one number or a pair; None leaves a dimension as it is. With
    ``return_indices`` the places of the results in their planes, counted row by row, come along.

    >>> rl.nn.functional.adaptive_max_pool2d(rl.arange(8.0).reshape(1, 2, 4), (1, 2))
    tensor([[[5., 7.]]])
    """
    return adaptive_largest(2, input, output_size, return_indices)


@composite(
    namespace="nn.functional", method=False, samples=largest_samples(3), errors=adaptive_errors(3)
)
def adaptive_max_pool3d(input: Tensor, output_size: Sizes, return_indices: bool = False) -> Any:
    """The largest elements of windows over the last three dimensions, to a given size.

    ``output_size`` is one number or three; None leaves a dimension as it is. With
    ``return_indices`` the places of the results in their volumes, counted in C order, come along.

    >>> rl.nn.functional.adaptive_max_pool3d(rl.arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[7.]]]])
    """
    return adaptive_largest(3, input, output_size, return_indices)


for rank in (1, 2, 3):
    with_indices(f"adaptive_max_pool{rank}d", rank)
