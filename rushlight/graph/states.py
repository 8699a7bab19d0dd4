"""The states of random generators as values: a random node takes one and gives the next one on.

A running program has generators in the places of states, and each number is drawn once. What runs
again for its gradient draws again, from bytes that were a state at its beginning:

    control.snapshot(state)             those bytes, and the state as it is
    control.redraw(bytes, *operands)    the results of a random op, and the bytes afterwards
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.generator import Generator
from rushlight.ops.base import Op


class Spare(threading.local):
    """A generator of each thread that stands wherever it is put: a new one takes long to make."""

    def __init__(self) -> None:
        self.generator = Generator()


SPARE = Spare()


def drawn(op: Op, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The results of a random op, whose first operand is a state, and the state afterwards."""
    generator = SPARE.generator.set_state(arrays[0])
    y = op.compute(arrays[1:], {**attrs, "generator": generator})
    several = y if isinstance(y, tuple) else (y,)
    return (*[np.asarray(part) for part in several], generator.get_state())


class Snapshot(Op):
    """The state of a generator as bytes, from which the same numbers can be drawn again."""

    namespace = "control"
    function = method = differentiable = False
    library = "it looks at a generator of random numbers"

    def eager(self, *, generator: Generator) -> np.ndarray:
        return generator.get_state()


class Redraw(Op):
    """The results of the random op ``op``, drawn from bytes, and the bytes afterwards."""

    namespace = "control"
    function = method = differentiable = tried = False
    library = "it draws random numbers"

    def eager(self, state: np.ndarray, *operands: Any, op: Op, **attrs: Any) -> tuple[Any, ...]:
        return drawn(op, (state, *operands), attrs)
