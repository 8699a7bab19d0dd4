"""Reductions: many elements folded into one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.autograd.tape import record_one
from rushlight.dims import is_extent, is_one
from rushlight.errors import kind
from rushlight.kernels.summation import add_up
from rushlight.ops.base import Op, axis, composite, into, is_expandable, need_tensor, ops
from rushlight.ops.elements import folded_dims, kind_of, reduced, wide
from rushlight.ops.families import FLOAT32, FLOAT64, conjugate
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor, new

Dims = int | Sequence[int] | None

SMALL = 4096  # elements up to which a spread gradient is written out: arithmetic is quicker
WHOLE: dict[str, Any] = {"dim": None, "keepdim": False}


def in_float32(eager: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of one operand, which computes half precision in float32 and rounds once."""

    @functools.wraps(eager)
    def kernel(self: Op, x: np.ndarray, **attrs: Any) -> Any:
        if x.itemsize != 2 or x.dtype not in dtypes.HALF:
            return eager(self, x, **attrs)
        y = eager(self, x.astype(np.float32), **attrs)
        if type(y) is tuple:
            return tuple([rounded(part, x.dtype) for part in y])
        return rounded(y, x.dtype)

    return kernel


def rounded(y: Any, half: np.dtype) -> np.ndarray:
    return y.astype(half) if y.dtype == np.float32 else y


class Fold(Op, abstract=True):
    """Ops that fold the dimensions ``dim`` (all of them if None) into one value each."""

    errors: Sequence[Fails] = (
        Fails(TypeError, "must be Tensor, not list", [1.0]),
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), 2),
        Fails(RuntimeError, "appears multiple times", T(3, 4), (1, 1)),
        Fails(TypeError, "'keepdim' must be bool, not int", T(3, 4), 0, 1),
    )

    def check(self, input: Tensor, dim: Dims = None, keepdim: bool = False) -> Any:
        return (need_tensor(self.name, input),), fold_attributes(input, dim, keepdim)

    def folded(self, attrs, shape):
        return folded_dims(len(shape), attrs["dim"])

    def infer(self, arrays, attrs):
        return folded_type(self, arrays[0], attrs)


def folded_type(op: Op, x: np.ndarray, attrs: Any) -> Any:
    """An array (or several) like ``x`` folded: the dtype comes of trying a single element."""
    if not x.size:
        return NotImplemented
    kind = folded_kind(op, x.ndim, x.dtype, tuple(attrs.items()))
    dims = op.folded(attrs, x.shape)
    shape = [1 if i in dims else n for i, n in enumerate(x.shape)]
    if not attrs["keepdim"]:
        shape = [n for i, n in enumerate(x.shape) if i not in dims]
    if isinstance(kind, tuple):
        return tuple([np.empty(shape, part) for part in kind])
    return np.empty(shape, kind)


@functools.lru_cache(4096)
def folded_kind(op: Op, rank: int, kind: np.dtype, attrs: tuple[tuple[str, Any], ...]) -> Any:
    """The dtype of a fold, or of each of its results."""
    y = local.state.run(op.compute, [np.ones([1] * rank, kind)], dict(attrs))
    if isinstance(y, tuple):
        return tuple([np.asarray(part).dtype for part in y])
    return np.asarray(y).dtype


def fold_attributes(x: Tensor, dim: Dims, keepdim: bool) -> dict[str, Any]:
    if dim is None and keepdim is False:
        return WHOLE
    return {"dim": fold_dims(dim, x._array.ndim), "keepdim": need_bool("keepdim", keepdim)}


