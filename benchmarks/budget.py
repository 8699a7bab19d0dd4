"""Time as a budget: a run ends about when it should, whatever its workloads take."""

from __future__ import annotations

import math
import time

PATIENCE = 5  # shares that the preparation of one workload may take
LEAST = 60.0  # seconds that it may take in any case: better late than without a contender


class Budget:
    """The time of a part of the run, dealt out to its workloads in turn.

    What one of them leaves is there for those after it.

    Args:
        seconds: for all of them.
        count: of the workloads.
    """

    def __init__(self, seconds: float = math.inf, count: int = 1) -> None:
        self.end, self.count, self.done = time.perf_counter() + seconds, count, 0

    @property
    def left(self) -> float:
        """Seconds for all workloads that are left."""
        return max(0.0, self.end - time.perf_counter())

    @property
    def share(self) -> float:
        """Seconds for the next one."""
        return self.left / max(1, self.count - self.done)

    @property
    def limit(self) -> float:
        """Seconds after which a contender is not waited for."""
        return max(LEAST, min(self.left, PATIENCE * self.share))

    def __str__(self) -> str:
        left = "" if math.isinf(self.left) else f", about {math.ceil(self.left / 60)} min left"
        return f"{min(self.done + 1, self.count)} of {self.count}{left}"
