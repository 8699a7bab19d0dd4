"""Native functions by name: they read sizes from tables, so that all programs share them."""

from __future__ import annotations

from rushlight.codegen import (
    chains,
    fill,
    nest,
    recurrent,
    tiling,
    timeline,
    transforms,
    weights,
)
from rushlight.codegen.microkernel import Registers


def text_of(name: str, registers: Registers) -> str:
    """The text of a function."""
    if name == fill.NAME:
        return fill.Fill().text()
    if name == recurrent.NAME:
        return recurrent.Recur().text()
    if name == timeline.NAME:
        return timeline.Timeline().text()
    if name == nest.NAME:
        return nest.Nested().text()
    if name.split("_")[0] in weights.STAGES:
        return weights.text_of(name, registers)
    if name == chains.NAME:
        return chains.Chain().text()
    if name.startswith("winograd_"):
        return transforms.Text(name, registers).text()
    return tiling.text_of(name, registers)
