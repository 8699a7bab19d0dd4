"""Fit the polynomials of generated code, for float32 and float64; needs mpmath.

Usage: python tools/minimax.py > rushlight/codegen/math/coefficients.py

Each decorated function below is one polynomial: its docstring says what is approximated, in which
variable and where; ``weight`` says how much of the error in the polynomial reaches the result,
relative to it. The degree grows until that is negligible. Coefficients of float32 are rounded one
after the other, lowest power first, and what is left is fitted anew.
"""

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

mp.mp.dps = 60
Real = Any  # an mpmath number
Function = Callable[[Real], Real]
TOLERANCE = {"f32": 2.0**-27, "f64": 2.0**-58}
TABLES: dict[str, tuple[str | None, dict[str, list[float]]]] = {}


def points(low: float, high: float, n: int) -> list[Real]:
    """Chebyshev points."""
    middle, half = (mp.mpf(low) + high) / 2, (mp.mpf(high) - low) / 2
    return [middle + half * mp.cos(mp.pi * (k + mp.mpf(1) / 2) / n) for k in range(n)]


def interpolate(function: Function, low: float, high: float, degree: int) -> list[Real]:
    """The polynomial through Chebyshev points, which is nearly the best; lowest power first."""
    grid = points(low, high, degree + 1)
    rows = mp.matrix([[t**k for k in range(degree + 1)] for t in grid])
    return list(mp.lu_solve(rows, mp.matrix([function(t) for t in grid])))


