"""Waiting for other threads and processes, which a loaded machine may hold up at any point."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool]) -> None:
    """Returns as soon as it holds; an error after a minute, in which nothing sound is held up."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.001)
