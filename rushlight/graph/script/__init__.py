"""Python's own control flow in graphs: functions are converted so that tensors can decide."""

from rushlight.graph.script.calls import convert, scripted

__all__ = ["convert", "scripted"]
