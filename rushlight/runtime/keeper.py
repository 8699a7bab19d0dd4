"""What a program keeps from call to call, and whether it is still right.

Early steps (``passes/early.py``) make it of captured tensors. It is right as long as these have the
same memory and nobody has written to that, which their counters tell: those of the tensors, of
their views, and of all others that are known to be over the same memory. Memory that NumPy or
another library knows may change unseen; then early steps run at every call.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

import numpy as np

from rushlight.autograd.tape import counter
from rushlight.runtime.arena import Arena
from rushlight.runtime.program import KernelStep, Program
from rushlight.tensor import Counter, Tensor


class Keeper:
    """The kept memory of one binding.

    Args:
        holders: the tensors that a program captures, by their numbers.
    """

    def __init__(self, program: Program, holders: Sequence[Tensor | None]) -> None:
        self.memory = Arena(program.kept)
        self.numbers = read_early(program)
        self.tensors: list[Any] = [holders[i] for i in self.numbers]
        self.counters: list[Counter] = []
        self.arrays: list[Any] = [None] * len(self.numbers)  # as they were when it was made
        self.stamps: list[Any] | None = None
        self.now: list[Any] | None = None

    def is_current(self, captured: Sequence[Any]) -> bool:
        """Whether all is as it was when :meth:`made` was called."""
        arrays = [captured[i] for i in self.numbers]
        if not all(map(is_, arrays, self.arrays)):
            self.stamps = None
            self.arrays = arrays
            self.counters = [counter(t) for t in self.tensors]
        self.now = [c.value if c.kin is None else c.kin.stamp() for c in self.counters]
        if self.now == self.stamps:
            return True
        self.stamps = None  # until early steps have run, nothing is right
        return False

    def made(self) -> None:
        """Early steps have run on what :meth:`is_current` has seen."""
        self.stamps = self.now if all(map(is_owned, self.arrays)) else None


def read_early(program: Program) -> list[int]:
    """The numbers of the captured tensors that early steps read."""
    early = [step for step in program.steps[: program.early] if isinstance(step, KernelStep)]
    slots = {program.slots[i] for step in early for i in step.slots}
    return sorted({slot.place for slot in slots if slot.where == "captured"})


def is_owned(array: np.ndarray) -> bool:
    """Whether the memory of an array is NumPy's own, not a file's or another process's."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return bool(array.flags.owndata)
