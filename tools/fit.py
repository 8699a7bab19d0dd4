"""Fit the coefficient tables of the special functions; needs mpmath.

Usage: python tools/fit.py > rushlight/kernels/tables.py

Each decorated function below is one table: its docstring says what is approximated, in which
variable and where. It is interpolated by P(t) / Q(t) in Chebyshev points, which is within a small
factor of the best approximation; the degree grows until the relative error is negligible.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

import mpmath as mp

mp.mp.dps = 60
Real = Any  # an mpmath number
Function = Callable[[Real], Real]
TABLES: dict[str, tuple[str | None, Any]] = {}


def interpolate(
    function: Function, low: Real, high: Real, numerator: int, denominator: int
) -> tuple[list[Real], list[Real]]:
    """The P/Q of these degrees, Q(0) = 1, that equals `function` in Chebyshev points."""
    points = numerator + denominator + 1
    rows, values = [], []
    for k in range(points):
        t = (low + high + (high - low) * mp.cos(mp.pi * (k + mp.mpf(1) / 2) / points)) / 2
        y = function(t)
        powers = [t**j for j in range(max(numerator, denominator) + 1)]
        rows.append(powers[: numerator + 1] + [-y * p for p in powers[1 : denominator + 1]])
        values.append(y)
    solution = list(mp.lu_solve(mp.matrix(rows), mp.matrix(values)))
    p, q = solution[: numerator + 1], [mp.mpf(1), *solution[numerator + 1 :]]
    return p[::-1], q[::-1]


def relative_error(
    function: Function, low: Real, high: Real, p: list[Real], q: list[Real], samples: int = 200
) -> Real:
    """The worst on a grid."""
    grid = (low + (high - low) * (k + mp.mpf(1) / 2) / samples for k in range(samples))
    return max(abs(mp.polyval(p, t) / mp.polyval(q, t) / function(t) - 1) for t in grid)


def fit(
    low: float, high: float, *, polynomial: bool = False, tolerance: float = 3e-17
) -> Callable[[Function], Function]:
    """Register the approximation of a function of t on [low, high]."""

    def register(function: Function) -> Function:
        a, b = mp.mpf(low), mp.mpf(high)
        for degree in count(2):
            p, q = interpolate(function, a, b, degree, 0 if polynomial else degree)
            if relative_error(function, a, b, p, q) < tolerance:
                break
        TABLES[function.__name__] = (function.__doc__, p if polynomial else (p, q))
        return function

    return register


def constants(function: Callable[[], list]) -> Callable[[], list]:
    """Register the numbers that `function` returns as they are."""
    TABLES[function.__name__] = (function.__doc__, function())
    return function


@fit(0, 1)
def ERF(t: Real) -> Real:
    """erf(x) / x in t = x², |x| <= 1."""
    x = mp.sqrt(t)
    return mp.erf(x) / x


@fit(0, 6, polynomial=True, tolerance=1e-8)
def ERF_SINGLE(t: Real) -> Real:
    """z / x in t = x², where erf(x) = z / sqrt(1 + z²); errors beyond |x| = 2.45 are damped."""
    x = mp.sqrt(t)
    return mp.erf(x) / mp.sqrt(mp.erfc(x) * (1 + mp.erf(x))) / x


@fit(0, 16, polynomial=True, tolerance=1.3e-6)
def NDTR_SINGLE(t: Real) -> Real:
    """log(ndtr(x) / ndtr(-x)) / x in t = x²; errors beyond |x| = 4 are damped."""
    x = mp.sqrt(t)
    return mp.log(mp.ncdf(x) / mp.ncdf(-x)) / x


@fit(0, 5.4, polynomial=True, tolerance=3e-6)
def NDTR_ROOT(t: Real) -> Real:
    """(2 ndtr(-t))^(1/4), 0 <= t <= 5.4; below 0 from 6.7 on."""
    return mp.root(2 * mp.ncdf(-t), 4)


@fit(-1, 1, polynomial=True)
def ERFCX(t: Real) -> Real:
    """(1 + 2x) exp(x²) erfc(x) in t = (x - 4) / (x + 4), x >= 0."""
    x = 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


@fit(0, 0.25)
def ERFINV(t: Real) -> Real:
    """erfinv(x) / x in t = x², |x| <= 1/2."""
    x = mp.sqrt(t)
    return mp.erfinv(x) / x


@fit(0.83, 4)
def ERFCINV(t: Real) -> Real:
    """erfcinv(q) / t - 1 in t = sqrt(-log(q)), exp(-16) <= q <= 1/2."""
    return mp.findroot(lambda y: mp.log(mp.erfc(y)) + t * t, t * 0.95) / t - 1


@fit(4, 28)
def ERFCINV_TAIL(t: Real) -> Real:
    """erfcinv(q) / t - 1 in t = sqrt(-log(q)), q <= exp(-16)."""
    return ERFCINV(t)


@fit(0, 3.01)
def LGAMMA(t: Real) -> Real:
    """lgamma(1 + t) / (t (t - 1)), 0 <= t <= 3."""
    return mp.loggamma(1 + t) / (t * (t - 1))


@fit(0, 1 / 16)
def STIRLING(t: Real) -> Real:
    """x (lgamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2) in t = 1 / x², x >= 4."""
    x = 1 / mp.sqrt(t)
    stirling = (x - mp.mpf(1) / 2) * mp.log(x) - x + mp.log(2 * mp.pi) / 2
    return x * (mp.loggamma(x) - stirling)


DIGAMMA_ZERO = mp.findroot(mp.digamma, 1.46)


@fit(1, 4)
def DIGAMMA(t: Real) -> Real:
    """digamma(t) / (t - root), 1 <= t <= 4."""
    return mp.digamma(t) / (t - DIGAMMA_ZERO)


@fit(0, 1 / 16)
def DIGAMMA_TAIL(t: Real) -> Real:
    """x² (log(x) - 1 / (2x) - digamma(x)) in t = 1 / x², x >= 4."""
    x = 1 / mp.sqrt(t)
    return x * x * (mp.log(x) - 1 / (2 * x) - mp.digamma(x))


@fit(1, 4)
def TRIGAMMA(t: Real) -> Real:
    """t (t trigamma(t) - 1), 1 <= t <= 4."""
    return t * (t * mp.psi(1, t) - 1)


@fit(0, 1 / 16)
def TRIGAMMA_TAIL(t: Real) -> Real:
    """x³ (trigamma(x) - 1 / x - 1 / (2x²)) in t = 1 / x², x >= 4."""
    x = 1 / mp.sqrt(t)
    return x**3 * (mp.psi(1, x) - 1 / x - t / 2)


@constants
def EULER_MACLAURIN() -> list[Real]:
    """B(2k) / (2k)! for k = 1, 2, …"""
    return [mp.bernoulli(2 * k) / mp.factorial(2 * k) for k in range(1, 13)]


@fit(0, 0.3)
def ATANH(t: Real) -> Real:
    """(atanh(s) - s) / s³ in t = s², |s| <= 0.54."""
    s = mp.sqrt(t)
    return (mp.atanh(s) - s) / s**3


@constants
def TEMME(terms: int = 30) -> list[Real]:
    """Taylor coefficients of h / (r - 1) in h, where h² / 2 = r - 1 - log(r), lowest first."""
    # m = r - 1 = h + m[2] h² + … solves m m' = h (1 + m); compare the coefficients of h^(n + 1).
    m = [mp.mpf(0), mp.mpf(1)]
    for n in range(1, terms + 1):
        known = sum(m[j] * m[n + 2 - j] * (n + 2 - j) for j in range(2, n + 1))
        m.append((m[n] - known) / (n + 2))
    f = [mp.mpf(1)]
    for n in range(1, terms + 1):
        f.append(-sum(f[j] * m[n + 1 - j] for j in range(n)))
    return f


@fit(0, 64, polynomial=True)
def I0(t: Real) -> Real:
    """I0(x) in t = x², |x| <= 8."""
    return mp.besseli(0, mp.sqrt(t))


@fit(0, 64, polynomial=True)
def I1(t: Real) -> Real:
    """I1(x) / x in t = x², |x| <= 8."""
    return mp.besseli(1, mp.sqrt(t)) / mp.sqrt(t)


def scaled_i(order: int, t: Real) -> Real:
    x = 16 / (1 + t)
    return mp.besseli(order, x) * mp.exp(-x) * mp.sqrt(x)


@fit(-1, 1, polynomial=True)
def I0_TAIL(t: Real) -> Real:
    """sqrt(x) exp(-x) I0(x) in t = 16 / x - 1, x >= 8."""
    return scaled_i(0, t)


@fit(-1, 1, polynomial=True)
def I1_TAIL(t: Real) -> Real:
    """sqrt(x) exp(-x) I1(x) in t = 16 / x - 1, x >= 8."""
    return scaled_i(1, t)


@fit(0, 1, polynomial=True)
def K0(t: Real) -> Real:
    """K0(x) + log(x / 2) I0(x) in t = x², x <= 1."""
    x = mp.sqrt(t)
    return mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x)


@fit(0, 1, polynomial=True)
def K1(t: Real) -> Real:
    """(K1(x) - log(x / 2) I1(x) - 1 / x) / x in t = x², x <= 1."""
    x = mp.sqrt(t)
    return (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x) - 1 / x) / x


def scaled_k(order: int, t: Real) -> Real:
    return (mp.besselk(order, 1 / t) * mp.exp(1 / t) / mp.sqrt(t) - mp.sqrt(mp.pi / 2)) / t


@fit(0, 1)
def K0_TAIL(t: Real) -> Real:
    """x (sqrt(x) exp(x) K0(x) - sqrt(pi / 2)) in t = 1 / x, x >= 1."""
    return scaled_k(0, t)


@fit(0, 1)
def K1_TAIL(t: Real) -> Real:
    """x (sqrt(x) exp(x) K1(x) - sqrt(pi / 2)) in t = 1 / x, x >= 1."""
    return scaled_k(1, t)


J0_ZERO, J1_ZERO = mp.besseljzero(0, 1), mp.besseljzero(1, 1)


@fit(0, 16)
def J0(t: Real) -> Real:
    """J0(x) / (x² - root²) in t = x², |x| <= 4."""
    return mp.besselj(0, mp.sqrt(t)) / (t - J0_ZERO**2)


@fit(0, 16)
def J1(t: Real) -> Real:
    """J1(x) / (x (x² - root²)) in t = x², |x| <= 4."""
    x = mp.sqrt(t)
    return mp.besselj(1, x) / (x * (t - J1_ZERO**2))


@fit(0, 16, tolerance=1e-16)
def Y0(t: Real) -> Real:
    """Y0(x) - (2 / pi) log(x) J0(x) in t = x², x <= 4."""
    x = mp.sqrt(t)
    return mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)


@fit(0, 16, tolerance=1e-16)
def Y1(t: Real) -> Real:
    """(Y1(x) - (2 / pi) (log(x) J1(x) - 1 / x)) / x in t = x², x <= 4."""
    x = mp.sqrt(t)
    return (mp.bessely(1, x) - 2 / mp.pi * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x


def hankel(order: int, t: Real) -> Real:
    """sqrt(pi x / 2) exp(-i (x - (2n + 1) pi / 4)) (Jn(x) + i Yn(x)) = P + i Q / x."""
    x = 1 / mp.sqrt(t)
    phase = x - (2 * order + 1) * mp.pi / 4
    return mp.sqrt(mp.pi * x / 2) * mp.expj(-phase) * mp.hankel1(order, x)


@fit(0, 1 / 16)
def HANKEL0_P(t: Real) -> Real:
    """The modulus P of J0 and Y0 in t = 1 / x², x >= 4."""
    return hankel(0, t).real


@fit(0, 1 / 16)
def HANKEL0_Q(t: Real) -> Real:
    """The modulus Q of J0 and Y0 in t = 1 / x², x >= 4."""
    return hankel(0, t).imag / mp.sqrt(t)


@fit(0, 1 / 16)
def HANKEL1_P(t: Real) -> Real:
    """The modulus P of J1 and Y1 in t = 1 / x², x >= 4."""
    return hankel(1, t).real


@fit(0, 1 / 16)
def HANKEL1_Q(t: Real) -> Real:
    """The modulus Q of J1 and Y1 in t = 1 / x², x >= 4."""
    return hankel(1, t).imag / mp.sqrt(t)


AIRY_ZERO = mp.airyaizero(1)


@fit(-2, 2)
def AIRY(t: Real) -> Real:
    """Ai(x) / (x - root) in t = x + 1, -3 <= x <= 1."""
    x = t - 1
    return mp.airyai(x) / (x - AIRY_ZERO)


def airy_x(zeta: Real) -> Real:
    return (3 * zeta / 2) ** (mp.mpf(2) / 3)


@fit(0, 1.5)
def AIRY_TAIL(t: Real) -> Real:
    """z (2 sqrt(pi) x^(1/4) exp(z) Ai(x) - 1) in t = 1 / z, z = 2/3 x^(3/2), x >= 1."""
    x = airy_x(1 / t)
    return (2 * mp.sqrt(mp.pi) * mp.root(x, 4) * mp.exp(1 / t) * mp.airyai(x) - 1) / t


def airy_modulus(t: Real) -> Real:
    """sqrt(pi) x^(1/4) exp(i (z + pi / 4)) (Bi(-x) - i Ai(-x)) = F + i G / z."""
    zeta = 1 / mp.sqrt(t)
    x = airy_x(zeta)
    value = mp.airybi(-x) - 1j * mp.airyai(-x)
    return mp.sqrt(mp.pi) * mp.root(x, 4) * mp.expj(zeta + mp.pi / 4) * value


@fit(0, 1 / 12)
def AIRY_F(t: Real) -> Real:
    """F in sqrt(pi) x^(1/4) Ai(-x) = F sin(c) - G / z cos(c), c = z + pi / 4, t = 1 / z²."""
    return airy_modulus(t).real


@fit(0, 1 / 12)
def AIRY_G(t: Real) -> Real:
    """G of the same formula, x >= 3."""
    return airy_modulus(t).imag / mp.sqrt(t)


@constants
def ROOTS() -> list[tuple[Real, Real]]:
    """The first zeros of digamma, J0, J1 and Ai, each as a float64 and what it leaves over."""
    zeros = (DIGAMMA_ZERO, J0_ZERO, J1_ZERO, AIRY_ZERO)
    return [(zero, zero - mp.mpf(float(zero))) for zero in zeros]


def show(value: Any, indent: int = 0) -> str:
    """Nested lists of numbers as the formatter would write them."""
    pad = " " * indent
    if not isinstance(value, (list, tuple)):
        return f"{pad}{float(value)!r},"
    return "\n".join([f"{pad}(", *(show(v, indent + 4) for v in value), f"{pad}),"])


def main() -> None:
    print('"""Coefficients of the special functions, highest power first: written by tools/fit.py.')
    print('\nA rational function is a pair (numerator, denominator)."""')
    for name, (formula, value) in TABLES.items():
        print(f"\n# {formula}\n{name} = {show(value)[:-1]}")


if __name__ == "__main__":
    main()
