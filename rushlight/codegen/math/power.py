"""Powers, roots and remainders."""

from __future__ import annotations

from rushlight.codegen.math.base import (
    FORMATS,
    INFINITY,
    NAN,
    Pair,
    absolute,
    add_pairs,
    clamp,
    even_odd,
    expansion,
    multiply_pairs,
    polynomial,
    power_of_two,
    quick_two_sum,
    rare,
    signed,
    square_root,
    two_product,
)
from rushlight.codegen.math.coefficients import ATANH, ATANH_TAIL, EXP, LN2, THIRD
from rushlight.codegen.math.exponential import exp_minus_one, normal_mantissa, reduce_exp
from rushlight.codegen.values import Builder, Value


@expansion
def rsqrt(b: Builder, x: Value) -> Value:
    """1 / √x. Error: 1.5 ulp, in f64 1.5."""
    return 1 / square_root(b, x)


def exact_log(b: Builder, x: Value) -> Pair:
    """The logarithm of a positive finite f64 number in two words."""
    n, m = normal_mantissa(b, x)
    f = m - 1
    bottom, lost = quick_two_sum(b.constant(2, x.kind), f)
    s = f / bottom
    # What the quotient leaves of f, over the divisor, is its second word.
    s_low = b.fma(s, -lost, b.fma(s, -bottom, f)) / bottom
    z = multiply_pairs(b, (s, s_low), (s, s_low))
    third = b.constant(THIRD["f64"][0], x.kind), b.constant(THIRD["f64"][1], x.kind)
    tail = z[0] * polynomial(b, ATANH_TAIL, z[0])
    inner = quick_two_sum(third[0], third[1] + tail)
    cube = multiply_pairs(b, multiply_pairs(b, z, (s, s_low)), inner)
    small = add_pairs((s * 2, s_low * 2), cube)
    high, rest = two_product(b, n, b.constant(LN2["f64"][0], x.kind))
    return add_pairs((high, b.fma(n, LN2["f64"][1], rest)), small)


def double_power(b: Builder, a: Value, y: Value) -> tuple[Value, Value]:
    """(aʸ, y log(a)) for a >= 0 of kind f64."""
    high, low = exact_log(b, a)
    high = b.where(a.eq(0), -INFINITY, b.where(a < INFINITY, high, a))
    t, rest = two_product(b, y, high)
    rest = b.fma(y, low, rest)
    scale, r = reduce_exp(b, clamp(b, t, -746.0, 710.0))
    e = exp_minus_one(b, r)
    return b.fma(e + b.fma(e, rest, rest), scale, scale) * scale, t


def single_power(b: Builder, a: Value, y: Value) -> tuple[Value, Value]:
    """(aʸ, y log(a)) for a >= 0 of kind f32, in f64: shorter than two words of f32.

    Of the polynomials for f64 the lower powers are enough.
    """
    n, m = normal_mantissa(b, a)
    f = m.cast("f64") - 1
    s = f / (f + 2)
    z = s * s
    log = f + s * b.fma(z, even_odd(b, z, ATANH["f64"][3:]), -f)
    log = b.fma(n.cast("f64"), LN2["f64"][0], log)
    log = b.where(a.eq(0), -INFINITY, b.where(a < INFINITY, log, a.cast("f64")))
    t = y.cast("f64") * log
    scale, r = reduce_exp(b, clamp(b, t, -746.0, 710.0))
    e = b.fma(r * r, even_odd(b, r, EXP["f64"][5:]), r)
    return (b.fma(e, scale, scale) * scale).cast("f32"), t.cast("f32")


@expansion
def pow(b: Builder, x: Value, y: Value) -> Value:
    """xʸ with the special cases of C. Error: 0.6 ulp, in f64 1.8."""
    a = absolute(b, x)
    power, t = (single_power if x.kind == "f32" else double_power)(b, a, y)
    whole = b.unary("rint", y).eq(y)
    half = y * 0.5
    odd = whole & b.unary("rint", half).ne(half)
    least = -746.0 if x.kind == "f64" else -104.0
    power = b.where(t > -least, INFINITY, b.where(t < least, 0, power))
    power = b.where((x < 0) & ~whole & (a < INFINITY), NAN, power)
    power = b.where(odd & signed(x), -power, power)
    certain = y.eq(0) | x.eq(1) | (x.eq(-1) & absolute(b, y).eq(INFINITY))
    return b.where(certain, 1, power)


@expansion
def hypot(b: Builder, x: Value, y: Value) -> Value:
    """√(x² + y²), without overflow or underflow on the way. Error: 1.0 ulp, in f64 1.0."""
    form = FORMATS[x.kind]
    a, c = absolute(b, x), absolute(b, y)
    large, small = b.where(a > c, a, c), b.where(a > c, c, a)
    # Three scales suffice: squares that count are then normal and finite.
    big, tiny = large > 2.0 ** (form.bias // 2), large < 2.0 ** (-form.bias // 2 + form.digits)
    up, one = [b.constant(c, x.kind) for c in (2.0 ** (form.bias // 2 + form.digits), 1.0)]
    down = b.constant(1 / up.data, x.kind)
    scale = b.where(big, down, b.where(tiny, up, one))
    back = b.where(big, up, b.where(tiny, down, one))
    p, q = large * scale, small * scale
    y = square_root(b, b.fma(p, p, q * q)) * back
    y = b.where(a.ne(a), a, y)
    return b.where(a.eq(INFINITY) | c.eq(INFINITY), INFINITY, y)


def normalised(b: Builder, x: Value) -> Pair:
    """(n, m) with x = 2ⁿ m, 1 <= m < 2, for a positive f64 number."""
    form = FORMATS["f64"]
    tiny = x < form.least
    bits = b.where(tiny, x * 2.0**form.digits, x).bits("i64")
    n = (bits >> form.digits) - form.bias
    m = (bits - (n << form.digits)).bits("f64")
    return n - b.where(tiny, b.constant(form.digits, "i64"), 0), m


def remainder(b: Builder, x: Value, y: Value) -> Value:
    """x modulo y for 0 <= x <= 2^53 y."""
    r = b.fma(b.unary("trunc", x / y), -y, x)  # exact; the quotient may be rounded up
    return b.where(r < 0, r + y, r)


def long_remainder(b: Builder, x: Value, y: Value, bits: int) -> Value:
    """x modulo y for positive f64 numbers and x < 2^bits y, 52 bits of the quotient at a time."""
    form = FORMATS["f64"]
    n, r = normalised(b, x)
    lowest, d = normalised(b, y)
    left = n - lowest
    r = remainder(b, r, d)
    for _ in range(-(-bits // form.digits)):
        step = b.min(left, form.digits)
        r = remainder(b, r * power_of_two(step, form), d)
        left = left - step
    first = b.max(lowest, 1 - form.bias)
    return r * power_of_two(lowest - first, form) * power_of_two(first, form)


@expansion
def fmod(b: Builder, x: Value, y: Value) -> Value:
    """x − y trunc(x / y), exactly."""
    a, c = absolute(b, x), absolute(b, y)
    quick = remainder(b, a, c)
    bits = 2100 if x.kind == "f64" else 280
    slow = long_remainder(b, a.cast("f64"), c.cast("f64"), bits).cast(x.kind)
    r = rare(b, a / c >= 1 / FORMATS[x.kind].epsilon, slow, quick)
    r = b.where(a < c, a, r)
    r = b.where((a < INFINITY) & (c > 0), r, NAN)
    return b.binary("copysign", r, x)
