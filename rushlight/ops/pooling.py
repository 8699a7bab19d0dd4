"""Max pooling, and the windows that all pooling functions slide over the last dimensions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.dims import at_least, by_sizes
from rushlight.kernels import pooling as kernels
from rushlight.kernels.indices import first_outside
from rushlight.kernels.pooling import Window, Windows
from rushlight.ops.base import Op, all_parameters, composite, need_tensor, registry
from rushlight.ops.elements import Refusal, flat, same, unflat, wide
from rushlight.ops.reduce import in_float32, need_bool
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.windowing import largest_in_window, window_spread
from rushlight.tensor import Tensor

Sizes = int | Sequence[int]
COUNTS = ("no", "one", "two", "three")
SHORT = "int32"  # indices that only a slope reads: half as much to write and to read again


def per_dimension(name: str, argument: str, value: Any, rank: int) -> tuple[int, ...]:
    """``value``, a number or one for each of ``rank`` dimensions, as a tuple."""
    if type(value) is int:
        return (value,) * rank
    try:
        numbers = tuple([n.__index__() for n in value])
    except (AttributeError, TypeError):
        raise not_ints(name, argument, value) from None
    if len(numbers) not in (1, rank):
        raise RuntimeError(
            f"{name}: {argument} must either be a single int, or a tuple of {COUNTS[rank]} ints, "
            f"but got {list(numbers)}"
        )
    return numbers if len(numbers) == rank else numbers * rank


def not_ints(name: str, argument: str, value: Any) -> TypeError:
    """The error of a ``value`` that is not, or holds what is not, a whole number."""
    found = f", not {messages.kind(value)}"
    if isinstance(value, (tuple, list)):
        strange = [(i, v) for i, v in enumerate(value) if not isinstance(v, SupportsIndex)]
        found = f", but found element of type {messages.kind(strange[0][1])} at pos {strange[0][0]}"
    return TypeError(f"{name}(): argument '{argument}' must be tuple of ints{found}")


def need_dtype(name: str, x: Tensor, allowed: str) -> None:
    """An error unless the dtype of ``x`` is of one of the NumPy kinds ``allowed``."""
    if x._array.dtype.kind not in allowed and x._array.dtype not in dtypes.HALF:
        raise NotImplementedError(f"\"{name}\" not implemented for '{x.dtype.storage_name}'")


def need_planes(name: str, shape: Sequence[int], rank: int) -> None:
    """An error unless ``shape`` is that of planes, perhaps in a batch, which alone may be empty."""
    planes = f"{rank + 1}D or {rank + 2}D (batch mode) tensor"
    strange = len(shape) not in (rank + 1, rank + 2)
    if strange and rank > 1:
        raise RuntimeError(f"{name}: non-empty {planes} expected for input, but got:{list(shape)}")
    if strange or 0 in shape[len(shape) - rank - 1 :]:
        raise RuntimeError(
            f"{name}: Expected {planes} with optional 0 dim batch size for input, but "
            f"got:{list(shape)}"
        )


@by_sizes
def sliding(
    name: str,
    shape: tuple[int, ...],
    size: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    ceil_mode: bool,
) -> Windows:
    """The windows over the last dimensions of ``shape``, or the error that says why not."""
    rank = len(size)
    for argument, values in (("kernel_size", size), ("stride", stride), ("dilation", dilation)):
        for value in values:
            if value < 1:
                raise RuntimeError(
                    f"{name}() {argument} must be greater than zero, but got {value}"
                )
    for k, p, d in zip(size, padding, dilation, strict=True):
        if p < 0:
            raise RuntimeError(f"{name}(): pad must be non-negative, but got pad: {p}")
        if p > k // 2:
            half = "at most half of effective" if p > ((k - 1) * d + 1) // 2 else "at most half of"
            raise RuntimeError(
                f"{name}(): pad should be {half} kernel size, but got pad={p}, kernel_size={k} and "
                f"dilation={d}"
            )
    need_planes(name, shape, rank)
    if name == "avg_pool3d":
        need_room(shape[-rank:], size)
    windows = tuple(
        [
            Window(n, slides(n, k, s, p, d, ceil_mode), k, s, p, d)
            for n, k, s, p, d in zip(shape[-rank:], size, stride, padding, dilation, strict=True)
        ]
    )
    for w in windows:
        if w.outputs < 1:
            planes = "x".join(map(str, shape[-rank - 1 :]))
            results = "x".join(map(str, (shape[-rank - 1], *[w.outputs for w in windows])))
            raise RuntimeError(
                f"{name}() Invalid computed output size: {w.outputs}. Given input size: "
                f"({planes}). Calculated output size: ({results}). Output size is too small"
            )
    return windows


def need_room(plane: tuple[int, ...], size: tuple[int, ...]) -> None:
    """An error where a window of three dimensions is longer than the plane, padding or not."""
    if any([k > n for n, k in zip(plane, size, strict=True)]):
        image = " ".join([f"{side}: {n}" for side, n in zip("THW", plane, strict=True)])
        window = " ".join([f"k{side}: {k}" for side, k in zip("THW", size, strict=True)])
        raise RuntimeError(f"input image ({image}) smaller than kernel size ({window})")


def slides(n: int, k: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """How many windows there are; in ``ceil_mode`` the last one may reach over the end."""
    room = n + 2 * padding - dilation * (k - 1) - 1
    count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    return count - 1 if ceil_mode and (count - 1) * stride >= n + padding else count


def windows_of(
    name: str,
    rank: int,
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
) -> Windows:
    """The windows that a pooling function's arguments ask for."""
    size = per_dimension(name, "kernel_size", kernel_size, rank)
    # PyTorch takes an empty stride for none.
    steps = size if stride in (None, (), []) else per_dimension(name, "stride", stride, rank)
    margin = per_dimension(name, "padding", padding, rank)
    apart = per_dimension(name, "dilation", dilation, rank)
    ceil_mode = need_bool("ceil_mode", ceil_mode)
    return sliding(name, x._array.shape, size, steps, margin, apart, ceil_mode)


