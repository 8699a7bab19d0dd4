"""Python's own control flow in graphs: functions are converted so that tensors can decide."""

from rushlight.graph.script.calls import convert
from rushlight.graph.script.flow import notes

__all__ = ["convert", "notes"]
