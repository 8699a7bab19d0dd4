"""Reductions and normalisations that leave out the elements where a mask is false.

A mask is a bool tensor that broadcasts to the input; none means that all elements count.
"""

from __future__ import annotations

import functools
from typing import Any

from rushlight import dtypes
from rushlight.ops.base import composite, need_tensor, ops
from rushlight.ops.reduce import Dims, fold_dims
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

MASK = T(values=[[True, False, True], [False, False, True]], dtype=dtypes.bool_)
FULL_ROWS = T(values=[[True, False, True], [True, True, True]], dtype=dtypes.bool_)
WRONG_MASK = Fails(IndexError, "more dimensions than the input", T(3), 0, mask=T(2, 3))

FOLD = [
    S(T(2, 3, distinct=True), 1),
    S(T(2, 3, distinct=True), 1, keepdim=True, mask=MASK),
    S(T(2, 3, distinct=True), (0, 1), mask=MASK),
    S(T(2, 3, distinct=True), mask=MASK),
    S(T(2, 3, distinct=True), 0, dtype=dtypes.float64, mask=FULL_ROWS),
]
LINE = [
    S(T(2, 3, distinct=True), 1),
    S(T(2, 3, distinct=True), 1, mask=FULL_ROWS),
    S(T(2, 3, distinct=True), 0, dtype=dtypes.float64),
]

masked = functools.partial(composite, namespace="masked", method=False)
fold = masked(samples=FOLD, errors=[WRONG_MASK])
line = masked(samples=LINE, errors=[WRONG_MASK])


def kept(input: Tensor, mask: Tensor | None, identity: Any) -> Tensor:
    """``input`` with ``identity`` where the mask is false."""
    need_tensor("masked", input)
    return (
        input
        if mask is None
        else input.masked_fill(whole_mask(input, mask).logical_not(), identity)
    )


def whole_mask(input: Tensor, mask: Tensor) -> Tensor:
    """The mask as bools of the shape of ``input``."""
    need_tensor("masked", mask, "mask")
    if mask.ndim > input.ndim:
        raise IndexError(
            "a mask may not have more dimensions than the input: got a mask of shape "
            f"{list(mask.shape)} for {list(input.shape)}"
        )
    return mask.to(dtypes.bool_).expand(input.shape)


def count(input: Tensor, dim: Dims, mask: Tensor | None, keepdim: bool) -> Tensor:
    """How many elements are folded into each result."""
    if mask is None:
        return ops.ones(input.shape, dtype=dtypes.int64).sum(dim, keepdim)
    return whole_mask(input, mask).sum(dim, keepdim)


def lowest(x: Tensor) -> float:
    return -float("inf") if x.dtype.category >= dtypes.FLOAT else dtypes.iinfo(x.dtype).min


def highest(x: Tensor) -> float:
    return float("inf") if x.dtype.category >= dtypes.FLOAT else dtypes.iinfo(x.dtype).max


def summed_dtype(x: Tensor, dtype: dtypes.dtype | None) -> dtypes.dtype:
    if dtype is not None:
        return dtypes.as_dtype(dtype)
    return dtypes.int64 if x.dtype.category < dtypes.FLOAT else x.dtype


