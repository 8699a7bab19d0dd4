"""The border of a graph: values that come from outside, and what a call leaves behind there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rushlight.generator import Generator
from rushlight.graph.ir import Node
from rushlight.tensor import Tensor


@dataclass(slots=True)
class Capture:
    """A value from outside that is not an argument: read anew at each call.

    ``tensor`` is what it belongs to: the tensor itself, or (``grad``) the one whose gradient it is.
    """

    node: Node
    tensor: Any = None
    grad: bool = False
    entry: Callable[[], Tensor] | None = None  # where the program keeps the tensor of the moment
    number: Callable[[], float] | None = None  # a number of the host program
    generator: Generator | None = None
    name: str = ""  # of a number


@dataclass(slots=True)
class Effects:
    """What a call leaves behind, beside its result."""

    written: list[tuple[Capture, Node]] = field(default_factory=list)
    gradients: list[tuple[Tensor, Node | None]] = field(default_factory=list)
