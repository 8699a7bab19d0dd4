"""Training over several processes: not part of this build, which says so when asked.

>>> rl.distributed.is_available()
False
"""

from __future__ import annotations


def is_available() -> bool:
    """Whether process groups can be made."""
    return False


def is_initialized() -> bool:
    """Whether a process group was made."""
    return False


is_nccl_available = is_gloo_available = is_mpi_available = is_torchelastic_launched = is_available


def get_rank(group: object = None) -> int:
    """The number of this process in a group, of which there is none."""
    raise ValueError("Default process group has not been initialized")


def get_world_size(group: object = None) -> int:
    """The number of processes in a group, of which there is none."""
    raise ValueError("Default process group has not been initialized")


__all__ = [
    "get_rank",
    "get_world_size",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
]