@fold
def sum_(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The sum of the elements where ``mask`` is true.

    >>> rl.masked.sum(rl.tensor([1.0, 2.0, 3.0]), mask=rl.tensor([True, False, True]))
    tensor(4.)
    """
    return kept(input, mask, 0).sum(dim, keepdim, dtype=summed_dtype(input, dtype))


@fold
def prod(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The product of the elements where ``mask`` is true.

    >>> rl.masked.prod(rl.tensor([1.0, 2.0, 3.0]), mask=rl.tensor([True, False, True]))
    tensor(3.)
    """
    y = kept(input, mask, 1).to(summed_dtype(input, dtype))
    dims = fold_dims(dim, y.ndim)
    for d in sorted(range(y.ndim) if dims is None else dims, reverse=True):
        y = y.prod(d, keepdim)
    return y


@fold
def amax(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The largest of the elements where ``mask`` is true, -inf if there is none.

    >>> rl.masked.amax(rl.tensor([1.0, 2.0, 3.0]), mask=rl.tensor([True, True, False]))
    tensor(2.)
    """
    return kept(input, mask, lowest(input)).amax(dim, keepdim).to(dtype or input.dtype)


@fold
def amin(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The smallest of the elements where ``mask`` is true, inf if there is none.

    >>> rl.masked.amin(rl.tensor([1.0, 2.0, 3.0]), mask=rl.tensor([False, True, True]))
    tensor(2.)
    """
    return kept(input, mask, highest(input)).amin(dim, keepdim).to(dtype or input.dtype)


@line
def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The index of the largest element where ``mask`` is true, in the dtype of ``input``.

    >>> rl.masked.argmax(rl.tensor([1, 2, 3]), mask=rl.tensor([True, True, False]))
    tensor(1)
    """
    return kept(input, mask, lowest(input)).argmax(dim, keepdim).to(dtype or input.dtype)


@line
def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The index of the smallest element where ``mask`` is true, in the dtype of ``input``.

    >>> rl.masked.argmin(rl.tensor([1, 2, 3]), mask=rl.tensor([False, True, True]))
    tensor(1)
    """
    return kept(input, mask, highest(input)).argmin(dim, keepdim).to(dtype or input.dtype)


@masked(
    samples=[*FOLD[:2], *FOLD[3:]],
    errors=[WRONG_MASK, Fails(ValueError, "Got: .*int64", T(3, dtype=dtypes.int64))],
)
def mean(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean of the elements where ``mask`` is true, NaN if there is none.

    >>> rl.masked.mean(rl.tensor([1.0, 2.0, 3.0]), mask=rl.tensor([True, False, True]))
    tensor(2.)
    """
    kind = need_tensor("masked.mean", input).dtype if dtype is None else dtypes.as_dtype(dtype)
    if kind.category < dtypes.FLOAT:
        raise ValueError(
            "masked.mean(): Could not infer output dtype. It must be either a floating point or "
            f"complex dtype. Got: {kind}"
        )
    total = ops.masked.sum(input, dim, keepdim=keepdim, dtype=kind, mask=mask)
    return total / count(input, dim, mask, keepdim)


@line
def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The median of the elements along ``dim`` where ``mask`` is true, NaN if there is none.

    >>> rl.masked.median(rl.tensor([1.0, 2.0, 3.0]), mask=rl.tensor([False, True, True]))
    tensor(2.)
    """
    x = input if input.dtype.is_floating_point else input.to(dtypes.float32)
    y = kept(x, mask, float("nan")).nanmedian(dim, keepdim)[0]
    if x is input:
        return y
    if y.isnan().any():
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    return y.to(dtype or input.dtype)


@fold
def logsumexp(
    input: Tensor,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """log Σ exp of the elements where ``mask`` is true, -inf if there is none.

    >>> rl.masked.logsumexp(rl.zeros(3), mask=rl.tensor([True, False, True]))
    tensor(0.6931)
    """
    return kept(input, mask, lowest(input)).logsumexp(dim, keepdim).to(dtype or input.dtype)


@masked(
    samples=[S(T(3), T(3)), S(T(2, 3, grad=False), T(2, 3, grad=False), input_mask=MASK)],
    errors=[Fails(IndexError, "more dimensions than the input", T(3), T(3), input_mask=T(2, 3))],
)
def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: dtypes.dtype | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp a + exp b) with masked-out elements counted as -inf.

    >>> rl.masked.logaddexp(rl.zeros(2), rl.zeros(2), other_mask=rl.tensor([True, False]))
    tensor([0.6931, 0.0000])
    """
    a, b = kept(input, input_mask, lowest(input)), kept(other, other_mask, lowest(other))
    return a.logaddexp(b).to(dtype or input.dtype)


@masked(
    samples=[
        S(T(2, 3, low=0.5), 2, 1, mask=FULL_ROWS),
        S(T(2, 3, low=0.5), 1, mask=FULL_ROWS),
        S(T(2, 3, low=0.5), float("-inf"), 1, keepdim=True, mask=FULL_ROWS),
        S(T(2, 3, low=0.5), dim=0),
    ],
    errors=[Fails(IndexError, "more dimensions than the input", T(3), 2, 0, mask=T(2, 3))],
)
def norm(
    input: Tensor,
    ord: float = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The vector norm of the elements where ``mask`` is true.

    >>> rl.masked.norm(rl.tensor([3.0, 9.0, 4.0]), mask=rl.tensor([True, False, True]))
    tensor(5.)
    """
    identity = float("inf") if ord == -float("inf") else 0
    return ops.linalg.vector_norm(kept(input, mask, identity), ord, dim, keepdim, dtype=dtype)


def variance(
    input: Tensor,
    dim: Dims,
    unbiased: bool | None,
    correction: float | None,
    keepdim: bool,
    dtype: dtypes.dtype | None,
    mask: Tensor | None,
) -> Tensor:
    if unbiased is not None and correction is not None:
        raise TypeError("masked.var(): give either unbiased or correction, not both")
    if correction is None:
        correction = 0 if unbiased is False else 1
    kind = need_tensor("masked.var", input).dtype if dtype is None else dtypes.as_dtype(dtype)
    if dtype is None and kind.category < dtypes.FLOAT:
        kind = dtypes.float32
    work = kind if kind.category >= dtypes.FLOAT else dtypes.float32
    total = ops.masked.sum(input, dim, keepdim=True, dtype=kind, mask=mask)
    distance = input - total / count(input, dim, mask, True)
    square = distance * distance.conj()
    y = ops.masked.sum(square, dim, keepdim=keepdim, dtype=work, mask=mask)
    freedom = (count(input, dim, mask, keepdim).to(work.to_real()) - correction).clamp(min=0)
    return (y / freedom).to(kind)


SPREAD = [
    S(T(2, 3), 1),
    S(T(2, 3), 1, False, keepdim=True, mask=FULL_ROWS),
    S(T(2, 3), mask=MASK, correction=0),
    S(T(2, 3), (0, 1), mask=FULL_ROWS, dtype=dtypes.float64),
]


@masked(samples=SPREAD, errors=[WRONG_MASK])
def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance of the elements where ``mask`` is true.

    >>> rl.masked.var(rl.tensor([1.0, 9.0, 3.0]), mask=rl.tensor([True, False, True]))
    tensor(2.)
    """
    return variance(input, dim, unbiased, correction, keepdim, dtype, mask)


@masked(samples=SPREAD, errors=[WRONG_MASK])
def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: dtypes.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation of the elements where ``mask`` is true.

    >>> rl.masked.std(rl.tensor([1.0, 9.0, 3.0]), mask=rl.tensor([True, False, True]))
    tensor(1.4142)
    """
    return variance(input, dim, unbiased, correction, keepdim, dtype, mask).sqrt()


@line
def cumsum(
    input: Tensor, dim: int, *, dtype: dtypes.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Running sums along ``dim`` of the elements where ``mask`` is true.

    >>> rl.masked.cumsum(rl.tensor([1.0, 2.0, 3.0]), 0, mask=rl.tensor([True, False, True]))
    tensor([1., 1., 4.])
    """
    return kept(input, mask, 0).cumsum(dim, dtype=dtype or input.dtype)


@line
def cumprod(
    input: Tensor, dim: int, *, dtype: dtypes.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Running products along ``dim`` of the elements where ``mask`` is true.

    >>> rl.masked.cumprod(rl.tensor([1.0, 2.0, 3.0]), 0, mask=rl.tensor([True, False, True]))
    tensor([1., 1., 3.])
    """
    return kept(input, mask, 1).cumprod(dim, dtype=dtype or input.dtype)


@line
def softmax(
    input: Tensor, dim: int, *, dtype: dtypes.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Softmax along ``dim`` over the elements where ``mask`` is true; zero elsewhere.

    >>> rl.masked.softmax(rl.zeros(3), 0, mask=rl.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return kept(input, mask, lowest(input)).softmax(dim, dtype=dtype or input.dtype)


@masked(samples=[LINE[0], S(T(2, 3, grad=False), 1, mask=FULL_ROWS)], errors=[WRONG_MASK])
def log_softmax(
    input: Tensor, dim: int, *, dtype: dtypes.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of softmax along ``dim`` over the elements where ``mask`` is true.

    >>> rl.masked.log_softmax(rl.zeros(3), 0, mask=rl.tensor([True, False, True]))
    tensor([-0.6931,    -inf, -0.6931])
    """
    return kept(input, mask, lowest(input)).log_softmax(dim, dtype=dtype or input.dtype)


@line
def softmin(
    input: Tensor, dim: int, *, dtype: dtypes.dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """Softmax of -input along ``dim`` over the elements where ``mask`` is true.

    >>> rl.masked.softmin(rl.zeros(3), 0, mask=rl.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return (-kept(input, mask, highest(input))).softmax(dim, dtype=dtype or input.dtype)


@masked(
    samples=[S(T(2, 3, low=0.5), 2, 1, mask=FULL_ROWS), S(T(2, 3, low=0.5), 1, 0)],
    errors=[Fails(IndexError, "more dimensions than the input", T(3), 2, 0, mask=T(2, 3))],
)
def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: dtypes.dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The elements where ``mask`` is true divided by their norm along ``dim``; zero elsewhere.

    >>> rl.masked.normalize(rl.tensor([3.0, 9.0, 4.0]), 2, 0, mask=rl.tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    size = ops.masked.norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return kept(input, mask, 0) / size.clamp(min=eps)
