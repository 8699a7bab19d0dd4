"""Windows that weigh the samples of a signal.

>>> rl.signal.windows.hann(5)
tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
"""

from rushlight.ops import ops

globals().update(vars(vars(ops)["signal.windows"]))
