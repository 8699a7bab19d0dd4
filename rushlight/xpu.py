"""Intel's accelerators: there is none, and this says so."""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.device import require


def is_available() -> bool:
    """Whether there is an XPU device.

    >>> rl.xpu.is_available()
    False
    """
    return False


def device_count() -> int:
    """How many XPU devices there are."""
    return 0


def manual_seed(seed: int) -> None:
    """Seeds the current XPU device's generator, if there is one."""


def manual_seed_all(seed: int) -> None:
    """Seeds all XPU devices' generators."""


def empty_cache() -> None:
    """Gives unused XPU memory back."""


def missing(*args: Any, **kwargs: Any) -> NoReturn:
    """The error that lists the devices there are."""
    require("xpu")
    raise AssertionError("unreachable: there is no XPU device")


current_device = set_device = synchronize = get_device_name = get_device_properties = missing
