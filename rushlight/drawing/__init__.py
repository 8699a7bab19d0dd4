"""Pictures of the graph that a tensor was computed by."""

from rushlight.drawing.draw import draw

__all__ = ["draw"]
