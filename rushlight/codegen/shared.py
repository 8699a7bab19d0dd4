"""Native functions by name: they read sizes from tables, so that all programs share them."""

from __future__ import annotations

from rushlight.codegen import fill, tiling
from rushlight.codegen.microkernel import Registers


def text_of(name: str, registers: Registers) -> str:
    """The text of a function."""
    if name == fill.NAME:
        return fill.Fill().text()
    return tiling.text_of(name, registers)
