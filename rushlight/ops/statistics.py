"""Spread: variance, standard deviation, covariance, correlation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.dims import greatest
from rushlight.kernels.summation import add_up, add_up_squares
from rushlight.ops.base import Op, composite, need_tensor, ops
from rushlight.ops.elements import folded_dims, reduced, wide
from rushlight.ops.reduce import (
    Dims,
    fold_attributes,
    folded_type,
    in_float32,
    restored,
    terms,
)
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor


class Spread(Op, abstract=True):
    """Ops of the squared distance to the mean: Σ|x - mean|² / (n - correction).

    The degrees of freedom may be given as ``unbiased`` (n - 1 or n) or as ``correction``.
    """

    samples: Sequence[S] = [
        S(T(3, 4)),
        S(T(3, 4), 1),
        S(T(3, 4), False),
        S(T(2, 3, 4), (0, 2), False, True),
        S(T(3, 4), dim=0, correction=0, keepdim=True),
        S(T(3, 4), correction=1.5),
        S(T(3, 4), unbiased=False),
    ]
    errors: Sequence[Fails] = [
        Fails(RuntimeError, "floating point and complex", T(3, dtype=dtypes.int64)),
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), 2),
        Fails(RuntimeError, "appears multiple times", T(3, 4), (1, 1)),
        Fails(TypeError, "either unbiased or correction", T(3, 4), 1, True, correction=1),
    ]

    def check(
        self,
        input: Tensor,
        dim: Dims | bool = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Any:
        x = need_tensor(self.name, input)
        if x._array.dtype.kind in "biu":
            raise RuntimeError(
                f"{self.name}(): std and var only support floating point and complex dtypes, "
                f"got {x.dtype}"
            )
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if unbiased is not None and correction is not None:
            raise TypeError(f"{self.name}(): give either unbiased or correction, not both")
        if correction is None:
            correction = 0 if unbiased is False else 1
        attrs = fold_attributes(x, dim, keepdim)
        if terms(x, attrs["dim"]) <= correction:
            warnings.warn(
                f"{self.name}(): degrees of freedom is <= 0. Correction should be strictly less "
                "than the reduction factor (input numel divided by output numel).",
                stacklevel=4,
            )
        return (x,), {**attrs, "correction": correction}

    def folded(self, attrs, shape):
        return folded_dims(len(shape), attrs["dim"])

    def infer(self, arrays, attrs):
        return folded_type(self, arrays[0], attrs)


def moments(x: np.ndarray, dim: Any, keepdim: bool, correction: float) -> tuple[Any, Any]:
    """The variance, and the mean with the folded dimensions kept, in two passes."""
    n = terms(x, dim)
    mean = add_up(x, dim, True) / np.array(n, x.dtype)
    total = add_up_squares(np.asarray(x - mean), dim, keepdim)
    return total / np.array(max(n - correction, 0), total.dtype), mean


def moments_at(
    b: Any, i: Any, x: Any, dim: Any, keepdim: bool, correction: float
) -> tuple[Any, Any]:
    """:func:`moments` for code generation: the variance and the mean at ``i``."""
    n = terms(x, dim)
    mean = reduced(b, "add", i, x, dim, keepdim) / n

    def square(v: Any) -> Any:
        distance = wide(v) - mean
        return distance * distance

    return reduced(b, "add", i, x, dim, keepdim, square) / greatest(n - correction, 0), mean


def spread_gradient(g: Tensor, x: Tensor, dim: Any, keepdim: bool, correction: float) -> Tensor:
    """The gradient of a variance whose gradient is ``g``."""
    freedom = max(terms(x, dim) - correction, 0)
    factor = 2 / freedom if freedom else np.inf
    return restored(g, x, dim, keepdim) * factor * (x - x.mean(dim, keepdim=True))


def through_root(g: Tensor, y: Tensor) -> Tensor:
    """The gradient of y² from that of y, a root; zero where y is."""
    return (g / (2 * y)).masked_fill(y == 0, 0)


class Var(Spread):
    """The variance over the dimensions ``dim``: Σ|x - mean|² / (n - correction).

    >>> rl.tensor([1.0, 2.0, 3.0, 4.0]).var()
    tensor(1.6667)
    >>> rl.tensor([1.0, 2.0, 3.0, 4.0]).var(unbiased=False)
    tensor(1.2500)
    """

    @in_float32
    def eager(self, x, *, dim, keepdim, correction):
        return moments(x, dim, keepdim, correction)[0]

    def at(self, b, i, x, *, dim, keepdim, correction):
        return moments_at(b, i, x, dim, keepdim, correction)[0]

    def vjp(self, g, _y, x, *, dim, keepdim, correction):
        return spread_gradient(g, x, dim, keepdim, correction)


class Std(Spread):
    """The standard deviation over the dimensions ``dim``, the root of the variance.

    >>> rl.tensor([1.0, 2.0, 3.0, 4.0]).std()
    tensor(1.2910)
    """

    @in_float32
    def eager(self, x, *, dim, keepdim, correction):
        return np.sqrt(moments(x, dim, keepdim, correction)[0])

    def at(self, b, i, x, *, dim, keepdim, correction):
        return b.unary("sqrt", moments_at(b, i, x, dim, keepdim, correction)[0])

    def vjp(self, g, y, x, *, dim, keepdim, correction):
        return spread_gradient(through_root(g, y), x, dim, keepdim, correction)


class VarMean(Spread):
    """The variance and the mean over the dimensions ``dim``, in one op.

    >>> rl.var_mean(rl.tensor([1.0, 2.0, 3.0, 4.0]))
    (tensor(1.6667), tensor(2.5000))
    """

    method = False

    @in_float32
    def eager(self, x, *, dim, keepdim, correction):
        variance, mean = moments(x, dim, keepdim, correction)
        return variance, mean if keepdim else mean.squeeze(dim)

    def at(self, b, i, x, *, dim, keepdim, correction):
        return moments_at(b, i, x, dim, keepdim, correction)

    def vjp(self, g, _y, x, *, dim, keepdim, correction):
        g_mean = restored(g[1], x, dim, keepdim) / terms(x, dim)
        return spread_gradient(g[0], x, dim, keepdim, correction) + g_mean


class StdMean(Spread):
    """The standard deviation and the mean over the dimensions ``dim``, in one op.

    >>> rl.std_mean(rl.tensor([1.0, 2.0, 3.0, 4.0]))
    (tensor(1.2910), tensor(2.5000))
    """

    method = False

    @in_float32
    def eager(self, x, *, dim, keepdim, correction):
        variance, mean = moments(x, dim, keepdim, correction)
        return np.sqrt(variance), mean if keepdim else mean.squeeze(dim)

    def at(self, b, i, x, *, dim, keepdim, correction):
        variance, mean = moments_at(b, i, x, dim, keepdim, correction)
        return b.unary("sqrt", variance), mean

    def vjp(self, g, y, x, *, dim, keepdim, correction):
        g_mean = restored(g[1], x, dim, keepdim) / terms(x, dim)
        g_var = through_root(g[0], y[0])
        return spread_gradient(g_var, x, dim, keepdim, correction) + g_mean


@composite(
    samples=[
        S(T(3, 5)),
        S(T(5)),
        S(T(3, 4), correction=0, fweights=T(values=[1, 2, 1, 3], dtype=dtypes.int64)),
        S(T(3, 4), aweights=T(values=[0.5, 1.0, 2.0, 1.5], grad=False)),
    ],
    errors=[
        Fails(RuntimeError, "two or fewer dimensions", T(2, 3, 4)),
        Fails(RuntimeError, "bool dtype is not supported", T(3, dtype=dtypes.bool_)),
        Fails(RuntimeError, "fweights to have integral dtype", T(2, 3), fweights=T(3)),
        Fails(RuntimeError, "same numel", T(2, 3), aweights=T(4)),
        Fails(RuntimeError, "cannot be negative", T(2, 2), aweights=T(values=[1.0, -1.0])),
    ],
)
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """The covariances of variables (rows) over observations (columns).

    Args:
        fweights: how often each observation was made
        aweights: how important each observation is

    >>> rl.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]).cov()
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    x = need_tensor("cov", input)
    if x.ndim > 2:
        raise RuntimeError(
            "cov(): expected input to have two or fewer dimensions but got an input with "
            f"{x.ndim} dimensions"
        )
    if x.dtype is dtypes.bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = x.reshape(1, -1) if x.ndim < 2 else x
    weights = cov_weights(x, fweights, aweights)
    weighted = x if weights is None else x * weights
    total: Any = x.shape[1] if weights is None else weights.sum()
    x = x - (weighted.sum(1, keepdim=True) / total)
    if weights is None or aweights is None or correction == 0:
        freedom = total - correction
    else:
        freedom = total - correction * (weights * aweights).sum() / total
    if freedom <= 0:
        warnings.warn("cov(): degrees of freedom is <= 0", stacklevel=2)
        freedom = 0
    other = x if weights is None else x * weights
    return (x.mm(other.t().conj()) / freedom).squeeze()


