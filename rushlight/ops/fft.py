"""Discrete Fourier transforms: ``rl.fft``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.layouts import whole
from rushlight.ops.base import axes, composite, need_tensor
from rushlight.ops.creation import Factory, numpy_kind
from rushlight.ops.fourier import complex_transform, real_transform, to_real
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

Dims = int | Sequence[int] | None


def errors(first: T, *, dims: bool = True) -> list[Fails]:
    """Error samples of a transform over one dimension, or over several if ``dims``."""
    fails = [
        Fails(RuntimeError, 'normalization mode: "x"', first, norm="x"),
        Fails(IndexError, "Dimension out of range", first, dim=5),
        Fails(RuntimeError, "Unsupported dtype Half", T(3, 4, dtype=dtypes.float16)),
    ]
    if dims:
        same = "dim and shape arguments must have the same length"
        return [
            *fails,
            Fails(RuntimeError, same, first, s=(3, 3), dim=(0,)),
            Fails(RuntimeError, "FFT dims must be unique", first, dim=(0, 0)),
        ]
    return [*fails, Fails(RuntimeError, r"data points \(0\)", first, n=0)]


NORMS = ("backward", "ortho", "forward")
ONE = [
    S(T(3, 5)),
    S(T(6), n=4),
    S(T(3, 4), n=7, dim=0),
    *[S(T(5), norm=norm) for norm in NORMS],
    *[S(T(4), norm=norm) for norm in NORMS],
    S(T(0, 4)),
]
TWO = [
    S(T(3, 4)),
    S(T(2, 3, 4), s=(5, 3)),
    S(T(3, 4, 2), dim=(1, 0), norm="ortho"),
    S(T(4, 3), s=(-1, 4), norm="forward"),
]
MANY = [*TWO, S(T(2, 3, 3)), S(T(2, 3, 4), s=(3,)), S(T(2, 3, 4), dim=(1,)), S(T(5), dim=0)]
FIRST = T(3, 4)


@composite(namespace="fft", method=False, samples=ONE, errors=errors(FIRST, dims=False))
def fft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The Fourier transform along one dimension: yₖ = Σ xⱼ·exp(-2πi·jk/n).

    Args:
        n: the length to cut or fill the signal to, by default its own
        norm: "backward" leaves it as it is, "ortho" divides by √n, "forward" by n

    >>> rl.fft.fft(rl.tensor([1.0, 0.0, 0.0, 0.0]))
    tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    return complex_transform("fft", input, n, dim, norm, out)


@composite(namespace="fft", method=False, samples=ONE, errors=errors(FIRST, dims=False))
def ifft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of :func:`fft.fft`: yⱼ = 1/n·Σ xₖ·exp(2πi·jk/n).

    Args:
        n: the length to cut or fill the signal to, by default its own
        norm: "backward" divides by n, "ortho" by √n, "forward" leaves it as it is

    >>> rl.fft.ifft(rl.fft.fft(rl.tensor([1.0, 2.0]))).real
    tensor([1., 2.])
    """
    return complex_transform("ifft", input, n, dim, norm, out, inverse=True)


@composite(namespace="fft", method=False, samples=ONE, errors=errors(FIRST, dims=False))
def rfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The Fourier transform of a real signal: the n/2 + 1 first of its n values.

    The others are their conjugates in reverse order. For ``n`` and ``norm`` see :func:`fft.fft`.

    >>> rl.fft.rfft(rl.tensor([1.0, 0.0, 0.0, 0.0]))
    tensor([1.+0.j, 1.+0.j, 1.+0.j])
    """
    return real_transform("rfft", input, n, dim, norm, out)


@composite(namespace="fft", method=False, samples=ONE, errors=errors(FIRST, dims=False))
def irfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of :func:`fft.rfft`: the real signal of length ``n``, by default 2·(m - 1).

    The length cannot be told from the m values of its half spectrum when it is odd.

    >>> rl.fft.irfft(rl.fft.rfft(rl.tensor([1.0, 2.0, 3.0])), n=3)
    tensor([1., 2., 3.])
    """
    return to_real("irfft", input, n, dim, norm, out)


