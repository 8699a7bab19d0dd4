"""Error functions, gamma functions, and what else ``rl.special`` has of one or two arguments."""

from __future__ import annotations

import math
from typing import Any

from rushlight.kernels import special as kernels
from rushlight.ops.base import check_writable, composite, into, need_tensor, ops, overwrite
from rushlight.ops.elementwise import Formula, TensorPair, cleared, no_derivative
from rushlight.ops.families import Binary, Unary
from rushlight.ops.samples import Fails, S, T, binary_samples, unary_samples
from rushlight.tensor import Tensor, install

ROOT_PI = math.sqrt(math.pi)
ROOT_2PI = math.sqrt(2 * math.pi)


class Special(Unary, abstract=True):
    """A function of real numbers; integers are taken as floating-point numbers."""

    kinds = "bif"
    floats = True
    fused = True


class Erf(Special):
    """The error function: ``2/√π`` times the integral of exp(-t²) from 0 to x.

    >>> rl.erf(rl.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8427])
    """

    samples = unary_samples()
    eager = staticmethod(kernels.erf)

    def emit(self, b, x):
        return b.erf(x)

    def vjp(self, g, _y, x):
        return g * (-x * x).exp() * (2 / ROOT_PI)


class Erfc(Special):
    """The complement of the error function: ``1 - erf(x)``, precise for large x.

    >>> rl.erfc(rl.tensor([0.0, 1.0]))
    tensor([1.0000, 0.1573])
    """

    samples = unary_samples()
    eager = staticmethod(kernels.erfc)

    def emit(self, b, x):
        return b.erfc(x)

    def vjp(self, g, _y, x):
        return g * (-x * x).exp() * (-2 / ROOT_PI)


class Erfinv(Special):
    """The inverse of the error function, of elements in (-1, 1).

    >>> rl.erfinv(rl.tensor([0.0, 0.5]))
    tensor([0.0000, 0.4769])
    """

    samples = unary_samples(-0.9, 0.9)
    eager = staticmethod(kernels.erfinv)

    def vjp(self, g, _y, x):
        y = x.erfinv()
        return g * (y * y).exp() * (ROOT_PI / 2)


class Lgamma(Special):
    """The logarithm of the absolute value of the gamma function.

    >>> rl.lgamma(rl.tensor([0.5, 5.0]))
    tensor([0.5724, 3.1781])
    """

    samples = unary_samples(0.3, 4)
    eager = staticmethod(kernels.lgamma)

    def emit(self, b, x):
        return b.lgamma(x)

    def vjp(self, g, _y, x):
        return g * x.digamma()


class Digamma(Special):
    """The derivative of :func:`lgamma`.

    >>> rl.digamma(rl.tensor([0.5, 1.0]))
    tensor([-1.9635, -0.5772])
    """

    samples = unary_samples(0.3, 4)
    eager = staticmethod(kernels.digamma)

    def emit(self, b, x):
        return b.digamma(x)

    def vjp(self, g, _y, x):
        return g * ops.polygamma(1, x)


class Polygamma(Formula):
    """The n-th derivative of :func:`digamma`.

    >>> rl.polygamma(1, rl.tensor([0.5, 1.0]))
    tensor([4.9348, 1.6449])
    """

    method = False
    inplace = False
    kinds = "bif"
    floats = True
    samples = [S(n, T(3, 4, low=0.5, high=3)) for n in (0, 1, 2, 4)]
    errors = [Fails(RuntimeError, r"polygamma\(n, x\) does not support negative n", -1, T(2))]

    def check(self, n: int, input: Tensor) -> Any:
        x = need_tensor("polygamma", input, "input", 2)
        if n < 0:
            raise RuntimeError(f"polygamma(n, x) does not support negative n, got n={n}.")
        return (x,), {"n": n}

    def eager(self, x, *, n):
        return kernels.polygamma(n, x)

    def vjp(self, g, _y, x, *, n):
        return g * ops.polygamma(n + 1, x)


def polygamma_method(self: Tensor, n: int) -> Tensor:
    """The ``n``-th derivative of :meth:`digamma`, of each element."""
    return ops.polygamma(n, self)


def polygamma_write(self: Tensor, n: int) -> Tensor:
    """In-place version of :meth:`polygamma`."""
    check_writable(self, "polygamma")
    return overwrite(self, ops.polygamma(n, self.clone()))


