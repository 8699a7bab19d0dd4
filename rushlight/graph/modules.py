"""Where a trace is: the user's line and the path of the running module, read off the stack.

Calls of modules in dynamic mode thereby pay nothing. The outermost module goes by the name of its
class, the others by their names in it.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from types import FrameType
from typing import Any

from rushlight.errors import PACKAGE
from rushlight.graph.ir import Source

CALLER = os.path.join(PACKAGE, "nn", "module.py")  # its __call__ runs all modules


class Paths:
    """Paths by the modules that call each other, each looked for once; names of tensors by id."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.known: dict[tuple[int, ...], str] = {}
        self.inside: dict[int, dict[int, str]] = {}  # names of modules in a module
        self.ours: dict[str, bool] = {CALLER: True}  # which files are

    def source(self) -> Source | None:
        """The innermost line that is not ours, and the innermost module that is running."""
        line, modules = self.stack()
        return None if line is None else Source(*line, self.path(modules))

    def note(self, tensor: Any) -> None:
        """Remembers what a parameter or buffer of the running module is called."""
        _, modules = self.stack()
        if modules:
            inner = modules[-1]
            for name, t in (*inner._parameters.items(), *inner._buffers.items()):
                if t is tensor:
                    self.names[id(t)] = f"{self.path(modules)}.{name}"

    def stack(self) -> tuple[tuple[str, int] | None, list[Any]]:
        """The user's line, and the modules that are being called, outermost first."""
        line, modules, ours = None, [], self.ours
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            file = code.co_filename
            if file not in ours:
                ours[file] = file.startswith(PACKAGE)
            if not ours[file]:
                line = line or (file, frame.f_lineno)
            elif file == CALLER and code.co_name == "__call__":
                modules.append(frame.f_locals["self"])
            frame = frame.f_back
        return line, modules[::-1]

    def path(self, modules: list[Any]) -> str:
        """The path of the innermost of these modules, such as ``Net.linear1``; or ""."""
        key = tuple([id(module) for module in modules])
        if key not in self.known:
            names = [type(module).__name__ for module in modules[:1]]
            names += [self.name(outer, inner) for outer, inner in pairwise(modules)]
            self.known[key] = ".".join(names)
        return self.known[key]

    def name(self, outer: Any, inner: Any) -> str:
        """What a module is called in another one; if it is not in there, its class."""
        if id(outer) not in self.inside:
            found = self.inside[id(outer)] = {}
            for name, module in outer.named_modules():
                found.setdefault(id(module), name)
        return self.inside[id(outer)].get(id(inner)) or type(inner).__name__
