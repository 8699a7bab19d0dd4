"""Shapes and how elements move among them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.nn import functional as F
from rushlight.onnx.errors import OnnxError
from rushlight.onnx.importers.conversion import element_named
from rushlight.onnx.importers.registry import integer, integers, is_host, op, sizes, tensor_of
from rushlight.ops import ops
from rushlight.ops.base import axis as axis_of
from rushlight.tensor import Tensor


@op("Identity", raw=True)
def identity(x: Any, *, consumed_inputs: Sequence[int] = ()) -> Any:
    return x


@op("Constant")
def constant(
    *,
    value: np.ndarray | None = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
    sparse_value: np.ndarray | None = None,
) -> np.ndarray:
    for number, kind in ((value_float, np.float32), (value_floats, np.float32)):
        if number is not None:
            return np.array(number, kind)
    for number in (value_int, value_ints):
        if number is not None:
            return np.array(number, np.int64)
    found = value if value is not None else sparse_value
    if found is None:
        raise OnnxError("there is no value")
    return found


@op("Shape", raw=True)
def shape(x: Any, *, start: int = 0, end: int | None = None) -> np.ndarray:
    return sizes(x.shape[start:end])


@op("Size", raw=True)
def size(x: Any) -> np.ndarray:
    return sizes([math.prod(x.shape)]).reshape(())


@op("Reshape", known=["shape"], host=True)
def reshape(x: Any, shape: Any, *, allowzero: int = 0, consumed_inputs: Any = ()) -> Any:
    """A size of 0 stands for that of the input at the same place, unless ``allowzero``."""
    wanted = integers(shape)
    if not allowzero:
        wanted = [x.shape[i] if n == 0 and i < x.ndim else n for i, n in enumerate(wanted)]
    return x.reshape(wanted)


@op("Flatten", host=True)
def flatten(x: Any, *, axis: int = 1) -> Any:
    return x.reshape([math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])


@op("Squeeze", known=["axes"], host=True)
def squeeze(x: Any, axes: Any = None) -> Any:
    chosen = range(x.ndim) if axes is None else [axis % x.ndim for axis in integers(axes)]
    if axes is not None and any([x.shape[axis] != 1 for axis in chosen]):
        raise OnnxError(f"axes {list(chosen)} of the shape {tuple(x.shape)} are not all of size 1")
    return x.reshape([n for i, n in enumerate(x.shape) if i not in chosen or n != 1])


@op("Unsqueeze", known=["axes"], host=True)
def unsqueeze(x: Any, axes: Any) -> Any:
    ndim = x.ndim + len(integers(axes))
    chosen = {axis % ndim for axis in integers(axes)}
    if len(chosen) + x.ndim != ndim:
        raise OnnxError(f"axes {integers(axes)} name one axis twice")
    rest = iter(x.shape)
    return x.reshape([1 if i in chosen else next(rest) for i in range(ndim)])


@op("Transpose", host=True)
def transpose(x: Any, *, perm: Sequence[int] | None = None) -> Any:
    order = list(reversed(range(x.ndim))) if perm is None else list(perm)
    return x.transpose(order) if is_host(x) else x.permute(order)


@op("Expand", known=["shape"], host=True)
def expand(x: Any, shape: Any) -> Any:
    """To the shape that both broadcast to."""
    wanted = integers(shape)
    ndim = max(x.ndim, len(wanted))
    own = [1] * (ndim - x.ndim) + list(x.shape)
    asked = [1] * (ndim - len(wanted)) + wanted
    target = [a if b == 1 else b for a, b in zip(own, asked, strict=True)]
    return np.broadcast_to(x, target) if is_host(x) else x.expand(target)


@op("Tile", known=["repeats"], host=True, since=6)
def tile(x: Any, repeats: Any) -> Any:
    return np.tile(x, integers(repeats)) if is_host(x) else x.repeat(integers(repeats))


@op("Tile", known=["tiles", "axis"])
def tile_1(x: Tensor, tiles: Any, axis: Any) -> Tensor:
    counts = [1] * x.ndim
    counts[integer(axis)] = integer(tiles)
    return x.repeat(counts)


@op("Concat", host=True)
def concat(*xs: Any, axis: int = 1) -> Any:
    return np.concatenate(xs, axis) if is_host(xs[0]) else ops.cat(xs, axis)


@op("Split", known=["split"], host=True)
def split(
    x: Any, split: Any = None, *, axis: int = 0, num_outputs: int | None = None, outputs: int
) -> Any:
    """Parts as even as can be, unless their sizes are given, as an attribute or an input."""
    length = x.shape[axis]
    if split is None:
        part = -(-length // (num_outputs or outputs))
        lengths = [max(min(part, length - i * part), 0) for i in range(num_outputs or outputs)]
    else:
        lengths = integers(split)
    if sum(lengths) != length:
        raise OnnxError(f"parts of {lengths} do not make up an axis of {length}")
    if is_host(x):
        return tuple(np.split(x, np.cumsum(lengths)[:-1], axis))
    return tuple(ops.split(x, lengths, axis))


FAR = 2**31 - 1  # what files have for an end that lies beyond all elements


@op("Slice", known=["starts", "ends", "axes", "steps"], host=True)
def slices(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    """Attributes up to version 9; steps, which may go backwards, since version 10."""
    first, last = integers(starts), integers(ends)
    chosen = list(range(len(first))) if axes is None else integers(axes)
    strides = [1] * len(first) if steps is None else integers(steps)
    counts = [len(part) for part in (chosen, first, last, strides)]
    if len({*counts}) != 1:
        raise OnnxError("{} axes, {} starts, {} ends and {} steps".format(*counts))
    keys, flipped = [slice(None)] * x.ndim, []
    for number, start, end, step in zip(chosen, first, last, strides, strict=True):
        axis = axis_of(number, x.ndim)
        if step > 0:
            keys[axis] = slice(start, end, step)
            continue
        if not step:
            raise OnnxError("a step of 0")
        size = x.shape[axis]
        if step == -1 and (start == -1 or start >= FAR) and end < -FAR:  # of any size
            flipped.append(axis)
            continue
        begin = max(start, -size)  # one that lies before the first element is the first
        found = range(*slice(begin, None if end < -size else end, step).indices(size))
        keys[axis] = slice(found[-1], found[0] + 1, -step) if found else slice(0, 0)
        flipped.append(axis)
    part = x[tuple(keys)]
    if not flipped:
        return part
    return np.flip(part, tuple(flipped)) if is_host(part) else part.flip(flipped)


MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


@op("Pad", known=["pads", "axes"])
def pad(
    x: Tensor,
    pads: Any = None,
    constant_value: Any = None,
    axes: Any = None,
    *,
    mode: str = "constant",
    value: float = 0.0,
    paddings: Sequence[int] | None = None,
) -> Tensor:
    """``pads`` was called ``paddings`` in version 1; they and the value are inputs since 11."""
    amounts = integers(paddings if pads is None and paddings is not None else pads)
    chosen = range(x.ndim) if axes is None else [axis % x.ndim for axis in integers(axes)]
    before, after = amounts[: len(amounts) // 2], amounts[len(amounts) // 2 :]
    if mode == "constant":
        widths = [0] * (2 * x.ndim)
        for axis, low, high in zip(chosen, before, after, strict=True):
            place = 2 * (x.ndim - 1 - axis)
            widths[place : place + 2] = [low, high]
        if constant_value is None:
            return F.pad(x, widths, value=value)
        mask = F.pad(ops.ones(x.shape, dtype=dtypes.bool_), widths)
        return ops.where(mask, F.pad(x, widths), constant_value.reshape(()))
    for axis, low, high in zip(chosen, before, after, strict=True):
        x = x.index_select(axis, tensor_of(border(mode, x.shape[axis], low, high)))
    return x


def border(mode: str, length: Any, low: int, high: int) -> Any:
    """The places that a padded axis reads from; of a length that changes, as a tensor."""
    fixed = type(length) is int
    places = (np if fixed else ops).arange(-low, length + high)
    if mode == "edge":
        return places.clip(0, length - 1)
    if mode == "wrap":
        return places % length
    if mode != "reflect":
        raise OnnxError(f"the mode {mode!r} is not supported")
    period = 2 * (length - 1)
    period = max(period, 1) if fixed else ops.tensor(period).clamp(min=1)
    return (length - 1) - abs(places % period - (length - 1))


@op("ConstantOfShape", known=["shape"], host=True)
def constant_of_shape(shape: Any, *, value: np.ndarray | None = None) -> Any:
    fill = np.zeros(1, np.float32) if value is None else value
    wanted = integers(shape)
    if fill.dtype.kind in "iub" and all([type(n) is int for n in wanted]):
        return np.full(wanted, fill.reshape(()))
    return ops.full(wanted, fill.reshape(()).item(), dtype=dtypes.from_numpy(fill.dtype))


@op("Range", known=["start", "limit", "delta"], host=True)
def arange(start: Any, limit: Any, delta: Any, *, stash_type: int = 1) -> Any:
    count = max(math.ceil((limit.item() - start.item()) / delta.item()), 0)
    return (start + np.arange(count).astype(start.dtype) * delta).astype(start.dtype)


@op("EyeLike")
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    kind = x.dtype if dtype is None else dtypes.from_numpy(element_named(dtype))
    rows, columns = x.shape
    here = ops.arange(columns) - ops.arange(rows)[:, None] == k
    return here.to(kind)


@op("Trilu", known=["k"])
def trilu(x: Tensor, k: Any = None, *, upper: int = 1) -> Tensor:
    diagonal = 0 if k is None else integer(k)
    return ops.triu(x, diagonal) if upper else ops.tril(x, diagonal)


@op("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    b, d = blocksize, c // blocksize**2
    if mode == "DCR":
        blocks = x.reshape(n, b, b, d, h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        blocks = x.reshape(n, d, b, b, h, w).permute(0, 1, 4, 2, 5, 3)
    return blocks.reshape(n, d, h * b, w * b)


@op("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    b = blocksize
    blocks = x.reshape(n, c, h // b, b, w // b, b)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return blocks.permute(order).reshape(n, c * b * b, h // b, w // b)


@op("CenterCropPad", known=["shape"])
def center_crop_pad(x: Tensor, shape: Any, *, axes: Sequence[int] | None = None) -> Tensor:
    chosen = range(x.ndim) if axes is None else [axis % x.ndim for axis in axes]
    for axis, wanted in zip(chosen, integers(shape), strict=True):
        have = x.shape[axis]
        if wanted <= have:
            x = x.narrow(axis, (have - wanted) // 2, wanted)
        else:
            before = (wanted - have) // 2
            widths = [0] * (2 * (x.ndim - 1 - axis)) + [before, wanted - have - before]
            x = F.pad(x, widths)
    return x


@op("ReverseSequence", known=["sequence_lens"])
def reverse_sequence(
    x: Tensor, sequence_lens: Any, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    length = x.shape[time_axis]
    steps, ends = np.arange(length), np.asarray(sequence_lens)[:, None]
    places = np.where(steps < ends, ends - 1 - steps, steps)  # batch × time
    index = tensor_of(places if batch_axis == 0 else places.T)
    index = index.reshape(*index.shape, *[1] * (x.ndim - 2)).expand(x.shape)
    return ops.gather(x, time_axis, index)


@op("Col2Im", known=["image_shape", "block_shape"])
def column_to_image(
    x: Tensor,
    image_shape: Any,
    block_shape: Any,
    *,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Sums blocks where they overlap, by a scatter: any number of axes, any padding."""
    image, block = integers(image_shape), integers(block_shape)
    ndim = len(image)
    dilation, stride = dilations or [1] * ndim, strides or [1] * ndim
    low, high = (pads or [0] * (2 * ndim))[:ndim], (pads or [0] * (2 * ndim))[ndim:]
    padded = [n + a + b for n, a, b in zip(image, low, high, strict=True)]
    counts = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, d, s in zip(padded, block, dilation, stride, strict=True)
    ]
    flat = np.zeros((1, 1), np.int64)
    for n, k, d, s, count in zip(padded, block, dilation, stride, counts, strict=True):
        along = np.arange(k)[:, None] * d + np.arange(count) * s  # block × positions
        flat = flat[:, None, :, None] * n + along[None, :, None, :]
        flat = flat.reshape(flat.shape[0] * k, -1)
    batch, rows, columns = x.shape
    channels = rows // math.prod(block)
    index = tensor_of(np.ascontiguousarray(flat.reshape(-1)))
    source = x.reshape(batch, channels, math.prod(block) * columns)
    result = ops.zeros((batch, channels, math.prod(padded)), dtype=x.dtype)
    result = result.index_add(2, index, source).reshape(batch, channels, *padded)
    inner = [slice(a, a + n) for a, n in zip(low, image, strict=True)]
    whole = [slice(None)] * 2
    return result[tuple(whole + inner)]
