"""Windows that weigh the samples of a signal: ``rl.signal.windows``, and their older names.

A window has ``count`` samples at n = 0, 1, …; it spans n = 0 to ``last``, which is the final sample
of a symmetric window and the one after it of a periodic window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.kernels.casting import cast
from rushlight.layouts import whole
from rushlight.ops.creation import Factory
from rushlight.ops.samples import Fails, S

SAMPLES = [S(5), S(4, sym=False), S(0), S(1), S(6, dtype=dtypes.float64)]
ERRORS = [
    Fails(ValueError, "requires non-negative window length, got M=-1", -1),
    Fails(
        ValueError, "expects float32 or float64 dtypes, got: rushlight.int64", 4, dtype=dtypes.int64
    ),
    Fails(TypeError, "argument 'M' must be int, not float", 4.5),
]
BLACKMAN = (0.42, 0.5, 0.08)
NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)


class Window(Factory, abstract=True):
    """``curve(n, last, …)`` is the window's height at the samples ``n``, in float64."""

    curve: Callable[..., np.ndarray]

    def eager(self, *, count, sym, kind, **parameters):
        if count == 1:
            return np.ones(1, kind)
        return cast(self.curve(np.arange(count), count - sym, **parameters), kind)


class Signal(Window, abstract=True):
    """The windows of ``rl.signal.windows``: symmetric unless asked otherwise."""

    namespace = "signal.windows"
    samples = SAMPLES
    errors = ERRORS

    def settled(self, M: int, sym: bool, dtype: Any) -> dict[str, Any]:
        """The attributes all windows have."""
        count = whole(M, self.name, "M")
        if count < 0:
            raise ValueError(f"{self.name} requires non-negative window length, got M={count}")
        kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
        if kind not in (dtypes.float32, dtypes.float64):
            raise ValueError(f"{self.name} expects float32 or float64 dtypes, got: {kind}")
        return {"count": count, "sym": bool(sym), "kind": kind.numpy}


def cosines(n: np.ndarray, last: int, a: Sequence[float]) -> np.ndarray:
    """a₀ − a₁ cos(2πn/last) + a₂ cos(4πn/last) − …"""
    turns = 2 * math.pi * n / last
    return sum([(-1) ** k * c * np.cos(k * turns) for k, c in enumerate(a)])


class Hann(Signal):
    """The Hann window: 1/2 − 1/2 cos(2πn / last).

    >>> rl.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """

    def check(self, M: int, *, sym: bool = True, dtype: dtypes.dtype | None = None) -> Any:
        return (), self.settled(M, sym, dtype)

    def curve(self, n, last):
        return cosines(n, last, (0.5, 0.5))


class Hamming(Signal):
    """The Hamming window: 0.54 − 0.46 cos(2πn / last).

    >>> rl.signal.windows.hamming(5)
    tensor([0.0800, 0.5400, 1.0000, 0.5400, 0.0800])
    """

    def check(self, M: int, *, sym: bool = True, dtype: dtypes.dtype | None = None) -> Any:
        return (), self.settled(M, sym, dtype)

    def curve(self, n, last):
        return cosines(n, last, (0.54, 0.46))


