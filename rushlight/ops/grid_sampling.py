"""Planes sampled at the places that a grid names, and the grids of affine maps."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.kernels import sampling as kernels
from rushlight.ops.base import Op, composite, need_tensor, ops, registry
from rushlight.ops.elements import among, chosen
from rushlight.ops.fused import Fused
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

MODES = ("bilinear", "nearest", "bicubic")
PADDING_MODES = ("zeros", "border", "reflection")
CUBIC = -0.75
"""The slope of the cubic convolution at the neighbours of an element."""
OUTSIDE = -(1 << 40)
"""The position of elements that are not there."""


def zero(b: Any, x: Any) -> Callable[[], Any]:
    """What stands for elements of ``x`` that are not there."""
    return lambda: b.constant(0, x.kind)


def is_there(b: Any, place: Any, count: int) -> Any:
    """Whether a place is one of ``count``: positions are data, so any number may be met."""
    return among(b, [place >= 0, place < count])


class WeightedPick(Op):
    """y[n,c,o] = Σ w[n,k,o] · x[n,c,index[n,k,o]], the sum over k; see ``kernels/sampling.py``."""

    function = method = False

    def check(self, input: Tensor, weight: Tensor, index: Tensor) -> Any:
        return (input, weight, index), {}

    def eager(self, x, w, index):
        return kernels.pick(x, w, index)

    def at(self, b, i, x, w, index):
        def term(k: Any) -> Any:
            place = b.position(index[i[0], k, i[2]])
            holds = [is_there(b, place, x.shape[2])]
            value = chosen(b, holds, x, (i[0], i[1], place), zero(b, x))
            return w[i[0], k, i[2]] * value

        return b.sum(w.shape[1:2], term)

    def folded(self, attrs, *shapes):
        return ()

    def vjp_x(self, g, _y, _x, w, index):
        return weighted_put(g, w, index, _x.shape[2])

    def vjp_w(self, g, _y, x, _w, index):
        return picked_products(g, x, index)

    vjp_index = None


class WeightedPut(Op):
    """x[n,c,i] = Σ w[n,k,o] · g[n,c,o], the sum over all o and k whose index is i."""

    function = method = False

    def check(self, input: Tensor, weight: Tensor, index: Tensor, places: int) -> Any:
        return (input, weight, index), {"places": places}

    def infer(self, arrays, attrs):
        return np.empty((*arrays[0].shape[:2], attrs["places"]), arrays[0].dtype)

    def eager(self, g, w, index, *, places):
        return kernels.put(g, w, index, places)

    def scatter(self, b, g, w, index, *, places):
        def part(k: Any) -> Any:
            n, c, o, tap = k
            place = b.position(index[n, tap, o])
            holds = is_there(b, place, places)
            value = b.where(holds, w[n, tap, o] * g[n, c, o], 0)
            return (n, c, b.where(holds, place, 0)), value

        sizes = (*g.shape, w.shape[1])
        return b.scatter(start=lambda i: zero(b, g)(), sizes=sizes, element=part, how="add")

    def vjp_g(self, x, _y, _g, w, index, *, places):
        return weighted_pick(x, w, index)

    def vjp_w(self, x, _y, g, _w, index, *, places):
        return picked_products(g, x, index)

    vjp_index = None


class PickedProducts(Op):
    """w[n,k,o] = Σ g[n,c,o] · x[n,c,index[n,k,o]], the sum over c."""

    function = method = False

    def check(self, grad: Tensor, input: Tensor, index: Tensor) -> Any:
        return (grad, input, index), {}

    def eager(self, g, x, index):
        return kernels.products(g, x, index)

    def at(self, b, i, g, x, index):
        n, k, o = i
        place = b.position(index[n, k, o])
        holds = [is_there(b, place, x.shape[2])]

        def term(c: Any) -> Any:
            return g[n, c, o] * chosen(b, holds, x, (n, c, place), zero(b, x))

        return b.sum(x.shape[1:2], term)

    def folded(self, attrs, *shapes):
        return ()

    def vjp_g(self, w, _y, _g, x, index):
        return weighted_pick(x, w, index)

    def vjp_x(self, w, _y, g, _x, index):
        return weighted_put(g, w, index, _x.shape[2])

    vjp_index = None


weighted_pick = registry["weighted_pick"].call
weighted_put = registry["weighted_put"].call
picked_products = registry["picked_products"].call


def sampled(x: Tensor, grid: Tensor, mode: str, padding: str, aligned: bool) -> Tensor:
    """``x`` sampled at ``grid``: by weights that depend on the grid, at places that it names."""
    images, channels, *plane = x._array.shape
    how: dict[str, Any] = {
        "plane": tuple(plane),
        "mode": mode,
        "padding": padding,
        "aligned": aligned,
    }
    if mode == "bicubic" or local.state.trace is not None:
        weights, index = unrolled(grid, **how)
    else:
        weights, index = grid_places.apply((grid,), how)
    flat = x.reshape(images, channels, math.prod(plane))
    return weighted_pick(flat, weights, index).reshape(images, channels, *grid.shape[1:-1])


class GridPlaces(Fused):
    """The weights and the places of the elements that each result of a grid is made of."""

    operands = ("grid",)
    differentiable = (0,)

    def check(self, grid: Tensor, **how: Any) -> Any:
        return (grid,), how

    def eager(self, grid, **how):
        return kernels.places(grid, **how)

    def formula(self, grid, **how):
        return unrolled(grid, **how)[0]

    def gradient(self, wanted, g, y, grid, **how):
        return (kernels.places_gradient(g[0], grid, **how),)


grid_places = registry["grid_places"]


def unrolled(
    grid: Tensor, plane: tuple[int, ...], mode: str, padding: str, aligned: bool
) -> tuple[Tensor, Tensor]:
    """:class:`GridPlaces` with ops."""
    images, results = grid._array.shape[0], grid._array.shape[1:-1]
    taps: list[list[tuple[Tensor, Tensor]]] = []
    for dim, size in enumerate(reversed(plane)):
        # The first number of a place is its position along the last dimension.
        place = grid.select(-1, dim).reshape(images, math.prod(results))
        taps.insert(0, along(place, size, mode, padding, aligned))
    index, weights = [], []
    for term in itertools.product(*taps):
        where, weight = term[0]
        for (i, w), size in zip(term[1:], plane[1:], strict=True):
            where, weight = where * size + i, weight * w
        index.append(ops.where(where < 0, math.prod(plane), where))
        weights.append(weight)
    return ops.stack(weights, 1), ops.stack(index, 1)


def along(
    grid: Tensor, size: int, mode: str, padding: str, aligned: bool
) -> list[tuple[Tensor, Tensor]]:
    """(position, weight) of each element along one dimension that results are made of.

    A position outside is so far below zero that every place it is part of is, too.
    """
    place = (grid + 1) * ((size - 1) / 2) if aligned else (grid + 1) * (size / 2) - 0.5
    if mode != "bicubic":
        place = bounded(place, size, padding, aligned)
    if mode == "nearest":
        never = ops.zeros_like(place, dtype=dtypes.bool_)
        one = ops.where(never, place, 1.0)  # its gradient is zero, as in PyTorch, and not absent
        return [(inside(place.detach().round(), size), one)]
    first = place.detach().floor()
    t = place - first
    if mode == "bilinear":
        return [(inside(first, size), 1 - t), (inside(first + 1, size), t)]
    weights = [outer(t + 1), inner(t), inner(1 - t), outer(2 - t)]
    steps = [first + step for step in (-1, 0, 1, 2)]
    positions = [inside(bounded(s, size, padding, aligned), size) for s in steps]
    return list(zip(positions, weights, strict=True))


def inside(position: Tensor, size: int) -> Tensor:
    """Whole positions as integers, those outside replaced by OUTSIDE."""
    holds = (position >= 0) & (position < size)  # NaN is outside
    return ops.where(holds, position, OUTSIDE).to(dtypes.int64)


def inner(t: Tensor) -> Tensor:
    """The cubic convolution at distances up to 1."""
    return ((CUBIC + 2) * t - (CUBIC + 3)) * t * t + 1


def outer(t: Tensor) -> Tensor:
    """The cubic convolution at distances from 1 to 2."""
    return ((CUBIC * t - 5 * CUBIC) * t + 8 * CUBIC) * t - 4 * CUBIC


def bounded(place: Tensor, size: int, padding: str, aligned: bool) -> Tensor:
    """Places outside the plane brought in: to the border, or mirrored there."""
    if padding == "zeros":
        return place
    if padding == "reflection":
        low, span = (0.0, size - 1) if aligned else (-0.5, size)
        if not span:
            return place * 0
        distance = (place - low).abs()
        rest, there = distance.fmod(span), (distance // span).fmod(2) == 0
        place = low + ops.where(there, rest, span - rest)
    inside = (place > 0) & (place < size - 1)
    # NaN counts as the first place, as in PyTorch.
    return ops.where(inside, place, place.detach().nan_to_num(0).clamp(0, size - 1))


def need_grid(x: Tensor, grid: Tensor, mode: str) -> None:
    """An error unless ``grid`` names places in the planes of ``x``."""
    shape, places = x._array.shape, grid._array.shape
    got = f"but got input with sizes {list(shape)} and grid with sizes {list(places)}"
    if len(shape) not in (4, 5) or len(places) != len(shape):
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, "
            f"{got}"
        )
    if places[0] != shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, {got}"
        )
    if places[-1] != len(shape) - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {len(shape) - 2} in last dimension, but "
            f"got grid with sizes {list(places)}"
        )
    if 0 in shape[2:]:
        raise RuntimeError(
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has "
            f"sizes {list(shape)} with dimension {shape.index(0, 2)} being empty"
        )
    if mode == "bicubic" and len(shape) != 4:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if not x.is_floating_point():
        raise NotImplementedError(f"\"grid_sampler\" not implemented for '{x.dtype.storage_name}'")
    if x.dtype is not grid.dtype:
        raise RuntimeError(
            f"grid_sampler(): expected scalar type {x.dtype.storage_name} but found "
            f"{grid.dtype.storage_name}"
        )


def sampler(
    rank: int | None, input: Any, grid: Any, mode: Any, padding: Any, aligned: Any
) -> Tensor:
    """:func:`sampled` with PyTorch's numbers for the modes."""
    x, g = need_tensor("grid_sampler", input), need_tensor("grid_sampler", grid, "grid", 2)
    for argument, number in (("interpolation_mode", mode), ("padding_mode", padding)):
        if number not in (0, 1, 2):
            raise RuntimeError(f"grid_sampler(): {argument} must be 0, 1 or 2, but got {number}")
    if rank is not None and x._array.ndim != rank + 2:
        raise RuntimeError(
            f"grid_sampler_{rank}d(): expected {rank + 2}D input, but got input with sizes "
            f"{list(x._array.shape)}"
        )
    need_grid(x, g, MODES[mode])
    kind = x._array.dtype
    if kind in dtypes.HALF:
        wide = sampled(x.float(), g.float(), MODES[mode], PADDING_MODES[padding], bool(aligned))
        return wide.to(x.dtype)
    return sampled(x, g, MODES[mode], PADDING_MODES[padding], bool(aligned))


