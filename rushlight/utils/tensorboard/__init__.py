"""``rl.utils.tensorboard``: what a training run says about itself, for TensorBoard."""

from rushlight.board import SummaryWriter

__all__ = ["SummaryWriter"]