class GeneralHamming(Signal):
    """α − (1 − α) cos(2πn / last).

    >>> rl.signal.windows.general_hamming(5, alpha=0.6)
    tensor([0.2000, 0.6000, 1.0000, 0.6000, 0.2000])
    """

    samples = [*SAMPLES, S(5, alpha=0.6)]

    def check(
        self,
        M: int,
        *,
        alpha: float = 0.54,
        sym: bool = True,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        return (), {**self.settled(M, sym, dtype), "alpha": float(alpha)}

    def curve(self, n, last, alpha):
        return cosines(n, last, (alpha, 1 - alpha))


class GeneralCosine(Signal):
    """a₀ − a₁ cos(2πn/last) + a₂ cos(4πn/last) − …

    >>> rl.signal.windows.general_cosine(5, a=[0.5, 0.5])
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """

    samples = [S(5, a=[0.4, 0.4, 0.2]), S(4, a=(1.0,), sym=False), S(0, a=[1.0]), S(1, a=[0.5])]
    errors = [
        Fails(ValueError, "requires non-negative window length, got M=-1", -1, a=[1.0]),
        Fails(TypeError, "Coefficients must be a list/tuple", 4, a=3),
        Fails(ValueError, "Coefficients cannot be empty", 4, a=[]),
    ]

    def check(
        self,
        M: int,
        *,
        a: Sequence[float],
        sym: bool = True,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        if not isinstance(a, (list, tuple)):
            raise TypeError(f"Coefficients must be a list/tuple, not {type(a).__name__}")
        if not a:
            raise ValueError("Coefficients cannot be empty")
        return (), {**self.settled(M, sym, dtype), "a": tuple(map(float, a))}

    def curve(self, n, last, a):
        return cosines(n, last, a)


class Blackman(Signal):
    """The Blackman window: 0.42 − 0.5 cos(2πn / last) + 0.08 cos(4πn / last).

    >>> rl.signal.windows.blackman(4, sym=False)[1:]
    tensor([0.3400, 1.0000, 0.3400])
    """

    def check(self, M: int, *, sym: bool = True, dtype: dtypes.dtype | None = None) -> Any:
        return (), self.settled(M, sym, dtype)

    def curve(self, n, last):
        return cosines(n, last, BLACKMAN)


class Nuttall(Signal):
    """The Nuttall window: four cosines that make the side lobes small.

    >>> rl.signal.windows.nuttall(5)
    tensor([3.6280e-04, 2.2698e-01, 1.0000e+00, 2.2698e-01, 3.6280e-04])
    """

    def check(self, M: int, *, sym: bool = True, dtype: dtypes.dtype | None = None) -> Any:
        return (), self.settled(M, sym, dtype)

    def curve(self, n, last):
        return cosines(n, last, NUTTALL)


class Bartlett(Signal):
    """The triangle 1 − |2n / last − 1|.

    >>> rl.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """

    def check(self, M: int, *, sym: bool = True, dtype: dtypes.dtype | None = None) -> Any:
        return (), self.settled(M, sym, dtype)

    def curve(self, n, last):
        return 1 - np.abs(2 * n / last - 1)


class Cosine(Signal):
    """Half a wave: sin(π (n + 1/2) / (last + 1)).

    >>> rl.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """

    def check(self, M: int, *, sym: bool = True, dtype: dtypes.dtype | None = None) -> Any:
        return (), self.settled(M, sym, dtype)

    def curve(self, n, last):
        return np.sin(math.pi * (n + 0.5) / (last + 1))


class Exponential(Signal):
    """exp(−|n − center| / τ); the center of a periodic window can be chosen.

    >>> rl.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """

    samples = [*SAMPLES, S(5, tau=2.0), S(5, center=1.0, sym=False)]
    errors = [
        *ERRORS,
        Fails(ValueError, "Tau must be positive, got: -1", 4, tau=-1),
        Fails(ValueError, "Center must be None for symmetric windows", 4, center=1.0),
    ]

    def check(
        self,
        M: int,
        *,
        center: float | None = None,
        tau: float = 1.0,
        sym: bool = True,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        if tau <= 0:
            raise ValueError(f"Tau must be positive, got: {tau} instead.")
        if sym and center is not None:
            raise ValueError("Center must be None for symmetric windows")
        return (), {**self.settled(M, sym, dtype), "center": center, "tau": float(tau)}

    def curve(self, n, last, center, tau):
        return np.exp(-np.abs(n - (last / 2 if center is None else center)) / tau)


class Gaussian(Signal):
    """exp(−1/2 ((n − last/2) / std)²).

    >>> rl.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """

    samples = [*SAMPLES, S(5, std=2.0)]
    errors = [*ERRORS, Fails(ValueError, "Standard deviation must be positive, got: 0", 4, std=0)]

    def check(
        self, M: int, *, std: float = 1.0, sym: bool = True, dtype: dtypes.dtype | None = None
    ) -> Any:
        if std <= 0:
            raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
        return (), {**self.settled(M, sym, dtype), "std": float(std)}

    def curve(self, n, last, std):
        return np.exp(-0.5 * ((n - last / 2) / std) ** 2)


class Kaiser(Signal):
    """I₀(β √(1 − (2n/last − 1)²)) / I₀(β), with the modified Bessel function I₀.

    >>> rl.signal.windows.kaiser(3, beta=1.0)
    tensor([0.7898, 1.0000, 0.7898])
    """

    samples = [*SAMPLES, S(5, beta=2.0)]
    errors = [*ERRORS, Fails(ValueError, "beta must be non-negative, got: -1", 4, beta=-1)]

    def check(
        self, M: int, *, beta: float = 12.0, sym: bool = True, dtype: dtypes.dtype | None = None
    ) -> Any:
        if beta < 0:
            raise ValueError(f"beta must be non-negative, got: {beta} instead.")
        return (), {**self.settled(M, sym, dtype), "beta": float(beta)}

    def curve(self, n, last, beta):
        return np.i0(beta * np.sqrt(1 - (2 * n / last - 1) ** 2)) / np.i0(beta)


class OldWindow(Window, abstract=True):
    """Windows by their older names: periodic unless asked otherwise, of any floating type."""

    namespace = ""
    samples = [S(5), S(4, False), S(0), S(1), S(5, periodic=False, dtype=dtypes.float64)]
    errors = [
        Fails(RuntimeError, "requires non-negative window_length, got window_length=-1", -1),
        Fails(RuntimeError, "expects floating point dtypes", 4, dtype=dtypes.int64),
        Fails(TypeError, "argument 'window_length' must be int, not float", 4.5),
    ]

    def settled(self, window_length: int, periodic: bool, dtype: Any) -> dict[str, Any]:
        """The attributes all windows have."""
        count = whole(window_length, self.name, "window_length")
        if count < 0:
            raise RuntimeError(
                f"{self.name} requires non-negative window_length, got window_length={count}"
            )
        kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
        if kind.category != dtypes.FLOAT:
            raise RuntimeError(f"{self.name} expects floating point dtypes, got: {kind}")
        return {"count": count, "sym": not periodic, "kind": kind.numpy}


class HannWindow(OldWindow):
    """The Hann window; see :func:`rl.signal.windows.hann`.

    >>> rl.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """

    def check(
        self, window_length: int, periodic: bool = True, *, dtype: dtypes.dtype | None = None
    ) -> Any:
        return (), self.settled(window_length, periodic, dtype)

    def curve(self, n, last):
        return cosines(n, last, (0.5, 0.5))


class HammingWindow(OldWindow):
    """α − β cos(2πn / last); see :func:`rl.signal.windows.hamming`.

    >>> rl.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """

    samples = [*OldWindow.samples, S(5, True, 0.6, 0.3), S(5, periodic=False, alpha=0.6)]

    def check(
        self,
        window_length: int,
        periodic: bool = True,
        alpha: float = 0.54,
        beta: float = 0.46,
        *,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        attrs = self.settled(window_length, periodic, dtype)
        return (), {**attrs, "alpha": float(alpha), "beta": float(beta)}

    def curve(self, n, last, alpha, beta):
        return cosines(n, last, (alpha, beta))


class BlackmanWindow(OldWindow):
    """The Blackman window; see :func:`rl.signal.windows.blackman`.

    >>> rl.blackman_window(4)[1:]
    tensor([0.3400, 1.0000, 0.3400])
    """

    def check(
        self, window_length: int, periodic: bool = True, *, dtype: dtypes.dtype | None = None
    ) -> Any:
        return (), self.settled(window_length, periodic, dtype)

    def curve(self, n, last):
        return cosines(n, last, BLACKMAN)


class BartlettWindow(OldWindow):
    """The triangular window; see :func:`rl.signal.windows.bartlett`.

    >>> rl.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """

    def check(
        self, window_length: int, periodic: bool = True, *, dtype: dtypes.dtype | None = None
    ) -> Any:
        return (), self.settled(window_length, periodic, dtype)

    def curve(self, n, last):
        return 1 - np.abs(2 * n / last - 1)


class KaiserWindow(OldWindow):
    """The Kaiser window; see :func:`rl.signal.windows.kaiser`.

    >>> rl.kaiser_window(3, periodic=False, beta=1.0)
    tensor([0.7898, 1.0000, 0.7898])
    """

    samples = [*OldWindow.samples, S(5, True, 2.0), S(5, periodic=False, beta=3.0)]

    def check(
        self,
        window_length: int,
        periodic: bool = True,
        beta: float = 12.0,
        *,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        return (), {**self.settled(window_length, periodic, dtype), "beta": float(beta)}

    def curve(self, n, last, beta):
        return np.i0(beta * np.sqrt(1 - (2 * n / last - 1) ** 2)) / np.i0(beta)