def grid_of(*shape: int) -> T:
    return T(*shape, low=-1.3, high=1.3)


GRID_ERRORS = [
    Fails(TypeError, r"'grid' \(position 2\) must be Tensor", T(1, 1, 3, 3), None, 0, 0, False),
    Fails(RuntimeError, "size 2 in last dimension", T(1, 1, 3, 3), T(1, 2, 2, 3), 0, 0, False),
    Fails(RuntimeError, "same batch size", T(1, 1, 3, 3), T(2, 2, 2, 2), 0, 0, False),
    Fails(RuntimeError, "same number of dim", T(1, 1, 3, 3), T(1, 2, 2, 2, 2), 0, 0, False),
    Fails(RuntimeError, "dimension 2 being empty", T(1, 1, 0, 3), T(1, 2, 2, 2), 0, 0, False),
    Fails(RuntimeError, "padding_mode must be 0, 1 or 2", T(1, 1, 3, 3), T(1, 2, 2, 2), 0, 3, True),
]


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        S(T(1, 1, 3, 4), grid_of(1, 2, 2, 2), mode, padding, aligned)
        for mode, padding, aligned in itertools.product((0, 1, 2), (0, 1, 2), (True, False))
    ],
    errors=GRID_ERRORS,
)
def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """:func:`grid_sample` of planes, its modes given as the numbers 0, 1 and 2.

    >>> x, grid = rl.arange(4.0).reshape(1, 1, 2, 2), rl.zeros(1, 1, 1, 2)
    >>> rl.nn.functional.grid_sampler_2d(x, grid, 0, 0, False)
    tensor([[[[1.5000]]]])
    """
    return sampler(2, input, grid, interpolation_mode, padding_mode, align_corners)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        S(T(1, 1, 2, 3, 2), grid_of(1, 1, 2, 2, 3), mode, padding, aligned)
        for mode, padding, aligned in itertools.product((0, 1), (0, 1, 2), (True, False))
    ],
    errors=[
        Fails(RuntimeError, "expected 5D input", T(1, 1, 3, 3), T(1, 2, 2, 2), 0, 0, False),
        Fails(RuntimeError, "only supports 4D", T(1, 1, 2, 2, 2), T(1, 2, 2, 2, 3), 2, 0, False),
    ],
)
def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """:func:`grid_sample` of volumes, its modes given as the numbers 0 and 1 (and 2 for padding).

    >>> x, grid = rl.arange(8.0).reshape(1, 1, 2, 2, 2), rl.zeros(1, 1, 1, 1, 3)
    >>> rl.nn.functional.grid_sampler_3d(x, grid, 0, 0, False)
    tensor([[[[[3.5000]]]]])
    """
    return sampler(3, input, grid, interpolation_mode, padding_mode, align_corners)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        S(T(1, 2, 3, 4), grid_of(1, 2, 3, 2), 0, 0, False),
        S(T(1, 1, 2, 3, 2), grid_of(1, 1, 2, 2, 3), 0, 1, True),
    ],
    errors=GRID_ERRORS,
)
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """:func:`grid_sample`, its modes given as the numbers 0, 1 and 2.

    >>> x, grid = rl.arange(4.0).reshape(1, 1, 2, 2), rl.zeros(1, 1, 1, 2)
    >>> rl.nn.functional.grid_sampler(x, grid, 0, 0, False)
    tensor([[[[1.5000]]]])
    """
    return sampler(None, input, grid, interpolation_mode, padding_mode, align_corners)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        S(T(2, 3, 3, 4), grid_of(2, 2, 3, 2), align_corners=False),
        S(T(1, 2, 3, 4), grid_of(1, 2, 3, 2), "nearest", "reflection", True),
        S(T(1, 1, 4, 4), grid_of(1, 2, 3, 2), mode="bicubic", align_corners=False),
        S(T(1, 1, 2, 3, 2), grid_of(1, 1, 2, 2, 3), padding_mode="border", align_corners=True),
        S(T(0, 1, 3, 4), T(0, 2, 3, 2), align_corners=False),
        S(T(1, 1, 3, 4), T(1, 0, 3, 2), align_corners=False),
        S(T(1, 1, 1, 1), grid_of(1, 2, 3, 2), padding_mode="reflection", align_corners=True),
    ],
    errors=[
        Fails(ValueError, "but got: 'foo'", T(1, 1, 3, 3), T(1, 2, 2, 2), "foo"),
        Fails(ValueError, "but got: 'foo'", T(1, 1, 3, 3), T(1, 2, 2, 2), padding_mode="foo"),
        Fails(RuntimeError, "4D or 5D input", T(1, 3, 3), T(1, 2, 1), align_corners=False),
        Fails(
            RuntimeError,
            "expected scalar type Float but found Double",
            T(1, 1, 3, 3, dtype=dtypes.float32),
            T(1, 2, 2, 2, dtype=dtypes.float64),
            align_corners=False,
        ),
        Fails(
            NotImplementedError,
            "for 'Long'",
            T(1, 1, 3, 3, dtype=dtypes.int64),
            T(1, 2, 2, 2),
            align_corners=False,
        ),
    ],
)
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """``input``, (N, C, H, W) or (N, C, D, H, W), sampled at the places of ``grid``.

    Args:
        grid: (N, H', W', 2) of places (x, y), or (N, D', H', W', 3) of (x, y, z); −1 and 1 are the
            borders of ``input``.
        mode: ``"bilinear"`` (over all dimensions), ``"nearest"``, or ``"bicubic"`` for planes.
        padding_mode: what is outside: ``"zeros"``, the ``"border"``, or its ``"reflection"``.
        align_corners: −1 and 1 are the centres of the outermost elements, not their outer edges.

    >>> x = rl.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> grid = rl.tensor([[[[-0.5, -0.5], [0.0, 0.0], [0.5, 0.0]]]])
    >>> rl.nn.functional.grid_sample(x, grid, align_corners=False)
    tensor([[[[1.0000, 2.5000, 3.0000]]]])
    """
    if mode not in MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in PADDING_MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    aligned = alignment(align_corners)
    numbers = MODES.index(mode), PADDING_MODES.index(padding_mode)
    return sampler(None, input, grid, *numbers, aligned)


