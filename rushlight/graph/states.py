"""The states of random generators as values: a random node takes one and gives the next one on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.generator import Generator
from rushlight.ops.base import Op


def drawn(op: Op, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    """The results of a random op, whose first operand is a state, and the state afterwards."""
    generator = Generator().set_state(arrays[0])
    y = op.compute(arrays[1:], {**attrs, "generator": generator})
    several = y if isinstance(y, tuple) else (y,)
    return (*[np.asarray(part) for part in several], generator.get_state())
