"""The largest and the smallest elements, and where they are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.ops.base import Op, axis, composite, into, need_tensor, ops, registry
from rushlight.ops.elements import extreme, flat, folded_dims, wide, woven
from rushlight.ops.reduce import (
    Dims,
    Fold,
    fold_attributes,
    in_float32,
    need_bool,
    restored,
    whole,
)
from rushlight.ops.results import result_type, scattered
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

FOLD_SAMPLES = [
    S(T(3, 4, distinct=True)),
    S(T(3, 4, distinct=True), 1),
    S(T(2, 3, 4, distinct=True), (0, 2), True),
    S(T(0, 3), 1),
    S(T(), 0),
]
DIM_SAMPLES = [
    S(T(3, 4, distinct=True), 1),
    S(T(2, 3, 4, distinct=True), dim=0, keepdim=True),
    S(T(0, 3), 1),
    S(T(), 0),
]

OVERLOAD_ERRORS = [
    Fails(RuntimeError, "Expected reduction dim to be specified", T(0, 3)),
    Fails(IndexError, "Expected reduction dim 0 to have non-zero size", T(0, 3), 0),
    Fails(TypeError, "'dim' must be int, not float", T(3), 1.0),
    Fails(TypeError, "keepdim=True needs an integer dim", T(3), keepdim=True),
]


def need_order(op: str, x: Tensor) -> Tensor:
    """``x`` unless it is complex: complex numbers have no order."""
    if x._array.dtype.kind == "c":
        raise NotImplementedError(f"\"{op}\" not implemented for '{x.dtype.storage_name}'")
    return x


def need_elements(op: str, x: Tensor, dims: Sequence[int] | None) -> None:
    """An error if there is nothing to choose from."""
    if dims is None and x._array.size:
        return
    if dims is None:
        raise RuntimeError(
            f"{op}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
            f"reduction dim with the 'dim' argument. The input has shape {list(x.shape)}."
        )
    for d in dims:
        if x.ndim and x.shape[d] == 0:
            raise IndexError(
                f"{op}(): Expected reduction dim {d} to have non-zero size. The input has shape "
                f"{list(x.shape)}."
            )


class Extremum(Fold, abstract=True):
    """The largest or smallest of many; ties share the gradient evenly."""

    samples = FOLD_SAMPLES
    errors = (
        *Fold.errors,
        Fails(RuntimeError, "Expected reduction dim to be specified", T(0, 3)),
        Fails(IndexError, "Expected reduction dim 0 to have non-zero size", T(0, 3), 0),
        Fails(NotImplementedError, "'ComplexFloat'", T(3, dtype=dtypes.complex64)),
    )
    combine: np.ufunc
    how: str

    def at(self, b, i, x, *, dim, keepdim):
        return extreme(b, self.how, i, x, dim, keepdim)

    def make(self) -> Callable[..., Any]:
        return whole(self, functools.partial(self.combine.reduce, axis=None), super().make())

    def check(self, input: Tensor, dim: Dims = (), keepdim: bool = False) -> Any:
        x = need_order(self.name, need_tensor(self.name, input))
        attrs = fold_attributes(x, dim, keepdim)
        need_elements(self.name, x, attrs["dim"])
        return (x,), attrs

    @in_float32
    def eager(self, x, *, dim, keepdim):
        return self.combine.reduce(x, dim, keepdims=keepdim)

    def vjp(self, g, y, x, *, dim, keepdim):
        # A NaN among the elements is the result, and equals nothing.
        chosen = (x == restored(y, x, dim, keepdim)).logical_or(x != x)
        return restored(g, x, dim, keepdim) / chosen.sum(dim, keepdim=True) * chosen


class Amax(Extremum):
    """The largest element over the dimensions ``dim``; equal ones share the gradient evenly.

    >>> rl.tensor([[1.0, 5.0], [4.0, 2.0]]).amax(dim=1)
    tensor([5., 4.])
    """

    how = "max"
    combine = np.maximum


class Amin(Extremum):
    """The smallest element over the dimensions ``dim``; equal ones share the gradient evenly.

    >>> rl.tensor([[1.0, 5.0], [4.0, 2.0]]).amin(dim=1)
    tensor([1., 2.])
    """

    how = "min"
    combine = np.minimum


class Choice(Op, abstract=True):
    """One element of each line along ``dim``, as (values, indices)."""

    function = method = False
    differentiable = (0,)
    result: Any
    samples: Sequence[S] = DIM_SAMPLES
    errors: Sequence[Fails] = (
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), 2),
        Fails(IndexError, "Expected reduction dim 0 to have non-zero size", T(0, 3), 0),
        Fails(TypeError, "'dim' must be int, not tuple", T(3, 4), (0, 1)),
        Fails(NotImplementedError, "'ComplexFloat'", T(3, dtype=dtypes.complex64), 0),
    )

    def check(self, input: Tensor, dim: int, keepdim: bool = False) -> Any:
        name = self.result.__name__
        x = need_order(name, need_tensor(name, input))
        dim = axis(dim, x._array.ndim)
        need_elements(name, x, (dim,))
        return (x,), {"dim": dim, "keepdim": need_bool("keepdim", keepdim)}

    def vjp(self, g, y, _x, *, dim, keepdim, **attrs):
        return scattered(g, y[1], _x, dim, keepdim)


def most(b: Any, how: str, i: Any, x: Any, dim: int | None, keepdim: bool) -> tuple[Any, Any]:
    """The extreme element along ``dim``, or of all in order, and its position."""
    dims = None if dim is None else (dim,) if x.ndim else ()
    best = extreme(b, how, i, x, dims, keepdim)
    folded = folded_dims(x.ndim, dims)
    kept = [j for d, j in enumerate(i) if d not in folded] if keepdim else i
    sizes = [x.shape[d] for d in folded]

    def element(*ks: Any) -> tuple[Any, Any]:
        value = wide(x[woven(kept, folded, ks)])
        return value.cast("u8") if value.kind == "b1" else value, b.position(flat(ks, sizes))

    return best, b.fold(f"arg{how}", sizes, element)


class MaxDim(Choice):
    """The largest element of each line along ``dim``, and its index."""

    result = result_type("max", "values", "indices")

    @in_float32
    def eager(self, x, *, dim, keepdim):
        if not x.ndim:
            return x.copy(), np.zeros((), np.int64)
        return np.maximum.reduce(x, dim, keepdims=keepdim), x.argmax(dim, keepdims=keepdim)

    def at(self, b, i, x, *, dim, keepdim):
        return most(b, "max", i, x, dim, keepdim)

    def folded(self, attrs, shape):
        return (attrs["dim"],) if shape else ()


class MinDim(Choice):
    """The smallest element of each line along ``dim``, and its index."""

    result = result_type("min", "values", "indices")

    @in_float32
    def eager(self, x, *, dim, keepdim):
        if not x.ndim:
            return x.copy(), np.zeros((), np.int64)
        return np.minimum.reduce(x, dim, keepdims=keepdim), x.argmin(dim, keepdims=keepdim)

    def at(self, b, i, x, *, dim, keepdim):
        return most(b, "min", i, x, dim, keepdim)

    def folded(self, attrs, shape):
        return (attrs["dim"],) if shape else ()


max_dim, min_dim = registry["max_dim"].call, registry["min_dim"].call


@composite(samples=[FOLD_SAMPLES[0], *DIM_SAMPLES, S(T(3, 4), T(4))], errors=OVERLOAD_ERRORS)
def max_(
    input: Tensor,
    dim: int | Tensor | None = None,
    keepdim: bool = False,
    *,
    other: Tensor | None = None,
    out: Any = None,
) -> Any:
    """The largest element; along ``dim``, with its index; or of two tensors, element by element.

    >>> x = rl.tensor([[1.0, 5.0], [4.0, 2.0]])
    >>> x.max()
    tensor(5.)
    >>> values, indices = x.max(dim=1)
    >>> indices
    tensor([1, 0])
    """
    if dim is None and other is None and out is None and keepdim is False:
        return ops.amax(input)
    if other is None and dim is not None and not isinstance(dim, Tensor):
        return max_dim(input, dim, keepdim, out=out)
    need_no_keepdim("max", keepdim)
    second = dim if other is None else other
    return ops.amax(input, out=out) if second is None else ops.maximum(input, second, out=out)


@composite(samples=[FOLD_SAMPLES[0], *DIM_SAMPLES, S(T(3, 4), T(4))], errors=OVERLOAD_ERRORS)
def min_(
    input: Tensor,
    dim: int | Tensor | None = None,
    keepdim: bool = False,
    *,
    other: Tensor | None = None,
    out: Any = None,
) -> Any:
    """The smallest element; along ``dim``, with its index; or of two tensors, element by element.

    >>> x = rl.tensor([[1.0, 5.0], [4.0, 2.0]])
    >>> x.min()
    tensor(1.)
    >>> values, indices = x.min(dim=1)
    >>> indices
    tensor([0, 1])
    """
    if dim is None and other is None and out is None and keepdim is False:
        return ops.amin(input)
    if other is None and dim is not None and not isinstance(dim, Tensor):
        return min_dim(input, dim, keepdim, out=out)
    need_no_keepdim("min", keepdim)
    second = dim if other is None else other
    return ops.amin(input, out=out) if second is None else ops.minimum(input, second, out=out)


def need_no_keepdim(op: str, keepdim: Any) -> None:
    if keepdim is not False:
        raise TypeError(f"{op}(): keepdim={keepdim!r} needs an integer dim")


aminmax_result = result_type("aminmax", "min", "max")


@composite(
    samples=[
        S(T(3, 4, distinct=True)),
        S(T(3, 4, distinct=True), dim=1, keepdim=True),
        S(T(0, 3), dim=1),
        S(T(), dim=0),
    ],
    errors=[
        Fails(RuntimeError, "cannot compute aminmax over an empty dimension", T(0, 3)),
        Fails(IndexError, "Expected reduction dim 0 to have non-zero size", T(0, 3), dim=0),
        Fails(TypeError, "'dim' must be int, not tuple", T(3, 4), dim=(0, 1)),
    ],
)
def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Any = None
) -> Any:
    """The smallest and the largest element, over all or along ``dim``.

    >>> rl.tensor([3.0, 1.0, 2.0]).aminmax()
    rushlight.return_types.aminmax(
    min=tensor(1.),
    max=tensor(3.))
    """
    x = need_tensor("aminmax", input)
    if dim is not None:
        dim = axis(dim, x.ndim)
    elif not x._array.size:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
            f"identity. The input has shape {list(x.shape)}."
        )
    y = aminmax_result(x.amin(dim, keepdim), x.amax(dim, keepdim))
    return y if out is None else into(out, y)


class Position(Op, abstract=True):
    """The index of an extremum along ``dim``, or among all elements in order."""

    differentiable = False
    samples = [
        S(T(3, 4, distinct=True)),
        S(T(3, 4, distinct=True), 1),
        S(T(2, 3, 4, distinct=True), dim=-2, keepdim=True),
        S(T(3, 4, distinct=True), keepdim=True),
        S(T(values=[1.0, 2.0, 2.0, 1.0])),
        S(T(0, 3), 1),
        S(T(), 0),
    ]
    errors = (
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), 2),
        Fails(IndexError, "Expected reduction dim to be specified", T(0, 3)),
        Fails(IndexError, "Expected reduction dim 0 to have non-zero size", T(0, 3), 0),
        Fails(TypeError, "'dim' must be int, not tuple", T(3, 4), (0, 1)),
        Fails(RuntimeError, "does not support bool input", T(3, dtype=dtypes.bool_)),
    )

    def check(self, input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
        x = need_order(self.name, need_tensor(self.name, input))
        if x._array.dtype.kind == "b":
            raise RuntimeError(f"{self.name}(): does not support bool input")
        if dim is not None:
            dim = axis(dim, x._array.ndim)
            need_elements(self.name, x, (dim,))
        elif not x._array.size:
            raise IndexError(
                f"{self.name}(): Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        return (x,), {"dim": dim if x.ndim else None, "keepdim": need_bool("keepdim", keepdim)}

    def folded(self, attrs, shape):
        return folded_dims(len(shape), None if attrs["dim"] is None else (attrs["dim"],))


class Argmax(Position):
    """The index of the largest element (the first of equal ones), along ``dim`` or among all.

    >>> rl.tensor([[1.0, 5.0], [4.0, 2.0]]).argmax(dim=1)
    tensor([1, 0])
    """

    @in_float32
    def eager(self, x, *, dim, keepdim):
        return x.argmax(dim, keepdims=keepdim)

    def at(self, b, i, x, *, dim, keepdim):
        return most(b, "max", i, x, dim, keepdim)[1]


class Argmin(Position):
    """The index of the smallest element (the first of equal ones), along ``dim`` or among all.

    >>> rl.tensor([[1.0, 5.0], [4.0, 2.0]]).argmin(dim=1)
    tensor([0, 1])
    """

    @in_float32
    def eager(self, x, *, dim, keepdim):
        return x.argmin(dim, keepdims=keepdim)

    def at(self, b, i, x, *, dim, keepdim):
        return most(b, "min", i, x, dim, keepdim)[1]
