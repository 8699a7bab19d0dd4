"""``rl.export``: the program of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.jit.tracing import trace


def export(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The program of ``function(*args, **kwargs)``, which is not called: ``rl.export``.

    A whole training step can be one: its tensors (parameters, the state of an optimizer) and
    numbers (a learning rate) are part of it, and of the file that ``save`` writes.

    >>> program = rl.export(lambda x, y: x @ y, rl.ones(2, 3), rl.ones(3, 1))
    >>> program(rl.ones(2, 3), rl.ones(3, 1))
    tensor([[3.],
            [3.]])
    """
    return trace(function, args, example_kwarg_inputs=kwargs)