@composite(namespace="fft", method=False, samples=ONE, errors=errors(FIRST, dims=False))
def hfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The Fourier transform of a signal with xₙ₋ⱼ = conj(xⱼ), given as its first half: real.

    ``n`` is the length of the result, by default 2·(m - 1).

    >>> rl.fft.hfft(rl.tensor([1.0, 1.0, 1.0]))
    tensor([4., 0., 0., 0.])
    """
    return to_real("hfft", input, n, dim, norm, out, hermitian=True)


@composite(namespace="fft", method=False, samples=ONE, errors=errors(FIRST, dims=False))
def ihfft(
    input: Tensor,
    n: int | None = None,
    dim: int = -1,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of :func:`fft.hfft`: half of the signal with a real transform.

    >>> rl.fft.ihfft(rl.tensor([4.0, 0.0, 0.0, 0.0]))
    tensor([1.-0.j, 1.-0.j, 1.-0.j])
    """
    return real_transform("ihfft", input, n, dim, norm, out, hermitian=True)


@composite(namespace="fft", method=False, samples=TWO, errors=errors(FIRST))
def fft2(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The Fourier transform over two dimensions, by default the last.

    >>> rl.fft.fft2(rl.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return complex_transform("fft2", input, s, dim, norm, out)


@composite(namespace="fft", method=False, samples=TWO, errors=errors(FIRST))
def ifft2(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of :func:`fft.fft2`.

    >>> rl.fft.ifft2(rl.fft.fft2(rl.eye(2))).real
    tensor([[1., 0.],
            [0., 1.]])
    """
    return complex_transform("ifft2", input, s, dim, norm, out, inverse=True)


@composite(namespace="fft", method=False, samples=TWO, errors=errors(FIRST))
def rfft2(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The Fourier transform of real values over two dimensions, half of the last one.

    >>> rl.fft.rfft2(rl.ones(2, 4)).shape
    rushlight.Size([2, 3])
    """
    return real_transform("rfft2", input, s, dim, norm, out)


@composite(namespace="fft", method=False, samples=TWO, errors=errors(FIRST))
def irfft2(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of :func:`fft.rfft2`; ``s`` holds the lengths of the result.

    >>> rl.fft.irfft2(rl.fft.rfft2(rl.eye(2)))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return to_real("irfft2", input, s, dim, norm, out)


@composite(namespace="fft", method=False, samples=TWO, errors=errors(FIRST))
def hfft2(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The Fourier transform of Hermitian values over two dimensions, half of the last one given.

    >>> rl.fft.hfft2(rl.ones(2, 3)).shape
    rushlight.Size([2, 4])
    """
    return to_real("hfft2", input, s, dim, norm, out, hermitian=True)


@composite(namespace="fft", method=False, samples=TWO, errors=errors(FIRST))
def ihfft2(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of :func:`fft.hfft2`.

    >>> rl.fft.ihfft2(rl.ones(2, 4)).shape
    rushlight.Size([2, 3])
    """
    return real_transform("ihfft2", input, s, dim, norm, out, hermitian=True)


@composite(namespace="fft", method=False, samples=MANY, errors=errors(FIRST))
def fftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The Fourier transform over several dimensions, by default all.

    Args:
        s: the length to cut or fill each of them to; -1 keeps it
        dim: which; by default the last ones, as many as ``s`` has
        norm: "backward" leaves it as it is, "ortho" divides by √n, "forward" by n = Π s

    >>> rl.fft.fftn(rl.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return complex_transform("fftn", input, s, dim, norm, out)


@composite(namespace="fft", method=False, samples=MANY, errors=errors(FIRST))
def ifftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of :func:`fft.fftn`.

    >>> rl.fft.ifftn(rl.fft.fftn(rl.eye(2))).real
    tensor([[1., 0.],
            [0., 1.]])
    """
    return complex_transform("ifftn", input, s, dim, norm, out, inverse=True)


@composite(namespace="fft", method=False, samples=MANY, errors=errors(FIRST))
def rfftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The Fourier transform of real values over several dimensions, half of the last one.

    >>> rl.fft.rfftn(rl.ones(2, 2, 4)).shape
    rushlight.Size([2, 2, 3])
    """
    return real_transform("rfftn", input, s, dim, norm, out)


@composite(namespace="fft", method=False, samples=MANY, errors=errors(FIRST))
def irfftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of :func:`fft.rfftn`; ``s`` holds the lengths of the result.

    >>> rl.fft.irfftn(rl.fft.rfftn(rl.eye(2)))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return to_real("irfftn", input, s, dim, norm, out)


@composite(namespace="fft", method=False, samples=MANY, errors=errors(FIRST))
def hfftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The Fourier transform of Hermitian values over several dimensions, half of the last given.

    >>> rl.fft.hfftn(rl.ones(2, 2, 3)).shape
    rushlight.Size([2, 2, 4])
    """
    return to_real("hfftn", input, s, dim, norm, out, hermitian=True)


@composite(namespace="fft", method=False, samples=MANY, errors=errors(FIRST))
def ihfftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of :func:`fft.hfftn`.

    >>> rl.fft.ihfftn(rl.ones(2, 2, 4)).shape
    rushlight.Size([2, 2, 3])
    """
    return real_transform("ihfftn", input, s, dim, norm, out, hermitian=True)


SHIFTS = [S(T(5)), S(T(4, 3)), S(T(4, 3), dim=1), S(T(2, 3, 4), dim=(0, 2)), S(T(0))]


@composite(
    namespace="fft",
    method=False,
    samples=SHIFTS,
    errors=[Fails(IndexError, "Dimension out of range", T(3), dim=2)],
)
def fftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """Moves frequency 0 to the middle, in the dimensions ``dim`` or in all.

    >>> rl.fft.fftshift(rl.fft.fftfreq(5, d=0.2))
    tensor([-2., -1.,  0.,  1.,  2.])
    """
    x = need_tensor("fftshift", input)
    dims = tuple(range(x.ndim)) if dim is None else axes(dim, x.ndim)
    return x.roll([x.shape[d] // 2 for d in dims], dims)


@composite(
    namespace="fft",
    method=False,
    samples=SHIFTS,
    errors=[Fails(IndexError, "Dimension out of range", T(3), dim=2)],
)
def ifftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """The inverse of :func:`fft.fftshift`.

    >>> rl.fft.ifftshift(rl.tensor([-2.0, -1.0, 0.0, 1.0, 2.0]))
    tensor([ 0.,  1.,  2., -2., -1.])
    """
    x = need_tensor("ifftshift", input)
    dims = tuple(range(x.ndim)) if dim is None else axes(dim, x.ndim)
    return x.roll([-(x.shape[d] // 2) for d in dims], dims)


class Frequencies(Factory, abstract=True):
    """What frequencies the values of a transform of ``n`` samples ``d`` apart belong to."""

    namespace = "fft"
    samples = [S(5), S(4, d=0.5), S(1), S(6, 2.0, dtype=dtypes.float64)]
    errors = [Fails(TypeError, "argument 'n' must be int, not float", 2.5)]

    def check(self, n: int, d: float = 1.0, *, dtype: dtypes.dtype | None = None) -> Any:
        return (), {"n": whole(n, self.name, "n"), "d": d, "kind": numpy_kind(dtype)}


class Fftfreq(Frequencies):
    """The frequencies of :func:`fft.fft`: 0, 1, …, -2, -1, divided by n·d.

    >>> rl.fft.fftfreq(4, d=0.25)
    tensor([ 0.,  1., -2., -1.])
    """

    def eager(self, *, n, d, kind):
        steps = np.arange(n) if n else np.zeros(0)
        steps[(n + 1) // 2 :] -= n
        return (steps.astype(kind) * (1 / (n * d) if n else 1)).astype(kind)


class Rfftfreq(Frequencies):
    """The frequencies of :func:`fft.rfft`: 0, 1, …, n/2, divided by n·d.

    >>> rl.fft.rfftfreq(4, d=0.25)
    tensor([0., 1., 2.])
    """

    def eager(self, *, n, d, kind):
        return (np.arange(n // 2 + 1).astype(kind) * (1 / (n * d) if n else 1)).astype(kind)
