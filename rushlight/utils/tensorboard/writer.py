"""Where PyTorch has its writer."""

from rushlight.board import SummaryWriter

__all__ = ["SummaryWriter"]