def cov_weights(x: Tensor, fweights: Tensor | None, aweights: Tensor | None) -> Tensor | None:
    """The product of the weights of the observations, checked."""
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is None:
            continue
        if w.ndim > 1:
            raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions")
        if w.dtype.is_floating_point != (name == "aweights"):
            kind = "floating point" if name == "aweights" else "integral"
            raise RuntimeError(f"cov(): expected {name} to have {kind} dtype but got {w.dtype}")
        if w.numel() != x.shape[1]:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the "
                f"input but got {w.numel()} != {x.shape[1]}"
            )
        if w.numel() and w.min() < 0:
            raise RuntimeError(f"cov(): {name} cannot be negative")
    if fweights is None or aweights is None:
        return aweights if fweights is None else fweights
    return fweights * aweights


@composite(
    samples=[S(T(3, 5)), S(T(5)), S(T(2, 2))],
    errors=[Fails(RuntimeError, "two or fewer dimensions", T(2, 3, 4))],
)
def corrcoef(input: Tensor) -> Tensor:
    """The correlation coefficients of variables (rows) over observations (columns).

    >>> rl.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]).corrcoef()
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if need_tensor("corrcoef", input).ndim > 2:
        raise RuntimeError(
            "corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{input.ndim} dimensions"
        )
    c = input.cov()
    if not c.ndim:
        return c / c
    deviation = c.diagonal().sqrt() if not c.is_complex() else c.diagonal().real.sqrt()
    return clipped(c / deviation.unsqueeze(1) / deviation.unsqueeze(0))


def clipped(c: Tensor) -> Tensor:
    if not c.is_complex():
        return c.clamp(-1, 1)
    return ops.complex(c.real.clamp(-1, 1), c.imag.clamp(-1, 1))
