"""Short-time Fourier transforms: the spectrum of a signal as it changes in time, and back."""

from __future__ import annotations

import numpy as np

from rushlight import dtypes
from rushlight.ops.base import composite, need_tensor, ops
from rushlight.ops.padding import pad
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.slices import fold_back
from rushlight.tensor import Tensor


def centred_window(
    name: str, window: Tensor | None, win_length: int, n_fft: int, kind: dtypes.dtype
) -> Tensor:
    """``window`` (all ones if None) with zeros on both sides up to ``n_fft``."""
    if not 0 < win_length <= n_fft:
        raise RuntimeError(
            f"{name}: expected 0 < win_length <= n_fft, but got win_length={win_length} and "
            f"n_fft={n_fft}"
        )
    if window is None:
        window = ops.ones(win_length, dtype=kind)
    elif window.shape != (win_length,):
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={win_length}, but "
            f"got window with size {list(window.shape)}"
        )
    left = (n_fft - win_length) // 2
    if win_length == n_fft:
        return window
    return ops.constant_pad_nd(window, [left, n_fft - win_length - left])


@composite(
    samples=[
        S(T(12), 4, return_complex=True),
        S(T(2, 12), 4, 2, 3, T(3), normalized=True, return_complex=True),
        S(T(12), 5, center=False, onesided=False, return_complex=False),
        S(T(12), 4, pad_mode="constant", return_complex=False),
    ],
    errors=[
        Fails(RuntimeError, "requires the return_complex parameter", T(10), 4),
        Fails(RuntimeError, "expected a 1D or 2D tensor", T(3, 3, 3), 4, return_complex=True),
        Fails(RuntimeError, "expected 0 < n_fft", T(10), 40, center=False, return_complex=True),
        Fails(RuntimeError, "expected hop_length > 0", T(10), 4, 0, return_complex=True),
        Fails(RuntimeError, "win_length <= n_fft", T(10), 4, win_length=5, return_complex=True),
        Fails(RuntimeError, "1D window tensor", T(10), 4, window=T(5), return_complex=True),
    ],
)
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The Fourier transforms of overlapping pieces of a signal: (*, frequencies, pieces).

    Args:
        input: (time) or (batch, time)
        n_fft: the length of a piece
        hop_length: from the start of one piece to the next, by default n_fft / 4
        window: factors for a piece's samples, ``win_length`` of them, in its middle
        center: whether pieces are centred on multiples of ``hop_length``, the signal being
            continued at its ends as ``pad_mode`` says, rather than starting there
        normalized: whether to divide by √n_fft
        onesided: only the first n_fft/2 + 1 frequencies; by default so for real signals
        return_complex: if False, a last dimension holds real and imaginary parts

    >>> rl.stft(rl.ones(16), n_fft=4, return_complex=True).shape
    rushlight.Size([3, 17])
    """
    x = need_tensor("stft", input)
    hop = n_fft // 4 if hop_length is None else hop_length
    complex_valued = x.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not complex_valued:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs: "
                "stft(..., return_complex=True)"
            )
        return_complex = True
    if x.dtype.category < dtypes.FLOAT:
        raise RuntimeError(
            f"stft: expected a tensor of floating point or complex values, got {x.dtype}"
        )
    if x.ndim not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, got shape {list(x.shape)}")
    if complex_valued and onesided:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    signal = x if x.ndim == 2 else x.unsqueeze(0)
    if center:
        signal = pad(signal, (n_fft // 2, n_fft // 2), pad_mode)
    if not 0 < n_fft <= signal.shape[1]:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {signal.shape[1]}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop}")
    length = n_fft if win_length is None else win_length
    factors = centred_window("stft", window, length, n_fft, signal.dtype.to_real())
    pieces = signal.unfold(-1, n_fft, hop)
    if window is not None or length < n_fft:
        pieces = pieces * factors
    norm = "ortho" if normalized else "backward"
    half = not complex_valued if onesided is None else onesided
    y = (ops.fft.rfft if half else ops.fft.fft)(pieces, norm=norm).mT
    y = y if x.ndim == 2 else y.squeeze(0)
    return y if return_complex else ops.view_as_real(y)


SPECTRUM = T(3, 6, dtype=dtypes.complex128)


@composite(
    samples=[
        S(SPECTRUM, 4),
        S(SPECTRUM, 4, 2, 4, T(4, low=0.5, dtype=dtypes.float64), normalized=True),
        S(SPECTRUM, 4, length=10, hop_length=2),
        S(SPECTRUM, 4, length=20, hop_length=2, center=False),
        S(T(2, 5, 4, dtype=dtypes.complex128), 5, onesided=False, return_complex=True),
    ],
    errors=[
        Fails(RuntimeError, "requires a complex-valued input tensor", T(3, 3), 4),
        Fails(RuntimeError, "expected the frequency dimension .* 4, but got 3", SPECTRUM, 6),
        Fails(RuntimeError, "window overlap add min", SPECTRUM, 4, window=T(values=[0.0] * 4)),
        Fails(RuntimeError, "0 < hop_length <= win_length", SPECTRUM, 4, 10),
    ],
)
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The inverse of :func:`stft`: the signal whose pieces have these spectra, best in the mean.

    Pieces are multiplied by the window, added up where they overlap, and divided by the sum of
    the squared windows there, which must not vanish.

    Args:
        length: of the signal; by default as long as the pieces reach
        return_complex: whether the signal is complex; else only the first n_fft/2 + 1 frequencies
            count, the others mirroring them

    >>> x = rl.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    >>> rl.istft(rl.stft(x, 4, return_complex=True), 4)
    tensor([1., 2., 3., 4., 5., 6., 7., 8.])
    """
    x = need_tensor("istft", input)
    hop = n_fft // 4 if hop_length is None else hop_length
    span = n_fft if win_length is None else win_length
    if not x.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    if x.ndim not in (2, 3) or not x.numel():
        raise RuntimeError(
            "istft: expected a tensor (frequencies, pieces) or (batch, frequencies, pieces) that "
            f"is not empty, got shape {list(x.shape)}"
        )
    half = x.shape[-2] != n_fft if onesided is None else onesided
    if half and (return_complex or (window is not None and window.is_complex())):
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if x.shape[-2] != (n_fft // 2 + 1 if half else n_fft):
        raise RuntimeError(
            "istft: expected the frequency dimension of the input to match "
            f"{'n_fft / 2 + 1' if half else 'n_fft'} = {n_fft // 2 + 1 if half else n_fft}, but "
            f"got {x.shape[-2]}"
        )
    if not 0 < hop <= span:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, got {hop} and {span}")
    factors = centred_window("istft", window, span, n_fft, x.dtype.to_real())
    spectra = (x if x.ndim == 3 else x.unsqueeze(0)).mT
    norm = "ortho" if normalized else "backward"
    if return_complex:
        pieces = ops.fft.ifft(spectra, norm=norm)
    else:
        pieces = ops.fft.irfft(spectra, n_fft, norm=norm)
    y = overlapped(pieces * factors, factors, n_fft, hop, center, length)
    return y if x.ndim == 3 else y.squeeze(0)


def overlapped(
    pieces: Tensor, window: Tensor, n_fft: int, hop: int, center: bool, length: int | None
) -> Tensor:
    """The weighted mean of pieces (batch, count, n_fft) where they overlap, cut to ``length``."""
    batch, count = pieces.shape[:2]
    reach = n_fft + hop * (count - 1)
    total = fold_back(pieces, (batch, reach), 1, n_fft, hop)
    weight = fold_back((window * window).expand(1, count, n_fft), (1, reach), 1, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = reach - start
    if length is not None:
        end = min(start + length, reach)
    total, weight = total.narrow(1, start, end - start), weight.narrow(1, start, end - start)
    smallest = np.abs(weight._array).min(initial=np.inf)
    if not smallest > 1e-11:
        raise RuntimeError(f"istft: window overlap add min is {smallest}, which is too near zero")
    y = total / weight
    if length is not None and end - start < length:
        y = ops.constant_pad_nd(y, [0, length - (end - start)])
    return y
