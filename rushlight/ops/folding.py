"""The windows of images as columns of a matrix, and columns laid back to images."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.dims import index
from rushlight.kernels.pooling import Window, Windows
from rushlight.kernels.windows import Geometry, Sizes, folded, unfolded
from rushlight.layouts import shape_of
from rushlight.ops.base import Op, composite, need_tensor, registry
from rushlight.ops.contraction import rounded
from rushlight.ops.elements import chosen, flat, inside, unflat, wide
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.windowing import places, window_spread
from rushlight.tensor import Tensor


class Im2Col(Op):
    """The windows of images (n, c, h, w) as columns (n, c · places in the kernel, windows)."""

    function = method = False

    def check(self, x: Tensor, kernel: Sizes, geometry: Geometry, count: Sizes) -> Any:
        return (x,), {"kernel": kernel, "geometry": geometry, "count": count}

    def infer(self, arrays, attrs):
        (x,) = arrays
        rows, columns = x.shape[1] * prod(attrs["kernel"]), prod(attrs["count"])
        return np.empty((len(x), rows, columns), x.dtype)

    def eager(self, x, *, kernel, geometry, count):
        columns = np.empty((len(x), x.shape[1] * prod(kernel), prod(count)), x.dtype)
        windows = unfolded(x, 2, kernel, geometry, count)
        columns.reshape(windows.shape)[...] = windows
        return columns

    def at(self, b, i, x, *, kernel, geometry, count):
        channel, *within = unflat(i[1], (x.shape[1], *kernel))
        windows = windows_of(x.shape[2:], kernel, geometry, count)
        there = places(b, unflat(i[2], count), windows, within)
        index = (i[0], channel, *there)
        return chosen(b, [inside(b, index, x.shape)], x, index, lambda: b.constant(0, x.kind))

    def vjp(self, g, _y, _x, *, kernel, geometry, count):
        return col2im(g, kernel, geometry, _x.shape[2:])


class Col2Im(Op):
    """Columns laid back to images of a given ``size``, and summed where they overlap."""

    function = method = False

    def check(self, columns: Tensor, kernel: Sizes, geometry: Geometry, size: Sizes) -> Any:
        return (columns,), {"kernel": kernel, "geometry": geometry, "size": size}

    def infer(self, arrays, attrs):
        (columns,), kernel, size = arrays, attrs["kernel"], attrs["size"]
        channels, rest = divmod(columns.shape[1], prod(kernel))
        if rest or prod(attrs["geometry"].counts(kernel, size)) != columns.shape[2]:
            raise ValueError(f"columns of shape {columns.shape} are not those of {size}")
        return np.empty((len(columns), channels, *size), columns.dtype)

    def eager(self, columns, *, kernel, geometry, size):
        channels, count = columns.shape[1] // prod(kernel), geometry.counts(kernel, size)
        windows = columns.reshape(len(columns), channels, *kernel, *count)
        return rounded(lambda parts: folded(parts, 2, geometry, size), windows)

    def at(self, b, i, columns, *, kernel, geometry, size):
        count = geometry.counts(kernel, size)
        windows = windows_of(size, kernel, geometry, count)

        def term(index: Any, ks: Any) -> Any:
            row = flat((i[1], *ks), (columns.shape[1] // prod(kernel), *kernel))
            return wide(columns[i[0], row, flat(index[2:], count)])

        return window_spread(b, i, windows, (2, 3), term)

    def folded(self, attrs, *shapes):
        return ()

    def vjp(self, g, _y, _columns, *, kernel, geometry, size):
        return im2col(g, kernel, geometry, geometry.counts(kernel, size))


def windows_of(size: Sizes, kernel: Sizes, geometry: Geometry, count: Sizes) -> Windows:
    """The windows of a geometry, as pooling has them."""
    sides = zip(size, count, kernel, *geometry[:3], strict=True)
    return tuple([Window(n, o, k, s, p, d) for n, o, k, s, p, d in sides])


im2col = registry["im2col"].call
col2im = registry["col2im"].call


def pair(op: str, argument: str, value: Any) -> Sizes:
    """Height and width: both the same number, or two numbers."""
    given = value if isinstance(value, (tuple, list)) else (value, value)
    if len(given) != 2:
        raise RuntimeError(f"It is expected {argument} equals to 2, but got size {len(given)}")
    try:
        return index(given[0]), index(given[1])
    except TypeError:
        found = messages.kind(given[0]), messages.kind(given[1])
        raise TypeError(
            f"{op}(): argument '{argument}' must be int or tuple of two ints, not {found}"
        ) from None


def refuse_integers(name: str, x: Tensor) -> None:
    """An error for integers, which PyTorch does not fold."""
    if x._array.dtype.kind in "iu":
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{x.dtype.storage_name}'")


def checked_windows(
    op: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> tuple[Sizes, Geometry]:
    """The kernel and geometry of a call, checked to be possible."""
    kernel = pair(op, "kernel_size", kernel_size)
    geometry = Geometry(
        pair(op, "stride", stride), pair(op, "padding", padding), pair(op, "dilation", dilation)
    )
    if min(kernel) <= 0:
        raise RuntimeError(f"kernel size should be greater than zero, but got {kernel}")
    if min(geometry.stride) <= 0:
        raise RuntimeError(f"stride should be greater than zero, but got {geometry.stride}")
    if min(geometry.dilation) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got {geometry.dilation}")
    if min(geometry.padding) < 0:
        raise RuntimeError(f"padding should be non-negative, but got {geometry.padding}")
    return kernel, geometry


WRONG_WINDOWS: list[tuple[str, dict[str, Any]]] = [
    ("equals to 2, but got size 3", {"kernel_size": (2, 2, 2)}),
    ("equals to 2, but got size 1", {"kernel_size": (2,)}),
    ("kernel size should be greater than zero", {"kernel_size": 0}),
    ("kernel size should be greater than zero", {"kernel_size": (2, -1)}),
    ("stride should be greater than zero", {"kernel_size": 2, "stride": 0}),
    ("dilation should be greater than zero", {"kernel_size": 2, "dilation": (1, 0)}),
    ("padding should be non-negative", {"kernel_size": 2, "padding": -1}),
]


@composite(
    namespace="nn.functional",
    method=False,
    kinds="bfc",
    samples=[
        S(T(2, 1, 3, 4), 2),
        S(T(2, 3, 4), (2, 1)),
        S(T(1, 2, 4, 5), (2, 3), dilation=(2, 1), padding=(1, 2), stride=(2, 3)),
        S(T(1, 2, 3, 3), 1),
        S(T(0, 2, 3, 3), 2),
        S(T(1, 1, 2, 2), 2, 1, 1, 1),
    ],
    errors=[
        *(Fails(RuntimeError, match, T(1, 1, 4, 4), **how) for match, how in WRONG_WINDOWS),
        Fails(RuntimeError, r"Expected 3D or 4D .* but got: \[4, 4\]", T(4, 4), 2),
        Fails(RuntimeError, "Expected 3D or 4D", T(1, 1, 1, 4, 4), 2),
        Fails(RuntimeError, "other non-zero dimensions", T(1, 0, 4, 4), 2),
        Fails(RuntimeError, r"sliding blocks as \(0, 0\)", T(1, 1, 2, 2), 3),
        Fails(TypeError, "'kernel_size' must be int or tuple", T(1, 1, 4, 4), 2.0),
        Fails(TypeError, "'input' .* must be Tensor, not list", [1.0], 2),
        Fails(NotImplementedError, "for 'Long'", T(1, 1, 4, 4, dtype=dtypes.int64), 2),
    ],
)
def unfold(
    input: Tensor,
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """The windows that slide over images, each as a column.

    (images, channels, height, width) gives (images, channels · kernel height · kernel width,
    windows); an image alone is taken without the first dimension.

    >>> x = rl.arange(9.0).view(1, 1, 3, 3)
    >>> rl.nn.functional.unfold(x, 2)
    tensor([[[0., 1., 3., 4.],
             [1., 2., 4., 5.],
             [3., 4., 6., 7.],
             [4., 5., 7., 8.]]])
    """
    x = need_tensor("unfold", input)
    kernel, geometry = checked_windows("unfold", kernel_size, dilation, padding, stride)
    shape = x._array.shape
    batched = len(shape) == 4
    if len(shape) not in (3, 4) or 0 in shape[batched:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(shape)}"
        )
    count = geometry.counts(kernel, shape[-2:])
    if min(count) < 1:
        raise RuntimeError(
            f"Given input with spatial size {shape[-2:]}, kernel_size={kernel}, "
            f"dilation={geometry.dilation}, padding={geometry.padding}, calculated shape of the "
            f"array of sliding blocks as {count}, but its components must be at least one."
        )
    refuse_integers("im2col_out", x)
    shape_of("unfold", (*shape[:-2], *kernel, *count), x._array.dtype)
    if batched:
        return im2col(x, kernel, geometry, count)
    return im2col(x.unsqueeze(0), kernel, geometry, count).squeeze(0)


@composite(
    namespace="nn.functional",
    method=False,
    kinds="bfc",
    samples=[
        S(T(2, 4, 6), (3, 4), 2),
        S(T(2, 6), (3, 3), (2, 1)),
        S(T(1, 12, 4), (4, 5), (2, 3), dilation=(2, 1), padding=(1, 2), stride=(2, 4)),
        S(T(1, 2, 9), 3, 1),
        S(T(1, 4, 4), 5, 2, stride=3),
        S(T(0, 4, 4), 3, 2),
    ],
    errors=[
        *(
            Fails(RuntimeError, match, T(1, 4, 9), output_size=4, **how)
            for match, how in WRONG_WINDOWS
        ),
        Fails(RuntimeError, "output_size equals to 2, but got size 3", T(1, 4, 9), (4, 4, 4), 2),
        Fails(RuntimeError, "Expected 2D or 3D", T(4), 4, 2),
        Fails(RuntimeError, "Expected 2D or 3D", T(1, 1, 4, 9), 4, 2),
        Fails(RuntimeError, "non-zero dimensions", T(1, 0, 9), 4, 2),
        Fails(RuntimeError, r"product of kernel_size.*size\(1\)=5", T(1, 5, 9), 4, 2),
        Fails(RuntimeError, r"blocks 3 \* 3 = 9, but got input.size\(2\)=8", T(1, 4, 8), 4, 2),
        Fails(RuntimeError, r"blocks -1 \* 3 = -3", T(1, 4, 9), (0, 4), 2),
        Fails(TypeError, "'output_size' must be int or tuple", T(1, 4, 9), 4.0, 2),
        Fails(TypeError, "'input' .* must be Tensor, not list", [1.0], 4, 2),
        Fails(NotImplementedError, "for 'Long'", T(1, 4, 9, dtype=dtypes.int64), 4, 2),
    ],
)
def fold(
    input: Tensor,
    output_size: int | Sequence[int],
    kernel_size: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    stride: int | Sequence[int] = 1,
) -> Tensor:
    """Columns, as :func:`unfold` makes them, laid back to images; where they overlap they add up.

    >>> x = rl.arange(9.0).view(1, 1, 3, 3)
    >>> rl.nn.functional.fold(rl.nn.functional.unfold(x, 2), 3, 2)
    tensor([[[[ 0.,  2.,  2.],
              [ 6., 16., 10.],
              [ 6., 14.,  8.]]]])
    """
    x = need_tensor("fold", input)
    size = pair("fold", "output_size", output_size)
    kernel, geometry = checked_windows("fold", kernel_size, dilation, padding, stride)
    shape = x._array.shape
    batched = len(shape) == 3
    if len(shape) not in (2, 3) or 0 in shape[batched:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions for input, but got: {list(shape)}"
        )
    rows, columns = shape[-2:]
    if rows % prod(kernel):
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, "
            f"but got input.size(1)={rows} and kernel_size={kernel}."
        )
    height, width = geometry.counts(kernel, size)
    if height * width != columns or min(height, width) < 1:
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={kernel}, dilation={geometry.dilation}, "
            f"padding={geometry.padding}, stride={geometry.stride}, expected size of input's "
            f"dimension 2 to match the calculated number of sliding blocks {height} * {width} = "
            f"{height * width}, but got input.size(2)={columns}."
        )
    refuse_integers("col2im_out", x)
    if batched:
        return col2im(x, kernel, geometry, size)
    return col2im(x.unsqueeze(0), kernel, geometry, size).squeeze(0)
