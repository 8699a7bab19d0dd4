"""Hooks of tensors of outside: what backward calls is part of what a graph depends on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.tensor import Tensor


def hooks_among(tensors: Iterable[Tensor]) -> list[Any]:
    """The hooks of those tensors that have some."""
    return [(id(t), hooks_of(t)) for t in tensors if t._hooks or t._accumulate_hooks]


def hooks_of(t: Tensor) -> tuple[Any, ...]:
    """The functions of the user's that backward calls when it reaches ``t``."""
    return (*(t._hooks or {}).values(), *(t._accumulate_hooks or {}).values())
