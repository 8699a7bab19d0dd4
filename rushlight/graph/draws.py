"""Random numbers that do not come from a generator of ours."""

from __future__ import annotations

import random
from typing import Any

import numpy as np


class Draws:
    """The states of Python's and NumPy's own generators, at the moment it is made.

    A graph would repeat what was drawn from them once.

    >>> draws = Draws()
    >>> first = random.random()
    >>> draws.happened()
    True
    >>> draws.undo()
    >>> draws.happened(), random.random() == first
    (False, True)
    """

    def __init__(self) -> None:
        self.python = random.getstate()
        self.numpy: Any = np.random.get_state()

    def happened(self) -> bool:
        """Whether something was drawn since."""
        _, words, *rest = self.numpy
        _, now, *others = np.random.get_state()
        same = rest == others and np.array_equal(words, now)
        return not same or random.getstate() != self.python

    def undo(self) -> None:
        """Puts the generators back."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
