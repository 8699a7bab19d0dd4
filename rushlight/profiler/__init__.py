"""Where time goes: :class:`profile`, and PyTorch's names around it."""

from rushlight.profiler.averages import EventList
from rushlight.profiler.schedule import ProfilerAction, ProfilerActivity, schedule
from rushlight.profiler.session import (
    kineto_available,
    profile,
    record_function,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "EventList",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
