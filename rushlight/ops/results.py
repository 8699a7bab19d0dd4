"""Ops with several results: their named tuples, and the gradient of values found at indices."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from rushlight.ops.base import ops
from rushlight.tensor import Tensor

RETURN_TYPES: dict[str, Any] = {}
"""The named tuples by their names, which ``rl.return_types`` publishes."""


def result_type(name: str, *fields: str) -> Any:
    """The type of the results of the op ``name``, printed as PyTorch prints them.

    >>> rl.tensor([1.0, 3.0]).max(dim=0)
    rushlight.return_types.max(
    values=tensor(3.),
    indices=tensor(1))
    """
    make: Any = namedtuple  # as a function that mypy does not read literal names of
    kind = make(name, fields, module="rushlight.return_types")

    def show(self: Any) -> str:
        words = [f"{field}={value!r}" for field, value in zip(fields, self, strict=True)]
        return f"rushlight.return_types.{name}(\n" + ",\n".join(words) + ")"

    kind.__repr__ = show
    RETURN_TYPES[name] = kind
    return kind


def scattered(g: Tensor, indices: Tensor, x: Any, dim: int, keepdim: bool = True) -> Tensor:
    """The gradient of ``x`` when ``g`` is that of its elements at ``indices`` along ``dim``."""
    if not x.shape:
        return g
    if not keepdim:
        g, indices = g.unsqueeze(dim), indices.unsqueeze(dim)
    return ops.zeros(x.shape, dtype=g.dtype).scatter(dim, indices, g)
