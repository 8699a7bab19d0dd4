"""Norms of vectors, and distances between them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.errors import kind
from rushlight.kernels.engine import matmul
from rushlight.kernels.summation import add_up, add_up_squares
from rushlight.ops.base import Op, axis, composite, into, need_tensor, ops
from rushlight.ops.elements import reduced, wide
from rushlight.ops.reduce import (
    Dims,
    Fold,
    fold_attributes,
    in_float32,
    restored,
    terms,
)
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor, wrap

INFINITY = float("inf")
ORDERS = (2, 1, 3, 0.5, 1.5, -1, INFINITY, -INFINITY)


def norm_of(x: np.ndarray, p: float, dim: tuple[int, ...] | None, keepdim: bool) -> Any:
    """(Σ|x|ᵖ)^(1/p), and its limits for p = 0 and ±∞."""
    if p == 2:
        return np.sqrt(add_up_squares(x, dim, keepdim))
    if p == 0:
        return np.asarray(np.count_nonzero(x, dim, keepdims=keepdim), x.real.dtype)
    size = np.abs(x)
    if p == 1:
        return add_up(size, dim, keepdim)
    if math.isinf(p):
        limit: Any = np.maximum if p > 0 else np.minimum
        return limit.reduce(size, dim, keepdims=keepdim)
    return add_up(size**p, dim, keepdim) ** (1 / p)


def norm_at(b: Any, p: float, fold: Callable[[str, Callable[[Any], Any]], Any]) -> Any:
    """:func:`norm_of` for code generation: ``fold(how, term)`` folds terms of all elements."""
    if p == 2:
        return b.unary("sqrt", fold("add", lambda x: wide(x) * wide(x)))
    if p == 0:
        return fold("add", lambda x: wide(x).ne(0).cast("i64"))

    def size(x: Any) -> Any:
        return b.unary("abs", wide(x))

    if p == 1:
        return fold("add", size)
    if math.isinf(p):
        return fold("max" if p > 0 else "min", size)

    def power(x: Any, exponent: float) -> Any:
        return b.pow(x, b.constant(exponent, x.kind))

    return power(fold("add", lambda x: power(size(x), p)), 1 / p)


def norm_gradient(g: Tensor, y: Tensor, x: Tensor, p: float, dim: Any) -> Tensor | None:
    """The gradient of ``x``, whose norms along ``dim`` (kept) are ``y``; zero where they are."""
    if p == 0:
        return None
    if p == 1:
        return x.sgn() * g
    if p == 2:
        return x * (g / y).masked_fill(y == 0, 0)
    if math.isinf(p):
        size = x.abs()
        chosen = (size == y).logical_or(size != size)
        return x.sgn() * (g / chosen.sum(dim, keepdim=True) * chosen)
    scale = (g / y ** (p - 1)).masked_fill(y == 0, 0)
    if p > 2:
        return x * x.abs() ** (p - 2) * scale
    power = x.abs() ** (p - 1)
    return x.sgn() * (power.masked_fill(x == 0, 0) if p < 1 else power) * scale


class VectorNorm(Fold):
    """The p-norm (Σ|x|ᵖ)^(1/p) of all elements as one vector, or over the dimensions ``dim``.

    ``ord`` is p: inf is the largest, -inf the smallest magnitude, 0 counts what is not zero.

    >>> rl.linalg.vector_norm(rl.tensor([3.0, -4.0]))
    tensor(5.)
    """

    namespace = "linalg"
    method = False
    samples = [
        S(T(3, 4)),
        *(S(T(3, 4, low=0.5), p, 1) for p in ORDERS),
        S(T(2, 3, 4), 2, (0, 2), True),
        S(T(values=[0.0, 0.0], grad=False)),
        S(T(3, 4, grad=False), 0, dim=0),
        S(T(3), dtype=dtypes.float64),
        S(T(0, 3), dim=0),
        S(T()),
    ]
    errors = [
        Fails(RuntimeError, "Got Long", T(3, dtype=dtypes.int64)),
        Fails(TypeError, "'ord' .* must be Number, not str", T(3), "fro"),
        Fails(RuntimeError, "does not have an identity", T(0), INFINITY),
        Fails(RuntimeError, "does not have an identity", T(0, 3), -1, dim=0),
        Fails(RuntimeError, "without narrowing", T(3, dtype=dtypes.float64), dtype=dtypes.float32),
        Fails(IndexError, r"range of \[-1, 0\], but got 1", T(3), 2, 1),
    ]

    def check(
        self,
        x: Tensor,
        ord: float = 2,
        dim: Dims = None,
        keepdim: bool = False,
        *,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        need_tensor("linalg.vector_norm", x, "x")
        if isinstance(ord, bool) or not isinstance(ord, (int, float, np.number)):
            raise TypeError(
                f"linalg.vector_norm(): argument 'ord' (position 2) must be Number, not {kind(ord)}"
            )
        if x.dtype.category < dtypes.FLOAT:
            raise RuntimeError(
                "linalg.vector_norm: Expected a floating point or complex tensor as input. Got "
                f"{x.dtype.storage_name}"
            )
        if dtype is not None:
            x = x.to(norm_dtype(x, dtypes.as_dtype(dtype)))
        attrs = fold_attributes(x, dim, keepdim)
        if (ord < 0 or ord == INFINITY) and not terms(x, attrs["dim"]):
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the "
                f"operation does not have an identity. [shape {list(x.shape)}, dim={dim}]"
            )
        return (x,), {**attrs, "ord": float(ord)}

    @in_float32
    def eager(self, x, *, dim, keepdim, ord):
        return norm_of(x, ord, dim, keepdim)

    def at(self, b, i, x, *, dim, keepdim, ord):
        return norm_at(b, ord, lambda how, term: reduced(b, how, i, x, dim, keepdim, term))

    def vjp(self, g, y, x, *, dim, keepdim, ord):
        g, y = restored(g, x, dim, keepdim), restored(y, x, dim, keepdim)
        return norm_gradient(g, y, x, ord, dim)


def norm_dtype(x: Tensor, wanted: dtypes.dtype) -> dtypes.dtype:
    """``wanted`` if ``x`` can be converted to it before taking its norm."""
    if wanted.category < dtypes.FLOAT:
        raise RuntimeError(
            "linalg.vector_norm: dtype should be floating point or complex, but got "
            f"{wanted.storage_name}"
        )
    if wanted.category != x.dtype.category:
        raise RuntimeError(
            f"linalg.vector_norm: dtype should be real for real inputs and complex for complex "
            f"ones, but got {wanted.storage_name} for {x.dtype.storage_name}"
        )
    if dtypes.promote_types(x.dtype, wanted) is not wanted:
        raise RuntimeError(
            f"linalg.vector_norm: the dtype of the input ({x.dtype.storage_name}) should be "
            f"convertible without narrowing to the specified dtype ({wanted.storage_name})"
        )
    return wanted


@composite(
    samples=[
        S(T(3, 4)),
        S(T(3, 4), 1),
        S(T(3, 4), 2, 1),
        S(T(3, 4), "fro", (0, 1), True),
        S(T(3, 4), INFINITY, dim=0),
        S(T(3, 4), dtype=dtypes.float64),
        S(T()),
    ],
    errors=[
        Fails(RuntimeError, "Got Long", T(3, dtype=dtypes.int64)),
        Fails(RuntimeError, "Order abc not supported", T(3, 4), "abc"),
        Fails(RuntimeError, "dim must be a 2-tuple", T(2, 3, 4), "fro", (0, 1, 2)),
    ],
)
def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: dtypes.dtype | None = None,
) -> Tensor:
    """The norm of all elements, or over the dimensions ``dim``.

    ``p`` is a number for the p-norm of vectors, ``"fro"`` for the Frobenius norm (the 2-norm of
    all elements), or ``"nuc"`` for the sum of the singular values of matrices.

    >>> rl.tensor([[3.0, 4.0], [6.0, 8.0]]).norm(dim=1)
    tensor([ 5., 10.])
    """
    x = need_tensor("norm", input)
    if isinstance(p, str):
        if p not in ("fro", "nuc"):
            raise RuntimeError(f"linalg.matrix_norm: Order {p} not supported.")
        if isinstance(dim, (tuple, list)) and len(dim) > 2:
            raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}")
        if p == "nuc":
            pair = (-2, -1) if dim is None else dim
            return ops.linalg.matrix_norm(x, "nuc", pair, keepdim, dtype=dtype, out=out)
    order = 2 if p is None or p == "fro" else p
    return ops.linalg.vector_norm(x, order, dim, keepdim, dtype=dtype, out=out)


@composite(
    samples=[S(T(3, 4), T(3, 4)), S(T(3, 4), T(4), 1), S(T(3), T(3), p=INFINITY), S(T(), T())],
    errors=[
        Fails(RuntimeError, "must match", T(2, 3), T(2, 4)),
        Fails(RuntimeError, "Got Long", T(2, dtype=dtypes.int64), T(2, dtype=dtypes.int64)),
    ],
)
def dist(input: Tensor, other: Tensor, p: float = 2, *, out: Tensor | None = None) -> Tensor:
    """The p-norm of ``input - other``.

    >>> rl.dist(rl.tensor([1.0, 2.0]), rl.tensor([4.0, 6.0]))
    tensor(5.)
    """
    return ops.linalg.vector_norm(input - other, p, out=out)


@composite(
    inplace=True,
    samples=[S(T(3, 4), 2, 0, 1.0), S(T(2, 3, 4), 1, -1, 2.0), S(T(3, 4), 3, 1, 100.0)],
    errors=[
        Fails(RuntimeError, "non-positive-norm not supported", T(3, 4), 0, 0, 1.0),
        Fails(RuntimeError, "maxnorm to be >= 0 but got -1", T(3, 4), 2, 0, -1),
        Fails(RuntimeError, "at least 2 dimensions", T(3), 2, 0, 1.0),
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), 2, 2, 1.0),
    ],
)
def renorm(
    input: Tensor, p: float, dim: int, maxnorm: float, *, out: Tensor | None = None
) -> Tensor:
    """``input`` with each slice along ``dim`` scaled down to the p-norm ``maxnorm`` if beyond it.

    >>> rl.tensor([[3.0, 4.0], [0.3, 0.4]]).renorm(2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    x = need_tensor("renorm", input)
    if p <= 0:
        raise RuntimeError(f"renorm: non-positive-norm not supported, got p={p}")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if x.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {x.ndim} dimensions")
    dim = axis(dim, x.ndim)
    size = ops.linalg.vector_norm(x, p, [d for d in range(x.ndim) if d != dim], keepdim=True)
    y = x * ops.where(size > maxnorm, maxnorm / (size + 1e-7), 1.0)
    return y if out is None else into(out, y)


COMPUTE_MODES = {
    "use_mm_for_euclid_dist_if_necessary": 25,
    "use_mm_for_euclid_dist": 0,
    "donot_use_mm_for_euclid_dist": None,
}
CHUNK = 1 << 18  # differences held at once


class Cdist(Op):
    """The p-norm distances between each row of ``x1`` and each row of ``x2``, in batches.

    >>> rl.cdist(rl.tensor([[0.0, 0.0]]), rl.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """

    method = False
    samples = [
        S(T(3, 4), T(5, 4)),
        *(S(T(3, 4), T(5, 4), p) for p in (1, 1.5, 3, INFINITY)),
        S(T(3, 4, grad=False), T(5, 4, grad=False), 0),
        S(T(2, 1, 3, 2), T(4, 5, 2)),
        S(T(30, 2), T(4, 2)),
        S(T(0, 4), T(5, 4)),
        S(T(3, 0), T(5, 0)),
        S(T(3, 4), T(5, 4), compute_mode="donot_use_mm_for_euclid_dist"),
    ]
    errors = [
        Fails(RuntimeError, "same number of columns. X1: 3 X2: 4", T(2, 3), T(2, 4)),
        Fails(RuntimeError, "at least 2D tensors, X2 got: 1D", T(2, 3), T(3)),
        Fails(RuntimeError, "non-negative p values", T(2, 3), T(2, 3), -1),
        Fails(ValueError, "not a valid value for compute_mode", T(2, 3), T(2, 3), compute_mode="x"),
        Fails(
            RuntimeError, "floating-point dtypes, X1 got: Long", *[T(2, 3, dtype=dtypes.int64)] * 2
        ),
    ]

    def check(self, x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Any:
        for i, x in enumerate((x1, x2), 1):
            need_tensor("cdist", x, f"x{i}", i)
            if x.ndim < 2:
                raise RuntimeError(f"cdist only supports at least 2D tensors, X{i} got: {x.ndim}D")
            if not x.dtype.is_floating_point:
                raise RuntimeError(
                    f"cdist only supports floating-point dtypes, X{i} got: {x.dtype.storage_name}"
                )
        if x1.shape[-1] != x2.shape[-1]:
            raise RuntimeError(
                "X1 and X2 must have the same number of columns. "
                f"X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
            )
        if x1.dtype is not x2.dtype:
            raise RuntimeError(f"cdist: expected X2 of the dtype {x1.dtype} of X1, got {x2.dtype}")
        if p < 0:
            raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
        mode = compute_mode or "use_mm_for_euclid_dist_if_necessary"
        if mode not in COMPUTE_MODES:
            raise ValueError(f"{mode} is not a valid value for compute_mode")
        rows = COMPUTE_MODES[mode]
        product = p == 2 and rows is not None and max(x1.shape[-2], x2.shape[-2]) > rows
        return (x1, x2), {"p": float(p), "product": product}

    def eager(self, x1, x2, *, p, product):
        if x1.dtype in dtypes.HALF:
            wide = x1.astype(np.float32), x2.astype(np.float32)
            return self.eager(*wide, p=p, product=product).astype(x1.dtype)
        if product:
            return euclidean(x1, x2)
        batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        y = np.empty((*batch, x1.shape[-2], x2.shape[-2]), x1.dtype)
        step = max(CHUNK // max(math.prod(batch) * x2.shape[-2] * x2.shape[-1], 1), 1)
        for i in range(0, x1.shape[-2], step):
            difference = x1[..., i : i + step, None, :] - x2[..., None, :, :]
            if difference.shape[-1]:
                y[..., i : i + step, :] = norm_of(difference, p, (difference.ndim - 1,), False)
            else:
                y[..., i : i + step, :] = 0
        return y

    def at(self, b, i, x1, x2, *, p, product):
        def fold(how: str, term: Callable[[Any], Any]) -> Any:
            def part(k: Any) -> Any:
                first = x1.broadcast((*i[:-2], i[-2], k))
                return term(wide(first) - wide(x2.broadcast((*i[:-2], i[-1], k))))

            return b.fold(how, x1.shape[-1:], part)

        if not x1.shape[-1]:
            return b.constant(0, "f64")
        return norm_at(b, p, fold)

    def folded(self, attrs, *shapes):
        return ()

    def vjp_x1(self, g, y, x1, x2, *, p, product):
        if p == 2:
            w = (g / y).masked_fill(y == 0, 0)
            return x1 * w.sum(-1, keepdim=True) - w @ x2
        gradient = difference_gradient(g, y, x1, x2, p)
        return None if gradient is None else gradient.sum(-2)

    def vjp_x2(self, g, y, x1, x2, *, p, product):
        if p == 2:
            w = (g / y).masked_fill(y == 0, 0).transpose(-1, -2)
            return x2 * w.sum(-1, keepdim=True) - w @ x1
        gradient = difference_gradient(g, y, x1, x2, p)
        return None if gradient is None else -gradient.sum(-3)


def euclidean(x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
    """√(|a|² + |b|² - 2a·b) in double precision, since close points cancel."""
    a, b = x1.astype(np.float64, copy=False), x2.astype(np.float64, copy=False)
    square = matmul(a, np.swapaxes(b, -1, -2))
    square *= -2
    square += np.vecdot(a, a)[..., :, None]
    square += np.vecdot(b, b)[..., None, :]
    return np.sqrt(np.maximum(square, 0, out=square), out=square).astype(x1.dtype, copy=False)


def difference_gradient(g: Tensor, y: Tensor, x1: Tensor, x2: Tensor, p: float) -> Tensor | None:
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    return norm_gradient(g.unsqueeze(-1), y.unsqueeze(-1), difference, p, -1)


@composite(
    method=False,
    samples=[S(T(4, 3)), S(T(4, 3), 1), S(T(1, 3)), S(T(4, 3), INFINITY)],
    errors=[
        Fails(RuntimeError, "pdist only supports 2D tensors, got: 1D", T(3)),
        Fails(RuntimeError, "non-negative p values", T(3, 2), -1),
    ],
)
def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The p-norm distances between all pairs of rows, in the order (0, 1), (0, 2), …, (1, 2), ….

    >>> rl.pdist(rl.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]))
    tensor([5.0000, 1.0000, 4.2426])
    """
    x = need_tensor("pdist", input)
    if x.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {x.ndim}D")
    if p < 0:
        raise RuntimeError(f"pdist only supports non-negative p values, got {p}")
    first, second = np.triu_indices(len(x), 1)
    difference = x.index_select(0, wrap(first)) - x.index_select(0, wrap(second))
    return ops.linalg.vector_norm(difference, p, 1)
