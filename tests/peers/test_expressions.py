"""Expressions that print the same, or raise the same kind of error, in PyTorch and here."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

import rushlight

torch = pytest.importorskip("torch")

EXPRESSIONS = """
rl.equal(o, d)
rl.equal(o, o[:1])
rl.equal(o, 1)
rl.isclose(o, d)
rl.allclose(o, d)
rl.isclose(o, o, rtol=-1)
rl.where(o, o, o)
rl.where(b, 1, 2)
rl.where(b, 1.0, 2)
rl.where(b, o, d)
rl.where(b, o, 2.5)
rl.where(b, i, 2.5)
rl.where(b, True, False)
rl.where(b.byte(), o, o)
o.where(b, 3)
rl.where(b, [1], 2)
rl.where(b, o)
rl.where(b, h, 2)
rl.where(b, h, o)
rl.clamp(o)
rl.clamp(i, min=1.5)
rl.clamp(b, min=1)
rl.clamp(o, d)
rl.clamp(c, min=1)
rl.clip(o, "a")
i.clamp_(min=1.5)
rl.clamp_min(o, i)
rl.clamp(rl.tensor([nan, 1.0, -1.0]), 0, 0.5)
rl.maximum(b, b)
rl.maximum(o, 1)
rl.fmax(i, o)
rl.lerp(o, d, 0.5)
rl.lerp(o, o, d)
rl.lerp(o, o, i)
rl.lerp(i, i, 1)
rl.addcmul(i, i, i, value=0.5)
rl.addcdiv(i, i, i)
rl.addcdiv(o, i, i)
rl.addcmul(o, d, o)
rl.addcmul(h, h, h, value=0.3)
rl.heaviside(o, d)
rl.heaviside(o, 1)
rl.heaviside(o, rl.tensor(1.0))
rl.copysign(i, -1)
rl.nextafter(i, i)
rl.nextafter(o, d)
rl.gcd(b, b)
rl.gcd(i, 2)
rl.lcm(i, i)
rl.hypot(i, i)
rl.hypot(o, 2)
rl.atan2(i, i)
rl.atan2(o, 1)
rl.ldexp(o, i)
rl.ldexp(i, i)
rl.ldexp(o, 2)
rl.frexp(o)
rl.frexp(i)
rl.logaddexp(i, i)
rl.logaddexp2(o, d)
rl.xlogy(1, o)
rl.xlogy(i, 2)
rl.xlogy(2, 3)
rl.float_power(o, 2)
rl.float_power(2, i)
rl.float_power(c, 2)
o.float_power_(2)
rl.floor(i)
rl.floor(b)
rl.floor(c)
rl.round(i, decimals=1)
rl.round(o, decimals=-1)
rl.frac(i)
rl.trunc(b)
rl.sign(b)
rl.sign(c)
rl.sgn(c)
rl.sgn(b)
rl.sgn(i)
rl.signbit(c)
rl.signbit(b)
rl.isposinf(b)
rl.isreal(c)
rl.isfinite(i)
rl.isnan(i)
rl.isinf(b)
rl.nan_to_num(i)
rl.nan_to_num(c)
rl.nan_to_num(b)
rl.nan_to_num(rl.tensor([nan, inf, -inf]), nan=3)
rl.nan_to_num(h * inf)
rl.positive(b)
rl.reciprocal(i)
rl.rsqrt(i)
rl.sqrt(b)
rl.neg(c)
rl.neg(b)
rl.logical_not(o)
rl.logical_and(o, 1)
rl.logical_and(o, c)
rl.bitwise_not(o)
rl.bitwise_and(i, b)
rl.bitwise_and(2, i)
rl.bitwise_and(i, True)
b << b
rl.bitwise_left_shift(i, b)
rl.lt(c, c)
rl.lt(1, o)
rl.eq(o, "a")
o < "a"
o == "a"
o == None
o != None
o < None
rl.ne(o, None)
rl.relu(i)
rl.relu(b)
rl.relu(c)
rl.sigmoid(i)
rl.softmax(i, 0)
rl.softmax(o, 1)
rl.softmax(o)
rl.softmax(i, 0, dtype=rl.float64)
rl.softmax(rl.tensor(2.0), 0)
o.softmax(-1, rl.float64)
o.softmax(dim=-1, dtype=rl.float64)
rl.square(i)
rl.square(b)
rl.real(o)
rl.imag(o)
o.imag
c.real
c.imag
rl.conj(o)
c.conj()
o.angle()
rl.angle(rl.tensor([-1.0, 0.0, nan]))
rl.angle(i)
rl.angle(c)
rl.polar(o, d)
rl.polar(i, i)
rl.complex(i, i)
rl.complex(o, o)
rl.is_complex(c)
rl.view_as_real(o)
rl.view_as_real(c)
rl.view_as_complex(o)
rl.view_as_complex(rl.ones(3))
rl.view_as_complex(rl.tensor(1.0))
rl.view_as_complex(rl.ones(2, 2).t())
rl.exp2(i)
rl.deg2rad(i)
rl.hardshrink(o, 0.5)
rl.hardshrink(i)
rl.celu(i)
rl.selu(o)
rl.threshold(i, 1, 20)
rl.threshold(b, 1, 20)
rl.prelu(o, rl.tensor(0.1))
rl.prelu(o, rl.tensor([0.1, 0.2]))
rl.prelu(-rl.ones(2, 2), rl.tensor([0.1, 0.2]))
rl.prelu(i, i)
rl.rrelu(-o)
rl.logit(o, eps=0.1)
rl.logit(i)
rl.celu(o, alpha=0)
rl.remainder(2, o)
rl.remainder(b, b)
rl.fmod(b, b)
rl.remainder(c, c)
rl.floor_divide(2, o)
rl.floor_divide(b, b)
b // b
b % b
b / b
b + b
b * b
b - b
b - 1
1 - b
b + 1
b * 2.5
rl.div(b, b, rounding_mode="floor")
rl.div(i, i, rounding_mode="floor")
rl.div(o, i, rounding_mode="x")
rl.div(c, c, rounding_mode="floor")
c // c
i ** i
b ** b
b ** 2
i ** (-1)
i ** (-1.0)
i ** rl.tensor([-1, -2])
2 ** i
2.5 ** i
rl.pow(i, 0.5)
rl.pow(2, 3)
rl.abs(c)
rl.abs(b)
abs(-i)
+o
+b
~b
~i
~o
i // 0
i % 0
rl.fmod(i, 0)
o // 0
o % 0
i / 0
rl.add(i, i, alpha=0.5)
rl.add(o, i, alpha=0.5)
rl.sub(i, o, alpha=2)
rl.rsub(o, 3, alpha=2)
o.add_(-0.5, o)
o.addcmul_(0.5, o, o)
o.addcdiv_(0.5, o, o)
rl.add(o, 2, o)
i.div_(2)
i.add_(1.5)
i.mul_(True)
b.add_(1)
o + "a"
o + None
o + [1, 2]
"a" + o
rl.add(o, "a")
rl.mul(2, o)
rl.exp([1.0])
i << 2
2 << i
i >> rl.tensor([64, 64])
i << rl.tensor([-1, 64])
o << 1
o | 1
i | 1.5
i | b
h + 1
h * 2.5
1 / h
h ** 2
h + o
h + i
o + 1j
i + 1j
1j * o
h.exp()
h.softmax(0)
rl.tensor(1.0).half() + 1
2.0 ** rl.tensor(1.0).half()
rl.tensor(5) + rl.tensor([1.5])
rl.tensor(5.0) + i
rl.tensor(5.0, dtype=rl.float64) + o
rl.tensor([44], dtype=rl.int8) == 300
rl.tensor([255], dtype=rl.uint8) == -1
rl.tensor([200], dtype=rl.uint8) + 100
rl.tensor([1], dtype=rl.uint8) - 2
rl.tensor([100], dtype=rl.int8) * 3
i == 1.5
i.eq_(1)
o.lt_(2)
o.logical_and_(b)
g.relu()
g.exp()
g * 2
g ** 2
g.clamp(0, 1).requires_grad
(g > 0).requires_grad
g.floor()
g.add_(1)
rl.result_type(i, 1.5)
rl.result_type(h, o)
rl.polygamma(1, o)
o.polygamma(2)
rl.polygamma(-1, o)
rl.mvlgamma(rl.tensor([3.0]), 2)
rl.mvlgamma(o, 0)
rl.erf(i)
rl.erf(c)
rl.lgamma(b)
rl.special.zeta(2, o)
rl.special.zeta(rl.tensor([2.0]), 1)
rl.igamma(o, i)
rl.special.xlog1py(2, o)
rl.special.bessel_j0(i)
rl.special.chebyshev_polynomial_t(o, 2)
rl.special.chebyshev_polynomial_t(0.5, i)
rl.sinc(rl.tensor([0.0, 0.5]))
rl.ones(2, 3) + rl.ones(2, 4)
rl.ones(2, 3).add_(rl.ones(3, 2, 3))
rl.where(b, rl.ones(3), o)
rl.exp(o, out=rl.empty(2))
rl.add(o, o, out=rl.empty(2))
rl.add(o, o, out=rl.empty(2, dtype=rl.int64))
rl.square(o, out=d)
rl.relu_(rl.tensor([-1.0, 2.0]))
rl.subtract(o, o)
rl.multiply(o, o)
rl.divide(i, i)
rl.true_divide(i, 2)
rl.absolute(-o)
rl.negative(o)
rl.fix(o)
rl.arctan2(o, o)
rl.greater(o, o)
rl.less_equal(o, 1)
rl.not_equal(o, 1)
o.greater_equal_(1)
bool(rl.tensor([]) == None)
rl.tensor(3) ** 2
rl.tensor(3.0) ** 2
rl.tensor(3) / 2
rl.tensor(7) // 2
-rl.tensor(3)
divmod(o, 2)
o.__rdiv__(2)
o.__radd__(2)
1 < o
0 <= i
o.sigmoid_()
o.tanh_()
i.exp_()
i.sqrt()
rl.isneginf(o)
rl.rad2deg(o)
rl.log(-o)
rl.log1p(i)
rl.acosh(rl.tensor([0.5]))
rl.logaddexp(rl.tensor([-inf]), rl.tensor([-inf]))
rl.fmod(rl.tensor([5.0, -5.0]), 3)
rl.remainder(rl.tensor([5.0, -5.0]), -3)
rl.floor_divide(rl.tensor([5.0, -5.0]), 2)
rl.div(rl.tensor([5.0, -5.0]), 2, rounding_mode="trunc")
rl.div(rl.tensor([5, -5]), 2, rounding_mode="trunc")
rl.bitwise_xor(i, 3)
i ^ 3
3 ^ i
3 & i
rl.tensor([-1.5, 0.5, 2.5]).round()
"""


def outcome(expression: str, rl: Any) -> str:
    """What an expression prints with a few small tensors at hand, or the name of its error."""
    ones = rl.ones(2)
    names = {"rl": rl, "o": ones, "d": ones.double(), "nan": math.nan, "inf": math.inf}
    names |= {"i": rl.tensor([1, 2]), "b": rl.tensor([True, False]), "c": rl.tensor([1j, 2])}
    names |= {"h": rl.tensor([1.0, 2.0]).half(), "g": rl.tensor([1.0, 2.0], requires_grad=True)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return repr(eval(expression, names)).replace("torch.", "rushlight.")
        except Exception as error:
            return type(error).__name__


@pytest.mark.parametrize("expression", EXPRESSIONS.strip().splitlines())
def test_expression(expression: str) -> None:
    assert outcome(expression, rushlight) == outcome(expression, torch)