def no_place(plane: Sequence[int]) -> Refusal:
    """The error for an index of max unpooling that is not in its plane."""
    return Refusal(
        RuntimeError,
        f"max_unpool{len(plane)}d(): Found an invalid max index: {{}} (output volumes are of size "
        f"{'x'.join(['{}'] * len(plane))})",
        tuple(plane),
    )


class PlanePut(Op):
    """Planes of zeros with values at the places ``index``; what meets there is added up.

    ``once`` says that no place is named twice, or that the last value shall count.
    """

    function = method = False

    def check(self, input: Tensor, index: Tensor, plane: tuple[int, ...], once: bool) -> Any:
        return (input, index), {"plane": plane, "once": once}

    def infer(self, arrays, attrs):
        (y, index), plane = arrays, attrs["plane"]
        if y.shape != index.shape or y.ndim < len(plane):
            raise ValueError(f"values of shape {y.shape} have places of shape {index.shape}")
        return np.empty((*y.shape[: y.ndim - len(plane)], *plane), y.dtype)

    def eager(self, y, index, *, plane, once):
        wrong = first_outside(index, 0, math.prod(plane))
        if wrong is not None:
            raise no_place(plane)(wrong)
        if once or y.dtype not in dtypes.HALF:
            return kernels.put(y, index, plane, once)
        return kernels.put(y.astype(np.float32), index, plane, once).astype(y.dtype)

    def scatter(self, b, y, index, *, plane, once):
        element, size = same if once else wide, math.prod(plane)

        def part(k: Any) -> Any:
            place = b.checked(index[k], size, no_place(plane))
            return (*k[: len(k) - len(plane)], *unflat(place, plane)), element(y[k])

        zero = element(b.constant(0, y.kind))
        how = "set" if once else "add"
        return b.scatter(start=lambda i: zero, sizes=y.shape, element=part, how=how)

    def vjp(self, g, _x, _y, index, *, plane, once):
        return plane_pick(g, index, len(plane)), None


class PlanePick(Op):
    """The elements at the places ``index`` of each plane, the last ``rank`` dimensions."""

    function = method = False

    def check(self, input: Tensor, index: Tensor, rank: int) -> Any:
        return (input, index), {"rank": rank}

    def eager(self, x, index, *, rank):
        return kernels.pick(x, index, rank)

    def at(self, b, i, x, index, *, rank):
        plane = x.shape[x.ndim - rank :]
        place = b.checked(index[i], math.prod(plane), no_place(plane))
        return x[[*i[: len(i) - rank], *unflat(place, plane)]]

    def vjp(self, g, _y, _x, index, *, rank):
        return plane_put(g, index, tuple(_x.shape[len(_x.shape) - rank :]), False), None


plane_put = registry["plane_put"].call
plane_pick = registry["plane_pick"].call


