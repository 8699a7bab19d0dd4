"""PyTorch's name of what does not belong to the network: ``rl.utils.data``."""

from rushlight.utils import data
