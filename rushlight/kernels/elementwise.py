"""How a formula becomes an elementwise kernel: blocks, dtypes, polynomials and pieces."""

from collections.abc import Callable
from functools import wraps

import numpy as np
from numpy.typing import NDArray

from rushlight.kernels import scalars

Array = NDArray[np.floating]
Formula = Callable[..., Array]
Polynomial = tuple[float, ...]
Rational = tuple[Polynomial, Polynomial]

# Temporaries of one block stay in the second-level cache.
BLOCK = 1 << 15


def elementwise(formula: Formula, native: bool = False) -> Formula:
    """Make a kernel over arrays of any shape from a formula over one-dimensional blocks.

    Arguments broadcast; the result has their common dtype, float32 or float64. float32 is
    computed in float64 and rounded once, unless the formula is `native` and takes either dtype.
    The formula must not write into its arguments; it takes the scalars of a program as well.
    """

    @wraps(formula)
    def kernel(*arguments: Array) -> Array:
        if scalars.is_scalar(arguments[0]):
            wide = arguments if native else [a.astype(np.float64) for a in arguments]
            return formula(*wide).astype(arguments[0].dtype)
        dtype = np.result_type(*arguments)
        compute = dtype if native else np.float64
        if len(arguments) == 1:
            out = np.empty_like(arguments[0])
            flat = [arguments[0].ravel("K")]
        else:
            arguments = np.broadcast_arrays(*arguments)
            out = np.empty(arguments[0].shape, dtype)
            flat = [argument.ravel() for argument in arguments]
        result = out.ravel("K")
        with np.errstate(all="ignore"):
            for start in range(0, out.size, BLOCK):
                block = slice(start, start + BLOCK)
                result[block] = formula(*[f[block].astype(compute, copy=False) for f in flat])
        return out

    return kernel


def polynomial(coefficients: Polynomial, t: Array) -> Array:
    """Horner's rule, highest power first."""
    if scalars.is_scalar(t):
        return scalars.horner(coefficients, t)
    first, *middle, last = coefficients
    y = first * t
    for c in middle:
        y += c
        y *= t
    y += last
    return y


def rational(table: Rational, t: Array) -> Array:
    """The quotient of two polynomials."""
    numerator, denominator = table
    y = polynomial(numerator, t)
    y /= polynomial(denominator, t)
    return y


def piecewise(arguments: tuple[Array, ...], *pieces: tuple[NDArray[np.bool_], Formula]) -> Array:
    """Each formula on the elements of its own condition, NaN where none holds.

    The conditions must exclude each other.
    """
    if scalars.is_scalar(arguments[0]):
        return scalars.piecewise(arguments, pieces)
    out = np.full_like(arguments[0], np.nan)
    for condition, formula in pieces:
        index = np.flatnonzero(condition)
        if index.size == out.size:
            return formula(*arguments)
        if index.size:
            out[index] = formula(*[a[index] for a in arguments])
    return out


def sinpi(x: Array) -> Array:
    """sin(pi x), exactly zero at the integers."""
    nearest = np.rint(x)
    y = np.sin(np.pi * (x - nearest))
    half = nearest / 2
    return np.where(half == np.floor(half), y, -y)
