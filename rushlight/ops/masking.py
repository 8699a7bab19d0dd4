"""Ops that read, write and find the elements where a condition holds."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.kernels import masks
from rushlight.ops.base import Op, composite, into, need_tensor, ops, registry
from rushlight.ops.indexing import FIRST, at, picked, put
from rushlight.ops.replacement import Write
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.scatter import single_value
from rushlight.tensor import Tensor

MASK = T(3, 4, dtype=dtypes.bool_)


def masked(name: str, input: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """A tensor and its mask, broadcast to a common shape."""
    x, m = need_tensor(name, input), need_tensor(name, mask, "mask", 2)
    if m.dtype is not dtypes.bool_:
        raise RuntimeError(
            f"{name} only supports boolean masks, but got mask with dtype {m.dtype.storage_name}"
        )
    if x._array.shape == m._array.shape:
        return x, m
    x, m = ops.broadcast_tensors(x, m)
    return x, m


class MaskedFill(Write):
    """A copy whose elements are ``value`` where ``mask`` holds.

    Args:
        value: a number or a tensor without dimensions.

    >>> rl.tensor([1.0, 2.0, 3.0]).masked_fill(rl.tensor([True, False, True]), 0)
    tensor([0., 2., 0.])
    """

    operands = ("x", "value", "mask")
    samples = [
        S(T(3, 4), MASK, 2),
        S(T(3, 4), MASK, T()),
        S(T(3, 4, grad=False), at(True, False, False, True), float("-inf")),
        S(T(4), MASK, 1),
        S(T(), T(dtype=dtypes.bool_), T()),
        S(T(0, 2), T(0, 2, dtype=dtypes.bool_), 1),
    ]
    errors = [
        Fails(RuntimeError, "only supports boolean masks, but got .* Float", T(3), T(3), 1),
        Fails(RuntimeError, r"a \(3\) must match .* b \(2\)", T(3), at(True, False), 1),
        Fails(RuntimeError, "0-dimensional value tensor, but got", T(3, 4), MASK, T(1)),
        Fails(RuntimeError, "without overflow", T(3, 4), MASK, 1j),
        Fails(TypeError, "'value' .* must be Tensor, not str", T(3, 4), MASK, "1"),
    ]

    def check(self, input: Tensor, mask: Tensor, value: Tensor | float) -> Any:
        x, m = masked("masked_fill", input, mask)
        return (x, single_value("masked_fill", x, value), m), {}

    def write(self, y, value, mask):
        masks.fill(y, mask, value)

    def at(self, b, i, x, value, mask):
        return b.where(mask[i], value[()], x[i])

    def vjp_x(self, g, _y, _x, _value, mask):
        return g.masked_fill(mask, 0)

    def vjp_value(self, g, _y, _x, _value, mask):
        return g.masked_fill(mask.logical_not(), 0).sum()

    def vjp_mask(self, g, _y, _x, _value, _mask):
        return None


class MaskedScatter(Write):
    """A copy whose elements where ``mask`` holds are, in order, those of ``source``.

    >>> mask = rl.tensor([True, False, True])
    >>> rl.zeros(3).masked_scatter(mask, rl.tensor([1.0, 2.0, 3.0]))
    tensor([1., 0., 2.])
    """

    operands = ("x", "source", "mask")
    library = "the place of a value depends on how much of the mask comes before"
    samples = [
        S(T(3, 4), MASK, T(3, 4)),
        S(T(3, 4), at(True, False, False, True), T(9)),
        S(T(2), at([True, False], [False, True]), T(4)),
        S(T(0), T(0, dtype=dtypes.bool_), T(0)),
    ]
    errors = [
        Fails(RuntimeError, "only supports boolean masks, but got .* Float", T(3), T(3), T(3)),
        Fails(RuntimeError, "number of ones in mask", T(2), at(True, True), T(1)),
        Fails(RuntimeError, "to have same dtypes but got Float and Long", T(1), at(True), at(1)),
        Fails(TypeError, "'source' .* must be Tensor, not int", T(1), at(True), 1),
    ]

    def check(self, input: Tensor, mask: Tensor, source: Tensor) -> Any:
        x, m = masked("masked_scatter", input, mask)
        need_tensor("masked_scatter", source, "source", 3)
        if source._array.dtype is not x._array.dtype:
            raise RuntimeError(
                "masked_scatter: expected self and source to have same dtypes but got "
                f"{x.dtype.storage_name} and {source.dtype.storage_name}"
            )
        return (x, source, m), {}

    def write(self, y, source, mask):
        count = np.count_nonzero(mask)
        if count > source.size:
            raise RuntimeError(
                f"masked_scatter: Number of elements of source ({source.size}) < number of ones "
                f"in mask ({count})"
            )
        masks.put(y, mask, source.reshape(-1)[:count])

    def vjp_x(self, g, _y, _x, _source, mask):
        return g.masked_fill(mask, 0)

    def vjp_source(self, g, _y, _x, _source, mask):
        used = g.masked_fill(mask.logical_not(), 0).reshape(-1)
        place = mask.reshape(-1).cumsum(0).clamp_min(1) - 1  # of no use where the mask is false
        whole = g.new_zeros(prod(_source.shape)).index_add(0, place, used)
        return whole.reshape(_source.shape)

    def vjp_mask(self, g, _y, _x, _source, _mask):
        return None


@composite(
    samples=[
        S(T(3, 4), MASK),
        S(T(4), MASK),
        S(T(3, 4), at(True, False, False, True)),
        S(T(), T(values=True, dtype=dtypes.bool_)),
        S(T(0), T(0, dtype=dtypes.bool_)),
    ],
    errors=[
        Fails(RuntimeError, "only supports boolean masks, but got .* Float", T(3), T(3)),
        Fails(RuntimeError, r"a \(3\) must match .* b \(2\)", T(3), at(True, False)),
        Fails(TypeError, "'mask' .* must be Tensor, not list", T(1), [True]),
    ],
)
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where ``mask`` holds, in one dimension.

    >>> rl.tensor([1.0, 2.0, 3.0]).masked_select(rl.tensor([True, False, True]))
    tensor([1., 3.])
    """
    x, m = masked("masked_select", input, mask)
    y = picked(x, (m,), FIRST) if x._array.ndim else x.reshape(1)[m.reshape(1)]
    return y if out is None else into(out, y)


