"""The functions of networks: ``rl.nn.functional``, by custom ``F``.

>>> import rushlight.nn.functional as F
>>> F.relu(rl.tensor([-1.0, 2.0]))
tensor([0., 2.])
"""

from rushlight.ops import ops

globals().update(vars(ops.__dict__["nn.functional"]))
