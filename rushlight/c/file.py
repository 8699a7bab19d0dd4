"""A C file in the making: its functions, each once, its constants and its errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rushlight.c.comments import harmless, origin
from rushlight.c.kernels import function
from rushlight.c.scalars import literal
from rushlight.c.snippets import STORED, Snippets
from rushlight.codegen.alike import Alike
from rushlight.codegen.kernel import Kernel
from rushlight.codegen.pull import Buffer
from rushlight.graph.ir import Node
from rushlight.runtime.arena import ALIGNMENT

POSITION = 987654321987  # stands for the position that an error will name
COLUMNS = 96
FIRST = 16  # the first code of an error that is the program's own


class Named(NamedTuple):
    """A function of the file."""

    name: str
    buffers: tuple[Buffer, ...]
    errors: tuple[Any, ...]


class Unsupported(NotImplementedError):
    """An op that there is no C for."""


class File:
    """What the statements of a program call and read."""

    def __init__(self) -> None:
        self.snippets = Snippets()
        self.alike = Alike()
        self.named: dict[str, str] = {}
        self.made: dict[Kernel, Named] = {}
        self.arrays: dict[str, str] = {}  # definitions of constants by their names
        self.constants: dict[Node, str] = {}
        self.messages: list[str] = []
        self.end = 0  # of the memory that is in use
        self.variables = 0
        self.stacks: list[str] = []  # which are to be freed at an error

    def function(self, text: str, stem: str) -> str:
        """The name of a function, called ``NAME`` in its text; equal ones are one."""
        if text not in self.named:
            self.named[text] = f"{stem}_{len(self.named)}"
            self.snippets.add(self.named[text], re.sub(r"\bNAME\b", self.named[text], text))
        return self.named[text]

    def kernel(self, kernel: Kernel) -> Named:
        if kernel not in self.made:
            text, buffers, errors = function(kernel, self.snippets)
            self.made[kernel] = Named(self.function(text, "kernel"), buffers, errors)
        return self.made[kernel]

    def constant(self, node: Node) -> str:
        """The array of a constant."""
        if node not in self.constants:
            name = self.constants[node] = f"constant_{len(self.constants)}"
            self.arrays[name] = array(name, node.attrs["value"], node.type.kind)
        return self.constants[node]

    def reserve(self, size: int) -> int:
        """Where memory begins that is used for nothing else."""
        offset = self.end
        self.end += -(-max(1, size) // ALIGNMENT) * ALIGNMENT
        return offset

    def variable(self) -> str:
        self.variables += 1
        return f"t{self.variables}"

    def codes(self, errors: Sequence[Any], nodes: Sequence[Node]) -> int:
        """The code of the first of some errors; each is called with the position that it names."""
        first = FIRST + len(self.messages)
        where = origin(nodes)
        for error in errors:
            text = str(error(POSITION)).replace(str(POSITION), "<position>")
            self.messages.append(harmless(f"{text} [{where}]" if where else text))
        return first

    def refused(self, node: Node, why: str) -> Unsupported:
        """The error of a node that there is no C for."""
        place = f" at {node.source.file}:{node.source.line}" if node.source is not None else ""
        return Unsupported(
            f"export_c: {node.op.full_name}{place} cannot be written as C: {why}. Compute it "
            "outside of the exported function, and pass it in."
        )


def at(offset: int) -> str:
    """An address in the memory of a program."""
    return f"AT({offset})"


def array(name: str, value: Any, kind: str) -> str:
    """The definition of an array."""
    flat = np.asarray(value).reshape(-1)
    if kind in ("f16", "bf16"):
        flat, kind = flat.view(np.uint16), "u16"
    numbers = [literal(x, kind) for x in flat.tolist()] or ["0"]
    lines, line = [], "   "
    for number in numbers:
        if len(line) + len(number) > COLUMNS:
            lines.append(line)
            line = "   "
        line += f" {number},"
    body = "\n".join([*lines, line])
    return f"static const {STORED[kind]} {name}[{max(1, flat.size)}] = {{\n{body}\n}};"
