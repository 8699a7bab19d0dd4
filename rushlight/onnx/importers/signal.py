"""Fourier transforms and what sound is made ready with."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight import fft
from rushlight.onnx.importers.conversion import element_named
from rushlight.onnx.importers.registry import integer, op, tensor_of
from rushlight.ops import ops
from rushlight.tensor import Tensor


def complex_of(x: Tensor) -> Tensor:
    """Numbers whose parts are the last axis, of one or two elements."""
    if x.shape[-1] == 2:
        return ops.view_as_complex(x.contiguous())
    return ops.complex(x[..., 0], ops.zeros_like(x[..., 0]))


@op("DFT", known=["dft_length", "axis"], since=20)
def dft(
    x: Tensor, dft_length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0
) -> Tensor:
    """The discrete Fourier transform, or half of it, along an axis."""
    dim = -2 if axis is None else integer(axis)
    dim = dim % x.ndim
    length = None if dft_length is None else integer(dft_length)
    z = complex_of(x)
    if inverse and onesided:
        return fft.irfft(z, length, dim).unsqueeze(-1)
    y = fft.ifft(z, length, dim) if inverse else fft.fft(z, length, dim)
    if onesided:
        y = y.narrow(dim, 0, y.shape[dim] // 2 + 1)
    return ops.view_as_real(y)


@op("DFT", known=["dft_length"])
def dft_17(
    x: Tensor, dft_length: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Tensor:
    return dft(x, dft_length, np.array(axis), inverse=inverse, onesided=onesided)


@op("STFT", known=["frame_step", "frame_length"])
def stft(
    signal: Tensor,
    frame_step: Any,
    window: Tensor | None = None,
    frame_length: Any = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """Transforms of frames that begin ``frame_step`` apart."""
    if window is not None:
        length = window.shape[0]
    else:
        length = signal.shape[1] if frame_length is None else integer(frame_length)
    step = integer(frame_step)
    count = (signal.shape[1] - length) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(length)
    frames = signal.index_select(1, tensor_of(places.reshape(-1)))
    frames = frames.reshape(signal.shape[0], count, length, *signal.shape[2:])
    if frames.ndim == 3:
        frames = frames.unsqueeze(-1)
    if window is not None:
        frames = frames * window[:, None]
    y = fft.fft(complex_of(frames), None, 2)
    if onesided:
        y = y.narrow(2, 0, length // 2 + 1)
    return ops.view_as_real(y)


@op("MelWeightMatrix", known=["bins", "length", "rate", "lower", "upper"])
def mel_weights(
    bins: Any, length: Any, rate: Any, lower: Any, upper: Any, *, output_datatype: int = 1
) -> Tensor:
    """Triangles over the frequencies, evenly spaced as the ear hears them."""
    count, size = integer(bins), integer(length)
    ends = 2595 * np.log10(1 + np.array([lower.item(), upper.item()]) / 700)
    centers = ends[0] + np.arange(count + 2) * (ends[1] - ends[0]) / (count + 2)
    hertz = 700 * (10 ** (centers / 2595) - 1)
    places = np.floor((size + 1) * hertz / integer(rate)).astype(np.int64)
    result = np.zeros((size // 2 + 1, count))
    for i in range(count):
        low, middle, high = places[i : i + 3]
        if low == middle:
            result[middle, i] = 1
        else:
            rising = np.arange(low, middle + 1)
            result[rising, i] = (rising - low) / (middle - low)
        if high > middle:
            falling = np.arange(middle, high)
            result[falling, i] = (high - falling) / (high - middle)
    return tensor_of(result.astype(element_named(output_datatype)))