def fold_dims(dim: Dims, ndim: int) -> tuple[int, ...] | None:
    """Dimensions counted from the front, each once; None for all, which () stands for too."""
    if dim is None:
        return None
    if type(dim) is int and -ndim <= dim < ndim:
        return (dim if dim >= 0 else dim + ndim,)
    wanted = dim if isinstance(dim, (tuple, list)) else (dim,)
    dims = tuple([axis(d, ndim) for d in wanted])
    if len(dims) > 1 and len(set(dims)) != len(dims):
        twice = next(d for d in dims if dims.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims {list(dims)}")
    return dims if dims and ndim else None


def need_bool(argument: str, value: Any) -> bool:
    if value is True or value is False:
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    raise TypeError(f"argument '{argument}' must be bool, not {kind(value)}")


def restored(g: Tensor, x: Any, dim: tuple[int, ...] | None, keepdim: bool) -> Tensor:
    """A folded tensor with the dimensions of ``x`` back as size 1, ready to broadcast."""
    if keepdim or dim is None:
        return g
    return g.reshape([1 if i in dim else n for i, n in enumerate(x.shape)])


def spread(g: Any, shape: tuple[int, ...]) -> Any:
    """A tensor or array broadcast to ``shape``; a small array is written out."""
    if isinstance(g, Tensor):
        return g.expand(shape)
    if prod(shape) > SMALL:
        return np.broadcast_to(g, shape)
    y = np.empty(shape, g.dtype)
    y[...] = g
    return y


def terms(x: Any, dim: tuple[int, ...] | None) -> int:
    """How many elements are folded into one."""
    count = 1
    for i, n in enumerate(x.shape):
        if dim is None or i in dim:
            count *= n
    return count


def whole(
    op: Op, kernel: Callable[..., Any], general: Callable[..., Any], small: Any = None
) -> Callable[..., Any]:
    """``general`` with a short way for the everyday ``x.sum()`` of a floating-point tensor.

    ``small(x, None)`` is the kernel for small arrays, if another one is quicker for them.
    """

    @functools.wraps(general)
    def function(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if args or kwargs or not isinstance(input, Tensor):
            return general(input, *args, **kwargs)
        x = input._array
        state = local.state
        if state.trace is not None:
            return general(input)
        if (x.dtype is not FLOAT32 and x.dtype is not FLOAT64) or not x.size:
            return general(input)
        y = state.run(kernel, x) if x.size > SMALL or small is None else state.run(small, x, None)
        t = new(Tensor)
        t._array = np.asarray(y)
        if input._history is not None and state.grad:
            record_one(op, t, input, WHOLE)
        return t

    return function


class Sum(Fold):
    """The sum over all elements, or over the dimensions ``dim``.

    Integers and bools are summed as int64; ``dtype`` converts first.

    >>> rl.tensor([[1.0, 2.0], [3.0, 4.0]]).sum(dim=0)
    tensor([4., 6.])
    """

    samples = [
        S(T(3, 4)),
        S(T(3, 4), dim=1),
        S(T(2, 3, 4), dim=(0, -1), keepdim=True),
        S(T(2, 3), ()),
        S(T(0, 3), 0),
        S(T(), 0),
        S(T(3, 4), 0, dtype=dtypes.float64),
        S(T(70, 80), dim=0),
    ]

    arithmetic = True

    def make(self) -> Callable[..., Any]:
        return whole(self, add_up, super().make(), np.add.reduce)

    def check(
        self,
        input: Tensor,
        dim: Dims = None,
        keepdim: bool = False,
        *,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        x = need_tensor("sum", input)
        attrs = fold_attributes(x, dim, keepdim)
        if x._array.dtype.kind in "biu":
            target = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
            if target.category <= dtypes.INT:
                return (x,), {**attrs, "dtype": target}
            dtype = target
        return (x if dtype is None else x.to(dtype),), attrs

    def eager(self, x, *, dim, keepdim, dtype=None):
        if dtype is not None:
            return np.add.reduce(x, dim, dtype.numpy, keepdims=keepdim)
        if x.itemsize == 2:
            return add_up(x.astype(np.float32), dim, keepdim).astype(x.dtype)
        return add_up(x, dim, keepdim)

    def at(self, b, i, x, *, dim, keepdim, dtype=None):
        element = wide if dtype is None else lambda v: v.cast(kind_of(dtype.numpy))
        return reduced(b, "add", i, x, dim, keepdim, element)

    def vjp(self, g, _y, _x, *, dim, keepdim):
        return spread(g if dim is None else restored(g, _x, dim, keepdim), _x.shape)


def average(x: np.ndarray, dim: tuple[int, ...] | None = None, keepdim: bool = False) -> Any:
    if x.itemsize == 2:
        return average(x.astype(np.float32), dim, keepdim).astype(x.dtype)
    # A 0-d array is the quicker divisor of an array, a NumPy scalar that of another.
    if dim is None:
        return add_up(x, None, keepdim) / x.dtype.type(x.size)
    return add_up(x, dim, keepdim) / np.array(terms(x, dim), x.dtype)


class Mean(Fold):
    """The mean of all elements, or over the dimensions ``dim``; ``dtype`` converts first.

    >>> rl.tensor([[1.0, 2.0], [3.0, 6.0]]).mean(dim=1, keepdim=True)
    tensor([[1.5000],
            [4.5000]])
    """

    arithmetic = True
    samples = [
        S(T(3, 4)),
        S(T(3, 4), dim=1),
        S(T(2, 3, 4), dim=(0, 2), keepdim=True),
        S(T()),
        S(T(3, 4), 0, dtype=dtypes.float64),
        S(T(2, 3, dtype=dtypes.int64), dtype=dtypes.float32),
    ]
    errors = [
        *Fold.errors,
        Fails(RuntimeError, "Got: Long", T(3, dtype=dtypes.int64)),
        Fails(RuntimeError, "Optional dtype .* Got: Long", T(3), dtype=dtypes.int64),
    ]

    def make(self) -> Callable[..., Any]:
        return whole(self, average, super().make())

    def check(
        self,
        input: Tensor,
        dim: Dims = None,
        keepdim: bool = False,
        *,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        x = need_tensor("mean", input)
        if dtype is not None:
            x = x.to(need_floating("mean", "Optional", dtypes.as_dtype(dtype)))
        elif x._array.dtype.kind not in "fc":
            need_floating("mean", "Input", x.dtype)
        return (x,), fold_attributes(x, dim, keepdim)

    def eager(self, x, *, dim, keepdim):
        return average(x, dim, keepdim)

    def at(self, b, i, x, *, dim, keepdim):
        return reduced(b, "add", i, x, dim, keepdim) / terms(x, dim)

    def vjp(self, g, _y, _x, *, dim, keepdim):
        return spread(restored(g, _x, dim, keepdim) / terms(_x, dim), _x.shape)


def need_floating(op: str, which: str, dtype: dtypes.dtype) -> dtypes.dtype:
    if dtype.category < dtypes.FLOAT:
        raise RuntimeError(
            f"{op}(): could not infer output dtype. {which} dtype must be either a floating point "
            f"or complex dtype. Got: {dtype.storage_name}"
        )
    return dtype


class Prod(Fold):
    """The product of all elements, or over the dimension ``dim``.

    Integers and bools are multiplied as int64; ``dtype`` converts first.

    >>> rl.tensor([[1.0, 2.0], [3.0, 4.0]]).prod(dim=1)
    tensor([ 2., 12.])
    """

    fused = True
    samples = [
        S(T(3, 4)),
        S(T(3, 5), 1),
        S(T(3, 4), -2, keepdim=True),
        S(T(values=[1.5, 0.0, 2.0])),
        S(T(values=[[0.0, 0.0, 2.0], [0.0, 3.0, 1.0]]), dim=1),
        S(T(0, 3), 0),
        S(T()),
        S(T(2, 3), 0, dtype=dtypes.float64),
    ]
    errors = [
        Fails(TypeError, "'dim' must be int, not tuple", T(3, 4), (0, 1)),
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), 2),
    ]

    def check(
        self,
        input: Tensor,
        dim: int | None = None,
        keepdim: bool = False,
        *,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        x = need_tensor("prod", input)
        if dtype is not None:
            x = x.to(dtype)
        elif x._array.dtype.kind in "biu":
            x = x.to(dtypes.int64)
        if dim is not None:
            dim = axis(dim, x._array.ndim)
        return (x,), fold_attributes(x, dim, keepdim)

    @in_float32
    def eager(self, x, *, dim, keepdim):
        return np.multiply.reduce(x, dim, x.dtype, keepdims=keepdim)

    def at(self, b, i, x, *, dim, keepdim):
        return reduced(b, "mul", i, x, dim, keepdim)

    def vjp(self, g, _y, x, *, dim, keepdim):
        if dim is None:
            others = product_of_others(x.reshape(-1), 0).reshape(x.shape)
        else:
            others = product_of_others(x, dim[0])
        return restored(g, x, dim, keepdim) * conjugate(others)


def product_of_others(x: Tensor, dim: int) -> Tensor:
    """For each element the product of all others along ``dim``, by a tree of products.

    Without quotients it is right where elements are zero, and so are its own derivatives.
    """
    n = x.shape[dim]
    if n < 2:
        return ops.ones_like(x)
    if is_extent(n):  # a tree of any height is none
        return product_before(x, dim) * product_before(x.flip(dim), dim).flip(dim)
    half = n // 2
    a, b = x.narrow(dim, 0, half), x.narrow(dim, half, half)
    rest = x.narrow(dim, 2 * half, n % 2)
    others = product_of_others(ops.cat([a * b, rest], dim), dim)
    outside = others.narrow(dim, 0, half)
    return ops.cat([b * outside, a * outside, others.narrow(dim, half, n % 2)], dim)


def product_before(x: Tensor, dim: int) -> Tensor:
    """For each element the product of those before it along ``dim``."""
    one = ops.ones_like(x.narrow(dim, 0, 1))
    return ops.cat([one, x.narrow(dim, 0, x.shape[dim] - 1)], dim).cumprod(dim)


def truth(x: Any) -> Any:
    """Whether a scalar is not zero."""
    return x if x.kind == "b1" else wide(x).ne(0)


class Truth(Fold, abstract=True):
    """Folds of truth values: bool results, but uint8 of uint8; ``dim=()`` folds nothing."""

    differentiable = False
    samples = [
        S(T(3, 4)),
        S(T(3, 4, dtype=dtypes.bool_), dim=1),
        S(T(2, 3, 4), dim=(0, 2), keepdim=True),
        S(T(2, 3), ()),
        S(T(0, 3), 0),
        S(T(), 0),
        S(T(2, 3, dtype=dtypes.uint8), 1),
    ]
    combine: np.ufunc
    how: str

    def at(self, b, i, x, *, dim, keepdim):
        return reduced(b, self.how, i, x, dim, keepdim, truth)

    def check(self, input: Tensor, dim: Dims = None, keepdim: bool = False) -> Any:
        x = need_tensor(self.name, input)
        attrs = fold_attributes(x, dim, keepdim)
        if isinstance(dim, (tuple, list)) and not dim:
            attrs = {"dim": (), "keepdim": False}
        return (x,), attrs

    def eager(self, x, *, dim, keepdim):
        truth = x if x.dtype == np.bool_ else x != 0
        y = self.combine.reduce(truth, dim, keepdims=keepdim)
        return y.astype(np.uint8) if x.dtype == np.uint8 else y


class AllTrue(Truth):
    """Whether all elements are true (not zero), or all over the dimensions ``dim``.

    >>> rl.tensor([[True, False], [True, True]]).all(dim=1)
    tensor([False,  True])
    """

    name, how = "all", "and"
    combine = np.logical_and


class AnyTrue(Truth):
    """Whether any element is true (not zero), or any over the dimensions ``dim``.

    >>> rl.tensor([[True, False], [False, False]]).any(dim=1)
    tensor([ True, False])
    """

    name, how = "any", "or"
    combine = np.logical_or


class CountNonzero(Op):
    """How many elements are not zero, over the dimensions ``dim``.

    >>> rl.tensor([[1, 0, 2], [0, 0, 3]]).count_nonzero(dim=1)
    tensor([2, 1])
    """

    differentiable = False
    samples = [S(T(3, 4)), S(T(3, 4, dtype=dtypes.bool_), 1), S(T(2, 3, 4), (0, 2)), S(T())]
    errors = Fold.errors[:3]

    def check(self, input: Tensor, dim: Dims = None) -> Any:
        x = need_tensor("count_nonzero", input)
        return (x,), {"dim": fold_dims(dim, x._array.ndim)}

    def eager(self, x, *, dim):
        return np.asarray(np.count_nonzero(x, dim), np.int64)

    def at(self, b, i, x, *, dim):
        return reduced(b, "add", i, x, dim, False, lambda v: truth(v).cast("i64"))

    def folded(self, attrs, shape):
        return folded_dims(len(shape), attrs["dim"])


class Logsumexp(Fold):
    """log Σ exp(x) over the dimensions ``dim``, without overflow.

    >>> rl.tensor([[0.0, 0.0], [1000.0, 1000.0]]).logsumexp(dim=1)
    tensor([6.9315e-01, 1.0007e+03])
    """

    samples = [
        S(T(3, 4), 1),
        S(T(2, 3, 4), (0, 2), True),
        S(T(3, 4, low=-100, high=100), dim=0, keepdim=True),
        S(T(0, 3), 0),
        S(T(), 0),
        S(T(2, 3, dtype=dtypes.int64), 1),
    ]
    errors = Fold.errors[1:]

    def check(self, input: Tensor, dim: Dims, keepdim: bool = False) -> Any:
        x = need_tensor("logsumexp", input)
        if x._array.dtype.kind in "biu":
            x = x.to(dtypes.get_default_dtype())
        return (x,), fold_attributes(x, dim, keepdim)

    @in_float32
    def eager(self, x, *, dim, keepdim):
        top = np.maximum.reduce(x.real, dim, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, x.dtype.type(0))
        e = np.asarray(x - top)
        y = np.log(add_up(np.exp(e, out=e), dim, True)) + top
        return y if keepdim else y.squeeze(dim)

    def at(self, b, i, x, *, dim, keepdim):
        top = reduced(b, "max", i, x, dim, keepdim)
        top = b.where(b.unary("abs", top) < np.inf, top, 0)
        total = reduced(b, "add", i, x, dim, keepdim, lambda v: b.exp(wide(v) - top))
        return b.log(total) + top

    def vjp(self, g, y, x, *, dim, keepdim):
        share = (x - restored(y, x, dim, keepdim)).exp()
        return restored(g, x, dim, keepdim) * conjugate(share)


@composite(
    samples=[
        S(T(3, 4)),
        S(T(values=[[1.0, float("nan")], [2.0, 3.0]]), 0),
        S(T(2, 3, 4), (0, 2), True, dtype=dtypes.float64),
        S(T(3, dtype=dtypes.int64)),
    ],
    errors=[Fails(RuntimeError, "does not support complex", T(3, dtype=dtypes.complex64))],
)
def nansum(
    input: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The sum with NaN counted as zero.

    >>> rl.tensor([1.0, float("nan"), 2.0]).nansum()
    tensor(3.)
    """
    x = need_tensor("nansum", input)
    if x._array.dtype.kind == "c":
        raise RuntimeError(f"nansum does not support complex inputs, got {x.dtype}")
    y = without_nan(x).sum(dim, keepdim, dtype=dtype)
    return y if out is None else into(out, y)


def without_nan(x: Tensor) -> Tensor:
    return x if x._array.dtype.kind in "biu" else x.masked_fill(x.isnan(), 0)


@composite(
    samples=[
        S(T(3, 4)),
        S(T(values=[[1.0, float("nan")], [2.0, 3.0]]), 0),
        S(T(2, 3, 4), (0, 2), True, dtype=dtypes.float64),
    ],
    errors=[Fails(RuntimeError, "complex dtype but got Long", T(3, dtype=dtypes.int64))],
)
def nanmean(
    input: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: dtypes.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The mean of the elements that are not NaN.

    >>> rl.tensor([1.0, float("nan"), 2.0]).nanmean()
    tensor(1.5000)
    """
    x = need_tensor("nanmean", input)
    if x.dtype.category < dtypes.FLOAT:
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{x.dtype.storage_name}"
        )
    count = x.isnan().logical_not().sum(dim, keepdim)
    y = x.nansum(dim, keepdim, dtype=dtype) / count
    return y if out is None else into(out, y)


@composite(
    function=False,
    samples=[S(T(3, 4), (1, 4)), S(T(3, 4), (4,))],
    errors=[Fails(RuntimeError, r"is not expandable to size \[3, 4\]", T(3, 4), (2,))],
)
def sum_to_size(input: Tensor, *size: int | Sequence[int]) -> Tensor:
    """The sum over the dimensions that broadcasting ``size`` to this shape would repeat.

    >>> rl.ones(3, 4).sum_to_size(1, 4)
    tensor([[3., 3., 3., 3.]])
    """
    shape: Any = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    have = input._array.shape
    lead = len(have) - len(shape)
    if not is_expandable(shape, have):
        raise RuntimeError(f"size {list(shape)} is not expandable to size {list(have)}.")
    if not shape:
        return input.sum()
    dims = [
        i for i, h in enumerate(have) if i < lead or (is_one(shape[i - lead]) and not is_one(h))
    ]
    y = input.sum(dims, keepdim=True) if dims else input
    return y.reshape(shape) if lead else y
