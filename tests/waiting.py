"""Waiting for other threads and processes, which a busy machine may hold up at any point."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 300  # seconds after which what is waited for is taken to hang


def wait_until(condition: Callable[[], bool]) -> None:
    """Returns as soon as it holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.001)
