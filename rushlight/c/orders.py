"""Order statistics and their kin in terms of a stable sort, and other ops of few ops.

Each function says what the op of its name is, of tensors; None is for what it leaves as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight import dtypes
from rushlight.ops.base import ops
from rushlight.tensor import Tensor

SMALL = (dtypes.float16, dtypes.bfloat16)
FORMULAS: dict[str, Callable[..., Any]] = {}


def formula(function: Callable[..., Any]) -> Callable[..., Any]:
    FORMULAS[function.__name__] = function
    return function


def sorted_along(x: Tensor, dim: int, descending: bool = False) -> Any:
    """A stable sort; numbers of 16 bits are sorted in 32."""
    if x.dtype not in SMALL:
        return ops.sort(x, dim, descending)
    values, indices = ops.sort(x.float(), dim, descending)
    return values.to(x.dtype), indices


def chosen(x: Tensor, dim: int, keepdim: bool, place: Any) -> Any:
    """The elements at a place of each sorted line, and their indices."""
    if not x.ndim:
        return x.clone(), ops.zeros((), dtype=dtypes.int64)
    found = [ops.gather(t, dim, place) for t in sorted_along(x, dim)]
    return tuple(found if keepdim else [t.squeeze(dim) for t in found])


def numbers(x: Tensor, dim: int) -> Tensor:
    """How many elements of each line are not NaN."""
    return (x == x).sum(dim, keepdim=True)


@formula
def topk(x: Tensor, *, dim: int, k: int, largest: bool) -> Any:
    if not x.ndim:
        return x.clone(), ops.zeros((), dtype=dtypes.int64)
    return tuple([t.narrow(dim, 0, k).clone() for t in sorted_along(x, dim, largest)])


@formula
def median_dim(x: Tensor, *, dim: int, keepdim: bool) -> Any:
    if not x.ndim:
        return chosen(x, dim, keepdim, None)
    size, count = x.shape[dim], numbers(x, dim)
    middle = ops.full_like(count, max(size - 1, 0) // 2)
    return chosen(x, dim, keepdim, ops.where(count < size, count, middle))


@formula
def nanmedian_dim(x: Tensor, *, dim: int, keepdim: bool) -> Any:
    if not x.ndim:
        return chosen(x, dim, keepdim, None)
    return chosen(x, dim, keepdim, (numbers(x, dim) - 1).clamp_min(0) // 2)


@formula
def median_all(x: Tensor) -> Any:
    return median_dim(x.reshape(-1), dim=0, keepdim=False)[0]


@formula
def nanmedian_all(x: Tensor) -> Any:
    return nanmedian_dim(x.reshape(-1), dim=0, keepdim=False)[0]


@formula
def kthvalue(x: Tensor, *, dim: int, keepdim: bool, rank: int) -> Any:
    if not x.ndim:
        return chosen(x, dim, keepdim, None)
    return chosen(x, dim, keepdim, ops.full_like(numbers(x, dim), rank))


@formula
def mode(x: Tensor, *, dim: int, keepdim: bool) -> Any:
    """The last index of the element with the longest run in each sorted line."""
    if not x.ndim:
        return chosen(x, dim, keepdim, None)
    size = x.shape[dim]
    values, _ = sorted_along(x, dim)
    shape = [1] * x.ndim
    shape[dim] = size
    position = ops.arange(size).view(shape).expand(x.shape)
    fresh = values.narrow(dim, 1, size - 1) != values.narrow(dim, 0, size - 1)
    later = ops.where(fresh, position.narrow(dim, 1, size - 1), 0)
    start = ops.cat([ops.zeros_like(position.narrow(dim, 0, 1)), later], dim)
    run = position - ops.cummax(start, dim)[0]
    return chosen(x, dim, keepdim, run.argmax(dim, keepdim=True))


@formula
def isin(elements: Tensor, test_elements: Tensor, *, invert: bool) -> Any:
    found = (elements.unsqueeze(-1) == test_elements.reshape(-1)).any(-1)
    return found.logical_not() if invert else found


@formula
def masked_scatter(x: Tensor, source: Tensor, mask: Tensor) -> Any:
    if not x.numel():
        return x.clone()
    mask = mask.expand(x.shape).reshape(-1)
    place = ops.where(mask, mask.cumsum(0) - 1, 0)
    taken = ops.index_select(source.reshape(-1), 0, place) if source.numel() else x.reshape(-1)
    return ops.where(mask, taken, x.reshape(-1)).view(x.shape)


def half(name: str) -> Callable[..., Any]:
    """An op of one operand that is computed in 32 bits if that has 16."""

    def function(x: Tensor, **attrs: Any) -> Any:
        if x.dtype not in SMALL:
            return None
        found = vars(ops)[name](x.float(), **attrs)
        several = found if isinstance(found, tuple) else (found,)
        return tuple([t.to(x.dtype) if t.is_floating_point() else t for t in several])

    return function


FORMULAS |= {name: half(name) for name in ("sort", "cummax", "cummin", "logcumsumexp")}


def common(name: str) -> Callable[..., Any]:
    """An op of two operands that are first made as large as the result."""

    def function(a: Tensor, b: Tensor) -> Any:
        if a.shape == b.shape and a.dtype == b.dtype:
            return None
        shape, kind = ops.broadcast_shapes(a.shape, b.shape), ops.result_type(a, b)
        return vars(ops)[name](a.to(kind).expand(shape).clone(), b.to(kind).expand(shape).clone())

    return function


FORMULAS |= {name: common(name) for name in ("gcd", "lcm")}


@formula
def searchsorted(sequence: Tensor, values: Tensor, *, right: bool, out_int32: bool) -> Any:
    if sequence.dtype == values.dtype and not out_int32 and sequence.dtype not in SMALL:
        return None
    kind = ops.result_type(sequence, values)
    kind = dtypes.float32 if kind in SMALL else kind
    found = ops.searchsorted(sequence.to(kind), values.to(kind), right=right)
    return found.to(dtypes.int32) if out_int32 else found
