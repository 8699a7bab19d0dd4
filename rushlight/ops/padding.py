"""Borders around a tensor: of a constant, or of its own elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.dims import index
from rushlight.layouts import shape_of
from rushlight.ops.base import Op, composite, need_tensor, ops, registry
from rushlight.ops.elements import chosen, inside, wide
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.slices import sum_kind
from rushlight.ops.views import along
from rushlight.tensor import Tensor

Pads = tuple[tuple[int, int], ...]


def pads_by_dim(name: str, pad: Any, ndim: int) -> Pads:
    """(before, after) for each dimension, from PyTorch's flat list that begins with the last."""
    try:
        flat = [index(p) for p in pad]
    except TypeError:
        kinds = ", ".join([messages.kind(p) for p in pad]) if isinstance(pad, (list, tuple)) else ""
        raise TypeError(
            f"{name}(): argument 'pad' must be tuple of ints, not ({kinds or messages.kind(pad)})"
        ) from None
    if len(flat) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, got {flat}")
    if len(flat) > 2 * ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(flat)} and input of dimension {ndim}"
        )
    pairs = list(zip(flat[::2], flat[1::2], strict=True))
    return ((0, 0),) * (ndim - len(pairs)) + tuple(reversed(pairs))


def grown(shape: Sequence[int], pads: Pads) -> list[int]:
    return [n + before + after for n, (before, after) in zip(shape, pads, strict=True)]


class ConstantPadNd(Op):
    """``value`` around the elements; a negative padding takes elements away.

    ``pad`` is (before, after) for the last dimension, then for the one before it, and so on.

    >>> rl.constant_pad_nd(rl.tensor([1, 2]), (1, 2), 9)
    tensor([9, 1, 2, 9, 9])
    """

    method = False
    samples = [
        S(T(2, 3), (1, 2)),
        S(T(2, 3), (1, -1, 0, 2), 1.5),
        S(T(), ()),
        S(T(2, 0), (1, 1)),
        S(T(4), (-1, -2)),
    ]
    errors = [
        Fails(RuntimeError, "Padding length must be divisible by 2", T(2), (1,)),
        Fails(RuntimeError, "padding length 4 and input of dimension 1", T(2), (1, 1, 1, 1)),
        Fails(RuntimeError, "resulted in a negative output size", T(2), (-2, -1)),
        Fails(TypeError, r"must be tuple of ints, not \(float, int\)", T(2), (1.0, 1)),
    ]

    def check(self, input: Tensor, pad: Sequence[int], value: float = 0) -> Any:
        x = need_tensor("constant_pad_nd", input)
        shape = x._array.shape
        pads = pads_by_dim("constant_pad_nd", pad, len(shape))
        for d, n in enumerate(grown(shape, pads)):
            if n < 0:
                raise RuntimeError(
                    f"The input size {shape[d]}, plus negative padding {pads[d][0]} and "
                    f"{pads[d][1]} resulted in a negative output size, which is invalid. Check "
                    f"dimension {d} of your input."
                )
        shape_of("constant_pad_nd", grown(shape, pads), x._array.dtype)
        return (x,), {"pads": pads, "value": value}

    def eager(self, x, *, pads, value):
        shape = grown(x.shape, pads)
        y = np.full(shape, value, x.dtype) if value else np.zeros(shape, x.dtype)
        there = [slice(max(a, 0), n - max(b, 0)) for n, (a, b) in zip(shape, pads, strict=True)]
        here = [slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(x.shape, pads, strict=True)]
        y[tuple(there)] = x[tuple(here)]
        return y

    def infer(self, arrays, attrs):
        (x,) = arrays
        np.full((), attrs["value"], x.dtype)  # an error if there is no such value
        return np.empty(grown(x.shape, attrs["pads"]), x.dtype)

    def at(self, b, i, x, *, pads, value):
        index = [j - before for j, (before, _) in zip(i, pads, strict=True)]
        holds = [inside(b, index, x.shape)]
        return chosen(b, holds, x, index, lambda: b.constant(value, x.kind))

    def vjp(self, g, _y, _x, *, pads, value):
        return ops.constant_pad_nd(g, [-p for pair in reversed(pads) for p in pair])


