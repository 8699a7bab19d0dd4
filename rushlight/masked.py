"""Reductions and normalisations that leave out masked elements: ``rl.masked``.

>>> rl.masked.mean(rl.tensor([1.0, 2.0, 3.0]), mask=rl.tensor([True, False, True]))
tensor(2.)
"""

from rushlight.ops import ops

globals().update(vars(ops.masked))
