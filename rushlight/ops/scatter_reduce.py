"""Values scattered over elements and folded with them: products, extremes, means."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.kernels.accumulate import fold
from rushlight.kernels.indices import places
from rushlight.ops.base import Op, composite, into, ops, registry
from rushlight.ops.indexing import at
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.scatter import REPEATED, aligned, located, source_along
from rushlight.ops.scattering import scattering
from rushlight.tensor import Tensor

FOLDS = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
COMBINED = {"prod": "mul", "amax": "max", "amin": "min"}


class ScatterFold(Op):
    """``x`` with each element multiplied by, or replaced by the extreme of itself and, all values
    that are scattered to it."""

    function = method = False

    def check(self, x: Tensor, src: Tensor, index: Tensor, dim: int, reduce: str) -> Any:
        return (x, src, index), {"dim": dim, "reduce": reduce}

    def eager(self, x, src, index, *, dim, reduce):
        y = x.copy()
        if index.size:
            target, index = aligned(y, index, dim)
            fold(FOLDS[reduce], target, places(index, dim, target.shape), src)
        return y

    def scatter(self, b, x, src, index, *, dim, reduce):
        return scattering(b, COMBINED[reduce], x, src, index, dim)

    def vjp(self, g, y, x, src, index, *, dim, reduce):
        rule = product_gradients if reduce == "prod" else extreme_gradients
        return *rule(g, y, x, src, index, dim), None


def extreme_gradients(
    g: Tensor, y: Tensor, x: Tensor, src: Tensor, index: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    """All elements that equal the extreme share its gradient evenly."""
    from_x, from_src = (x == y).to(g.dtype), (src == y.gather(dim, index)).to(g.dtype)
    share = g / from_x.scatter_add(dim, index, from_src)
    return share * from_x, share.gather(dim, index) * from_src


def product_gradients(
    g: Tensor, y: Tensor, x: Tensor, src: Tensor, index: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    """The product of all other factors: y / factor, or of the others where a factor alone is 0."""
    none_x, none_src = x == 0, src == 0
    rest_x, rest_src = x.masked_fill(none_x, 1), src.masked_fill(none_src, 1)
    zeros = none_x.to(dtypes.int64).scatter_add(dim, index, none_src.to(dtypes.int64))
    others = g * scatter_fold(rest_x, rest_src, index, dim, "prod")
    single = others.masked_fill(zeros != 1, 0)
    whole = g * y
    return (
        ops.where(none_x, single, whole / rest_x),
        ops.where(none_src, single.gather(dim, index), whole.gather(dim, index) / rest_src),
    )


scatter_fold = registry["scatter_fold"].call
OLD, NEW = (T(3, 4, distinct=True, low=low, high=2.2) for low in (0.5, 0.7))


@composite(
    inplace=True,
    samples=[
        *[
            S(OLD, 1, at([0, 3, 3, 3], [1, 1, 0, 0]), NEW, reduce, include_self=include)
            for reduce in ("sum", "prod", "mean", "amax", "amin")
            for include in (True, False)
        ],
        S(T(), 0, at(0, 0), T(2), "mean"),
        S(T(3), 0, T(0, dtype=dtypes.int64), T(0), "prod"),
        S(T(values=[0.0, 2.0, 5.0]), 0, at(0, 1, 1, 2), T(values=[3.0, 0.0, 4.0, 0.0]), "prod"),
    ],
    errors=[
        Fails(RuntimeError, "must be either sum, prod, mean, amax or amin", *REPEATED.args, "max"),
        Fails(RuntimeError, "index 4 is out of bounds", T(3, 4), 1, at([4]), T(1, 1), "amax"),
        Fails(RuntimeError, "self.dtype to be equal to src", T(3), 0, at(0), at(1), "sum"),
    ],
)
def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """A copy whose elements are folded with the elements of ``src`` that ``index`` sends to them.

    Args:
        reduce: ``"sum"``, ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.
        include_self: whether the old element takes part.

    >>> x, i = rl.tensor([1.0, 2.0]), rl.tensor([0, 0, 1])
    >>> x.scatter_reduce(0, i, rl.tensor([3.0, 5.0, 1.0]), "amax")
    tensor([5., 2.])
    """
    if reduce not in ("sum", "mean", *FOLDS):
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    src, d = located("scatter_reduce", input, dim, index, src)
    x = input if include_self else ops.scatter(input, d, index, neutral(reduce, input.dtype))
    if reduce in FOLDS:
        y = scatter_fold(x, src, index, d, reduce)
    else:
        y = ops.scatter_add(x, d, index, src)
    if reduce == "mean":
        start = ops.ones_like(x, dtype=dtypes.int64)
        if not include_self:
            start.scatter_(d, index, 0)
        count = start.scatter_add_(d, index, ops.ones_like(index, dtype=dtypes.int64))
        y = y // count.to(y.dtype) if y._array.dtype.kind in "biu" else y / count
    return y if out is None else into(out, y)


def neutral(reduce: str, dtype: dtypes.dtype) -> Any:
    """The number that changes nothing when it takes part."""
    if reduce not in ("amax", "amin"):
        return int(reduce == "prod")
    if dtype is dtypes.bool_:
        return reduce == "amin"
    if dtype.is_floating_point:
        return float("-inf" if reduce == "amax" else "inf")
    limits = dtypes.iinfo(dtype)
    return limits.min if reduce == "amax" else limits.max


@composite(
    inplace=True,
    samples=[
        S(OLD, 0, at(2, 0, 2), NEW, reduce, include_self=include)
        for reduce in ("prod", "mean", "amax", "amin")
        for include in (True, False)
    ],
    errors=[
        Fails(RuntimeError, "one of prod, mean, amax or amin", T(3), 0, at(0), T(1), "sum"),
        Fails(IndexError, "index 3 is out of bounds for dimension 0", T(3), 0, at(3), T(1), "prod"),
        Fails(IndexError, "Index is supposed to be a vector", T(3), 0, at([0]), T(1), "prod"),
        Fails(RuntimeError, r"indices \(2\) should be equal", T(3), 0, at(0, 1), T(1), "prod"),
    ],
)
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """A copy whose entries at the positions ``index`` of ``dim`` are folded with ``source``'s.

    Args:
        reduce: ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.
        include_self: whether the old entries take part.

    >>> x = rl.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> x.index_reduce(0, rl.tensor([0, 0]), rl.tensor([[5.0, 1.0], [2.0, 1.0]]), "amax")
    tensor([[5., 2.],
            [3., 4.]])
    """
    if reduce not in ("mean", *FOLDS):
        raise RuntimeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin "
            f"but got {reduce}."
        )
    d = source_along("index_reduce", input, dim, index, source)
    shape = input._array.shape or (1,)
    source = source.reshape((*shape[:d], index._array.size, *shape[d + 1 :]))
    # To look the positions up is to check them: the error is that of this dimension.
    positions = ops.arange(shape[d]).reshape([-1 if k == d else 1 for k in range(len(shape))])
    index = positions.index_select(d, index).expand_as(source)
    return ops.scatter_reduce(input, d, index, source, reduce, include_self=include_self, out=out)
