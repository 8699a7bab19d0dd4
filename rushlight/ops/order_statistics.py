"""Order statistics: median, quantiles, the k-th smallest, the most frequent."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.dims import is_extent
from rushlight.kernels.order import kth, order, pick, take
from rushlight.ops.base import Op, axis, composite, into, need_tensor, ops, registry
from rushlight.ops.extrema import DIM_SAMPLES, Choice, need_order
from rushlight.ops.reduce import in_float32
from rushlight.ops.results import result_type
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.verified import verified
from rushlight.tensor import Tensor, wrap

NAN = float("nan")


def middle(x: np.ndarray) -> np.ndarray:
    """The index of the lower median of each line of the last axis, or of its first NaN."""
    found = kth(x, max(x.shape[-1] - 1, 0) // 2)
    nan = x != x
    if not nan.any():
        return found
    return np.where(nan.any(-1, keepdims=True), nan.argmax(-1, keepdims=True), found)


def middle_of_numbers(x: np.ndarray) -> np.ndarray:
    """The index of the lower median of the elements that are not NaN."""
    count = np.count_nonzero(x == x, -1, keepdims=True)
    return take(order(x), np.maximum(count - 1, 0) // 2)


def pick_one(x: np.ndarray, dim: int, keepdim: bool, choose: Any) -> tuple[Any, Any]:
    """One element of each line along ``dim``, and its index."""
    values, indices = pick(x, dim, choose)
    if keepdim or not x.ndim:
        return values, indices
    return values.squeeze(dim), indices.squeeze(dim)


class MedianDim(Choice):
    """The median of each line along ``dim``, and its index."""

    result = result_type("median", "values", "indices")
    library = "an order statistic"

    @in_float32
    def eager(self, x, *, dim, keepdim):
        return pick_one(x, dim, keepdim, middle)


class NanmedianDim(Choice):
    """The median of the elements of each line that are not NaN, and its index."""

    result = result_type("nanmedian", "values", "indices")
    library = "an order statistic"

    @in_float32
    def eager(self, x, *, dim, keepdim):
        return pick_one(x, dim, keepdim, middle_of_numbers)


class Middle(Op, abstract=True):
    """The median of all elements; equal ones share the gradient evenly."""

    function = method = False
    operands = ("x",)
    library = "an order statistic"
    samples = [S(T(3, 4, distinct=True)), S(T(5, distinct=True)), S(T())]
    errors = [
        Fails(TypeError, "must be Tensor, not list", [1.0]),
        Fails(NotImplementedError, "'ComplexFloat'", T(3, dtype=dtypes.complex64)),
    ]

    def check(self, input: Tensor) -> Any:
        return (need_order("median", need_tensor("median", input)),), {}

    def vjp(self, g, y, x):
        chosen = (x == y).logical_or((x != x).logical_and(y != y))
        return g / chosen.sum() * chosen


class MedianAll(Middle):
    """The lower median of all elements; NaN if there is one among them."""

    @in_float32
    def eager(self, x):
        return middle_value(x.reshape(-1)) if (x == x).all() else x.dtype.type(np.nan)


class NanmedianAll(Middle):
    """The lower median of all elements that are not NaN."""

    @in_float32
    def eager(self, x):
        return middle_value(x[x == x])


def middle_value(line: np.ndarray) -> Any:
    half = (line.size - 1) // 2
    return np.partition(line, half)[half] if line.size else np.array(np.nan).astype(line.dtype)


median_all, median_dim = registry["median_all"].call, registry["median_dim"].call
nanmedian_all, nanmedian_dim = registry["nanmedian_all"].call, registry["nanmedian_dim"].call


@composite(
    samples=[S(T(3, 4, distinct=True)), *DIM_SAMPLES, S(T(values=[1.0, NAN, 2.0], grad=False), 0)],
    errors=[
        Fails(IndexError, "Expected reduction dim 0 to have non-zero size", T(0, 3), 0),
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), 2),
    ],
)
def median(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """The median, the lower one of two; along ``dim``, with its index. NaN if there is one.

    >>> rl.tensor([3.0, 1.0, 2.0, 4.0]).median()
    tensor(2.)
    """
    if dim is None:
        return median_all(input, out=out)
    return median_dim(input, dim, keepdim, out=out)


@composite(
    samples=[S(T(3, 4, distinct=True)), *DIM_SAMPLES, S(T(values=[1.0, NAN, 2.0], grad=False), 0)],
    errors=[
        Fails(IndexError, "Expected reduction dim 0 to have non-zero size", T(0, 3), 0),
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), 2),
    ],
)
def nanmedian(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Any = None
) -> Any:
    """The median of the elements that are not NaN; along ``dim``, with its index.

    >>> rl.tensor([3.0, float("nan"), 2.0, 4.0]).nanmedian()
    tensor(3.)
    """
    if dim is None:
        return nanmedian_all(input, out=out)
    return nanmedian_dim(input, dim, keepdim, out=out)


class Kthvalue(Choice):
    """The ``k``-th smallest element (from 1) of each line along ``dim``, and its index.

    >>> values, indices = rl.tensor([3.0, 1.0, 4.0, 2.0]).kthvalue(2)
    >>> values, indices
    (tensor(2.), tensor(3))
    """

    function = method = True
    result = result_type("kthvalue", "values", "indices")
    library = "an order statistic"
    samples = [
        S(T(3, 4, distinct=True), 2),
        S(T(2, 5, 3, distinct=True), 4, 1, True),
        S(T(values=[1.0, NAN, 2.0], grad=False), 3),
        S(T(), 1),
    ]
    errors = [
        Fails(RuntimeError, "selected number k out of range", T(3, 4), 5),
        Fails(RuntimeError, "selected number k out of range", T(3, 4), 0),
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), 1, 2),
    ]

    def check(self, input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
        operands, attrs = Choice.check(self, input, dim, keepdim)
        size = input.shape[attrs["dim"]] if input.ndim else 1
        if not 1 <= k <= size:
            raise RuntimeError(
                f"kthvalue(): selected number k out of range for dimension {attrs['dim']}: k={k} "
                f"of {size} elements"
            )
        return operands, {**attrs, "rank": (k if is_extent(k) else int(k)) - 1}

    @in_float32
    def eager(self, x, *, dim, keepdim, rank):
        return pick_one(x, dim, keepdim, lambda lines: kth(lines, rank))


class Mode(Choice):
    """The most frequent element of each line along ``dim`` (the smallest such), and its index.

    >>> values, indices = rl.tensor([3.0, 1.0, 3.0, 2.0]).mode()
    >>> values, indices
    (tensor(3.), tensor(2))
    """

    function = method = True
    result = result_type("mode", "values", "indices")
    library = "an order statistic"
    samples = [
        S(T(3, 4, distinct=True)),
        S(T(values=[[1.0, 2.0, 2.0], [1.0, 1.0, 0.0]], grad=False), 1, True),
        S(T(values=[[1.0, 2.0, 2.0], [1.0, 1.0, 0.0]], grad=False), dim=0),
        S(T()),
    ]

    def check(self, input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
        return Choice.check(self, input, dim, keepdim)

    @in_float32
    def eager(self, x, *, dim, keepdim):
        return pick_one(x, dim, keepdim, most_frequent)


def most_frequent(x: np.ndarray) -> np.ndarray:
    """The last index of the element with the longest run in each sorted line."""
    ranks = order(x)
    ordered = take(x, ranks)
    position = np.arange(x.shape[-1])
    start = np.zeros(x.shape, np.int64)
    start[..., 1:] = np.where(ordered[..., 1:] != ordered[..., :-1], position[1:], 0)
    run = position - np.maximum.accumulate(start, -1)
    return take(ranks, run.argmax(-1, keepdims=True))


INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")
QUANTILE_SAMPLES = [
    S(T(3, 4, distinct=True), 0.3),
    S(T(3, 4, distinct=True), 0.3, 1, True),
    S(T(3, 4, distinct=True), 0.5, keepdim=True),
    *(S(T(5, 4, distinct=True), 0.45, dim=0, interpolation=name) for name in INTERPOLATIONS[1:]),
    S(T(3, 5), T(values=[0.25, 0.6], grad=False), dim=1),
    S(T(values=[[1.0, NAN, 2.0], [3.0, 2.0, 1.0]], grad=False), 0.6, dim=1),
    S(T(), 0.5),
]
QUANTILE_ERRORS = [
    Fails(RuntimeError, "input tensor must be non-empty", T(0), 0.5),
    Fails(RuntimeError, "float or double dtype", T(3, dtype=dtypes.int64), 0.5),
    Fails(RuntimeError, r"range \[0, 1\] but got 1.5", T(3), 1.5),
    Fails(RuntimeError, "scalar or 1D tensor", T(3), T(2, 2)),
    Fails(RuntimeError, "but got up", T(3), 0.5, interpolation="up"),
    Fails(IndexError, r"range of \[-1, 0\], but got 1", T(3), 0.5, 1),
]


@composite(samples=QUANTILE_SAMPLES, errors=QUANTILE_ERRORS)
def quantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """The values below which the shares ``q`` of all elements lie, or of each line along ``dim``.

    A line with a NaN has the quantile NaN. ``interpolation`` says what lies between two elements:
    ``linear``, ``lower``, ``higher``, ``midpoint`` or ``nearest``. Several ``q`` come first in
    the result's shape.

    >>> rl.tensor([1.0, 2.0, 3.0, 4.0]).quantile(rl.tensor([0.25, 0.5]))
    tensor([1.7500, 2.5000])
    """
    x, q, lines = quantile_operands("quantile", input, q, dim, interpolation)
    n = lines.shape[-1]
    ranks = (q * (n - 1)).masked_fill(lines.narrow(-1, n - 1, 1).isnan(), n - 1)
    y = quantile_at(lines, ranks, interpolation, x, q, dim, keepdim)
    return y if out is None else into(out, y)


@composite(samples=QUANTILE_SAMPLES, errors=QUANTILE_ERRORS)
def nanquantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """:func:`quantile` of the elements that are not NaN.

    >>> rl.tensor([1.0, float("nan"), 2.0]).nanquantile(0.5)
    tensor(1.5000)
    """
    x, q, lines = quantile_operands("nanquantile", input, q, dim, interpolation)
    last = lines.isnan().logical_not().sum(-1, keepdim=True) - 1
    y = quantile_at(lines, (q * last).clamp(min=0), interpolation, x, q, dim, keepdim)
    return y if out is None else into(out, y)


def quantile_operands(
    op: str, x: Any, q: Any, dim: int | None, interpolation: str
) -> tuple[Tensor, Tensor, Tensor]:
    """The input, ``q`` as a tensor, and the sorted lines as the last dimension."""
    x = need_tensor(op, x)
    if not x.numel():
        raise RuntimeError(f"{op}() input tensor must be non-empty, got shape {list(x.shape)}")
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(f"{op}() input tensor must be either float or double dtype")
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{op}() q must be in the range [0, 1] but got {q}")
        q = wrap(np.array(q, x._array.dtype))
    elif q.ndim > 1:
        raise RuntimeError(f"{op}() q must be a scalar or 1D tensor, got shape {list(q.shape)}")
    elif q.dtype is not x.dtype:
        raise RuntimeError(f"{op}() q tensor must be same dtype as the input tensor")
    else:
        message = f"{op}() q values must be in the range [0, 1]"
        q = verified(q, (q >= 0) & (q <= 1), "RuntimeError", message)
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            f"{op}() interpolation must be one of linear, lower, higher, midpoint or nearest, but "
            f"got {interpolation}"
        )
    if dim is None:
        lines = x.reshape(-1).sort()[0]
    else:
        dim = axis(dim, x.ndim)
        lines = x.sort(dim)[0].movedim(dim, -1) if x.ndim else x.reshape(1)
    return x, q, lines


def quantile_at(
    lines: Tensor,
    ranks: Tensor,
    interpolation: str,
    x: Tensor,
    q: Tensor,
    dim: int | None,
    keepdim: bool,
) -> Tensor:
    """The elements of sorted lines at fractional ``ranks`` (…, number of q), in the final shape."""
    ranks = ranks.expand(*lines.shape[:-1], q.numel())
    if interpolation in ("lower", "higher", "nearest"):
        snap = {"lower": ops.floor, "higher": ops.ceil, "nearest": ops.round}[interpolation]
        y = lines.gather(-1, snap(ranks).to(dtypes.int64))
    else:
        floor = ranks.detach().floor()
        below = lines.gather(-1, floor.to(dtypes.int64))
        above = lines.gather(-1, ranks.detach().ceil().to(dtypes.int64))
        y = below.lerp(
            above, ops.full_like(ranks, 0.5) if interpolation == "midpoint" else ranks - floor
        )
    y = y.movedim(-1, 0) if q.ndim else y.squeeze(-1)
    if not keepdim or not x.ndim:
        return y
    if dim is None:
        return y.reshape(q.shape + (1,) * x.ndim)
    return y.unsqueeze(q.ndim + axis(dim, x.ndim))