def along(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of windows over the last dimensions, for windows over any ``dims``."""

    @functools.wraps(kernel)
    def moved(self: Op, *arrays: np.ndarray, dims: tuple[int, ...], **attrs: Any) -> Any:
        last = last_dims(len(dims))
        if dims == last:
            return kernel(self, *arrays, dims=dims, **attrs)
        y = kernel(self, *[np.moveaxis(x, dims, last) for x in arrays], dims=last, **attrs)
        if isinstance(y, tuple):
            return tuple([np.moveaxis(part, last, dims) for part in y])
        return np.moveaxis(y, last, dims)

    return moved


@functools.cache
def last_dims(rank: int) -> tuple[int, ...]:
    """The dimensions that windows slide over; in graphs they may be others."""
    return tuple(range(-rank, 0))


def slid(
    x: np.ndarray, dims: tuple[int, ...], own: Sequence[int], sizes: Sequence[int]
) -> np.ndarray:
    """An array like those that kernels :func:`along` ``dims`` make of ``x``, with other sizes.

    An error unless its ``own`` sizes are those that windows were made for.
    """
    last = last_dims(len(dims))
    shape = np.moveaxis(x, dims, last).shape
    lead, plane = shape[: x.ndim - len(dims)], shape[x.ndim - len(dims) :]
    if plane != tuple(own):
        raise ValueError(f"windows are over {tuple(own)} elements, not {plane}")
    return np.moveaxis(np.empty((*lead, *sizes), x.dtype), last, dims)


def pooled_type(x: np.ndarray, attrs: Mapping[str, Any]) -> np.ndarray:
    """An array like what windows over ``x`` give."""
    windows = attrs["windows"]
    return slid(x, attrs["dims"], [w.length for w in windows], [w.outputs for w in windows])


def spread_type(y: np.ndarray, attrs: Mapping[str, Any]) -> np.ndarray:
    """An array like that whose windows give ``y``."""
    windows = attrs["windows"]
    return slid(y, attrs["dims"], [w.outputs for w in windows], [w.length for w in windows])


class SpreadLargest(Op):
    """Each element where the largest of its window was, zeros elsewhere: the slope of max pooling.

    A program looks at the few windows that hold an element, instead of writing to one after the
    other.
    """

    function = method = False
    differentiable = (0,)

    def check(self, input: Tensor, index: Tensor, windows: Windows, dims: tuple[int, ...]) -> Any:
        return (input, index), {"windows": windows, "dims": dims}

    @along
    def eager(self, y, index, *, windows, dims):
        plane = tuple([w.length for w in windows])
        if kernels.hollow(windows) is not None:
            size = math.prod(plane)
            y, index = np.where(index < size, y, 0), np.minimum(index, size - 1)
        wider = y.astype(np.float32) if y.dtype in dtypes.HALF else y
        x = kernels.put(wider, index, plane, all([w.is_disjoint for w in windows]))
        return x.astype(y.dtype, copy=False)

    def infer(self, arrays, attrs):
        y, index = arrays
        if index.shape != y.shape or index.dtype.kind not in "iu":
            raise ValueError(f"places {index.dtype}{index.shape} of elements {y.shape}")
        return spread_type(y, attrs)

    def at(self, b, i, y, index, *, windows, dims):
        place = b.position(flat([i[d] for d in dims], [w.length for w in windows]))

        def share(there: Any, _: Any) -> Any:
            element, found = wide(y[there]), index[there]
            return b.where(found.eq(place.cast(found.kind)), element, 0)

        return window_spread(b, i, windows, dims, share)

    def folded(self, attrs, *shapes):
        return ()

    def vjp(self, g, _x, _y, index, *, windows, dims):
        # Second derivatives are taken of what users wrote: windows over the last dimensions.
        size = math.prod([w.length for w in windows])
        if kernels.hollow(windows) is None:
            return plane_pick(g, index, len(windows)), None
        found = plane_pick(g, index.clamp(max=size - 1), len(windows))
        return found.masked_fill(index >= size, 0), None


spread_largest = registry["spread_largest"].call


@functools.cache
def least(kind: np.dtype) -> Any:
    """What no element is smaller than."""
    return np.iinfo(kind).min if kind.kind in "iu" else -np.inf


def pool_errors(rank: int, too_small: str = "Output size is too small") -> list[Fails]:
    """Calls of max or average pooling over ``rank`` dimensions that must fail."""
    plane = (6,) * rank
    x, ranks = T(1, 2, *plane), rf"{rank + 1}D or {rank + 2}D .* but got:"
    return [
        Fails(TypeError, r"'input' \(position 1\) must be Tensor, not float", 1.5, 2),
        Fails(TypeError, "'kernel_size' must be tuple of ints, not float", x, 2.5),
        Fails(TypeError, "'ceil_mode' must be bool, not int", x, 2, ceil_mode=1),
        Fails(RuntimeError, f"tuple of {COUNTS[rank]} ints, but got", x, (2,) * (rank + 1)),
        Fails(RuntimeError, "kernel_size must be greater than zero, but got 0", x, 0),
        Fails(RuntimeError, "stride must be greater than zero, but got -1", x, 2, -1),
        Fails(RuntimeError, "pad must be non-negative, but got pad: -1", x, 2, padding=-1),
        Fails(RuntimeError, "pad should be at most half of effective kernel", x, 3, padding=3),
        Fails(RuntimeError, too_small, x, 7),
        Fails(RuntimeError, rf"{ranks}\[6\]", T(6), 2),
        Fails(RuntimeError, rf"{ranks}\[1, 0,", T(1, 0, *plane), 2),
        Fails(NotImplementedError, "for 'Bool'", T(2, *plane, dtype=dtypes.bool_), 2),
    ]


class MaxPool(Op, abstract=True):
    """The largest element of each window."""

    namespace = "nn.functional"
    method = False
    differentiable = (0,)
    fused = True
    rank: int

    def check(
        self,
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        x, name = need_tensor(self.name, input), self.name
        need_dtype(name, x, "iuf")
        windows = windows_of(name, self.rank, x, kernel_size, stride, padding, dilation, ceil_mode)
        if self.rank == 1 and not return_indices:
            need_dtype("max_pool1d_impl", x, "f")
        dims = last_dims(self.rank)
        return (x,), {"windows": windows, "return_indices": return_indices, "dims": dims}

    @along
    @in_float32
    def eager(self, x, *, windows, return_indices, dims):
        if return_indices:
            y, index = kernels.largest(x, windows, least(x.dtype))
            return y, index.astype(np.int32) if return_indices == SHORT else index
        return kernels.fold(np.maximum, x, windows, least(x.dtype))

    def infer(self, arrays, attrs):
        y, indices = pooled_type(arrays[0], attrs), attrs["return_indices"]
        if not indices:
            return y
        return y, np.empty_like(y, np.int32 if indices == SHORT else np.int64)

    def decompose(self, x, *, windows, return_indices, dims):
        if return_indices:
            return NotImplemented
        return self.largest(x, windows, dims)[0]  # the same node as that of the slope

    def at(self, b, i, x, *, windows, return_indices, dims):
        best, place = largest_in_window(b, i, x, windows, dims)
        return (best, place) if return_indices else best

    def folded(self, attrs, *shapes):
        return ()

    def vjp(self, g, _y, x, *, windows, return_indices, dims):
        _, index = self.largest(x, windows, dims, asked=return_indices)
        return spread_largest(g, index, windows, dims)

    def largest(
        self, x: Tensor, windows: Windows, dims: tuple[int, ...], asked: bool = False
    ) -> Any:
        """The largest elements and their places, which are short unless the user asked for them."""
        fit = at_least((1 << 31) - 1, math.prod([w.length for w in windows]))
        indices = SHORT if fit and not asked else True
        return self.apply((x,), {"windows": windows, "return_indices": indices, "dims": dims})


class MaxPool1D(MaxPool):
    """The largest element of each window that slides over the last dimension.

    Args:
        input: (N, C, L) or (C, L).
        stride: how far apart windows begin; ``kernel_size`` if None.
        padding: how far windows reach over both ends, where there is nothing to choose.
        dilation: how far apart the elements of a window are.
        ceil_mode: a last window may reach over the end.
        return_indices: also return where in its row each result stands.

    >>> rl.nn.functional.max_pool1d(rl.tensor([[1.0, 3.0, 2.0, 0.0, 5.0]]), 3, stride=2)
    tensor([[3., 5.]])
    """

    name, rank = "max_pool1d", 1
    samples = [
        S(T(2, 3, 6, distinct=True), 2),
        S(T(3, 8, distinct=True), 3, 2, 1),
        S(T(1, 2, 9, distinct=True), (3,), stride=(2,), dilation=2, padding=1),
        S(T(2, 2, 8, distinct=True), 3, 2, ceil_mode=True, return_indices=True),
        S(T(1, 3, 5, distinct=True), 5),
        S(T(0, 2, 6), 2),
        S(T(2, 3, 4, distinct=True), 1),
    ]
    errors = [
        *pool_errors(1),
        Fails(
            RuntimeError, "dilation must be greater than zero, but got 0", T(1, 6), 2, dilation=0
        ),
    ]


class MaxPool2DWithIndices(MaxPool):
    """The largest element of each window that slides over the last two dimensions.

    Arguments that stand for two dimensions are one number or a pair.

    Args:
        input: (N, C, H, W) or (C, H, W).
        stride: how far apart windows begin; ``kernel_size`` if None.
        padding: how far windows reach over each border, where there is nothing to choose.
        dilation: how far apart the elements of a window are.
        ceil_mode: last windows may reach over the border.
        return_indices: also return where in its plane each result stands, counted row by row.

    >>> x = rl.tensor([[[1.0, 2.0, 0.0, 1.0], [4.0, 3.0, 1.0, 5.0]]])
    >>> rl.nn.functional.max_pool2d(x, 2)
    tensor([[[4., 5.]]])
    >>> rl.nn.functional.max_pool2d(x, 2, return_indices=True)[1]
    tensor([[[4, 7]]])
    """

    name, rank = "max_pool2d", 2
    samples = [
        S(T(2, 2, 4, 5, distinct=True), 2),
        S(T(1, 1, 6, 6, distinct=True), 3, 2, 1),
        S(T(3, 3, 4, distinct=True), (1, 2), stride=1, return_indices=True),
        S(T(1, 1, 5, 7, distinct=True), 2, (2, 3), (0, 1), (2, 1), ceil_mode=True),
        S(T(1, 2, 4, 4, distinct=True), 4),
        S(T(0, 2, 4, 4), 2),
    ]
    errors = [
        *pool_errors(2),
        Fails(RuntimeError, "dilation must be greater", T(1, 6, 6), 2, dilation=(1, 0)),
    ]


class MaxPool3DWithIndices(MaxPool):
    """The largest element of each window that slides over the last three dimensions.

    Arguments that stand for three dimensions are one number or three; see :func:`max_pool2d`.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W).
        stride: how far apart windows begin; ``kernel_size`` if None.
        padding: how far windows reach over each border, where there is nothing to choose.
        dilation: how far apart the elements of a window are.
        ceil_mode: last windows may reach over the border.
        return_indices: also return where in its volume each result stands, counted in C order.

    >>> rl.nn.functional.max_pool3d(rl.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[7.]]]])
    """

    name, rank = "max_pool3d", 3
    samples = [
        S(T(1, 2, 2, 4, 2, distinct=True), 2),
        S(T(1, 3, 3, 4, distinct=True), (1, 2, 3), 1, (0, 1, 1), return_indices=True),
        S(T(1, 1, 3, 3, 4, distinct=True), 2, dilation=(1, 2, 1), ceil_mode=True),
        S(T(0, 1, 2, 2, 2), 2),
    ]
    errors = [
        *pool_errors(3),
        Fails(RuntimeError, "dilation must be greater", T(1, 6, 6, 6), 2, dilation=0),
    ]


def with_indices(name: str, rank: int, example: str = "x, 1") -> None:
    """Publishes ``name_with_indices``: that function with ``return_indices=True``."""
    op = registry[f"nn.functional.{name}"]
    before = [p for p in all_parameters(op.call) if p != "self"].index("return_indices")

    @functools.wraps(op.call)
    def pool(*args: Any, **kwargs: Any) -> Any:
        if len(args) > before:
            return op.call(*args[:before], True, *args[before + 1 :], **kwargs)
        return op.call(*args, **{**kwargs, "return_indices": True})

    pool.__name__ = f"{name}_with_indices"
    pool.__doc__ = f""":func:`{name}` with ``return_indices=True``.

    >>> x = rl.ones(1, 2{", 2" * rank})
    >>> rl.nn.functional.{name}_with_indices({example})[1].dtype
    rushlight.int64
    """
    samples = [s for s in op.samples if "return_indices" not in s.kwargs]
    composite(namespace=op.namespace, method=False, samples=samples, errors=op.errors)(pool)


for rank in (1, 2, 3):
    with_indices(f"max_pool{rank}d", rank)
