"""Bessel functions and orthogonal polynomials in ``rl.special``.

None of them has a derivative here, as in PyTorch: asking for one raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.kernels import special as kernels
from rushlight.ops.elementwise import no_derivative
from rushlight.ops.samples import S, T
from rushlight.ops.special import SpecialOnly, SpecialPair
from rushlight.tensor import Tensor


class Bessel(SpecialOnly, abstract=True):
    """A solution of Bessel's or a related equation."""

    samples = [S(T(3, 4, low=0.5, high=6, grad=False)), S(T(grad=False)), S(T(0, grad=False))]

    def vjp(self, g, _y, _x):
        no_derivative(f"special.{self.name}", "input")


class AiryAi(Bessel):
    """The Airy function Ai.

    >>> rl.special.airy_ai(rl.tensor([0.0, 1.0]))
    tensor([0.3550, 0.1353])
    """

    eager = staticmethod(kernels.airy_ai)


class BesselJ0(Bessel):
    """The Bessel function of the first kind, of order 0.

    >>> rl.special.bessel_j0(rl.tensor([0.0, 1.0]))
    tensor([1.0000, 0.7652])
    """

    eager = staticmethod(kernels.bessel_j0)


class BesselJ1(Bessel):
    """The Bessel function of the first kind, of order 1.

    >>> rl.special.bessel_j1(rl.tensor([0.0, 1.0]))
    tensor([0.0000, 0.4401])
    """

    eager = staticmethod(kernels.bessel_j1)


class BesselY0(Bessel):
    """The Bessel function of the second kind, of order 0.

    >>> rl.special.bessel_y0(rl.tensor([1.0, 2.0]))
    tensor([0.0883, 0.5104])
    """

    eager = staticmethod(kernels.bessel_y0)


class BesselY1(Bessel):
    """The Bessel function of the second kind, of order 1.

    >>> rl.special.bessel_y1(rl.tensor([1.0, 2.0]))
    tensor([-0.7812, -0.1070])
    """

    eager = staticmethod(kernels.bessel_y1)


class ModifiedBesselI0(Bessel):
    """The modified Bessel function of the first kind, of order 0.

    >>> rl.special.modified_bessel_i0(rl.tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """

    eager = staticmethod(kernels.modified_bessel_i0)


class ModifiedBesselI1(Bessel):
    """The modified Bessel function of the first kind, of order 1.

    >>> rl.special.modified_bessel_i1(rl.tensor([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """

    eager = staticmethod(kernels.modified_bessel_i1)


class ModifiedBesselK0(Bessel):
    """The modified Bessel function of the second kind, of order 0.

    >>> rl.special.modified_bessel_k0(rl.tensor([1.0, 2.0]))
    tensor([0.4210, 0.1139])
    """

    eager = staticmethod(kernels.modified_bessel_k0)


class ModifiedBesselK1(Bessel):
    """The modified Bessel function of the second kind, of order 1.

    >>> rl.special.modified_bessel_k1(rl.tensor([1.0, 2.0]))
    tensor([0.6019, 0.1399])
    """

    eager = staticmethod(kernels.modified_bessel_k1)


class ScaledModifiedBesselK0(Bessel):
    """``exp(x)`` times the modified Bessel function of the second kind, of order 0.

    >>> rl.special.scaled_modified_bessel_k0(rl.tensor([1.0, 2.0]))
    tensor([1.1445, 0.8416])
    """

    eager = staticmethod(kernels.scaled_modified_bessel_k0)


class ScaledModifiedBesselK1(Bessel):
    """``exp(x)`` times the modified Bessel function of the second kind, of order 1.

    >>> rl.special.scaled_modified_bessel_k1(rl.tensor([1.0, 2.0]))
    tensor([1.6362, 1.0335])
    """

    eager = staticmethod(kernels.scaled_modified_bessel_k1)


class SphericalBesselJ0(Bessel):
    """The spherical Bessel function of the first kind, of order 0: ``sin(x) / x``.

    >>> rl.special.spherical_bessel_j0(rl.tensor([0.0, 1.0]))
    tensor([1.0000, 0.8415])
    """

    eager = staticmethod(kernels.spherical_bessel_j0)