def borders(mode: str, pads: Pads, shape: Sequence[int]) -> Iterator[tuple[int, Any, Any]]:
    """(dimension, border, its source) as index tuples of a padded array, in the order to fill.

    ``shape`` is that of the middle. Sources lie in the middle of their dimension and reach over
    the borders of the dimensions before, which are filled by then.
    """
    for d, ((before, after), n) in enumerate(zip(pads, shape, strict=True)):
        end = before + n
        if mode == "reflect":
            stop = end - 2 - after
            first = slice(2 * before, before, -1)
            last = slice(end - 2, stop if stop >= 0 else None, -1)
        elif mode == "replicate":
            first, last = slice(before, before + 1), slice(end - 1, end)
        else:
            first, last = slice(n, end), slice(before, before + after)
        if before:
            yield d, along(d, slice(before)), along(d, first)
        if after:
            yield d, along(d, slice(end, end + after)), along(d, last)


def middle(pads: Pads, shape: Sequence[int]) -> tuple[slice, ...]:
    return tuple([slice(a, a + n) for n, (a, _) in zip(shape, pads, strict=True)])


def bent(b: Any, mode: str, j: Any, n: int) -> Any:
    """The element that stands at position ``j`` before, among or after ``n`` elements."""
    j = b.position(j)
    if mode == "replicate":
        return b.max(b.min(j, n - 1), 0)
    low, high = (-j, 2 * (n - 1) - j) if mode == "reflect" else (j + n, j - n)
    return b.where(j < 0, low, b.where(j >= n, high, j))


class PadBorders(Op):
    """A border of the tensor's own elements: mirrored, the edge again, or from the other end."""

    function = method = False

    def check(self, input: Tensor, pads: Pads, mode: str) -> Any:
        return (input,), {"pads": pads, "mode": mode}

    def infer(self, arrays, attrs):
        return np.empty(grown(arrays[0].shape, attrs["pads"]), arrays[0].dtype)

    def eager(self, x, *, pads, mode):
        y = np.empty(grown(x.shape, pads), x.dtype)
        y[middle(pads, x.shape)] = x
        for _, border, source in borders(mode, pads, x.shape):
            y[border] = y[source]
        return y

    def at(self, b, i, x, *, pads, mode):
        sides = zip(i, pads, x.shape, strict=True)
        return x[[bent(b, mode, j - before, n) for j, (before, _), n in sides]]

    def vjp(self, g, _y, _x, *, pads, mode):
        return fold_borders(g, pads, mode)


class FoldBorders(Op):
    """Borders added to the elements that :class:`PadBorders` copied: its derivative."""

    function = method = False

    def check(self, input: Tensor, pads: Pads, mode: str) -> Any:
        return (input,), {"pads": pads, "mode": mode}

    def eager(self, y, *, pads, mode):
        shape = [n - before - after for n, (before, after) in zip(y.shape, pads, strict=True)]
        kind, y = y.dtype, y.astype(sum_kind(y.dtype))
        for d, border, source in reversed(list(borders(mode, pads, shape))):
            part = y[border]
            y[source] += part.sum(d, keepdims=True) if mode == "replicate" else part
        return y[middle(pads, shape)].astype(kind)

    def at(self, b, i, y, *, pads, mode):
        grown_dims = [d for d, pair in enumerate(pads) if any(pair)]

        def part(*ks: Any) -> Any:
            index, conditions = list(i), []
            for d, k in zip(grown_dims, ks, strict=True):
                place, holds = self.source(b, i[d], k, y.shape[d], pads[d], mode)
                index[d] = place
                conditions += [holds, place >= 0, place < y.shape[d]]
            return chosen(b, conditions, y, index, lambda: b.constant(0, y.kind), wide)

        return b.sum([1 + max(pads[d][0], 0) + max(pads[d][1], 0) for d in grown_dims], part)

    def source(self, b, j, k, size, pad, mode):
        """Place ``k`` that may be added to element ``j``, and whether it is.

        The first one is its own, then come the border before and the border after.
        """
        before, length = pad[0], size - sum(pad)
        start = max(before, 0)
        border = b.where(k <= start, k - 1, k + (before + length - start - 1))
        place = b.where(k.eq(0), j + before, border)
        own = k.eq(0) | bent(b, mode, border - before, length).eq(j)
        return place, own

    def folded(self, attrs, *shapes):
        return ()

    def vjp(self, g, _y, _x, *, pads, mode):
        return pad_borders(g, pads, mode)