def nearest(powers: np.ndarray, values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Coefficients whose greatest weighted error is least: Lawson's iteration of least squares."""
    emphasis = np.ones(len(values))
    for _ in range(60):
        by = weight * np.sqrt(emphasis)
        best = np.linalg.lstsq(powers * by[:, None], values * by, rcond=None)[0]
        emphasis *= weight * np.abs(powers @ best - values) + 1e-30
        emphasis /= emphasis.sum()
    return best


def single(function: Function, low: float, high: float, weight: Function) -> list[float]:
    """The shortest polynomial that is good enough, by float32 numbers; lowest power first."""
    grid = points(low, high, 400)
    rest = np.array([float(function(t)) for t in grid])
    scale = np.array([abs(float(weight(t))) for t in grid])
    for degree in range(2, 40):
        powers = np.array([[float(t**k) for k in range(degree + 1)] for t in grid])
        error = scale * np.abs(powers @ nearest(powers, rest, scale) - rest)
        if error.max() < TOLERANCE["f32"]:
            break
    found: list[float] = []
    for k in range(degree + 1):
        found.append(float(np.float32(nearest(powers[:, k:], rest, scale)[0])))
        rest = rest - powers[:, k] * found[k]
    return found


def double(function: Function, low: float, high: float, weight: Function) -> list[float]:
    """The shortest polynomial through Chebyshev points that is good enough; lowest power first."""
    checks = [(t, function(t), weight(t)) for t in points(low, high, 150)]
    for degree in range(2, 40):
        found = interpolate(function, low, high, degree)
        errors = [abs((mp.polyval(found[::-1], t) - y) * w) for t, y, w in checks]
        if max(errors) < TOLERANCE["f64"]:
            break
    return [float(c) for c in found]


def fit(
    low: float, high: float, weight: Function, kinds: str = "f32 f64"
) -> Callable[[Function], Function]:
    """Register the approximation of a function of t on [low, high]."""

    def register(function: Function) -> Function:
        fits = {"f32": single, "f64": double}
        table = {kind: fits[kind](function, low, high, weight)[::-1] for kind in kinds.split()}
        TABLES[function.__name__] = (function.__doc__, table)
        return function

    return register


def pieces(function: Callable[[], Real]) -> Callable[[], Real]:
    """Register a constant as a sum of four numbers of each kind, largest first."""
    table: dict[str, list[float]] = {"f32": [], "f64": []}
    for kind, found in table.items():
        rest = function()
        for _ in range(4):
            found.append(float(np.float32(float(rest))) if kind == "f32" else float(rest))
            rest -= mp.mpf(found[-1])
    TABLES[function.__name__] = (function.__doc__, table)
    return function


@pieces
def LN2() -> Real:
    """log(2)"""
    return mp.log(2)


@pieces
def LOG2E() -> Real:
    """1 / log(2)"""
    return 1 / mp.log(2)


@pieces
def LOG10E() -> Real:
    """1 / log(10)"""
    return 1 / mp.log(10)


@pieces
def LOG10_2() -> Real:
    """log(2) / log(10)"""
    return mp.log(2) / mp.log(10)


@pieces
def HALF_PI() -> Real:
    """pi / 2"""
    return mp.pi / 2


@pieces
def THIRD() -> Real:
    """2 / 3"""
    return mp.mpf(2) / 3


@fit(-0.694, 0.694, lambda t: t * t / mp.exp(t))
def EXP(t: Real) -> Real:
    """(exp(t) - 1 - t) / t², |t| <= log(2)."""
    return (mp.expm1(t) - t) / t**2


@fit(-0.2929, 0.4143, lambda t: t**3 / mp.log1p(t), "f32")
def LOG(t: Real) -> Real:
    """(log(1 + t) - t + t² / 2) / t³, sqrt(1/2) <= 1 + t <= sqrt(2)."""
    return (mp.log1p(t) - t + t**2 / 2) / t**3


@fit(0, 0.0295, lambda t: t, "f64")
def ATANH(t: Real) -> Real:
    """2 (atanh(s) / s - 1) / s² in t = s², |s| <= 0.1716."""
    s = mp.sqrt(t)
    return 2 * (mp.atanh(s) / s - 1) / t


@fit(0, 0.0295, lambda t: t * t / 8, "f64")
def ATANH_TAIL(t: Real) -> Real:
    """(2 (atanh(s) / s - 1) / s² - 2 / 3) / s² in t = s², |s| <= 0.1716."""
    return (ATANH(t) - mp.mpf(2) / 3) / t


@fit(0, 0.64, lambda t: t)
def SIN(t: Real) -> Real:
    """(sin(r) / r - 1) / r² in t = r², |r| <= pi / 4 and a little more."""
    r = mp.sqrt(t)
    return (mp.sin(r) / r - 1) / t


@fit(0, 2.51, lambda t: t * mp.sqrt(t) / mp.sin(mp.sqrt(t)), "f32")
def SIN_HALF_TURN(t: Real) -> Real:
    """(sin(r) / r - 1) / r² in t = r², |r| <= pi / 2; a little less, for none to exceed 1."""
    return SIN(t) - t**2 / 2**31


@fit(0, 0.64, lambda t: t * t)
def COS(t: Real) -> Real:
    """(cos(r) - 1 + r² / 2) / r⁴ in t = r², |r| <= pi / 4 and a little more."""
    return (mp.cos(mp.sqrt(t)) - 1 + t / 2) / t**2


@fit(0, 0.25, lambda t: t)
def ASIN(t: Real) -> Real:
    """(asin(s) / s - 1) / s² in t = s², |s| <= 1/2."""
    s = mp.sqrt(t)
    return (mp.asin(s) / s - 1) / t


@fit(0, 1, lambda t: t * mp.sqrt(t) / mp.atan(mp.sqrt(t)))
def ATAN(t: Real) -> Real:
    """(atan(s) / s - 1) / s² in t = s², |s| <= 1."""
    s = mp.sqrt(t)
    return (mp.atan(s) / s - 1) / t


@fit(0, 4, lambda t: t * mp.erfc(t) / mp.erf(t), "f32")
def ERF(t: Real) -> Real:
    """-log(erfc(t)) / t - c, 0 <= t <= 4, with c = 2 / sqrt(pi) rounded to float32."""
    return -mp.log(mp.erfc(t)) / t - mp.mpf(float(np.float32(2 / np.pi**0.5)))


@fit(0, 1, lambda t: 1)
def ERF_SMALL(t: Real) -> Real:
    """erf(x) / x in t = x², |x| <= 1."""
    return mp.erf(mp.sqrt(t)) / mp.sqrt(t)


@fit(-1, 0.67, lambda t: 1, "f32")
def ERFCX(t: Real) -> Real:
    """(1 + 2x) exp(x²) erfc(x) in t = (x - 2) / (x + 2), 0 <= x <= 10.1."""
    x = 2 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


def words(size: int, number: int) -> list[Real]:
    """The digits of 2 / pi in words of ``size`` bits, each an integer."""
    with mp.workprec(size * number + 60):
        digits = int(mp.floor(2 / mp.pi * mp.mpf(2) ** (size * number)))
    return [mp.mpf((digits >> size * (number - 1 - k)) % 2**size) for k in range(number)]


def two_over_pi() -> None:
    table = {
        "f32": [float(w * mp.mpf(2) ** (-29 * (k + 1))) for k, w in enumerate(words(29, 7))],
        "f64": [float(w / 2**53) for w in words(53, 24)],
    }
    formula = "2 / pi: a sum of words of 29 bits; and words of 53 bits, each shifted to below 1"
    TABLES["TWO_OVER_PI"] = (formula, table)


def pi_words() -> None:
    """Three words of 24 bits, cut off and not rounded, so that all are positive."""
    found, rest = [], mp.pi
    for _ in range(3):
        unit = mp.mpf(2) ** (int(mp.floor(mp.log(rest, 2))) - 23)
        found.append(mp.floor(rest / unit) * unit)
        rest -= found[-1]
    TABLES["PI"] = ("pi: a sum of positive numbers", {"f32": [float(word) for word in found]})


def show(numbers: list[float], indent: int) -> str:
    return "".join([f"{' ' * indent}{number!r},\n" for number in numbers])


def main() -> None:
    two_over_pi()
    pi_words()
    print('"""Coefficients of generated code, highest power first: written by tools/minimax.py."""')
    for name, (formula, kinds) in TABLES.items():
        tables = [f'    "{kind}": (\n{show(table, 8)}    ),\n' for kind, table in kinds.items()]
        print(f"\n# {formula}\n{name} = {{\n{''.join(tables)}}}")


if __name__ == "__main__":
    main()
