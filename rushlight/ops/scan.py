"""Scans: running sums, products and extrema along a dimension."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.kernels.running import running
from rushlight.ops.base import Op, axis, need_tensor, ops
from rushlight.ops.elements import wide
from rushlight.ops.extrema import need_order
from rushlight.ops.families import conjugate
from rushlight.ops.reduce import in_float32
from rushlight.ops.results import result_type
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

ERRORS = (
    Fails(TypeError, "must be Tensor, not list", [1.0], 0),
    Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), 2),
    Fails(TypeError, "'dim' must be int, not tuple", T(3, 4), (0, 1)),
)
WIDER = {np.dtype(np.float32): np.float64, np.dtype(np.complex64): np.complex128}


class Accumulate(Op, abstract=True):
    """A running sum or product; single precision is accumulated in double, as PyTorch does."""

    inplace = True
    fused = True
    errors = (*ERRORS, Fails(NotImplementedError, "'Bool'", T(3), 0, dtype=dtypes.bool_))
    combine: np.ufunc
    how: str

    def check(self, input: Tensor, dim: int, *, dtype: dtypes.dtype | None = None) -> Any:
        x = need_tensor(self.name, input)
        if dtype is not None:
            x = x.to(dtype)
            if x._array.dtype.kind == "b":
                raise NotImplementedError(f"\"{self.name}\" not implemented for 'Bool'")
        elif x._array.dtype.kind in "biu":
            x = x.to(dtypes.int64)
        return (x,), {"dim": axis(dim, x._array.ndim)}

    @in_float32
    def eager(self, x, *, dim):
        if not x.ndim:
            return x.copy()
        return running(self.combine, x, dim, WIDER.get(x.dtype, x.dtype))

    def decompose(self, x, *, dim):
        return NotImplemented if x.ndim else x.clone()

    def scan(self, b, x, *, dim):
        def element(i: Any) -> Any:
            return x[i].cast("f64") if x.kind == "f32" else wide(x[i])

        return b.scan(dim=dim, element=element, how=self.how)


class Cumsum(Accumulate):
    """Running sums along ``dim``: yᵢ = x₀ + … + xᵢ.

    >>> rl.tensor([1.0, 2.0, 3.0]).cumsum(0)
    tensor([1., 3., 6.])
    """

    samples = [
        S(T(3, 4), 1),
        S(T(2, 3, 4), dim=-2),
        S(T(3), 0, dtype=dtypes.float64),
        S(T(0, 3), 0),
        S(T(), 0),
        S(T(4, dtype=dtypes.bool_), 0),
    ]
    combine, how = np.add, "add"

    def vjp(self, g, _y, _x, *, dim):
        return g.flip(dim).cumsum(dim).flip(dim)


class Cumprod(Accumulate):
    """Running products along ``dim``: yᵢ = x₀ · … · xᵢ.

    >>> rl.tensor([1.0, 2.0, 3.0]).cumprod(0)
    tensor([1., 2., 6.])
    """

    samples = [
        S(T(3, 4), 1),
        S(T(2, 5, 2), dim=-2),
        S(T(3), 0, dtype=dtypes.float64),
        S(T(values=[[1.5, 0.0, 2.0, 0.0, 3.0], [0.5, 2.0, 0.0, 1.0, 1.0]]), 1),
        S(T(0, 3), 0),
        S(T(), 0),
    ]
    combine, how = np.multiply, "mul"

    def vjp(self, g, y, x, *, dim):
        n = x.shape[dim] if x.shape else 0
        if n < 2:
            return g
        first = ops.ones_like(x.narrow(dim, 0, 1))
        before = ops.cat([first, y.narrow(dim, 0, n - 1)], dim)
        return conjugate(before) * suffix_scan(g, conjugate(x.narrow(dim, 1, n - 1)), dim)


def suffix_scan(g: Tensor, w: Tensor, dim: int) -> Tensor:
    """The solution of sᵢ = gᵢ + wᵢ · sᵢ₊₁, by doubling the reach of each element.

    It only adds and multiplies: right where weights are zero, and so are its derivatives.
    """
    n, reach, s = g.shape[dim], 1, g
    while reach < n:
        head = n - reach
        s_head = s.narrow(dim, 0, head) + w * s.narrow(dim, reach, head)
        s = ops.cat([s_head, s.narrow(dim, head, reach)], dim)
        rest = max(head - reach, 0)
        w = w.narrow(dim, 0, rest) * w.narrow(dim, head - rest, rest)
        reach *= 2
    return s


class Logcumsumexp(Op):
    """Running log Σ exp along ``dim``: yᵢ = log(exp x₀ + … + exp xᵢ), without overflow.

    >>> rl.zeros(3).logcumsumexp(0)
    tensor([0.0000, 0.6931, 1.0986])
    """

    library = "its scan is no sum or product"
    samples = [
        S(T(3, 4), 1),
        S(T(2, 5, 2, low=-100, high=100), dim=-2),
        S(T(0, 3), 0),
        S(T(), 0),
    ]
    errors = (*ERRORS, Fails(NotImplementedError, "'Long'", T(3, dtype=dtypes.int64), 0))

    def check(self, input: Tensor, dim: int) -> Any:
        x = need_tensor("logcumsumexp", input)
        if x.dtype.category < dtypes.FLOAT:
            raise NotImplementedError(
                f"\"logcumsumexp\" not implemented for '{x.dtype.storage_name}'"
            )
        return (x,), {"dim": axis(dim, x._array.ndim)}

    @in_float32
    def eager(self, x, *, dim):
        if not x.ndim:
            return x.copy()
        if x.dtype.kind == "f":
            return np.logaddexp.accumulate(x, dim)
        y = x.copy()
        lines = np.moveaxis(y, dim, 0)
        for before, here in itertools.pairwise(lines):
            here[...] = complex_logaddexp(before, here)
        return y

    def vjp(self, g, y, x, *, dim):
        n = x.shape[dim] if x.shape else 0
        if n < 2:
            return g
        # y never falls, so that the weights exp(yᵢ - yᵢ₊₁) are at most 1.
        w = (y.narrow(dim, 0, n - 1) - y.narrow(dim, 1, n - 1)).exp()
        return conjugate((x - y).exp()) * suffix_scan(g, conjugate(w), dim)


def complex_logaddexp(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """log(exp a + exp b) with the larger term taken out."""
    swap = a.real < b.real
    top, low = np.where(swap, b, a), np.where(swap, a, b)
    return np.where(np.isneginf(top.real), top, top + np.log1p(np.exp(low - top)))


class Record(Op, abstract=True):
    """A running extremum, and where it was set: the latest of equal ones."""

    differentiable = (0,)
    library = "a scan of pairs"
    samples = [
        S(T(3, 4, distinct=True), 1),
        S(T(2, 5, 2, distinct=True), dim=-2),
        S(T(values=[1.0, 1.0, 0.0, 1.0, 2.0, 2.0], grad=False), 0),
        S(T(0, 3), 0),
        S(T(), 0),
    ]
    errors = (*ERRORS, Fails(NotImplementedError, "Complex", T(3, dtype=dtypes.complex64), 0))
    combine: np.ufunc

    def check(self, input: Tensor, dim: int) -> Any:
        x = need_order(self.name, need_tensor(self.name, input))
        return (x,), {"dim": axis(dim, x._array.ndim)}

    @in_float32
    def eager(self, x, *, dim):
        if not x.ndim:
            return x.copy(), np.zeros((), np.int64)
        y = running(self.combine, x, dim, x.dtype)
        position = np.arange(x.shape[dim]).reshape([-1] + [1] * (x.ndim - 1 - dim))
        indices = np.where((x == y) | (x != x), position, 0)
        return y, np.maximum.accumulate(indices, dim, out=indices)

    def vjp(self, g, y, _x, *, dim):
        if not _x.shape:
            return g
        return ops.zeros(_x.shape, dtype=g.dtype).scatter_add(dim, y[1], g)


class Cummax(Record):
    """The largest element so far along ``dim``, and its index.

    >>> values, indices = rl.tensor([1.0, 3.0, 2.0, 3.0]).cummax(0)
    >>> values, indices
    (tensor([1., 3., 3., 3.]), tensor([0, 1, 1, 3]))
    """

    result = result_type("cummax", "values", "indices")
    combine = np.maximum


class Cummin(Record):
    """The smallest element so far along ``dim``, and its index.

    >>> values, indices = rl.tensor([3.0, 1.0, 2.0, 1.0]).cummin(0)
    >>> values, indices
    (tensor([3., 1., 1., 1.]), tensor([0, 1, 1, 3]))
    """

    result = result_type("cummin", "values", "indices")
    combine = np.minimum