pad_borders = registry["pad_borders"].call
fold_borders = registry["fold_borders"].call


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        S(T(2, 3), (1, 2)),
        S(T(2, 3), (1, -1, 0, 2), value=1.5),
        *(S(T(2, 3, 4), (1, 2), mode) for mode in ("reflect", "replicate", "circular")),
        *(S(T(2, 3, 4, 5), (2, 1, 0, 2), mode) for mode in ("reflect", "replicate", "circular")),
        S(T(2, 4), (2, -1), "circular"),
        S(T(3, 2, 3, 4), (1, 1, 1, 1, 1, 1), "replicate"),
    ],
    errors=[
        Fails(RuntimeError, "Padding length must be divisible by 2", T(2), (1,)),
        Fails(RuntimeError, "padding length 4 and input of dimension 1", T(2), (1, 1, 1, 1)),
        Fails(
            RuntimeError, "less than the corresponding input dimension", T(5, 2), (2, 1), "reflect"
        ),
        Fails(RuntimeError, "wrapping around more than once", T(5, 2), (3, 1), "circular"),
        Fails(NotImplementedError, "size 4 is not supported for 2D", T(5, 2), (1,) * 4, "reflect"),
        Fails(NotImplementedError, "Unrecognised padding mode foo", T(5, 2), (1, 1), "foo"),
        *(
            Fails(
                NotImplementedError, "n_pad1d.* 'Bool'", T(5, 2, dtype=dtypes.bool_), (1, 1), mode
            )
            for mode in ("reflect", "replicate")
        ),
        Fails(RuntimeError, "doesn't take in value argument", T(5, 2), (1, 1), "reflect", 1.0),
    ],
)
def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """``input`` with a border.

    ``pad`` is (before, after) for the last dimension, then for the one before it, and so on;
    negative numbers take elements away. ``mode`` is ``"constant"`` (``value``, or 0),
    ``"reflect"`` (mirrored at the edge element), ``"replicate"`` (the edge element again) or
    ``"circular"`` (from the opposite end); the last three pad the last 1, 2 or 3 dimensions of
    tensors with one or two dimensions more.

    >>> pad(rl.tensor([[1, 2, 3]]), (1, 2), mode="reflect")
    tensor([[2, 1, 2, 3, 2, 1]])
    """
    x = need_tensor("pad", input)
    if mode == "constant":
        return ops.constant_pad_nd(x, pad, 0 if value is None else value)
    shape = x._array.shape
    pads = pads_by_dim("pad", pad, len(shape))
    if value:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    count = len(pad) // 2
    if count not in (1, 2, 3) or len(shape) not in (count + 1, count + 2):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {len(shape)}D input tensor with mode "
            f"{mode}: only the last 1, 2 or 3 dimensions of tensors with one or two more are."
        )
    if mode != "circular" and x._array.dtype.kind == "b":
        name = "reflection" if mode == "reflect" else "replication"
        raise NotImplementedError(f"\"{name}_pad{count}d\" not implemented for 'Bool'")
    cut = [min(index(p), 0) for p in pad]
    pads = tuple([(max(before, 0), max(after, 0)) for before, after in pads])
    if mode == "circular" and any(cut):
        x = ops.constant_pad_nd(x, cut)
    check_borders(mode, pads, x._array.shape, count)
    shape_of("pad", grown(x._array.shape, pads), x._array.dtype)
    y = pad_borders(x, pads, mode)
    return ops.constant_pad_nd(y, cut) if mode != "circular" and any(cut) else y


def check_borders(mode: str, pads: Pads, shape: Sequence[int], count: int) -> None:
    """An error if there are too few elements to make the borders of."""
    for d, ((before, after), n) in enumerate(zip(pads, shape, strict=True)):
        widest = max(before, after)
        if mode == "reflect" and widest and widest >= n:
            raise RuntimeError(
                "Padding size should be less than the corresponding input dimension, but got: "
                f"padding ({before}, {after}) at dimension {d} of input {list(shape)}"
            )
        if mode == "circular" and widest > n:
            raise RuntimeError(
                f"Padding value causes wrapping around more than once: padding ({before}, "
                f"{after}) at dimension {d} of input {list(shape)}"
            )
    if mode != "circular" and 0 in shape[1 if len(shape) == count + 2 else 0 :]:
        raise RuntimeError(
            f"pad(): expected an input of {count + 1} or {count + 2} dimensions with possibly 0 "
            f"batch size and other non-zero dimensions, but got: {list(shape)}"
        )
