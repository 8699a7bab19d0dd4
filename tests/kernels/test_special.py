"""The special functions against values to 17 digits, identities, and their limits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rushlight.kernels import special
from rushlight.kernels.elementwise import BLOCK

inf, nan = math.inf, math.nan

# Arguments, then the value, computed with 60 digits and rounded to float64.
GOLDEN = {
    "erf": [
        (1e-300, 1.1283791670955126e-300),
        (-0.3, -0.3286267594591274),
        (0.9, 0.7969082124228322),
        (1.5, 0.9661051464753108),
        (-4.0, -0.9999999845827421),
    ],
    "erfc": [
        (-2.0, 1.9953222650189528),
        (-0.3, 1.3286267594591274),
        (0.4, 0.5716076449533315),
        (1.0, 0.15729920705028513),
        (5.0, 1.537459794428035e-12),
        (26.0, 5.663192408856143e-296),
    ],
    "erfcx": [
        (-20.0, 1.0442939379528289e174),
        (-0.5, 1.952360489182557),
        (0.5, 0.6156903441929259),
        (4.0, 0.13699945762506138),
        (1000.0, 0.0005641893014533876),
    ],
    "erfinv": [
        (1e-300, 8.86226925452758e-301),
        (-0.4, -0.37080715859355795),
        (0.75, 0.8134198475976185),
        (-0.99, -1.8213863677184494),
        (0.9999999999, 4.572824958544925),
    ],
    "ndtr": [
        (-37.0, 5.725571222524577e-300),
        (-3.0, 0.0013498980316300946),
        (-0.2, 0.42074029056089696),
        (0.4, 0.6554217416103242),
        (2.0, 0.9772498680518208),
    ],
    "ndtri": [
        (1e-300, -37.0470962993612),
        (1e-10, -6.361340902404057),
        (0.1, -1.2815515655446004),
        (0.3, -0.5244005127080408),
        (0.95, 1.6448536269514722),
    ],
    "log_ndtr": [
        (-10000.0, -50000010.12927891),
        (-5.0, -15.064998393988725),
        (-0.7, -1.4189677615315315),
        (0.2, -0.5460043537227741),
        (3.0, -0.0013508099647481938),
    ],
    "lgamma": [
        (1e-300, 690.7755278982137),
        (0.3, 1.0957979948180756),
        (1.0000001, -5.772155829918507e-08),
        (1.999, -0.0004224618006921073),
        (3.7, 1.428072326665388),
        (50.0, 144.5657439463449),
        (10000000000.0, 220258509288.81058),
        (-0.5, 1.2655121234846454),
        (-7.3, -7.779101629826852),
    ],
    "digamma": [
        (1e-10, -10000000000.577215),
        (0.3, -3.502524222200133),
        (1.4616, -3.110625123034165e-05),
        (2.5, 0.7031566406452432),
        (10.0, 2.251752589066721),
        (10000000000.0, 23.025850929890456),
        (-0.3, 2.113309779635399),
        (-7.4, 3.088293861711058),
    ],
    "trigamma": [
        (1e-10, 1e20),
        (0.3, 12.245364546107732),
        (2.5, 0.49035775610023485),
        (10.0, 0.10516633568168575),
        (10000000000.0, 1.00000000005e-10),
        (-0.3, 13.945160267805722),
        (-7.4, 10.78515206657958),
    ],
    "zeta": [
        (1.0001, 1.0, 10000.577222947539),
        (2.0, 0.1, 101.43329915079275),
        (3.5, 10.0, 0.0014322106437178635),
        (30.0, 1.5, 5.215096203815732e-06),
        (2.0, 1000000.0, 1.0000005000001667e-06),
        (3.0, -0.3, -33.81954059994158),
        (2.0, -5.5, 9.7033198653394),
    ],
    "igamma": [
        (0.01, 1e-05, 0.8963367982671973),
        (0.5, 0.3, 0.5614219739190002),
        (2.0, 5.0, 0.9595723180054871),
        (11.0, 4.0, 0.002839766120513743),
        (30.0, 5.0, 2.8175176155779225e-14),
        (100.0, 100.0, 0.5132987982791487),
        (1000.0, 900.0, 0.0005499022657117829),
    ],
    "igammac": [
        (1e-10, 0.5, 5.597735948054988e-11),
        (0.5, 1.0, 0.15729920705028513),
        (2.0, 50.0, 9.83662422461598e-21),
        (11.0, 30.0, 2.2348775738450595e-05),
        (20.0, 90.0, 1.1492512409480212e-19),
        (100.0, 120.0, 0.027863739890520663),
        (1000.0, 1100.0, 0.0010593232539299773),
    ],
    "i0": [
        (0.5, 1.0634833707413236),
        (-7.0, 168.5939085102897),
        (30.0, 781672297823.9775),
        (712.0, 2.4684110577627523e307),
    ],
    "i0e": [
        (0.5, 0.6450352704491501),
        (-7.0, 0.15373774467288126),
        (30.0, 0.0731459464822373),
        (10000.0, 0.003989472674604732),
    ],
    "i1": [
        (0.5, 0.2578943053908963),
        (-7.0, -156.03909286995545),
        (30.0, 768532038938.957),
        (712.0, 2.4666770135246153e307),
    ],
    "i1e": [
        (0.5, 0.1564208031848717),
        (-7.0, -0.14228923470959867),
        (30.0, 0.07191633059864755),
        (10000.0, 0.003989273195983662),
    ],
    "modified_bessel_k0": [
        (1e-10, 23.14178244559887),
        (0.7, 0.6605198599151016),
        (3.0, 0.03473950438627925),
        (600.0, 1.3558285309948523e-262),
    ],
    "modified_bessel_k1": [
        (1e-10, 10000000000.0),
        (0.7, 1.050283535312918),
        (3.0, 0.040156431128194184),
        (600.0, 1.356957918112806e-262),
    ],
    "scaled_modified_bessel_k0": [
        (0.7, 1.3301236562420558),
        (3.0, 0.6977615980438517),
        (1000.0, 0.03962832160075422),
    ],
    "scaled_modified_bessel_k1": [
        (0.7, 2.1150113128480523),
        (3.0, 0.8065634801287869),
        (1000.0, 0.03964813081296021),
    ],
    "bessel_j0": [
        (0.5, 0.9384698072408129),
        (2.4, 0.002507683297243859),
        (-3.9, -0.4018260148876399),
        (10.0, -0.24593576445134835),
        (10000.0, -0.0070961603533888015),
    ],
    "bessel_j1": [
        (1e-10, 5e-11),
        (0.5, 0.2422684576748739),
        (-3.8, -0.0128210029267317),
        (10.0, 0.04347274616886144),
        (10000.0, 0.0036474507555295803),
    ],
    "bessel_y0": [
        (1e-10, -14.732516272697241),
        (0.5, -0.44451873350670656),
        (3.0, 0.3768500100127904),
        (10.0, 0.055671167283599395),
        (10000.0, 0.0036478055589866058),
    ],
    "bessel_y1": [
        (1e-10, -6366197723.675814),
        (0.5, -1.471472392670243),
        (3.0, 0.3246744247918),
        (10.0, 0.24901542420695388),
        (10000.0, 0.007096342752536495),
    ],
    "spherical_bessel_j0": [
        (1e-10, 1.0),
        (0.5, 0.958851077208406),
        (-30.0, -0.03293438746976206),
    ],
    "airy_ai": [
        (-20.0, -0.1764061270779847),
        (-5.0, 0.35076100902411433),
        (-2.3, 0.02670633305735697),
        (0.0, 0.3550280538878172),
        (0.9, 0.15188680364054435),
        (2.0, 0.03492413042327438),
        (20.0, 1.6916728686705404e-27),
    ],
    "sinc": [
        (1e-10, 1.0),
        (0.5, 0.6366197723675814),
        (-2.7, 0.09537707681490437),
        (1000.25, 0.00022502282333344316),
    ],
    "logit": [
        (1e-300, -690.7755278982137),
        (0.1, -2.197224577336219),
        (0.5000001, 3.99999999789463e-07),
        (0.9, 2.1972245773362196),
    ],
    "xlogy": [
        (2.0, 0.3, -2.4079456086518722),
        (-0.5, 7.0, -0.9729550745276566),
    ],
    "xlog1py": [
        (2.0, -0.3, -0.7133498878774647),
        (-0.5, 1e-10, -4.9999999997500004e-11),
    ],
    "entr": [
        (1e-300, 6.9077552789821376e-298),
        (0.3, 0.3611918412977808),
        (5.0, -8.047189562170502),
    ],
}

# Relative errors beyond 1e-15, for reasons that the docstrings give.
TOLERANCE = {"airy_ai": 2e-14, "zeta": 5e-15, "igamma": 2e-14, "igammac": 2e-14}

# Where a function has a pole, an end of its domain, or a limit: argument, value.
LIMITS = {
    "erf": [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0)],
    "erfc": [(0.0, 1.0), (30.0, 0.0), (1e300, 0.0), (inf, 0.0), (-inf, 2.0)],
    "erfcx": [(0.0, 1.0), (inf, 0.0), (-inf, inf), (-30.0, inf)],
    "erfinv": [(0.0, 0.0), (-0.0, -0.0), (1.0, inf), (-1.0, -inf), (1.5, nan), (-inf, nan)],
    "ndtr": [(0.0, 0.5), (inf, 1.0), (-inf, 0.0)],
    "ndtri": [(0.0, -inf), (0.5, 0.0), (1.0, inf), (-0.1, nan), (1.1, nan)],
    "log_ndtr": [(inf, -0.0), (-inf, -inf)],
    "lgamma": [(0.0, inf), (-0.0, inf), (1.0, 0.0), (2.0, 0.0), (-3.0, inf), (inf, inf)],
    "digamma": [(0.0, -inf), (-0.0, inf), (-1.0, nan), (inf, inf), (-inf, nan)],
    "trigamma": [(0.0, inf), (-2.0, inf), (inf, 0.0), (-inf, nan)],
    "i0": [(0.0, 1.0), (inf, inf), (-inf, inf)],
    "i0e": [(0.0, 1.0), (inf, 0.0), (-inf, 0.0)],
    "i1": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf)],
    "i1e": [(0.0, 0.0), (-0.0, -0.0), (inf, 0.0), (-inf, -0.0)],
    "bessel_j0": [(0.0, 1.0), (inf, 0.0), (-inf, 0.0)],
    "bessel_j1": [(0.0, 0.0), (-0.0, -0.0), (inf, 0.0), (-inf, -0.0)],
    "bessel_y0": [(0.0, -inf), (-0.0, -inf), (-1.0, nan), (inf, 0.0)],
    "bessel_y1": [(0.0, -inf), (-0.0, -inf), (-1.0, nan), (inf, 0.0)],
    "modified_bessel_k0": [(0.0, inf), (-0.0, inf), (-1.0, nan), (inf, 0.0)],
    "modified_bessel_k1": [(0.0, inf), (-0.0, inf), (-1.0, nan), (inf, 0.0)],
    "scaled_modified_bessel_k0": [(0.0, inf), (-1.0, nan), (inf, 0.0)],
    "scaled_modified_bessel_k1": [(0.0, inf), (-0.0, inf), (-1.0, nan), (inf, 0.0)],
    "spherical_bessel_j0": [(0.0, 1.0), (inf, 0.0), (-inf, 0.0)],
    "airy_ai": [(200.0, 0.0), (inf, nan), (-inf, nan)],
    "sinc": [(0.0, 1.0), (-0.0, 1.0), (inf, nan), (-inf, nan)],
    "logit": [(0.0, -inf), (-0.0, -inf), (0.5, 0.0), (1.0, inf), (-0.1, nan), (1.1, nan)],
    "entr": [(0.0, 0.0), (-0.0, 0.0), (-1.0, -inf), (inf, -inf), (-inf, -inf)],
    "xlogy": [(0.0, 0.0, 0.0), (0.0, inf, 0.0), (0.0, nan, nan), (0.0, -1.0, 0.0)],
    "xlog1py": [(0.0, -1.0, 0.0), (0.0, inf, 0.0), (0.0, nan, nan), (1.0, -1.0, -inf)],
    "zeta": [
        (1.0, 2.0, inf),
        (0.5, 2.0, nan),
        (2.0, 0.0, inf),
        (2.0, -3.0, inf),
        (2.5, -0.5, nan),
        (2.0, inf, 0.0),
        (inf, 1.0, 1.0),
        (1e18, 2.0, 0.0),
    ],
    "igamma": [
        (0.0, 0.0, nan),
        (0.0, 1.0, 1.0),
        (1.0, 0.0, 0.0),
        (1.0, inf, 1.0),
        (inf, 1.0, 0.0),
        (inf, inf, nan),
        (-1.0, 1.0, nan),
        (1.0, -1.0, nan),
        (1e300, 1.0, 0.0),
        (1e-300, 1.0, 1.0),
        (2.0, 1e300, 1.0),
    ],
    "igammac": [(0.0, 1.0, 0.0), (1.0, 0.0, 1.0), (1.0, inf, 0.0), (inf, 1.0, 1.0)],
}
UNARY = [name for name, cases in LIMITS.items() if len(cases[0]) == 2]
POLYNOMIALS = [name for name in special.__all__ if "polynomial" in name]


def columns(cases: list[tuple[float, ...]], dtype: Any = np.float64) -> list[np.ndarray]:
    with np.errstate(over="ignore", under="ignore"):
        return [np.array(column, dtype) for column in zip(*cases, strict=True)]


@pytest.mark.parametrize("name", GOLDEN)
def test_values(name: str) -> None:
    *arguments, expected = columns(GOLDEN[name])
    actual = getattr(special, name)(*arguments)
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE.get(name, 1.2e-15), atol=0)


@pytest.mark.parametrize("name", GOLDEN)
def test_float32_is_the_rounded_float64(name: str) -> None:
    *arguments, _ = columns(GOLDEN[name], np.float32)
    actual = getattr(special, name)(*arguments)
    with np.errstate(over="ignore", under="ignore"):
        wide = getattr(special, name)(*[a.astype(np.float64) for a in arguments])
        expected = wide.astype(np.float32)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, expected, rtol=4e-7, atol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", LIMITS)
def test_limits(name: str, dtype: type) -> None:
    *arguments, expected = columns(LIMITS[name], dtype)
    actual = getattr(special, name)(*arguments)
    np.testing.assert_array_equal(actual, expected)
    real = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual[real]), np.signbit(expected[real]))


@pytest.mark.parametrize("name", UNARY)
def test_nan_stays(name: str) -> None:
    assert np.isnan(getattr(special, name)(np.array([nan, 1.0]))[0])


@pytest.mark.parametrize("name", ["xlogy", "xlog1py", "zeta", "igamma", "igammac"])
def test_nan_in_either_argument_stays(name: str) -> None:
    function = getattr(special, name)
    assert np.isnan(function(np.array([nan, 2.0]), np.array([2.0, nan]))).all()


@pytest.mark.parametrize("name", UNARY)
def test_any_layout(name: str) -> None:
    function = getattr(special, name)
    values = np.linspace(0.05, 0.95, 120)
    expected = function(values)
    for x in (values.reshape(4, 5, 6).transpose(2, 0, 1), values[::-2], values.reshape(10, 12).T):
        y = function(x)
        assert y.shape == x.shape
        np.testing.assert_array_equal(y, np.interp(x, values, expected))
    permuted = values.reshape(4, 5, 6).transpose(2, 0, 1)
    assert function(permuted).strides == permuted.strides
    scalar = function(np.array(0.5))
    assert isinstance(scalar, np.ndarray)
    assert scalar.shape == ()
    assert function(np.empty((0, 3))).shape == (0, 3)


def test_arguments_broadcast() -> None:
    a, x = np.array([[0.5], [2.0], [40.0]]), np.array([0.1, 3.0, 40.0, 90.0])
    y = special.igamma(a, x)
    assert y.shape == (3, 4)
    for i in range(3):
        for j in range(4):
            assert y[i, j] == special.igamma(a[i], x[j : j + 1])[0]
    assert special.zeta(a.astype(np.float32) + 1, x).dtype == np.float64


@pytest.mark.parametrize("name", UNARY)
def test_blocks_join_and_arguments_stay(name: str) -> None:
    x = np.linspace(0.001, 0.999, 2 * BLOCK + 17)
    before = x.copy()
    y = getattr(special, name)(x)
    np.testing.assert_array_equal(x, before)
    some = [0, BLOCK - 1, BLOCK, 2 * BLOCK, x.size - 1]
    np.testing.assert_array_equal(y[some], getattr(special, name)(x[some]))


def test_error_functions_agree() -> None:
    x = np.linspace(-6, 6, 1001)
    np.testing.assert_allclose(special.erf(x) + special.erfc(x), 1, rtol=1e-15)
    np.testing.assert_allclose(special.erfc(x) + special.erfc(-x), 2, rtol=1e-15)
    np.testing.assert_allclose(special.ndtr(x), special.erfc(-x / np.sqrt(2)) / 2, rtol=2e-14)
    np.testing.assert_allclose(np.exp(special.log_ndtr(x)), special.ndtr(x), rtol=1e-14)
    p = np.linspace(0.001, 0.999, 999)
    np.testing.assert_allclose(special.erf(special.erfinv(p)), p, rtol=1e-15)
    np.testing.assert_allclose(special.ndtr(special.ndtri(p)), p, rtol=2e-15)


def test_erf_in_float32_saturates_and_never_leaves_its_range() -> None:
    x = np.linspace(3.5, 12, 100_000, dtype=np.float32)
    y = special.erf(x)
    assert y.max() == 1
    assert (y[x > 4.1] == 1).all()
    np.testing.assert_array_equal(special.erf(-x), -y)


def test_gamma_functions_agree() -> None:
    x = np.linspace(0.1, 30, 1000)
    step = np.log(x)
    np.testing.assert_allclose(special.lgamma(x + 1), special.lgamma(x) + step, atol=4e-14)
    np.testing.assert_allclose(special.digamma(x + 1), special.digamma(x) + 1 / x, atol=4e-15)
    np.testing.assert_allclose(special.trigamma(x), special.zeta(np.array(2.0), x), rtol=2e-15)
    y = -x[(x % 1 > 0.05) & (x % 1 < 0.95)]
    reflected = special.trigamma(1 - y) + special.trigamma(y)
    np.testing.assert_allclose(reflected, (np.pi / np.sin(np.pi * y)) ** 2, rtol=1e-12)


@pytest.mark.parametrize("n", range(5))
def test_polygamma_recurs(n: int) -> None:
    x = np.linspace(-4.45, 8.45, 130)
    step = (-1) ** n * math.factorial(n) / x ** (n + 1)
    y = special.polygamma(n, x + 1)
    error = np.abs(special.polygamma(n, x) + step - y)
    assert (error <= 1e-11 * np.abs(y) + 1e-13 * np.abs(step)).all()
    assert special.polygamma(n, x.astype(np.float32)).dtype == np.float32


def test_polygamma_of_high_order_overflows() -> None:
    assert special.polygamma(200, np.array([1.0]))[0] == -inf


def test_multigammaln_constant() -> None:
    assert special.multigammaln_constant(3) == pytest.approx(1.5 * math.log(math.pi))


def test_incomplete_gamma_functions_agree() -> None:
    generator = np.random.default_rng(0)
    a = np.exp(generator.uniform(-20, 12, 4000))
    x = a * np.exp(generator.normal(size=a.size))
    p, q = special.igamma(a, x), special.igammac(a, x)
    np.testing.assert_allclose(p + q, 1, rtol=4e-16)
    assert ((p >= 0) & (p <= 1)).all()
    # P(a, x) - P(a + 1, x) = x^a exp(-x) / gamma(a + 1).
    step = np.exp(a * np.log(x) - x - special.lgamma(a + 1))
    usual = a < 1000
    difference = (p - special.igamma(a + 1, x))[usual]
    np.testing.assert_allclose(difference, step[usual], rtol=1e-10, atol=1e-14)


def test_bessel_functions_agree() -> None:
    x = np.linspace(0.1, 40, 2000)
    wronskian = special.bessel_j1(x) * special.bessel_y0(x)
    wronskian -= special.bessel_j0(x) * special.bessel_y1(x)
    np.testing.assert_allclose(wronskian, 2 / (np.pi * x), rtol=1e-14)
    modified = special.i0(x) * special.modified_bessel_k1(x)
    modified += special.i1(x) * special.modified_bessel_k0(x)
    np.testing.assert_allclose(modified, 1 / x, rtol=4e-15)
    scaled = special.i0e(x) * special.scaled_modified_bessel_k1(x)
    scaled += special.i1e(x) * special.scaled_modified_bessel_k0(x)
    np.testing.assert_allclose(scaled, 1 / x, rtol=4e-15)


def test_logit_clamps() -> None:
    x = np.array([-1.0, 0.0, 0.3, 1.0, nan], np.float32)
    y = special.logit(x, 0.25)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, special.logit(np.array([0.25, 0.25, 0.3, 0.75, nan])), rtol=1e-6)
    assert special.logit(x, -1.0)[1] == -inf


def test_sinc_vanishes_at_integers() -> None:
    integers = np.array([1.0, -2.0, 1e15, -1e300])
    np.testing.assert_array_equal(special.sinc(integers), 0)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_degrees_that_are_none(name: str) -> None:
    function = getattr(special, name)
    x = np.array([-0.7, 0.3, 2.0, nan])
    for n in (-1.0, -inf, inf, nan):
        np.testing.assert_array_equal(function(x, np.array(n)), 0)
    np.testing.assert_array_equal(function(x, np.array(0.0)), 1)
    np.testing.assert_array_equal(function(x, np.array(2.9)), function(x, np.array(2.0)))
    assert np.isnan(function(x, np.array(3.0))[3])
    assert function(x.astype(np.float32), np.array(3, np.float32)).dtype == np.float32


# The n-th polynomial as NumPy sums it from its own basis.
SERIES = {
    "chebyshev_polynomial_t": np.polynomial.chebyshev.chebval,
    "hermite_polynomial_h": np.polynomial.hermite.hermval,
    "hermite_polynomial_he": np.polynomial.hermite_e.hermeval,
    "laguerre_polynomial_l": np.polynomial.laguerre.lagval,
    "legendre_polynomial_p": np.polynomial.legendre.legval,
}


@pytest.mark.parametrize("name", SERIES)
def test_polynomials_equal_numpy(name: str) -> None:
    x, n = np.meshgrid(np.linspace(-2, 2, 41), np.arange(25.0))
    actual = getattr(special, name)(x, n)
    for degree in range(25):
        expected = SERIES[name](x[degree], np.eye(25)[degree])
        scale = np.abs(expected).max()
        np.testing.assert_allclose(actual[degree], expected, rtol=1e-11, atol=1e-13 * scale)


def test_chebyshev_kinds_agree() -> None:
    x, n = np.meshgrid(np.linspace(-1.5, 1.5, 61), np.arange(1.0, 30))
    t, u = special.chebyshev_polynomial_t, special.chebyshev_polynomial_u
    v, w = special.chebyshev_polynomial_v, special.chebyshev_polynomial_w
    close = {"rtol": 1e-11, "atol": 1e-11}
    np.testing.assert_allclose(u(x, n), x * u(x, n - 1) + t(x, n), **close)
    np.testing.assert_allclose(v(x, n), u(x, n) - u(x, n - 1), **close)
    np.testing.assert_allclose(w(x, n), u(x, n) + u(x, n - 1), **close)
    for kind in "tuvw":
        plain = getattr(special, f"chebyshev_polynomial_{kind}")
        shifted = getattr(special, f"shifted_chebyshev_polynomial_{kind}")
        np.testing.assert_allclose(shifted((x + 1) / 2, n), plain(x, n), rtol=1e-10, atol=1e-10)


def test_large_degrees_end() -> None:
    n = np.array(1e9)
    assert np.isnan(special.chebyshev_polynomial_t(np.array([2.0]), n)).all()
    assert np.isnan(special.laguerre_polynomial_l(np.array([-1e9]), n)).all()
    np.testing.assert_array_equal(special.chebyshev_polynomial_w(np.array([1.0]), n), 2e9 + 1)
    x = np.array([0.5])
    assert np.isnan(special.hermite_polynomial_h(x, np.array(513.0))).all()
    assert np.isfinite(special.hermite_polynomial_he(x, np.array(200.0))).all()
    single = np.array(129, np.float32)
    assert np.isnan(special.hermite_polynomial_he(x.astype(np.float32), single)).all()


def test_every_function_is_tested() -> None:
    tested = {*LIMITS, *POLYNOMIALS, "polygamma", "multigammaln_constant"}
    aliases = {"modified_bessel_i0", "modified_bessel_i1"}
    assert tested | aliases == set(special.__all__)
