"""Fourier transforms: ``rl.fft``.

>>> rl.fft.fft(rl.tensor([1.0, 0.0, 0.0, 0.0]))
tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
"""

from rushlight.ops import ops

globals().update(vars(ops.fft))