class Positions(Op):
    """The positions of all elements that are not zero, as the rows of a matrix."""

    function = method = False
    differentiable = False
    dynamic = True
    title = "nonzero, or an index by a mask,"

    def check(self, input: Tensor) -> Any:
        return (input,), {}

    def eager(self, x):
        if not x.ndim:
            return np.zeros((int(bool(x)), 0), np.int64)
        return np.stack(masks.nonzero(x), 1)


positions = registry["positions"].call
NONZERO = T(values=[[0, 2, 0], [3, 0, -1]], dtype=dtypes.int64)
NOT_A_TENSOR = Fails(TypeError, "'input' .* must be Tensor, not list", [1, 0])


@composite(
    samples=[S(NONZERO), S(NONZERO, as_tuple=True), S(T(3)), S(T()), S(T(0, 2)), S(MASK)],
    errors=[NOT_A_TENSOR],
)
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """The positions of all elements that are not zero, a row each, in order.

    Args:
        as_tuple: return one vector of positions for each dimension, fit to index with.

    >>> x = rl.tensor([[0, 2], [3, 0]])
    >>> x.nonzero()
    tensor([[0, 1],
            [1, 0]])
    >>> x[x.nonzero(as_tuple=True)]
    tensor([2, 3])
    """
    x = need_tensor("nonzero", input)
    if as_tuple:
        return positions(x if x._array.ndim else x.reshape(1)).unbind(1)
    y = positions(x)
    return y if out is None else into(out, y)


