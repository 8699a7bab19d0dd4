"""Program: the steps of a compiled graph as plain data, ready to be bound to memory.

A step runs a kernel, calls an op's eager kernel (a library call), or copies; others make branches
and loops of them. All memory is named by *slots*: an input, a captured value, an output, a
constant, a place in the arena or in memory that is kept from call to call, or a stack.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np


class Slot(NamedTuple):
    """A piece of memory.

    ``where`` is input, captured, output, constant, arena, kept, stack or function.
    """

    where: str
    place: int  # its number there, or its offset in the arena or in what is kept
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        size = self.dtype.itemsize
        for n in self.shape:
            size *= n
        return size


class KernelStep(NamedTuple):
    """Runs a kernel over its ``parts``, ``chunk`` of them at a time."""

    name: str
    slots: tuple[int, ...]
    parts: int
    chunk: int
    origin: int  # the step of the plan that it comes from
    number: int = 0  # which of the kernels of that step
    shared: bool = False  # whether the function is one that all programs share
    path: tuple[tuple[int, int], ...] = ()  # to the graph of its plan, see runtime/control.py


class Operand(NamedTuple):
    """An operand of a library call: a slot, seen through views (op, attributes)."""

    slot: int
    views: tuple[tuple[Any, Any], ...] = ()


class CallStep(NamedTuple):
    """Calls an op's eager kernel; random ones draw from the generator of a captured slot."""

    op: Any
    attrs: Any
    operands: tuple[Operand | None, ...]
    results: tuple[int | None, ...]
    generator: int | None
    origin: int
    path: tuple[tuple[int, int], ...] = ()


class CopyStep(NamedTuple):
    """Copies one slot to another."""

    source: int
    target: int


class RowStep(NamedTuple):
    """Copies a row: both begin as many strides (in bytes) further as the counter says."""

    source: int
    target: int
    counter: int
    from_stride: int
    to_stride: int
    nbytes: int


class JumpStep(NamedTuple):
    """Goes on at another step, unless the integer in a slot is ``number``."""

    slot: int
    number: int
    to: int


class CountStep(NamedTuple):
    """Adds to the integer in a slot."""

    counter: int
    by: int


class GrowStep(NamedTuple):
    """Makes a stack larger if it has no place for the row that the counter says."""

    counter: int
    stack: int


Step = KernelStep | CallStep | CopyStep | RowStep | JumpStep | CountStep | GrowStep


@dataclass(slots=True)
class Program:
    """Steps and slots; ``kernels`` are texts by name.

    ``functions`` are those that chains call: their names, and whether all programs share them.
    ``modules`` are the parts of the object code: the kernels of each, and its bytes.
    The first ``early`` steps run only if captured tensors have changed: what they make is kept.
    """

    slots: list[Slot] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    kernels: dict[str, str] = field(default_factory=dict)
    constants: list[np.ndarray] = field(default_factory=list)
    functions: list[tuple[str, bool]] = field(default_factory=list)
    modules: list[tuple[list[str], int]] = field(default_factory=list)
    arena: int = 0
    kept: int = 0  # bytes
    early: int = 0
    threads: int = 0  # for which loops over time are cut, if there are any
