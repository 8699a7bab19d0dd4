"""Exponentials, logarithms and the hyperbolic functions that are made of them."""

from __future__ import annotations

from rushlight.codegen.math.base import (
    FORMATS,
    INFINITY,
    NAN,
    Pair,
    absolute,
    clamp,
    expansion,
    number,
    polynomial,
    power_of_two,
    square_root,
    two_product,
)
from rushlight.codegen.math.coefficients import (
    ATANH,
    EXP,
    LN2,
    LOG,
    LOG2E,
    LOG10_2,
    LOG10E,
)
from rushlight.codegen.values import Builder, Value

LIMITS = {"f32": (-104.0, 89.0), "f64": (-746.0, 710.0)}
"""Beyond these exp(x) rounds to 0 and to infinity."""


def reduce_exp(b: Builder, x: Value) -> Pair:
    """(2ⁿ, r) with x = 2 n log(2) + r, |r| <= log(2).

    The step is 2 log(2) since exp(x) = 2ⁿ 2ⁿ exp(r) then has factors that never leave the range of
    exponents, and a result below the normal ones is rounded once.
    """
    form = FORMATS[x.kind]
    high, low = LN2[x.kind][:2]
    shifted = b.fma(x, LOG2E[x.kind][0] / 2, form.magic)
    n = shifted - form.magic
    r = b.fma(n, -2 * low, b.fma(n, -2 * high, x))
    scale = ((shifted.bits(form.integer) << form.digits) + form.one).bits(x.kind)
    return scale, r


def exp_minus_one(b: Builder, r: Value) -> Value:
    """exp(r) − 1 for |r| <= log(2)."""
    return b.fma(r * r, polynomial(b, EXP, r), r)


@expansion
def exp(b: Builder, x: Value) -> Value:
    """eˣ. Error: 1.5 ulp, in f64 1.5."""
    scale, r = reduce_exp(b, clamp(b, x, *LIMITS[x.kind]))
    return b.fma(exp_minus_one(b, r), scale, scale) * scale


@expansion
def exp2(b: Builder, x: Value) -> Value:
    """2ˣ. Error: 1.5 ulp, in f64 1.6."""
    form = FORMATS[x.kind]
    x = clamp(b, x, -form.bias - form.digits - 2.0, form.bias + 2.0)
    shifted = b.fma(x, 0.5, form.magic)
    f = b.fma(shifted - form.magic, -2.0, x)
    high, low = LN2[x.kind][:2]
    scale = ((shifted.bits(form.integer) << form.digits) + form.one).bits(x.kind)
    return b.fma(exp_minus_one(b, b.fma(f, high, f * low)), scale, scale) * scale


def half_expm1(b: Builder, x: Value) -> Value:
    """(eˣ − 1) / 2, which does not overflow before sinh does."""
    scale, r = reduce_exp(b, clamp(b, x, LIMITS[x.kind][0], LIMITS[x.kind][1] + 1))
    half = scale * 0.5
    return b.fma(half * exp_minus_one(b, r), scale, b.fma(half, scale, -0.5))


@expansion
def expm1(b: Builder, x: Value) -> Value:
    """eˣ − 1, as exact near 0 as elsewhere. Error: 1.6 ulp, in f64 2.0."""
    small = absolute(b, x) < LN2[x.kind][0]
    return b.where(small, b.where(x.eq(0), x, exp_minus_one(b, x)), half_expm1(b, x) * 2)


@expansion
def sigmoid(b: Builder, x: Value) -> Value:
    """1 / (1 + e⁻ˣ) = 2⁻ⁿ / (2⁻ⁿ + 2ⁿ eʳ) with −x = 2 n log(2) + r: nothing overflows.

    Error: 3.2 ulp, in f64 3.2.
    """
    form, most = FORMATS[x.kind], -LIMITS[x.kind][0]
    scale, r = reduce_exp(b, clamp(b, -x, -most, most))
    inverse = (2 * form.one - scale.bits(form.integer)).bits(x.kind)
    return inverse / (inverse + b.fma(exp_minus_one(b, r), scale, scale))


SATURATION = {"f32": 10.0, "f64": 20.0}
"""From here on tanh(x) rounds to 1."""


@expansion
def tanh(b: Builder, x: Value) -> Value:
    """The hyperbolic tangent: t / (t + 2) with t = exp(2|x|) − 1. Error: 2.5 ulp, in f64 2.4."""
    most = SATURATION[x.kind]
    scale, r = reduce_exp(b, clamp(b, absolute(b, x) * 2, 0.0, 2 * most))
    square = scale * scale
    t = b.fma(exp_minus_one(b, r), square, square - 1)
    return b.binary("copysign", t / (t + 2), x)


@expansion
def sinh(b: Builder, x: Value) -> Value:
    """The hyperbolic sine: h + h / (2h + 1) with h = (exp(|x|) − 1) / 2.

    Error: 2.4 ulp, in f64 3.4.
    """
    a = absolute(b, x)
    h = half_expm1(b, a)
    y = b.where(h < INFINITY, h + h / b.fma(h, 2, 1), h)
    y = b.where(a < FORMATS[x.kind].epsilon, a, y)
    return b.binary("copysign", y, x)


@expansion
def cosh(b: Builder, x: Value) -> Value:
    """The hyperbolic cosine: h + 1 / (4h) with h = exp(|x|) / 2. Error: 1.8 ulp, in f64 1.9."""
    a = absolute(b, x)
    scale, r = reduce_exp(b, clamp(b, a, 0.0, LIMITS[x.kind][1] + 1))
    half = scale * 0.5
    h = b.fma(exp_minus_one(b, r), half, half) * scale
    return h + b.constant(0.25, x.kind) / h


