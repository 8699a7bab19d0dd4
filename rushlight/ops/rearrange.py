"""Copies of the elements in another order, or several times."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.layouts import shape_of, whole
from rushlight.ops.base import Op, axes, axis, composite, need_tensor
from rushlight.ops.elements import flat, unflat
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.views import ALL, along, as_shape
from rushlight.tensor import Tensor, wrap

BACKWARDS = slice(None, None, -1)


class Flip(Op):
    """The elements in reverse order along ``dims``.

    >>> rl.tensor([[1, 2], [3, 4]]).flip(0)
    tensor([[3, 4],
            [1, 2]])
    """

    fused = True
    samples = [S(T(2, 3), (0, -1)), S(T(2, 3), (1,)), S(T(3), ()), S(T(), (0,)), S(T(0, 2), (0,))]
    errors = [
        Fails(RuntimeError, "dim 0 appears multiple times", T(2, 3), (0, 0)),
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(2, 3), (2,)),
    ]

    def check(
        self, input: Tensor, *turned: int | Sequence[int], dims: Sequence[int] | None = None
    ) -> Any:
        x = need_tensor("flip", input)
        wanted = as_shape("flip", turned if dims is None else (dims,))
        return (x,), {"dims": axes(wanted, x._array.ndim)}

    def eager(self, x, *, dims):
        return x[tuple([BACKWARDS if d in dims else ALL for d in range(x.ndim)])].copy()

    def at(self, b, i, x, *, dims):
        return x[
            [n - 1 - j if d in dims else j for d, (j, n) in enumerate(zip(i, x.shape, strict=True))]
        ]

    def vjp(self, g, _y, _x, *, dims):
        return g.flip(dims)


@composite(
    samples=[S(T(2, 3)), S(T(2, 3, 4))],
    errors=[Fails(RuntimeError, "Input must be >= 2-d", T(3))],
)
def fliplr(input: Tensor) -> Tensor:
    """The columns in reverse order.

    >>> rl.fliplr(rl.tensor([[1, 2], [3, 4]]))
    tensor([[2, 1],
            [4, 3]])
    """
    if need_tensor("fliplr", input)._array.ndim < 2:
        raise RuntimeError(f"fliplr(): Input must be >= 2-d, got shape {list(input.shape)}")
    return input.flip(1)


@composite(
    samples=[S(T(2, 3)), S(T(3))],
    errors=[Fails(RuntimeError, "Input must be >= 1-d", T())],
)
def flipud(input: Tensor) -> Tensor:
    """The rows in reverse order.

    >>> rl.flipud(rl.tensor([[1, 2], [3, 4]]))
    tensor([[3, 4],
            [1, 2]])
    """
    if need_tensor("flipud", input)._array.ndim < 1:
        raise RuntimeError("flipud(): Input must be >= 1-d, got a 0-d tensor")
    return input.flip(0)


class Roll(Op):
    """The elements moved ``shifts`` places along ``dims``; those that fall off come in again.

    Without ``dims`` the tensor is rolled as if flat.

    >>> rl.arange(5).roll(2)
    tensor([3, 4, 0, 1, 2])
    """

    samples = [
        S(T(2, 3), 1),
        S(T(4, 3), 1, 0),
        S(T(4, 3), (-1, 5), (0, 1)),
        S(T(4), (1, 2), (0, 0)),
        S(T(), 2),
        S(T(0, 2), 1, 0),
    ]
    errors = [
        Fails(
            RuntimeError, "shifts and dimensions must align. shifts: 1, dims:2", T(2, 3), 1, (0, 1)
        ),
        Fails(RuntimeError, "`shifts` required", T(2, 3), (), ()),
        Fails(IndexError, "out of range", T(2, 3), 1, 3),
    ]

    def check(
        self, input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] = ()
    ) -> Any:
        x = need_tensor("roll", input)
        steps, places = as_shape("roll", (shifts,)), as_shape("roll", (dims,))
        if not steps:
            raise RuntimeError("roll(): `shifts` required")
        flat = len(steps) == 1 and not places
        if len(steps) != len(places) and not flat:
            raise RuntimeError(
                f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(places)}"
            )
        return (x,), {"shifts": steps, "dims": tuple([axis(d, x._array.ndim) for d in places])}

    def eager(self, x, *, shifts, dims):
        if not dims:
            return rolled(x.reshape(-1), shifts[0], 0).reshape(x.shape)
        for step, dim in zip(shifts, dims, strict=True):
            x = rolled(x, step, dim) if x.ndim else x.copy()
        return x

    def at(self, b, i, x, *, shifts, dims):
        if not x.ndim:
            return x[()]
        if not dims:
            return x[unflat((flat(i, x.shape) - shifts[0]) % prod(x.shape), x.shape)]
        index = list(i)
        for step, d in zip(shifts, dims, strict=True):
            index[d] = b.position(index[d] - step) % x.shape[d]
        return x[index]

    def vjp(self, g, _y, _x, *, shifts, dims):
        return g.roll([-step for step in shifts], dims)


def rolled(x: np.ndarray, step: int, dim: int) -> np.ndarray:
    cut = -step % (x.shape[dim] or 1)
    return np.concatenate((x[along(dim, slice(cut, None))], x[along(dim, slice(cut))]), dim)


@composite(
    samples=[S(T(2, 3), k) for k in (1, 2, 3, 4, -1)] + [S(T(2, 3, 4), 1, (0, -1))],
    errors=[
        Fails(RuntimeError, "rotation dims to be different, but got dim0 = 0", T(2, 3), 1, (0, -2)),
        Fails(RuntimeError, "total rotation dims == 2, but got dims = 1", T(2, 3), 1, (0,)),
        Fails(RuntimeError, "total dims >= 2, but got total dims = 1", T(3)),
        Fails(IndexError, "out of range", T(2, 3), 1, (0, 3)),
    ],
)
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """The elements turned ``k`` times by 90° in the plane of ``dims``, from first to second.

    >>> rl.tensor([[1, 2], [3, 4]]).rot90()
    tensor([[2, 4],
            [1, 3]])
    """
    x = need_tensor("rot90", input)
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if x._array.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {x._array.ndim}")
    a, b = (axis(d, x._array.ndim) for d in dims)
    if a == b:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    turns = whole(k, "rot90", "k") % 4
    if turns == 1:
        return x.flip(b).transpose(a, b)
    if turns == 2:
        return x.flip(a, b)
    if turns == 3:
        return x.flip(a).transpose(a, b)
    return x.clone()


class Repeat(Op):
    """The tensor repeated along each dimension, as a copy; more ``repeats`` mean new dimensions.

    >>> rl.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """

    function = False
    samples = [S(T(2, 3), (2, 1)), S(T(3), (2, 3)), S(T(), (2,)), S(T(2, 3), (0, 1)), S(T(), ())]
    errors = [
        Fails(RuntimeError, "can not be smaller than number of dimensions", T(2, 3), (2,)),
        Fails(RuntimeError, "negative dimension -3", T(2, 3), (2, -1)),
        Fails(RuntimeError, "Storage size calculation overflowed", T(1, 1), (2**40, 2**40)),
        Fails(TypeError, "takes ints", T(2), (2.5,)),
    ]

    def check(
        self, input: Tensor, *times: int | Sequence[int], repeats: Sequence[int] | None = None
    ) -> Any:
        x = need_tensor("repeat", input)
        times = as_shape("repeat", times if repeats is None else (repeats,))
        shape = x._array.shape
        if len(times) < len(shape):
            raise RuntimeError(
                "Number of dimensions of repeat dims can not be smaller than number of dimensions "
                f"of tensor: repeats {list(times)} of a tensor of shape {list(shape)}"
            )
        shape = (1,) * (len(times) - len(shape)) + shape
        larger = [n * k for n, k in zip(shape, times, strict=True)]
        shape_of("repeat", larger, x._array.dtype)
        return (x,), {"repeats": times}

    def infer(self, arrays, attrs):
        (x,), repeats = arrays, attrs["repeats"]
        shape = (1,) * (len(repeats) - x.ndim) + x.shape
        return np.empty([n * k for n, k in zip(shape, repeats, strict=True)], x.dtype)

    def eager(self, x, *, repeats):
        lead = len(repeats) - x.ndim
        shape = (1,) * lead + x.shape
        y = np.empty([n * k for n, k in zip(shape, repeats, strict=True)], x.dtype)
        tiles = y.reshape(interleaved(repeats, shape))
        tiles[...] = x.reshape(interleaved((1,) * len(repeats), shape))
        return y

    def at(self, b, i, x, *, repeats):
        own = i[len(i) - x.ndim :]
        return x[[b.position(j) % n for j, n in zip(own, x.shape, strict=True)]]

    def vjp(self, g, _y, _x, *, repeats):
        lead = len(repeats) - len(_x.shape)
        shape = (1,) * lead + _x.shape
        tiles = g.reshape(interleaved(repeats, shape))
        return tiles.sum(tuple(range(0, 2 * len(repeats), 2))).reshape(_x.shape)


def interleaved(outer: Sequence[int], inner: Sequence[int]) -> list[int]:
    """The shape of a tensor of tiles: how often, how large, how often, how large, …"""
    return [n for pair in zip(outer, inner, strict=True) for n in pair]


@composite(
    samples=[S(T(2, 3), (2, 1)), S(T(2, 3), (2,)), S(T(3), (2, 3)), S(T(2), ())],
    errors=[Fails(RuntimeError, "negative dimension -3", T(3), (-1,))],
)
def tile(input: Tensor, *times: int | Sequence[int], dims: Sequence[int] | None = None) -> Tensor:
    """The tensor repeated along its last dimensions, as a copy.

    >>> rl.tensor([[1], [2]]).tile(2)
    tensor([[1, 1],
            [2, 2]])
    """
    x = need_tensor("tile", input)
    times = as_shape("tile", times if dims is None else (dims,))
    return x.repeat((1,) * (x._array.ndim - len(times)) + times)


@composite(
    fused=True,
    samples=[
        S(T(2, 3), 2),
        S(T(2, 3), 2, 1),
        S(T(3), T(values=[1, 0, 2], dtype=dtypes.int64)),
        S(T(2, 3), T(values=[1, 0, 2], dtype=dtypes.int64), dim=-1),
        S(T(2, 3), T(values=[2], dtype=dtypes.int64), dim=0),
        S(T(values=[1, 0, 2], dtype=dtypes.int64)),
        S(T(), 3),
    ],
    errors=[
        Fails(
            RuntimeError,
            r"same size as input along dim, but got repeats.size\(0\) = 2",
            T(5),
            T(values=[1, 2], dtype=dtypes.int64),
        ),
        Fails(RuntimeError, "[Rr]epeats must be non-negative", T(2), -1),
        Fails(RuntimeError, "expected 10 but got 9", T(5), 2, output_size=9),
    ],
)
def repeat_interleave(
    input: Tensor,
    repeats: int | Tensor | None = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> Tensor:
    """Each element repeated where it stands: ``repeats`` times, or each its own number of times.

    Without ``dim`` the tensor is taken flat. ``repeat_interleave(repeats)`` alone gives the index
    of each element, that many times.

    >>> rl.tensor([1, 2]).repeat_interleave(2)
    tensor([1, 1, 2, 2])
    >>> rl.repeat_interleave(rl.tensor([1, 0, 2]))
    tensor([0, 2, 2])
    """
    x = need_tensor("repeat_interleave", input)
    if repeats is None:
        times = counts(x)
        if times.ndim != 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        return wrap(np.repeat(np.arange(times.size, dtype=times.dtype), times))
    if dim is None:
        x, dim = x.reshape(-1), 0
    n = x._array.shape[axis(dim, x._array.ndim)] if x._array.ndim else 1
    if isinstance(repeats, Tensor):
        times = counts(repeats)
    else:
        times = np.array(whole(repeats, "repeat_interleave", "repeats"))
    if times.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if times.size != n and times.size != 1:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{times.size} and input.size({dim}) = {n}"
        )
    if (times < 0).any():
        raise RuntimeError("repeat_interleave(): repeats must be non-negative")
    total = int(times.sum()) if times.size != 1 else n * int(times.max())
    if output_size is not None and output_size != total:
        raise RuntimeError(
            f"repeat_interleave: Invalid output_size, expected {total} but got {output_size}"
        )
    if times.size == 1:
        d = axis(dim, x._array.ndim)
        shape = list(x._array.shape)
        copies = x.unsqueeze(d + 1).expand(*shape[: d + 1], int(times.max()), *shape[d + 1 :])
        return copies.flatten(d, d + 1)
    return x.index_select(dim, wrap(np.repeat(np.arange(n), times)))


def counts(repeats: Tensor) -> np.ndarray:
    if repeats._array.dtype not in (np.int32, np.int64):
        raise NotImplementedError(
            f"repeat_interleave(): repeats must be int32 or int64, got {repeats.dtype}"
        )
    if (repeats._array < 0).any():
        raise RuntimeError("repeat_interleave(): repeats can not be negative")
    return repeats._array