class Polynomial(SpecialPair, abstract=True):
    """A polynomial of degree n in x: n and x may be tensors or numbers."""

    library = "its recurrence is as long as the largest degree"
    samples = [
        S(T(3, 4, low=-1, high=1, grad=False), T(4, low=0, high=6, grad=False)),
        S(T(3, 4, low=-1, high=1, grad=False), 3),
    ]

    def public(self, binary: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        function = super().public(binary)

        def polynomial(input: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
            return function(input, n, out=out)

        return polynomial

    def vjp_a(self, g, _y, _a, _b):
        no_derivative(f"special.{self.name}", "input")

    def vjp_b(self, g, _y, _a, _b):
        no_derivative(f"special.{self.name}", "n")


class ChebyshevPolynomialT(Polynomial):
    """Chebyshev polynomial of the first kind T_n(x), with ``T_n(cos θ) = cos(nθ)``.

    >>> rl.special.chebyshev_polynomial_t(rl.tensor([0.25, 0.5]), 3)
    tensor([-0.6875, -1.0000])
    """

    eager = staticmethod(kernels.chebyshev_polynomial_t)


class ChebyshevPolynomialU(Polynomial):
    """Chebyshev polynomial of the second kind U_n(x).

    >>> rl.special.chebyshev_polynomial_u(rl.tensor([0.25, 0.5]), 3)
    tensor([-0.8750, -1.0000])
    """

    eager = staticmethod(kernels.chebyshev_polynomial_u)


class ChebyshevPolynomialV(Polynomial):
    """Chebyshev polynomial of the third kind V_n(x).

    >>> rl.special.chebyshev_polynomial_v(rl.tensor([0.25, 0.5]), 3)
    tensor([-0.1250, -1.0000])
    """

    eager = staticmethod(kernels.chebyshev_polynomial_v)


class ChebyshevPolynomialW(Polynomial):
    """Chebyshev polynomial of the fourth kind W_n(x).

    >>> rl.special.chebyshev_polynomial_w(rl.tensor([0.25, 0.5]), 3)
    tensor([-1.6250, -1.0000])
    """

    eager = staticmethod(kernels.chebyshev_polynomial_w)


class ShiftedChebyshevPolynomialT(Polynomial):
    """Shifted Chebyshev polynomial of the first kind: T_n(2x - 1).

    >>> rl.special.shifted_chebyshev_polynomial_t(rl.tensor([0.25, 0.5]), 3)
    tensor([1., -0.])
    """

    eager = staticmethod(kernels.shifted_chebyshev_polynomial_t)


class ShiftedChebyshevPolynomialU(Polynomial):
    """Shifted Chebyshev polynomial of the second kind: U_n(2x - 1).

    >>> rl.special.shifted_chebyshev_polynomial_u(rl.tensor([0.25, 0.5]), 3)
    tensor([1., -0.])
    """

    eager = staticmethod(kernels.shifted_chebyshev_polynomial_u)


class ShiftedChebyshevPolynomialV(Polynomial):
    """Shifted Chebyshev polynomial of the third kind: V_n(2x - 1).

    >>> rl.special.shifted_chebyshev_polynomial_v(rl.tensor([0.25, 0.5]), 3)
    tensor([1., 1.])
    """

    eager = staticmethod(kernels.shifted_chebyshev_polynomial_v)


class ShiftedChebyshevPolynomialW(Polynomial):
    """Shifted Chebyshev polynomial of the fourth kind: W_n(2x - 1).

    >>> rl.special.shifted_chebyshev_polynomial_w(rl.tensor([0.25, 0.5]), 3)
    tensor([ 1., -1.])
    """

    eager = staticmethod(kernels.shifted_chebyshev_polynomial_w)


class HermitePolynomialH(Polynomial):
    """Physicist's Hermite polynomial H_n(x).

    >>> rl.special.hermite_polynomial_h(rl.tensor([0.25, 0.5]), 3)
    tensor([-2.8750, -5.0000])
    """

    eager = staticmethod(kernels.hermite_polynomial_h)


class HermitePolynomialHe(Polynomial):
    """Probabilist's Hermite polynomial He_n(x).

    >>> rl.special.hermite_polynomial_he(rl.tensor([0.25, 0.5]), 3)
    tensor([-0.7344, -1.3750])
    """

    eager = staticmethod(kernels.hermite_polynomial_he)


class LaguerrePolynomialL(Polynomial):
    """Laguerre polynomial L_n(x).

    >>> rl.special.laguerre_polynomial_l(rl.tensor([0.25, 0.5]), 3)
    tensor([ 0.3411, -0.1458])
    """

    eager = staticmethod(kernels.laguerre_polynomial_l)


class LegendrePolynomialP(Polynomial):
    """Legendre polynomial P_n(x).

    >>> rl.special.legendre_polynomial_p(rl.tensor([0.25, 0.5]), 3)
    tensor([-0.3359, -0.4375])
    """

    eager = staticmethod(kernels.legendre_polynomial_p)
