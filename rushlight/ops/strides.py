"""How a tensor lies in memory: strides, storage, contiguity, and views given by strides alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.layouts import contiguous_format, memory_format, order_of, shape_of, whole
from rushlight.ops.base import axis, composite, need_tensor, ops, registry
from rushlight.ops.elements import among, flat, unflat
from rushlight.ops.memory import dense_strides, element_strides
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.views import View, as_shape, changes_metadata, looked_at, viewed
from rushlight.storage import memory_of, offset_of
from rushlight.tensor import Tensor, install, wrap

ndarray = np.ndarray


def start_of(array: ndarray, flat: ndarray) -> int:
    return offset_of(array, flat) if array.size else 0


def stride(self: Tensor, dim: int | None = None) -> Any:
    """How many elements to jump to the next one in each dimension, or in dimension ``dim``.

    >>> rl.zeros(2, 3).stride(), rl.zeros(2, 3).t().stride(0)
    ((3, 1), 1)
    """
    strides = element_strides(self._array)
    return strides if dim is None else strides[axis(dim, len(strides))]


def dim_order(self: Tensor) -> tuple[int, ...]:
    """The dimensions from the one with the longest steps in memory to the one with the shortest.

    >>> rl.zeros(2, 3, 4).permute(2, 0, 1).dim_order()
    (1, 2, 0)
    """
    strides = self._array.strides
    return tuple(sorted(range(len(strides)), key=lambda dim: -strides[dim]))


def is_contiguous(self: Tensor, memory_format: memory_format | None = None) -> bool:
    """Whether the elements lie in memory in the order of their indices, without gaps.

    >>> rl.zeros(2, 3).is_contiguous(), rl.zeros(2, 3).t().is_contiguous()
    (True, False)
    """
    array = self._array
    try:
        order = order_of(memory_format, array.shape, array)
    except RuntimeError:
        return False
    return array.flags.c_contiguous if order is None else array.transpose(order).flags.c_contiguous


install(stride=stride, dim_order=dim_order, is_contiguous=is_contiguous)


@composite(
    function=False,
    samples=[S(T(2, 3)), S(T()), S(T(2, 0))],
    errors=[Fails(TypeError, "must be rushlight.memory_format, not str", T(2), memory_format="x")],
)
def contiguous(input: Tensor, memory_format: memory_format | None = None) -> Tensor:
    """The tensor itself if it is contiguous, else a contiguous copy.

    >>> rl.zeros(2, 3).t().contiguous().stride()
    (2, 1)
    """
    if memory_format is None:
        if input._array.flags.c_contiguous:
            return input
        return input.clone(memory_format=contiguous_format)
    order_of(memory_format, input._array.shape)
    if is_contiguous(input, memory_format):
        return input
    return input.clone(memory_format=memory_format)


class AsStrided(View):
    """A view of the storage with any ``size``, ``stride`` and ``storage_offset``, in elements.

    Element (i, j, …) is the storage's element ``storage_offset + i·stride[0] + j·stride[1] + …``.

    >>> rl.arange(6).as_strided((2, 2), (1, 2), 1)
    tensor([[1, 3],
            [2, 4]])
    """

    samples = [
        S(T(6), (2, 2), (1, 2), 1),
        S(T(3, 3), (2, 2), (1, 2)),
        S(T(5), (3, 3), (1, 1)),
        S(T(4), (), ()),
        S(T(4), (0, 2), (1, 1)),
    ]
    errors = [
        Fails(RuntimeError, "are out of bounds for storage of size", T(4), (3,), (2,)),
        Fails(RuntimeError, "Negative strides are not supported", T(4), (3,), (-1,)),
        Fails(RuntimeError, "mismatch in length of strides and shape", T(4), (3,), (1, 1)),
        Fails(RuntimeError, "invalid storage offset -1", T(4), (3,), (1,), -1),
        Fails(RuntimeError, "negative dimension -3", T(4), (-3,), (1,)),
    ]

    def check(
        self,
        input: Tensor,
        size: Sequence[int],
        stride: Sequence[int],
        storage_offset: int | None = None,
    ) -> Any:
        x = need_tensor("as_strided", input)
        shape, steps = as_shape("as_strided", (size,)), as_shape("as_strided", (stride,))
        element_strides(x._array)  # which a trace for all sizes does not know
        array = looked_at(x)
        flat = memory_of(array)
        start = start_of(array, flat)
        offset = start
        if storage_offset is not None:
            offset = whole(storage_offset, "as_strided", "storage_offset")
        if len(shape) != len(steps):
            raise RuntimeError(
                f"mismatch in length of strides and shape: size {list(shape)}, stride {list(steps)}"
            )
        shape_of("as_strided", shape, x._array.dtype)
        if min(steps, default=0) < 0:
            raise RuntimeError(
                f"as_strided: Negative strides are not supported, got strides: {list(steps)}"
            )
        if offset < 0:
            raise RuntimeError(f"as_strided: invalid storage offset {offset}")
        need = reach(shape, steps, offset)
        if need > flat.size:
            itemsize = flat.itemsize
            raise RuntimeError(
                f"as_strided: sizes {list(shape)}, strides {list(steps)}, storage offset {offset}, "
                f"and itemsize {itemsize} requiring a storage size of {need * itemsize} are out "
                f"of bounds for storage of size {flat.nbytes}"
            )
        home = (element_strides(array), start)  # where x lies in its storage
        return (x,), {"size": shape, "stride": steps, "storage_offset": offset, "home": home}

    def apply(self, operands: Sequence[Any], attrs: dict[str, Any]) -> Tensor:
        (x,) = operands
        source = x if x._view is None else x._base  # strides reach beyond a view: all of its base
        array = looked_at(source)
        attrs = {**attrs, "home": (element_strides(array), start_of(array, memory_of(array)))}
        return viewed(self, source, self.eager(array, **attrs), attrs)

    def eager(self, x, *, size, stride, storage_offset, home):
        flat = memory_of(x)
        if (element_strides(x), start_of(x, flat)) != home:
            flat = x.ravel()
            dense = home == (dense_strides(x.shape), 0)
            if not dense or reach(size, stride, storage_offset) > flat.size:
                raise RuntimeError(
                    "as_strided: no gradient for a write to elements that the strides find only "
                    f"in the memory of the original, {list(x.shape)} with strides {home[0]}. "
                    "Use .contiguous().as_strided(...)"
                )
        if 0 in size:
            return np.empty(size, x.dtype)
        itemsize = x.itemsize
        y = ndarray(size, x.dtype, flat, storage_offset * itemsize, [s * itemsize for s in stride])
        if any([s == 0 and n > 1 for s, n in zip(stride, size, strict=True)]):
            y.setflags(write=False)
        return y

    def origin(self, b, i, shape, *, size, stride, storage_offset, home):
        steps, start = home
        place: Any = storage_offset - start
        for j, step in zip(i, stride, strict=True):
            place = place + j * step
        return digits(place, shape, steps)

    def seen(self, b, j, shape, *, size, stride, storage_offset, home):
        # Places may be named twice, and the last one counts: all of them are tried.
        def place(*k: Any) -> Any:
            here = self.origin(
                b, k, shape, size=size, stride=stride, storage_offset=storage_offset, home=home
            )
            same = among(b, [b.position(p).eq(q) for p, q in zip(here, j, strict=True)])
            return b.where(same, b.position(flat(k, size)), -1)

        last = b.fold("max", size, place)
        return (last >= 0,), unflat(last, size)

    def vjp(self, g, _y, _x, *, size, stride, storage_offset, home):
        here, there = places(_x.shape, *home), places(size, stride, storage_offset)
        count = 1 + max(here.max(initial=0), there.max(initial=0))
        flat = ops.zeros(count, dtype=g.dtype)
        flat = flat.index_add(0, wrap(there.ravel()), g.reshape(-1))
        times = np.bincount(here.ravel(), minlength=count)
        if times.max() > 1:
            flat = flat / wrap(np.maximum(times, 1))
        return flat.index_select(0, wrap(here.ravel())).reshape(_x.shape)


def digits(place: Any, shape: Sequence[int], strides: Sequence[int]) -> list[Any]:
    """The index of the element at a place of a dense storage, whose strides may be permuted."""
    index: list[Any] = [0] * len(shape)
    for d in sorted(range(len(shape)), key=lambda d: -strides[d]):
        if shape[d] > 1:
            index[d], place = place // strides[d], place % strides[d]
    return index


def reach(shape: Sequence[int], stride: Sequence[int], offset: int) -> int:
    """How many elements a storage must have at least."""
    if 0 in shape:
        return 0
    return 1 + offset + sum([(n - 1) * s for n, s in zip(shape, stride, strict=True)])


def places(shape: Sequence[int], stride: Sequence[int], offset: int) -> ndarray:
    """Where in its storage each element of a tensor lies."""
    where = np.full(shape, offset)
    for dim, (n, s) in enumerate(zip(shape, stride, strict=True)):
        steps = np.arange(n) * s
        where += steps.reshape((n,) + (1,) * (len(shape) - dim - 1))
    return where


@composite(
    samples=[S(T(9), T(2, 2), (2, 2), (1, 3), 1), S(T(3, 3), T(2, 2), (2, 2), (2, 1))],
    errors=[
        Fails(RuntimeError, "src to have a size equal to the slice", T(4), T(3), (2,), (1,)),
        Fails(RuntimeError, "are out of bounds for storage", T(4), T(3), (3,), (2,)),
    ],
)
def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """A copy of ``input`` in which ``src`` stands where ``as_strided`` with these arguments looks.

    >>> rl.zeros(4).as_strided_scatter(rl.ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])
    """
    x = need_tensor("as_strided_scatter", input)
    (_, attrs) = registry["as_strided"].check(x, size, stride, storage_offset)
    if need_tensor("as_strided_scatter", src, "src", 2)._array.shape != attrs["size"]:
        raise RuntimeError(
            "as_strided_scatter: expected src to have a size equal to the slice of self. "
            f"src size = {list(src.shape)}, slice size = {list(attrs['size'])}"
        )
    here = places(x._array.shape, *attrs["home"]).ravel()
    there = places(attrs["size"], attrs["stride"], attrs["storage_offset"]).ravel()
    element_at = np.full(1 + max(here.max(initial=0), there.max(initial=0)), -1)
    element_at[here] = np.arange(here.size)
    (inside,) = np.nonzero(element_at[there] >= 0)
    source = src.reshape(-1).index_select(0, wrap(inside)).to(x.dtype)
    y = x.reshape(-1).index_copy(0, wrap(element_at[there[inside]]), source)
    return y.reshape(x._array.shape)


changes_metadata("as_strided")
