"""``torch.autograd.profiler``: PyTorch's older names of :mod:`rushlight.profiler`."""

from __future__ import annotations

from typing import Any

from rushlight.profiler import EventList, record_function
from rushlight.profiler import profile as full_profile
from rushlight.profiler.report import Row

__all__ = ["EventList", "emit_itt", "emit_nvtx", "profile", "record_function"]


class profile:  # noqa: N801 - PyTorch's spelling
    """A profile of one block, without schedules.

    Args:
        enabled: False makes it do nothing
        with_stack: see :class:`rl.profile`; so for the rest

    >>> with rl.autograd.profiler.profile() as p:
    ...     y = rl.ones(3).exp()
    >>> [row.key for row in p.key_averages()]
    ['ones', 'exp']
    """

    def __init__(self, enabled: bool = True, **options: Any) -> None:
        self.enabled = enabled
        self.inner = full_profile(with_stack=bool(options.get("with_stack", False)))

    def __enter__(self) -> profile:
        if self.enabled:
            self.inner.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self.enabled:
            self.inner.stop()

    @property
    def function_events(self) -> EventList:
        return self.inner.events()

    @property
    def self_cpu_time_total(self) -> float:
        """The microseconds of all events."""
        return self.inner.averages().self_cpu_time_total

    def key_averages(self, **options: Any) -> EventList:
        """See :meth:`rl.profile.key_averages`."""
        return self.inner.key_averages(**options)

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        """See :meth:`EventList.table`."""
        return self.inner.averages().table(sort_by, row_limit, **options)

    def total_average(self) -> Row:
        """One row for all."""
        return self.inner.total_average()

    def export_chrome_trace(self, path: str) -> None:
        """See :meth:`rl.profile.export_chrome_trace`."""
        self.inner.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """See :meth:`rl.profile.export_stacks`."""
        self.inner.export_stacks(path, metric)

    def __str__(self) -> str:
        return str(self.inner)


class Emitter:
    """Marks ranges for a profiler of another vendor, which is not there."""

    needs = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled

    def __enter__(self) -> Emitter:
        if self.enabled:
            raise RuntimeError(
                f"{type(self).__name__}: {self.needs} is not there. Use rl.profile()"
            )
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing was begun."""


class emit_nvtx(Emitter):  # noqa: N801 - PyTorch's spelling
    """Ranges for NVIDIA's tools, which need CUDA: an error unless it is disabled."""

    needs = "CUDA"


class emit_itt(Emitter):  # noqa: N801 - PyTorch's spelling
    """Ranges for Intel's tools: an error unless it is disabled."""

    needs = "Intel's ITT"
