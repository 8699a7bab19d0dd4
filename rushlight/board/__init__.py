"""TensorBoard's event files: ``SummaryWriter``, without TensorFlow."""

from rushlight.board.writer import SummaryWriter

__all__ = ["SummaryWriter"]
