"""Rows of a profile as a list that prints itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.profiler.page import notebook
from rushlight.profiler.report import Row
from rushlight.profiler.table import ordered, text


class EventList(list[Row]):
    """Rows of one kind: averages of groups, or single events.

    Args:
        wall: the seconds that shares are parts of
    """

    def __init__(self, rows: Iterable[Row] = (), group_by: str = "op", wall: float = 0.0) -> None:
        super().__init__(rows)
        self.group_by, self.wall = group_by, wall

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The rows as text.

        Args:
            sort_by: ``"self"``, ``"total"``, ``"mean"``, ``"calls"``, ``"flops"``, ``"bytes"``,
                ``"memory"``, ``"forward"``, ``"backward"``, ``"name"``, or PyTorch's
                ``"cpu_time_total"`` and the like
            row_limit: how many rows are shown; -1 for all
            header: a line above
            max_name_column_width, others: accepted as PyTorch has them; widths are those of the
                terminal, and each time has its own unit
        """
        rows = ordered(self, sort_by)
        shown = text(rows, self.group_by, self.wall, row_limit, sort_by=sort_by)
        return f"{header}\n{shown}" if header else shown

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return notebook({self.group_by: self}, self.wall)

    @property
    def self_cpu_time_total(self) -> float:
        """The microseconds of all rows."""
        return sum([row.self_cpu_time_total for row in self])

    def total_average(self) -> Row:
        """One row for all; an event inside another counts once, as part of the outer one."""

        def total(name: str) -> Any:
            return sum([getattr(row, name) for row in self])

        found = Row("Total", count=total("count"), total=total("total"))
        for name in ("own", "forward", "backward"):
            setattr(found, name, total(name))
        found.busy = found.own
        for name in ("flops", "moved", "best", "allocated"):
            setattr(found, f"own_{name}", total(f"own_{name}"))
            setattr(found, name, total(f"own_{name}"))
        return found
