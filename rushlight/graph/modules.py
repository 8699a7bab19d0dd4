"""The path of the running module, read off the stack: calls of modules in dynamic mode pay nothing.

The outermost module goes by the name of its class, the others by their names in it.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from types import FrameType
from typing import Any

from rushlight.errors import PACKAGE

CALLER = os.path.join(PACKAGE, "nn", "module.py")  # its __call__ runs all modules


class Paths:
    """Paths by the modules that call each other, each looked for once; names of tensors by id."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.known: dict[tuple[int, ...], str] = {}

    def current(self) -> str:
        """The path of the innermost module that is running, such as ``Net.linear1``; or ""."""
        modules = running()
        key = tuple([id(module) for module in modules])
        if key not in self.known:
            self.known[key] = path(modules)
        return self.known[key]

    def note(self, tensor: Any) -> None:
        """Remembers what a parameter or buffer of the running module is called."""
        modules = running()
        if modules:
            inner = modules[-1]
            for name, t in (*inner._parameters.items(), *inner._buffers.items()):
                if t is tensor:
                    self.names[id(t)] = f"{self.current()}.{name}"


def running() -> list[Any]:
    """The modules that are being called, outermost first."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "__call__" and code.co_filename == CALLER:
            found.append(frame.f_locals["self"])
        frame = frame.f_back
    return found[::-1]


def path(modules: list[Any]) -> str:
    if not modules:
        return ""
    names = [type(modules[0]).__name__]
    for outer, inner in pairwise(modules):
        inside = [name for name, module in outer.named_modules() if module is inner and name]
        names.append(inside[0] if inside else type(inner).__name__)
    return ".".join(names)
