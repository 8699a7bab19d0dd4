"""Modules made without drawing random numbers."""

from __future__ import annotations

import inspect
from typing import Any

from rushlight.nn.module import Module
from rushlight.random import get_rng_state, set_rng_state


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module whose parameters are going to be overwritten: the random stream stays where it is.

    The module class must take a ``device``.

    >>> rl.nn.utils.skip_init(rl.nn.Linear, 5, 1).weight.shape
    rushlight.Size([1, 5])
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    state = get_rng_state()
    try:
        return module_cls(*args, **kwargs)
    finally:
        set_rng_state(state)