@composite(samples=[S(NONZERO), S(T()), S(T(0, 2)), S(MASK)], errors=[NOT_A_TENSOR])
def argwhere(input: Tensor) -> Tensor:
    """The positions of all elements that are not zero, a row each, in order.

    >>> rl.argwhere(rl.tensor([0, 1, 1]))
    tensor([[1],
            [2]])
    """
    return positions(need_tensor("argwhere", input))


@composite(
    samples=[
        S(NONZERO, size=2),
        S(NONZERO, size=5),
        S(NONZERO, size=5, fill_value=7),
        S(T(), size=0),
    ],
    errors=[
        Fails(TypeError, "must be Tensor, not list", [1, 0], size=2),
        Fails(RuntimeError, "'size' must be an non-negative integer, got -1", NONZERO, size=-1),
    ],
)
def nonzero_static(
    input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None
) -> Tensor:
    """:func:`nonzero` cut, or filled up with ``fill_value``, to ``size`` rows.

    >>> rl.nonzero_static(rl.tensor([0, 1, 1]), size=3)
    tensor([[ 1],
            [ 2],
            [-1]])
    """
    found = positions(need_tensor("nonzero_static", input))
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    y = ops.full((size, input.ndim), fill_value, dtype=dtypes.int64)
    y[: len(found)] = found[:size]
    return y if out is None else into(out, y)


UNSAFE_INDEX = (at(0, 7, -9),)


def inside(x: Tensor, indices: Sequence[Tensor | None]) -> tuple:
    """The indices with those out of bounds moved to the nearest good one."""
    return tuple(
        [
            slice(None) if i is None else i.clamp(-x.shape[d], x.shape[d] - 1)
            for d, i in enumerate(indices)
        ]
    )


@composite(
    method=False,
    samples=[
        S(T(3, 4), at([True], [False], [False]), UNSAFE_INDEX, 2),
        S(T(3, 4), at(True, True), (None, at(0, 3)), 0.5),
    ],
    errors=[Fails(RuntimeError, r"a \(3\) must match .* b", T(5), at(True, True), UNSAFE_INDEX, 0)],
)
def _unsafe_masked_index(
    input: Tensor, mask: Tensor, indices: Sequence[Tensor | None], fill: float
) -> Tensor:
    """``input[indices]`` where ``mask`` holds, ``fill`` elsewhere: there indices may be anything.

    >>> x, i = rl.tensor([1.0, 2.0]), rl.tensor([1, 5])
    >>> rl._unsafe_masked_index(x, i < 2, (i,), 0)
    tensor([2., 0.])
    """
    return input[inside(input, indices)].masked_fill(~mask, fill)


@composite(
    method=False,
    samples=[
        S(T(3, 4), at([True], [False], [False]), UNSAFE_INDEX, T(3, 4)),
        S(T(3, 4), at(True, True), (None, at(0, 3)), T(3, 2)),
    ],
    errors=[
        Fails(RuntimeError, "cannot be broadcast to", T(5), at(True, True), UNSAFE_INDEX, T(2))
    ],
)
def _unsafe_masked_index_put_accumulate(
    input: Tensor, mask: Tensor, indices: Sequence[Tensor | None], values: Tensor
) -> Tensor:
    """A copy with ``values`` added at ``indices`` where ``mask`` holds.

    >>> x, i = rl.zeros(2), rl.tensor([1, 5])
    >>> rl._unsafe_masked_index_put_accumulate(x, i < 2, (i,), rl.tensor([3.0, 4.0]))
    tensor([0., 3.])
    """
    layout = tuple([i is not None for i in indices])
    tensors = [i for i in inside(input, indices) if isinstance(i, Tensor)]
    return put(input.clone(), tensors, values.masked_fill(~mask, 0), layout, accumulate=True)
