"""Sine, cosine, tangent and their inverses."""

from __future__ import annotations

import math

from rushlight.codegen.math.base import (
    FORMATS,
    INFINITY,
    NAN,
    absolute,
    expansion,
    polynomial,
    quick_two_sum,
    rare,
    signed,
    square_root,
    two_product,
    two_sum,
)
from rushlight.codegen.math.coefficients import (
    ASIN,
    ATAN,
    COS,
    HALF_PI,
    PI,
    SIN,
    SIN_HALF_TURN,
    TWO_OVER_PI,
)
from rushlight.codegen.values import Builder, Value

FAR = {"f32": 2.0**17, "f64": 2.0**30}
"""Beyond these arguments a quarter turn of three words is not exact enough."""

Angle = tuple[Value, Value, Value]
"""(q, high, low): q quarter turns, an integer of which two bits count, and high + low."""


def reduce_near(b: Builder, x: Value) -> Angle:
    """x = q π/2 + high + low, for |x| < FAR."""
    form = FORMATS[x.kind]
    first, second, third = HALF_PI[x.kind][:3]
    shifted = b.fma(x, 2 / math.pi, form.magic)
    n = shifted - form.magic
    q = shifted.bits(form.integer)
    r = b.fma(n, -first, x)  # exact
    if x.kind == "f32":
        return q, b.fma(n, -third, b.fma(n, -second, r)), b.constant(0, "f32")
    product, rest = two_product(b, n, b.constant(-second, x.kind))
    high, low = two_sum(r, product)
    return q, *quick_two_sum(high, low + b.fma(n, -third, rest))


def reduce_far_single(b: Builder, x: Value) -> Angle:
    """The same for any finite f32 number, given as f64: a product with a word is then exact.

    Of each product only what exceeds a multiple of 4 counts.
    """
    q, turns = b.constant(0, "f64"), b.constant(0, "f64")
    for word in TWO_OVER_PI["f32"]:
        product = x * word
        turns = turns + b.fma(b.unary("rint", product * 0.25), -4, product)
        whole = b.unary("rint", turns)
        q, turns = q + whole, turns - whole
    low_bits = (q + FORMATS["f64"].magic).bits("i64")
    return low_bits.cast("i32"), (turns * (math.pi / 2)).cast("f32"), b.constant(0, "f32")


def reduce_far_double(b: Builder, x: Value) -> Angle:
    """The same for any finite f64 number.

    With |x| = 2^(53 j) y, the first j words of 2/π multiply x to whole turns; five more suffice.
    """
    form = FORMATS["f64"]
    sign, x = x, absolute(b, x)
    exponent = (x.bits("i64") >> form.digits) - (form.bias + form.digits)  # of the last bit
    exponent = b.where(exponent < 2, b.constant(2, "i64"), exponent)
    j = ((exponent - 2) * 1237) >> 16  # divided by 53
    words = [b.constant(word, "f64") for word in (*TWO_OVER_PI["f64"], *[0.0] * 12)]
    for stride in (16, 8, 4, 2, 1):  # words[j:], by the bits of j
        chosen = (j & stride).ne(0)
        words = [b.where(chosen, words[k + stride], words[k]) for k in range(4 + stride)]
    y = (x.bits("i64") - ((j * 53) << form.digits)).bits("f64")
    parts: list[Value] = []
    for word in words:
        parts += two_product(b, y, word)
        y = y * 2.0**-53
    parts[:3] = [b.fma(b.unary("rint", p * 0.25), -4, p) for p in parts[:3]]
    parts = [parts[0], parts[2], parts[1], *parts[3:]]
    high, low, q = parts[0], b.constant(0, "f64"), b.constant(0, "f64")
    for part in parts[1:]:
        whole = b.unary("rint", high)
        q = q + whole
        high, error = two_sum(high - whole, part)
        high, low = quick_two_sum(high, low + error)
    whole = b.unary("rint", high)
    high, low = quick_two_sum(high - whole, low)
    quarter, rest = HALF_PI["f64"][:2]
    product, error = two_product(b, high, b.constant(quarter, "f64"))
    low = b.fma(high, rest, b.fma(low, quarter, error))
    high, low = quick_two_sum(product, low)
    flip = signed(sign)
    q = b.where(flip, -(q + whole), q + whole)
    return (q + form.magic).bits("i64"), b.where(flip, -high, high), b.where(flip, -low, low)


def reduce_far(b: Builder, x: Value) -> Angle:
    """The same for any x; of an infinite one, NaN."""
    if x.kind == "f32":
        q, high, low = reduce_far_single(b, x.cast("f64"))
    else:
        q, high, low = reduce_far_double(b, x)
    return q, high + x * 0, low


def sine(b: Builder, r: Value, low: Value) -> Value:
    """sin(r + low) for |r| <= π/4; the second word is 0 in f32."""
    z = r * r
    cube = r * z
    if r.kind == "f32":
        return b.fma(cube, polynomial(b, SIN, z), r)
    return r + b.fma(cube, polynomial(b, SIN, z), low * b.fma(z, -0.5, 1))


def cosine(b: Builder, r: Value, low: Value) -> Value:
    """cos(r + low) for |r| <= π/4; the second word is 0 in f32."""
    z = r * r
    half = z * 0.5
    top = 1 - half
    tail = z * z * polynomial(b, COS, z)
    if r.kind == "f64":
        tail = b.fma(r, -low, tail)
    return top + (((1 - top) - half) + tail)


