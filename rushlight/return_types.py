"""The named tuples of ops with several results: ``rl.return_types``.

>>> isinstance(rl.ones(2, 3).max(dim=0), rl.return_types.max)
True
"""

from rushlight.ops.results import RETURN_TYPES

globals().update(RETURN_TYPES)
