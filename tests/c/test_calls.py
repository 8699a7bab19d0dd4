"""Every op, exported: values and gradients are those of dynamic mode, or it is in the table."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.c.file import Unsupported
from rushlight.ops.samples import S
from rushlight.symbol import TraceError
from tests.c.building import build, tensors_of
from tests.compiled.test_ops import DEFINED, PUBLIC
from tests.sampling import Maker, flat, supported

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

REFUSED = {
    "complex numbers": (
        "angle", "cdouble", "cfloat", "complex", "conj", "conj_physical", "imag", "linspace",
        "logspace", "polar", "real", "resolve_conj", "resolve_neg", "view_as_complex",
        "view_as_complex_copy", "view_as_real", "view_as_real_copy",
    ),
    "some draws of random numbers": (
        "bernoulli_", "multinomial", "normal", "poisson", "random_",
    ),
    "linear algebra": (
        "cholesky", "cholesky_inverse", "cholesky_solve", "geqrf", "linalg.cholesky",
        "linalg.cholesky_ex", "linalg.cond", "linalg.det", "linalg.eig", "linalg.eigh",
        "linalg.eigvals", "linalg.eigvalsh", "linalg.inv", "linalg.inv_ex", "linalg.ldl_factor",
        "linalg.ldl_factor_ex", "linalg.ldl_solve", "linalg.lstsq", "linalg.lu",
        "linalg.lu_factor", "linalg.lu_factor_ex", "linalg.lu_solve", "linalg.matrix_exp",
        "linalg.matrix_norm", "linalg.matrix_power", "linalg.matrix_rank", "linalg.norm",
        "linalg.pinv", "linalg.qr", "linalg.slogdet", "linalg.solve", "linalg.solve_ex",
        "linalg.solve_triangular", "linalg.svd", "linalg.svdvals", "linalg.tensorinv",
        "linalg.tensorsolve", "logdet", "lu", "lu_solve", "lu_unpack", "pca_lowrank", "pinverse",
        "qr", "svd", "svd_lowrank", "triangular_solve",
    ),
    "a recursion over paths": (
        "ctc_loss", "nn.functional.ctc_loss",
    ),
    "a Fourier transform": (
        "fft.fft", "fft.fft2", "fft.fftn", "fft.hfft", "fft.hfft2", "fft.hfftn", "fft.ifft",
        "fft.ifft2", "fft.ifftn", "fft.ihfft", "fft.ihfft2", "fft.ihfftn", "fft.irfft",
        "fft.irfft2", "fft.irfftn", "fft.rfft", "fft.rfft2", "fft.rfftn", "stft",
    ),
    "histograms": (
        "histc", "histogram", "histogramdd",
    ),
    "a series or recurrence as long as its arguments want": (
        "igamma", "igammac", "special.chebyshev_polynomial_t", "special.chebyshev_polynomial_u",
        "special.chebyshev_polynomial_v", "special.chebyshev_polynomial_w",
        "special.hermite_polynomial_h", "special.hermite_polynomial_he",
        "special.laguerre_polynomial_l", "special.legendre_polynomial_p",
        "special.shifted_chebyshev_polynomial_t", "special.shifted_chebyshev_polynomial_u",
        "special.shifted_chebyshev_polynomial_v", "special.shifted_chebyshev_polynomial_w",
        "special.zeta",
    ),
    "contractions, chunk by chunk": (
        "nn.functional.linear_cross_entropy",
    ),
}  # fmt: skip
"""Ops of which some call cannot be written as C, and why."""

MAY_REFUSE = {name for names in REFUSED.values() for name in names}
BATCH = 40  # ops that are compiled together
Function = Callable[[], Any]


def function_of(name: str, sample: S) -> Function:
    """A call with its gradients, as a function of nothing."""
    op = PUBLIC[name]
    kinds = list(supported(op))
    maker = Maker(dtype=rl.float32 if rl.float32 in kinds else kinds[0], grad=True)
    args, kwargs = maker.make(list(sample.args)), maker.make(sample.kwargs)

    def function() -> Any:
        y = op.call(*args, **kwargs)
        roots = [t for t in flat(y) if t.requires_grad and t.numel()]
        leaves = [t for t in maker.tensors if t.requires_grad]
        ones = [rl.ones_like(t) for t in roots]
        found = rl.autograd.grad(roots, leaves, ones, allow_unused=True) if roots else ()
        return [t.detach() for t in flat(y)], [g for g in found if g is not None]

    return function


def functions_of(name: str) -> list[Function]:
    """The calls of an op that dynamic mode does not refuse, and graphs can hold."""
    found = []
    for sample in PUBLIC[name].samples:
        try:
            function_of(name, sample)()
            rl.graph(function_of(name, sample))
        except (RuntimeError, TypeError, ValueError, IndexError, TraceError):
            continue
        found.append(function_of(name, sample))
    return found


def compare(names: Sequence[str], folder: Path) -> None:
    """All calls of some ops, in one program."""
    functions = [function for name in names for function in functions_of(name)]

    def together() -> Any:
        return [function() for function in functions]

    rl.manual_seed(0)
    state = rl.get_rng_state()
    built = build(together, folder=folder, weights="array")
    (found,) = built.run([])
    rl.set_rng_state(state)
    expected = tensors_of(together())
    for a, b in zip(found, expected, strict=True):
        agree(a, b)


def agree(found: np.ndarray, expected: np.ndarray) -> None:
    """The same up to the rounding of sums and functions."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected)
        return
    tolerance = {2: 2e-2, 4: 1e-5, 8: 1e-10}[found.dtype.itemsize]
    x, y = expected.astype(np.float64), found.astype(np.float64)
    finite = np.abs(x[np.isfinite(x)])
    scale = max(1.0, float(finite.max())) if finite.size else 1.0
    np.testing.assert_allclose(y, x, rtol=tolerance, atol=tolerance * scale / 4)


EXPORTED = [name for name in DEFINED if name not in MAY_REFUSE]


def test_some_ops(tmp_path: Path) -> None:
    compare(EXPORTED[::60], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(EXPORTED), BATCH))
def test_ops(first: int, tmp_path: Path) -> None:
    compare(EXPORTED[first : first + BATCH], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MAY_REFUSE))
def test_what_is_refused_says_so(name: str, tmp_path: Path) -> None:
    def export() -> None:
        for function in functions_of(name):
            rl.export_c(function, dir=tmp_path, name="f")

    with pytest.raises(Unsupported, match="cannot be written as C"):
        export()
