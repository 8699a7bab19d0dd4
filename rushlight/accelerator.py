"""Accelerators: there is none, and this says so."""

from __future__ import annotations

from rushlight.device import device


def is_available() -> bool:
    """Whether there is an accelerator.

    >>> rl.accelerator.is_available()
    False
    """
    return False


def device_count() -> int:
    """How many accelerators there are."""
    return 0


def current_accelerator(check_available: bool = False) -> device | None:
    """The accelerator's device, or None."""
    return None
