"""The Box-Muller transform: uniform numbers in blocks of 16 become normal ones.

PyTorch's AVX2 kernel computes it in float32 with the polynomials of the Cephes library. They are
followed here step by step, rounding by rounding, so that the samples are that kernel's on every
machine. In float64 both call the C library.

Every operation rounds in one defined way, and all are operators, ufuncs or ``fused``, which is
:func:`multiply_add` or an instruction: the native code of :mod:`rushlight.codegen.random` is made
by calling these functions with vector registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .multiply_add import multiply_add

Floats = NDArray[Any]  # of float32 or float64
Fused = Callable[[Any, Any, Any], Any]  # a * b + c, rounded once

# The temporaries of one piece stay in the second-level cache.
_PIECE = 1 << 16


def box_muller(values: Floats) -> None:
    """Replace numbers from [0, 1), in blocks of 8 ``u`` and 8 ``v``, by standard normal samples.

    >>> values = np.linspace(0, 0.9, 16)
    >>> box_muller(values)
    >>> values[3].round(4), values[11].round(4)
    (np.float64(-0.3376), np.float64(-0.5319))
    """
    octet = np.dtype((np.void, 8 * values.itemsize))  # eight values that move as one
    for start in range(0, len(values), _PIECE):
        octets = values[start : start + _PIECE].view(octet)
        u, v = (octets[half::2].copy().view(values.dtype) for half in (0, 1))
        octets[0::2], octets[1::2] = (samples.view(octet) for samples in normal_pairs(u, v))


def normal_pairs(u: Floats, v: Floats, fused: Fused = multiply_add) -> tuple[Floats, Floats]:
    """``sqrt(-2 log(1 - u)) * (cos, sin)(2 pi v)`` of numbers from [0, 1)."""
    single = u.dtype == np.float32
    radius = _log(_ONE - u, fused) if single else libm_log(_ONE - u).astype(u.dtype)
    radius *= _MINUS_TWO
    radius = np.sqrt(radius, out=radius)
    cos, sin = _cos_sin(v, fused) if single else libm_cos_sin(v)
    cos *= radius
    sin *= radius
    return cos, sin


def _constants(dtype: type, *values: float) -> list[NDArray[Any]]:
    """Numbers as arrays without dimensions, with which NumPy's operators start soonest."""
    return [np.array(value, dtype) for value in values]


# The C library's functions; NumPy's own differ in the last place on some processors.
libm_log: Any = np.frompyfunc(math.log, 1, 1)
libm_log1p: Any = np.frompyfunc(math.log1p, 1, 1)
libm_cos: Any = np.frompyfunc(math.cos, 1, 1)
libm_sin: Any = np.frompyfunc(math.sin, 1, 1)

_ONE, _HALF, _FOUR, _TURN = _constants(np.float32, 1, 0.5, 4, 2 * math.pi)
_MINUS_HALF, _MINUS_TWO = _constants(np.float32, -0.5, -2)
_I1, _I2, _EXPONENT_SHIFT, _SIGN_SHIFT = _constants(np.int32, 1, 2, 23, 30)
_SQRT_HALF_BITS = np.array(math.sqrt(0.5), np.float32).view(np.int32)
_MINUS_QUARTER_TURN = _constants(
    np.float32, -1.5703125, -4.837512969970703e-4, -7.549789954891882e-8
)
# Minimax coefficients, highest power first.
_COS = _constants(np.float32, 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_SIN = _constants(np.float32, -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_LN2_HIGH, _LN2_LOW = _constants(np.float32, 0.693359375, -2.12194440e-4)
_LOG = _constants(
    np.float32,
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
    -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip


def _polynomial(coefficients: list[Any], x: Floats, fused: Fused) -> Floats:
    """``(… (c0 x + c1) x + …) x``: there is no constant term."""
    first, second, *others = coefficients
    y = fused(x, first, second)
    for c in others:
        y = fused(y, x, c)
    y *= x
    return y


def _log(x: Floats, fused: Fused) -> Floats:
    """``log(m 2^e) = log(m) + e log(2)``, with m from sqrt(1/2) to sqrt(2)."""
    bits = x.view(np.int32)
    exponent = (bits - _SQRT_HALF_BITS) >> _EXPONENT_SHIFT
    x = (bits - (exponent << _EXPONENT_SHIFT)).view(np.float32) - _ONE
    x2 = x * x
    e = exponent.astype(np.float32)
    y = fused(_polynomial(_LOG, x, fused), x2, e * _LN2_LOW)
    y -= x2 * _HALF
    x += y
    x += e * _LN2_HIGH
    return x


def libm_cos_sin(turns: Floats) -> tuple[Floats, Floats]:
    angle = turns * (2 * math.pi)
    return libm_cos(angle).astype(turns.dtype), libm_sin(angle).astype(turns.dtype)


def _cos_sin(turns: Floats, fused: Fused) -> tuple[Floats, Floats]:
    """Cosine and sine of ``2 pi turns``, from those of the distance to the nearest quarter turn."""
    quarter = (turns * _FOUR + _HALF).astype(np.int32)
    n = quarter.astype(np.float32)
    x = turns * _TURN
    for part in _MINUS_QUARTER_TURN:
        x = fused(n, part, x)
    x2 = x * x
    cos = fused(_polynomial(_COS, x2, fused), x2, x2 * _MINUS_HALF)
    cos += _ONE
    sin = fused(_polynomial(_SIN, x2, fused), x, x)
    # An odd number of quarters exchanges the two; bit 1 of the number is the sign.
    cos_bits, sin_bits = cos.view(np.int32), sin.view(np.int32)
    exchange = (cos_bits ^ sin_bits) & -(quarter & _I1)
    cos_bits ^= exchange
    sin_bits ^= exchange
    sin_bits ^= (quarter & _I2) << _SIGN_SHIFT
    cos_bits ^= (quarter + _I1 & _I2) << _SIGN_SHIFT
    return cos_bits.view(np.float32), sin_bits.view(np.float32)
