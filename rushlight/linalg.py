"""Linear algebra: ``rl.linalg``.

>>> rl.linalg.det(rl.eye(3))
tensor(1.)
"""

from rushlight.ops import ops

globals().update(vars(ops.linalg))
