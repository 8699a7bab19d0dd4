"""Rounding to integers and decimals, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.ops.base import need_tensor
from rushlight.ops.elementwise import Formula, zero
from rushlight.ops.families import Unary
from rushlight.ops.samples import Fails, S, T, unary_samples
from rushlight.tensor import Tensor


class Rounding(Unary, abstract=True):
    """A function to integers: constant between its jumps, the identity on integers."""

    kinds = "if"
    arithmetic = True
    samples = unary_samples(0, 0.4)

    def kernel(self, numpy_dtype: np.dtype) -> Callable[..., Any]:
        return np.positive if numpy_dtype.kind in "iu" else super().kernel(numpy_dtype)

    def vjp(self, g, _y, _x):
        return zero(g)


class Floor(Rounding):
    """The largest integer that is not above the element.

    >>> rl.tensor([1.7, -1.7]).floor()
    tensor([ 1., -2.])
    """

    eager = np.floor


class Ceil(Rounding):
    """The smallest integer that is not below the element.

    >>> rl.tensor([1.2, -1.7]).ceil()
    tensor([ 2., -1.])
    """

    eager = np.ceil


class Trunc(Rounding):
    """The integer part of the element.

    >>> rl.tensor([1.7, -1.7]).trunc()
    tensor([ 1., -1.])
    """

    aliases = ("fix",)
    eager = np.trunc


class Frac(Unary):
    """What :func:`trunc` takes away: ``input - trunc(input)``.

    >>> rl.tensor([1.5, -1.5]).frac()
    tensor([ 0.5000, -0.5000])
    """

    kinds = "f"
    arithmetic = True
    samples = unary_samples(0.1, 0.9)

    def eager(self, x):
        return x - np.trunc(x)

    def vjp(self, g, _y, _x):
        return g


class Round(Formula):
    """The nearest integer, halves to even; or the nearest number of ``decimals`` decimals.

    >>> rl.tensor([0.5, 1.5, 2.7]).round()
    tensor([0., 2., 3.])
    >>> rl.round(rl.tensor([1234.567]), decimals=-2)
    tensor([1200.])
    """

    kinds = "if"
    samples = [*unary_samples(0, 0.4), S(T(3, low=0, high=0.4, dtype=dtypes.float64), decimals=-1)]
    errors = [Fails(TypeError, "must be Tensor, not float", 1.5)]

    def check(self, input: Tensor, *, decimals: int = 0) -> Any:
        x = need_tensor("round", input)
        if decimals and x._array.dtype.kind in "iu":
            raise NotImplementedError(
                f"\"round\" with decimals={decimals} not implemented for '{x.dtype.storage_name}'"
            )
        return (x,), {"decimals": decimals}

    def eager(self, x, *, decimals):
        if x.dtype.kind in "iu":
            return x.copy()
        if not decimals:
            return np.rint(x)
        scale = x.dtype.type(10 ** abs(decimals))
        return np.rint(x * scale) / scale if decimals > 0 else np.rint(x / scale) * scale

    def vjp(self, g, _y, _x, *, decimals):
        return zero(g)
