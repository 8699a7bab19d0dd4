"""CUDA devices: there is none. Questions are answered; what needs a device says it is missing."""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.cuda import amp
from rushlight.device import require
from rushlight.tensor import Tensor
from rushlight.typed import CUDA_TYPES

globals().update({cls.__name__: cls for cls in CUDA_TYPES.values()})


def is_available() -> bool:
    """Whether there is a CUDA device.

    >>> rl.cuda.is_available()
    False
    """
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the CUDA device computes in bfloat16: there is none."""
    return False


def is_initialized() -> bool:
    """Whether CUDA was started."""
    return False


def device_count() -> int:
    """How many CUDA devices there are.

    >>> rl.cuda.device_count()
    0
    """
    return 0


def manual_seed(seed: int) -> None:
    """Seeds the current CUDA device's generator, if there is one."""


def manual_seed_all(seed: int) -> None:
    """Seeds all CUDA devices' generators."""


def get_rng_state_all() -> list[Tensor]:
    """The states of all CUDA devices' generators."""
    return []


def empty_cache() -> None:
    """Gives unused CUDA memory back."""


def memory_allocated(device: Any = None) -> int:
    """Bytes of CUDA memory in tensors."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def missing(*args: Any, **kwargs: Any) -> NoReturn:
    """The error that lists the devices there are."""
    require("cuda")
    raise AssertionError("unreachable: there is no CUDA device")


current_device = set_device = synchronize = get_device_name = get_device_properties = missing
get_device_capability = current_stream = Stream = Event = reset_peak_memory_stats = missing

__all__ = [
    "amp",
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "get_device_properties",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "set_device",
    "synchronize",
]
