"""When a profile records: PyTorch's schedules, of waiting, warming up and recording steps."""

from __future__ import annotations

import enum
from collections.abc import Callable


class ProfilerActivity(enum.Enum):
    """Where things happen; here it is the CPU, whatever is asked for."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What a profile does during one step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3

    @property
    def records(self) -> bool:
        return self in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def always(step: int) -> ProfilerAction:
    """Records from beginning to end."""
    return ProfilerAction.RECORD


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Cycles of steps: ``wait`` and ``warmup`` pass unrecorded, ``active`` ones are recorded.

    Args:
        wait, warmup, active: the steps of a cycle; before compiled functions are compiled and
            caches are warm, times say little
        repeat: the number of cycles; 0 goes on to the end
        skip_first: steps before the first cycle
        skip_first_wait: not 0: the first cycle does not wait

    >>> plan = rl.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    >>> [plan(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    for name, value in (("wait", wait), ("warmup", warmup), ("repeat", repeat)):
        if value < 0:
            raise ValueError(f"schedule: {name} must not be negative, got {value}")
    if active <= 0:
        raise ValueError(f"schedule: active must be at least 1, got {active}")
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise ValueError(f"schedule: steps count from 0, got {step}")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        if repeat and step // cycle >= repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action