polygamma_method.__name__, polygamma_write.__name__ = "polygamma", "polygamma_"
install(polygamma=polygamma_method, polygamma_=polygamma_write)


@composite(
    inplace=True,
    samples=[S(T(3, 4, low=2, high=5), 1), S(T(3, 4, low=2, high=5), p=3)],
    errors=[Fails(RuntimeError, "p has to be greater than or equal to 1", T(2), 0)],
)
def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension ``p``.

    >>> rl.mvlgamma(rl.tensor([2.0, 3.0]), 2)
    tensor([0.4516, 1.5502])
    """
    x = need_tensor("mvlgamma", input)
    if p < 1:
        raise RuntimeError(f"mvlgamma: p has to be greater than or equal to 1, got {p}")
    y = sum([(x - j / 2).lgamma() for j in range(1, p)], x.lgamma())
    y = y + kernels.multigammaln_constant(p)
    return y if out is None else into(out, y)


class Igamma(TensorPair):
    """The regularised lower incomplete gamma function P(input, other).

    >>> rl.special.gammainc(rl.tensor([4.0]), rl.tensor([3.0, 4.0]))
    tensor([0.3528, 0.5665])
    """

    kinds = "f"
    library = "its series have as many terms as the arguments need"
    samples = [S(T(3, 4, low=0.5, high=3, grad=False), T(4, low=0.5, high=3))]
    eager = staticmethod(kernels.igamma)

    def vjp_a(self, g, _y, a, b):
        no_derivative("igamma", "input")

    def vjp_b(self, g, _y, a, b):
        return g * ((a - 1) * b.log() - b - a.lgamma()).exp()


class Igammac(TensorPair):
    """The regularised upper incomplete gamma function: ``1 - igamma(input, other)``.

    >>> rl.special.gammaincc(rl.tensor([4.0]), rl.tensor([3.0, 4.0]))
    tensor([0.6472, 0.4335])
    """

    kinds = "f"
    library = "its series have as many terms as the arguments need"
    samples = [S(T(3, 4, low=0.5, high=3, grad=False), T(4, low=0.5, high=3))]
    eager = staticmethod(kernels.igammac)

    def vjp_a(self, g, _y, a, b):
        no_derivative("igammac", "input")

    def vjp_b(self, g, _y, a, b):
        return -g * ((a - 1) * b.log() - b - a.lgamma()).exp()


class Xlogy(Binary):
    """``input * log(other)``, and 0 where input is 0 unless other is NaN.

    >>> rl.xlogy(rl.tensor([0.0, 2.0]), rl.tensor([0.0, 3.0]))
    tensor([0.0000, 2.1972])
    """

    kinds = "bif"
    floats = True
    samples = [*binary_samples(second=(0.3, 2)), S(T(3, 4), 2), S(2.0, T(3, 4, low=0.3))]
    eager = staticmethod(kernels.xlogy)

    def vjp_a(self, g, _y, a, b):
        log = ops.log(b) if isinstance(b, Tensor) else ops.full((), float(b), dtype=g.dtype).log()
        return cleared((a == 0) & (b <= 0), g * log)

    def vjp_b(self, g, _y, a, b):
        return g * a / b


class I0(Special):
    """The modified Bessel function of the first kind, of order 0.

    >>> rl.i0(rl.tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """

    samples = unary_samples()
    eager = staticmethod(kernels.i0)

    def vjp(self, g, _y, x):
        return g * ops.special.i1(x)


class SpecialOnly(Special, abstract=True):
    """A function that is found in ``rl.special`` alone."""

    namespace = "special"
    method = inplace = False


class I0e(SpecialOnly):
    """``exp(-|x|) * i0(x)``.

    >>> rl.special.i0e(rl.tensor([0.0, 1.0]))
    tensor([1.0000, 0.4658])
    """

    samples = unary_samples(0.2, 3)
    eager = staticmethod(kernels.i0e)

    def vjp(self, g, y, x):
        return g * (ops.special.i1e(x) - x.sgn() * y)


class I1(SpecialOnly):
    """The modified Bessel function of the first kind, of order 1.

    >>> rl.special.i1(rl.tensor([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """

    samples = unary_samples(0.2, 3)
    eager = staticmethod(kernels.i1)

    def vjp(self, g, y, x):
        return g * ops.where(x == 0, 0.5, ops.i0(x) - y / x)


class I1e(SpecialOnly):
    """``exp(-|x|) * i1(x)``.

    >>> rl.special.i1e(rl.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2079])
    """

    samples = unary_samples(0.2, 3)
    eager = staticmethod(kernels.i1e)

    def vjp(self, g, y, x):
        return g * ops.where(x == 0, 0.5, ops.special.i0e(x) - y * (x.sgn() + 1 / x))


class Ndtr(SpecialOnly):
    """The area under the standard normal density from minus infinity to x.

    >>> rl.special.ndtr(rl.tensor([0.0, 1.0]))
    tensor([0.5000, 0.8413])
    """

    samples = unary_samples()
    eager = staticmethod(kernels.ndtr)

    def vjp(self, g, _y, x):
        return g * (x * x * -0.5).exp() * (1 / ROOT_2PI)


class Ndtri(SpecialOnly):
    """The inverse of :func:`ndtr`, of elements in (0, 1).

    >>> rl.special.ndtri(rl.tensor([0.5, 0.9]))
    tensor([0.0000, 1.2816])
    """

    samples = unary_samples(0.1, 0.9)
    eager = staticmethod(kernels.ndtri)

    def vjp(self, g, y, _x):
        return g * (y * y * 0.5).exp() * ROOT_2PI


class LogNdtr(SpecialOnly):
    """The logarithm of :func:`ndtr`, precise for very negative x.

    >>> rl.special.log_ndtr(rl.tensor([-30.0, 0.0]))
    tensor([-454.3213,   -0.6931])
    """

    samples = unary_samples()
    eager = staticmethod(kernels.log_ndtr)

    def vjp(self, g, _y, x):
        return g / ops.special.erfcx(x * -math.sqrt(0.5)) * math.sqrt(2 / math.pi)


class Erfcx(SpecialOnly):
    """``exp(x²) * erfc(x)``, which decays slowly.

    >>> rl.special.erfcx(rl.tensor([0.0, 10.0]))
    tensor([1.0000, 0.0561])
    """

    arithmetic = True
    samples = unary_samples()
    eager = staticmethod(kernels.erfcx)

    def vjp(self, g, y, x):
        return g * (2 * x * y - 2 / ROOT_PI)


class Entr(SpecialOnly):
    """The entropy ``-x * log(x)``: 0 at 0, minus infinity below.

    >>> rl.special.entr(rl.tensor([0.0, 0.5, 1.0]))
    tensor([0.0000, 0.3466, -0.0000])
    """

    samples = unary_samples(0.2, 2)
    eager = staticmethod(kernels.entr)

    def vjp(self, g, _y, x):
        return g * (-x.log() - 1)


class SpecialPair(Binary, abstract=True):
    """A function of two tensors or numbers, found in ``rl.special`` alone."""

    namespace = "special"
    method = inplace = False
    kinds = "bif"
    floats = True


class Xlog1py(SpecialPair):
    """``input * log1p(other)``, and 0 where input is 0 unless other is NaN.

    >>> rl.special.xlog1py(rl.tensor([0.0, 2.0]), rl.tensor([-1.0, 3.0]))
    tensor([0.0000, 2.7726])
    """

    samples = [*binary_samples(second=(-0.5, 2)), S(T(3, 4), 2), S(2.0, T(3, 4, low=-0.5))]
    eager = staticmethod(kernels.xlog1py)

    def vjp_a(self, g, _y, a, b):
        log = ops.log1p(b) if isinstance(b, Tensor) else math.log1p(b)
        return cleared((a == 0) & (b <= -1), g * log)

    def vjp_b(self, g, _y, a, b):
        return g * a / (b + 1)


class Zeta(SpecialPair):
    """The Hurwitz zeta function: the sum of ``(k + other) ** -input`` over k = 0, 1, ….

    >>> rl.special.zeta(rl.tensor([2.0, 4.0]), 1)
    tensor([1.6449, 1.0823])
    """

    library = "its fifty powers take longer to compile than they save"
    samples = [S(T(3, 4, low=1.5, high=4, grad=False), T(4, low=0.5, high=3))]
    eager = staticmethod(kernels.zeta)

    def vjp_a(self, g, _y, a, b):
        no_derivative("zeta", "input")

    def vjp_b(self, g, _y, a, b):
        return -g * a * ops.special.zeta(a + 1, b)