def alignment(align_corners: bool | None) -> bool:
    """``align_corners``, or its default with PyTorch's warning."""
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
            "1.3.0. Please specify align_corners=True if the old behavior is desired. See the "
            "documentation of grid_sample for details.",
            stacklevel=3,
        )
    return bool(align_corners)


def positions(count: int, like: Tensor, aligned: bool) -> Tensor:
    """``count`` positions from −1 to 1: the centres of as many elements, or from end to end."""
    if count == 1:
        return like.new_zeros(1)
    ends = ops.linspace(-1, 1, count, dtype=like.dtype)
    return ends if aligned else ends * (count - 1) / count


def affine_places(theta: Tensor, size: Sequence[int], aligned: bool) -> Tensor:
    """The places of all elements of ``size`` under the affine maps ``theta``."""
    images, _, *plane = size
    # The first number of a place is its position along the last dimension.
    sides = [positions(n, theta, aligned) for n in reversed(plane)]
    grids = ops.meshgrid(*reversed(sides), indexing="ij")
    base = ops.stack([*reversed(grids), ops.ones_like(grids[0])], -1)
    places = base.reshape(1, math.prod(plane), len(plane) + 1) @ theta.transpose(1, 2)
    return places.reshape(images, *plane, len(plane))


@composite(
    namespace="nn.functional",
    method=False,
    samples=[S(T(2, 2, 3), (2, 1, 3, 4), True), S(T(1, 3, 4), [1, 1, 2, 1, 3], False)],
    errors=[
        Fails(RuntimeError, r"shape \[2, 2, 3\], but got theta", T(1, 2, 3), (2, 1, 2, 2), True),
    ],
)
def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """:func:`affine_grid` with all its arguments.

    >>> rl.nn.functional.affine_grid_generator(rl.eye(2, 3)[None], (1, 1, 1, 2), True)
    tensor([[[[-1.,  0.],
              [ 1.,  0.]]]])
    """
    expected = (size[0], len(size) - 2, len(size) - 1)
    if need_tensor("affine_grid_generator", theta, "theta")._array.shape != expected:
        raise RuntimeError(
            f"affine_grid_generator(): expected theta of shape {list(expected)}, but got theta "
            f"with sizes {list(theta._array.shape)} for size {list(size)}"
        )
    return affine_places(theta, size, align_corners)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        S(T(2, 2, 3), (2, 1, 3, 4), align_corners=False),
        S(T(1, 2, 3), [1, 1, 2, 2], True),
        S(T(1, 3, 4), (1, 1, 2, 1, 3), align_corners=False),
    ],
    errors=[
        Fails(TypeError, "'theta' .* must be Tensor, not float", 1.5, (1, 1, 2, 2), False),
        Fails(
            ValueError, "floating point type", T(1, 2, 3, dtype=dtypes.int64), (1, 1, 2, 2), False
        ),
        Fails(ValueError, "shape Nx2x3 for size", T(1, 2, 2), (1, 1, 2, 2), False),
        Fails(ValueError, "shape Nx3x4 for size", T(1, 2, 3), (1, 1, 2, 2, 2), False),
        Fails(NotImplementedError, "only supports 4D and 5D", T(1, 2, 3), (1, 1, 2), False),
        Fails(ValueError, "non-zero, positive output size", T(1, 2, 3), (1, 1, 0, 2), False),
        Fails(RuntimeError, r"shape \[2, 2, 3\], but got theta", T(1, 2, 3), (2, 1, 2, 2), False),
    ],
)
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid with which :func:`grid_sample` applies affine maps.

    Args:
        theta: (N, 2, 3), or (N, 3, 4) for volumes: the matrices from places in the result to
            places in the input.
        size: that of the result, (N, C, H, W) or (N, C, D, H, W).
        align_corners: as in :func:`grid_sample`.

    >>> turn = rl.tensor([[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]])
    >>> rl.nn.functional.affine_grid(turn, (1, 1, 1, 2), align_corners=False)
    tensor([[[[ 0.0000, -0.5000],
              [ 0.0000,  0.5000]]]])
    """
    aligned = alignment(align_corners)
    if not need_tensor("affine_grid", theta, "theta").is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    rank, size = len(size) - 2, tuple(size)
    if rank not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}."
        )
    if theta._array.ndim != 3 or theta._array.shape[1:] != (rank, rank + 1):
        raise ValueError(
            f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size "
            f"{size}. Got {theta.shape}."
        )
    if any([n <= 0 for n in size]):
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return affine_grid_generator(theta, size, aligned)