def turned(b: Builder, angle: Angle, quarters: int) -> Value:
    """sin(angle + quarters · π/2)."""
    q = angle[0] + quarters
    form = FORMATS[angle[1].kind]
    y = b.where((q & 1).ne(0), cosine(b, *angle[1:]), sine(b, *angle[1:]))
    width = form.digits + (9 if form.kind == "f32" else 12)
    return (y.bits(form.integer) ^ ((q & 2) << (width - 2))).bits(form.kind)


def wave(b: Builder, x: Value, quarters: int) -> Value:
    """sin(x + quarters · π/2) for |x| < FAR and 0 or 1 quarters.

    In f32 it is (−1)ⁿ sin(r) with x = (n − quarters / 2) π + r, |r| <= π/2: one polynomial, no
    choice. All words of π are positive, and so is what r² p(r²) begins with: −0 keeps its sign.
    """
    if x.kind == "f64":
        return turned(b, reduce_near(b, x), quarters)
    form = FORMATS["f32"]
    if quarters:
        shifted = b.fma(x, 1 / math.pi, 0.5) + form.magic
        n = shifted - form.magic - 0.5
    else:
        shifted = b.fma(x, 1 / math.pi, form.magic)
        n = shifted - form.magic
    r = x
    for word in PI["f32"]:
        r = b.fma(n, -word, r)
    z = r * r
    y = b.fma(b.fma(z, polynomial(b, SIN_HALF_TURN, z), form.least), r, r)
    return (y.bits("i32") ^ (shifted.bits("i32") << 31)).bits("f32")


@expansion
def sin(b: Builder, x: Value) -> Value:
    """The sine of any number of radians. Error: 2.0 ulp, in f64 0.8."""
    y = rare(b, absolute(b, x) > FAR[x.kind], turned(b, reduce_far(b, x), 0), wave(b, x, 0))
    return y if x.kind == "f32" else b.where(x.eq(0), x, y)


@expansion
def cos(b: Builder, x: Value) -> Value:
    """The cosine of any number of radians. Error: 2.0 ulp, in f64 0.8."""
    return rare(b, absolute(b, x) > FAR[x.kind], turned(b, reduce_far(b, x), 1), wave(b, x, 1))


@expansion
def tan(b: Builder, x: Value) -> Value:
    """The tangent of any number of radians. Error: 3.2 ulp, in f64 2.2."""

    def quotient(angle: Angle) -> Value:
        s, c = sine(b, *angle[1:]), cosine(b, *angle[1:])
        odd = (angle[0] & 1).ne(0)
        return b.where(odd, -c, s) / b.where(odd, s, c)

    near, distant = quotient(reduce_near(b, x)), quotient(reduce_far(b, x))
    y = rare(b, absolute(b, x) > FAR[x.kind], distant, near)
    return b.where(x.eq(0), x, y)


def small_asin(b: Builder, s: Value, z: Value) -> Value:
    """asin(s) for |s| <= 1/2, z = s²."""
    return b.fma(s * z, polynomial(b, ASIN, z), s)


@expansion
def asin(b: Builder, x: Value) -> Value:
    """The inverse of the sine; beyond 1/2, asin(x) = π/2 − 2 asin(√((1 − x) / 2)).

    Error: 2.4 ulp, in f64 2.2.
    """
    a = absolute(b, x)
    large = a > 0.5
    z = b.where(large, (1 - a) * 0.5, a * a)
    p = small_asin(b, b.where(large, square_root(b, z), a), z)
    high, low = HALF_PI[x.kind][:2]
    return b.binary("copysign", b.where(large, high - (p * 2 - low), p), x)


@expansion
def acos(b: Builder, x: Value) -> Value:
    """The inverse of the cosine; beyond 1/2, acos(x) = 2 asin(√((1 − x) / 2)).

    Error: 1.2 ulp, in f64 1.2.
    """
    a = absolute(b, x)
    large = a > 0.5
    z = b.where(large, (1 - a) * 0.5, x * x)
    s = b.where(large, square_root(b, z), x)
    tail = s * z * polynomial(b, ASIN, z)
    high, low = HALF_PI[x.kind][:2]
    middle = high - (s - (low - tail))
    double = (s + tail) * 2
    return b.where(large, b.where(x < 0, 2 * high - (double - 2 * low), double), middle)


def arctangent(b: Builder, y: Value, x: Value) -> Value:
    """The angle of the point (x, y) with neither negative, from 0 to π/2."""
    steep = y > x
    small, large = b.where(steep, x, y), b.where(steep, y, x)
    t = small / large
    z = t * t
    p = b.fma(t * z, polynomial(b, ATAN, z), t)
    high, low = HALF_PI[x.kind][:2]
    return b.where(steep, high - (p - low), p)


@expansion
def atan(b: Builder, x: Value) -> Value:
    """The inverse of the tangent. Error: 2.2 ulp, in f64 2.2."""
    y = arctangent(b, absolute(b, x), b.constant(1, x.kind))
    return b.binary("copysign", y, x)


@expansion
def atan2(b: Builder, y: Value, x: Value) -> Value:
    """The angle of the point (x, y), in all four quadrants. Error: 2.2 ulp, in f64 2.2."""
    above, right = absolute(b, y), absolute(b, x)
    # Two infinities count as two ones, and so do two zeros but for the sign of x.
    ends = (above.eq(right) & above.eq(INFINITY)) | (above + right).eq(0)
    one = b.where(above.eq(0), b.constant(0, x.kind), 1)
    p = arctangent(b, b.where(ends, one, above), b.where(ends, 1, right))
    high, low = HALF_PI[x.kind][:2]
    p = b.where(signed(x), 2 * high - (p - 2 * low), p)
    return b.where(y.eq(y), b.binary("copysign", p, y), NAN)
