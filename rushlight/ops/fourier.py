"""What the transforms of ``rl.fft`` have in common: three primitives, and their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.ops.base import Op, axes, axis, into, need_tensor, ops, registry
from rushlight.ops.families import conjugate
from rushlight.tensor import Tensor

OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
"""The normalisation with which the transform of the other direction scales by the same factor."""


class FftC2c(Op):
    """Complex (or real) to complex; ``norm`` is NumPy's. Its adjoint is its opposite."""

    function = method = False
    library = "a Fourier transform"

    def check(self, x: Tensor, dims: tuple[int, ...], norm: str, inverse: bool) -> Any:
        return (x,), {"dims": dims, "norm": norm, "inverse": inverse}

    def eager(self, x, *, dims, norm, inverse):
        for d in reversed(dims):
            x = (np.fft.ifft if inverse else np.fft.fft)(x, axis=d, norm=norm)
        return x

    def vjp(self, g, _y, _x, *, dims, norm, inverse):
        return c2c(g, dims, OPPOSITE[norm], not inverse)


class FftR2c(Op):
    """Real to the half of the spectrum that determines the rest, which mirrors it."""

    function = method = False
    library = "a Fourier transform"

    def check(self, x: Tensor, dims: tuple[int, ...], norm: str) -> Any:
        return (x,), {"dims": dims, "norm": norm}

    def eager(self, x, *, dims, norm):
        y = np.fft.rfft(x, axis=dims[-1], norm=norm)
        for d in reversed(dims[:-1]):
            y = np.fft.fft(y, axis=d, norm=norm)
        return y

    def vjp(self, g, _y, _x, *, dims, norm):
        n = _x.shape[dims[-1]]
        return c2r(g * mirrored(n, g, dims[-1], 0.5), dims, n, OPPOSITE[norm])


class FftC2r(Op):
    """The half of a spectrum to the real signal of length ``n``."""

    function = method = False
    library = "a Fourier transform"

    def check(self, x: Tensor, dims: tuple[int, ...], n: int, norm: str) -> Any:
        return (x,), {"dims": dims, "n": n, "norm": norm}

    def eager(self, x, *, dims, n, norm):
        if x.shape[dims[-1]] != n // 2 + 1:  # NumPy reads the first value of an empty spectrum
            raise RuntimeError(f"{n} points have no spectrum of {x.shape[dims[-1]]} values")
        for d in reversed(dims[:-1]):
            x = np.fft.ifft(x, axis=d, norm=norm)
        return np.fft.irfft(x, n, dims[-1], norm=norm)

    def vjp(self, g, _y, _x, *, dims, n, norm):
        y = r2c(g, dims, OPPOSITE[norm])
        return y * mirrored(n, y, dims[-1], 2.0)


c2c, r2c, c2r = (registry[name].call for name in ("fft_c2c", "fft_r2c", "fft_c2r"))


def mirrored(n: int, spectrum: Tensor, dim: int, weight: float) -> Tensor:
    """``weight`` at the frequencies of a half spectrum that have a mirror image, 1 at the others.

    Those are 0 and, if ``n`` is even, n/2.
    """
    weights = ops.full((n // 2 + 1,), weight, dtype=spectrum.dtype.to_real())
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    return weights.reshape([-1 if d == dim else 1 for d in range(spectrum.ndim)])


def prepare(name: str, input: Any, real: bool = False) -> Tensor:
    """``input`` in a dtype that can be transformed."""
    x = need_tensor(name, input)
    kind = x.dtype
    if real and kind.is_complex:
        raise RuntimeError(f"{name} expects a real input tensor, but got {kind.storage_name}")
    if kind.numpy in dtypes.HALF:
        raise RuntimeError(f"{name}: Unsupported dtype {kind.storage_name}")
    return x.to(dtypes.get_default_dtype()) if kind.category < dtypes.FLOAT else x


def check_norm(norm: str | None) -> str:
    if norm is None:
        return "backward"
    if norm not in OPPOSITE:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return norm


def plan(x: Tensor, s: Any, dim: Any) -> tuple[tuple[int, ...], list[int | None]]:
    """(dimensions to transform, the length of each or None)."""
    if isinstance(s, int):
        s = (s,)
    if dim is None:
        if s is not None and len(s) > x.ndim:
            raise RuntimeError(
                f"Got shape with {len(s)} values but input tensor only has {x.ndim} dimensions."
            )
        dims = tuple(range(x.ndim - (x.ndim if s is None else len(s)), x.ndim))
    else:
        wanted = (dim,) if isinstance(dim, int) else tuple(dim)
        if len({axis(d, x.ndim) for d in wanted}) != len(wanted):
            raise RuntimeError(f"FFT dims must be unique, got {wanted}")
        if not x.ndim and wanted:
            raise IndexError(f"Dimension specified as {wanted[0]} but tensor has no dimensions")
        dims = axes(wanted, x.ndim)
    if s is not None and len(s) != len(dims):
        raise RuntimeError("When given, dim and shape arguments must have the same length")
    sizes = [None if s is None or s[i] == -1 else s[i] for i in range(len(dims))]
    return dims, sizes


def points(n: int) -> int:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return n


def resized(x: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """``x`` cut, or filled up with zeros, to the given lengths."""
    extra = [0] * x.ndim
    for d, n in zip(dims, sizes, strict=True):
        extra[d] = points(n) - x.shape[d]
    if not any(extra):
        return x
    return ops.constant_pad_nd(x, [p for n in reversed(extra) for p in (0, n)])


def complex_transform(
    name: str, input: Any, s: Any, dim: Any, norm: str | None, out: Any, inverse: bool = False
) -> Tensor:
    x, how = prepare(name, input), check_norm(norm)
    dims, sizes = plan(x, s, dim)
    lengths = [x.shape[d] if n is None else n for d, n in zip(dims, sizes, strict=True)]
    x = resized(x, dims, lengths)
    y = c2c(x, dims, how, inverse) if dims else x.to(x.dtype.to_complex())
    return y if out is None else into(out, y)


def real_transform(
    name: str, input: Any, s: Any, dim: Any, norm: str | None, out: Any, hermitian: bool = False
) -> Tensor:
    """Real to half spectrum; the inverse of :func:`to_real` with ``hermitian``."""
    x, how = prepare(name, input, real=True), check_norm(norm)
    dims, sizes = plan(x, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    lengths = [x.shape[d] if n is None else n for d, n in zip(dims, sizes, strict=True)]
    y = r2c(resized(x, dims, lengths), dims, OPPOSITE[how] if hermitian else how)
    if hermitian:
        y = y.conj()
    return y if out is None else into(out, y)


def to_real(
    name: str, input: Any, s: Any, dim: Any, norm: str | None, out: Any, hermitian: bool = False
) -> Tensor:
    """Half spectrum to real; ``hermitian`` transforms in the forward direction."""
    x, how = prepare(name, input), check_norm(norm)
    dims, sizes = plan(x, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    lengths = [x.shape[d] if n is None else n for d, n in zip(dims, sizes, strict=True)]
    n = points(2 * (x.shape[dims[-1]] - 1) if sizes[-1] is None else sizes[-1])
    x = resized(x, dims, [*lengths[:-1], n // 2 + 1])
    if hermitian:
        x, how = conjugate(x), OPPOSITE[how]
    y = c2r(x, dims, n, how)
    return y if out is None else into(out, y)