def mantissa(b: Builder, x: Value) -> Pair:
    """(n, m) with x = 2ⁿ m, √½ <= m < √2, for positive normal numbers; n an integer kind."""
    form = FORMATS[x.kind]
    bits = x.bits(form.integer)
    n = (bits - form.bits(0.5**0.5)) >> form.digits
    return n, (bits - (n << form.digits)).bits(x.kind)


def normal_mantissa(b: Builder, x: Value) -> Pair:
    """:func:`mantissa` of any positive number; n a number of the kind of x."""
    form = FORMATS[x.kind]
    tiny = x < form.least
    n, m = mantissa(b, b.where(tiny, x * 2.0 ** (form.digits + 1), x))
    return number(n - b.where(tiny, b.constant(form.digits + 1, n.kind), 0), form), m


def log1p_tail(b: Builder, f: Value) -> Value:
    """log(1 + f) − f for √½ <= 1 + f < √2."""
    if f.kind == "f32":
        return b.fma(polynomial(b, LOG, f), f, -0.5) * (f * f)
    s = f / (f + 2)
    z = s * s
    return s * b.fma(z, polynomial(b, ATANH, z), -f)  # f − 2s = s f


def outside(b: Builder, x: Value, y: Value) -> Value:
    """A logarithm of x that is y for positive finite numbers."""
    y = b.where(x < INFINITY, y, x)
    return b.where(x > 0, y, b.where(x.eq(0), b.constant(-INFINITY, x.kind), NAN))


@expansion
def log(b: Builder, x: Value) -> Value:
    """The natural logarithm. Error: 1.0 ulp, in f64 0.9."""
    n, m = normal_mantissa(b, x)
    f = m - 1
    high, low = LN2[x.kind][:2]
    return outside(b, x, b.fma(n, high, f + b.fma(n, low, log1p_tail(b, f))))


@expansion
def log1p(b: Builder, x: Value) -> Value:
    """log(1 + x), as exact near 0 as elsewhere. Error: 1.5 ulp, in f64 1.5."""
    form = FORMATS[x.kind]
    u = x + 1
    n, m = mantissa(b, b.where(u < INFINITY, u, 1))
    rest = b.where(x < 1, x - (u - 1), 1 - (u - x))  # of the rounding of u
    inverse = power_of_two(-b.min(n, form.bias - 1), form)
    f = b.where(n.eq(0), x, b.fma(rest, inverse, m - 1))
    high, low = LN2[x.kind][:2]
    k = number(n, form)
    y = b.fma(k, high, f + b.fma(k, low, log1p_tail(b, f)))
    return b.where(x.eq(0), x, outside(b, u, y))


def scaled_log(b: Builder, x: Value, factor: Pair, step: Pair) -> Value:
    """log(x)·factor, with step = log(2)·factor; both in two words."""
    n, m = normal_mantissa(b, x)
    f = m - 1
    product, error = two_product(b, f, factor[0])
    rest = b.fma(log1p_tail(b, f), factor[0], b.fma(f, factor[1], error))
    whole = b.fma(n, step[1], rest)
    return outside(b, x, b.fma(n, step[0], product + whole))


@expansion
def log2(b: Builder, x: Value) -> Value:
    """The logarithm to base 2; exact for powers of 2. Error: 1.1 ulp, in f64 1.1."""
    high, low = [b.constant(c, x.kind) for c in LOG2E[x.kind][:2]]
    return scaled_log(b, x, (high, low), (b.constant(1, x.kind), b.constant(0, x.kind)))


@expansion
def log10(b: Builder, x: Value) -> Value:
    """The logarithm to base 10. Error: 1.0 ulp, in f64 1.0."""
    high, low = [b.constant(c, x.kind) for c in LOG10E[x.kind][:2]]
    first, second = [b.constant(c, x.kind) for c in LOG10_2[x.kind][:2]]
    return scaled_log(b, x, (high, low), (first, second))


def log_of_double(b: Builder, big: Value, x: Value, otherwise: Value) -> Value:
    """log(2x) where x is big, else log1p(otherwise)."""
    high = LN2[x.kind][0]
    return log1p(b, b.where(big, x, otherwise)) + b.where(big, b.constant(high, x.kind), 0)


@expansion
def asinh(b: Builder, x: Value) -> Value:
    """log(x + √(x² + 1)). Error: 1.9 ulp, in f64 1.8."""
    a = absolute(b, x)
    square = a * a
    small = a + square / (square_root(b, square + 1) + 1)
    y = log_of_double(b, a > 2.0 / FORMATS[x.kind].epsilon, a, small)
    return b.binary("copysign", y, x)


@expansion
def acosh(b: Builder, x: Value) -> Value:
    """log(x + √(x² − 1)). Error: 2.3 ulp, in f64 2.2."""
    t = x - 1
    small = t + square_root(b, t * (t + 2))
    y = log_of_double(b, x > 2.0 / FORMATS[x.kind].epsilon, x, small)
    return b.where(x < 1, NAN, y)


@expansion
def atanh(b: Builder, x: Value) -> Value:
    """log((1 + x) / (1 − x)) / 2. Error: 2.2 ulp, in f64 2.2."""
    a = absolute(b, x)
    return b.binary("copysign", log1p(b, a * 2 / (1 - a)) * 0.5, x)
