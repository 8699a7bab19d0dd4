"""The error function and the gamma function's logarithm and its derivative."""

from __future__ import annotations

import math

from rushlight.codegen.math.base import (
    FORMATS,
    INFINITY,
    NAN,
    absolute,
    clamp,
    expansion,
    horner,
    polynomial,
    quick_two_sum,
    rare,
    rational,
    two_product,
)
from rushlight.codegen.math.coefficients import ERF, ERF_SMALL, ERFCX, HALF_PI
from rushlight.codegen.math.exponential import exp_minus_one, log, reduce_exp
from rushlight.codegen.math.trigonometry import cosine, sine
from rushlight.codegen.values import Builder, Value
from rushlight.kernels import tables

SLOPE = FORMATS["f32"].rounded(2 / math.sqrt(math.pi))
"""Of the error function at 0; ``ERF`` makes up for its rounding."""


@expansion
def erf(b: Builder, x: Value) -> Value:
    """The error function. Error: 2.1 ulp, in f64 2.7."""
    a = absolute(b, x)
    if x.kind == "f32":
        a = clamp(b, a, 0.0, 4.0)
        # 1 − erf(a) = exp(−u); u is smooth, and its relative error reaches erf diminished.
        u = b.fma(a, SLOPE, a * polynomial(b, ERF, a))
        scale, r = reduce_exp(b, -u)
        square = scale * scale
        y = (1 - square) - exp_minus_one(b, r) * square
    else:
        y = b.where(a < 1, a * polynomial(b, ERF_SMALL, a * a), 1 - upper(b, a))
    return b.binary("copysign", y, x)


def upper(b: Builder, a: Value) -> Value:
    """erfc(a) for a >= 0: exp(−a²) times a slowly varying factor."""
    most, middle, table = (10.1, 2, ERFCX["f32"]) if a.kind == "f32" else (27.3, 4, tables.ERFCX)
    a = clamp(b, a, 0.0, most)
    factor = horner(b, (a - middle) / (a + middle), table) / b.fma(a, 2, 1)
    square, rest = two_product(b, a, a)
    scale, r = reduce_exp(b, -square)
    return b.fma(exp_minus_one(b, r - rest), factor, factor) * scale * scale


@expansion
def erfc(b: Builder, x: Value) -> Value:
    """1 − erf(x), exact in its tail too. Error: 3.6 ulp, in f64 3.6."""
    a = absolute(b, x)
    far = upper(b, a)
    near = b.fma(-x, polynomial(b, ERF_SMALL, x * x), 1)
    return b.where(a < 0.5, near, b.where(x < 0, 2 - far, far))


def half_turns(b: Builder, x: Value) -> tuple[Value, Value]:
    """|sin(π x)| and |cos(π x)| of f64 numbers."""
    fraction = absolute(b, x - b.unary("rint", x))
    late = fraction > 0.25
    t = b.where(late, 0.5 - fraction, fraction)
    high, low = HALF_PI["f64"][:2]
    product, rest = two_product(b, t, b.constant(2 * high, "f64"))
    angle = quick_two_sum(product, b.fma(t, 2 * low, rest))
    s, c = sine(b, *angle), cosine(b, *angle)
    return b.where(late, c, s), b.where(late, s, c)


@expansion
def lgamma(b: Builder, x: Value) -> Value:
    """log|gamma(x)|: infinite at 0, −1, −2, … Error: 0.6 ulp, in f64 5.0."""
    if x.kind == "f32":
        return lgamma(b, x.cast("f64")).cast("f32")
    a = absolute(b, x)
    z = b.where(x >= 1, x - 1, a)  # lgamma(1 + z) first, which keeps the digits of a small z
    large = z >= 3
    w = z + 1
    logarithm = log(b, b.where(large, w, a))
    tail = rational(b, tables.STIRLING, 1 / (w * w)) / w
    stirling = (w - 0.5) * (logarithm - 1) + (tail + (math.log(2 * math.pi) - 1) / 2)
    small = z * (z - 1) * rational(b, tables.LGAMMA, z) + 0.0
    y = b.where(large, stirling, b.where(x >= 1, small, small - logarithm))
    one_more = b.where(large, stirling, small)
    reflected = math.log(math.pi) - log(b, half_turns(b, x)[0]) - one_more
    reflected = b.where(a < INFINITY, reflected, a)
    return rare(b, x < 0, reflected, y)


@expansion
def digamma(b: Builder, x: Value) -> Value:
    """The derivative of lgamma: −inf at 0, inf at −0, NaN at −1, −2, …

    Error: 0.6 ulp, in f64 5.0.
    """
    if x.kind == "f32":
        return digamma(b, x.cast("f64")).cast("f32")
    w = b.where(x >= 1, x, 1 + absolute(b, x))
    t = 1 / (w * w)
    large = log(b, w) - 0.5 / w - t * rational(b, tables.DIGAMMA_TAIL, t)
    high, low = tables.ROOTS[0]
    small = (w - high - low) * rational(b, tables.DIGAMMA, w)
    y = b.where(w < 4, small, large)
    s, c = half_turns(b, x)
    cotangent = b.binary("copysign", c / s * math.pi, x - b.unary("rint", x))
    reflected = y - b.where(s.eq(0), NAN, cotangent)
    return rare(b, x < 0, reflected, b.where(x >= 1, y, y - 1 / x))
